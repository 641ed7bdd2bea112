package kubernetes

import (
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"golang.org/x/sync/errgroup"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	rekorpb "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/test/lab"
)

// The accounts that sign releases of Kubernetes.
const (
	Staging  = "krel-staging@k8s-releng-prod.iam.gserviceaccount.com" // files, and images before they are promoted
	Trust    = "krel-trust@k8s-releng-prod.iam.gserviceaccount.com"   // images
	Promoter = "k8s-infra-gcr-promoter@k8s-artifacts-prod.iam.gserviceaccount.com"
)

// workers is how many signatures are made side by side.
const workers = 4

// Signer signs as Kubernetes does: each signature with a key and a certificate
// of its own, and an entry in a Rekor v1 log.
type Signer struct{ Lab *lab.Lab }

// Signature is one signature in the parts that it is published in.
type Signature struct {
	Base64      []byte // of the signature
	Certificate []byte // base64 of PEM
	PEM         []byte
	Log         []byte // the entry, as cosign carries it along
}

// bundle signs content as an account.
func (s Signer) bundle(as string, content sign.Content) (*bundlepb.Bundle, error) {
	key, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, err
	}
	return sign.Bundle(content, key, sign.BundleOptions{
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: s.Lab.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: s.Lab.Token(as)},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: s.Lab.RekorV1, Version: 1})},
	})
}

// Sign signs bytes as an account.
func (s Signer) Sign(as string, content []byte) (Signature, error) {
	b, err := s.bundle(as, &sign.PlainData{Data: content})
	if err != nil {
		return Signature{}, fmt.Errorf("signing as %s: %w", as, err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: b.GetVerificationMaterial().GetCertificate().GetRawBytes()})
	log, err := carried(b.GetVerificationMaterial().GetTlogEntries()[0])
	return Signature{
		Base64: encode64(b.GetMessageSignature().GetSignature()), Certificate: encode64(certificate), PEM: certificate, Log: log,
	}, err
}

func encode64(b []byte) []byte { return []byte(base64.StdEncoding.EncodeToString(b)) }

func carried(e *rekorpb.TransparencyLogEntry) ([]byte, error) {
	return json.Marshal(map[string]any{
		"SignedEntryTimestamp": e.GetInclusionPromise().GetSignedEntryTimestamp(),
		"Payload": map[string]any{
			"body": e.GetCanonicalizedBody(), "integratedTime": e.GetIntegratedTime(),
			"logIndex": e.GetLogIndex(), "logID": hex.EncodeToString(e.GetLogId().GetKeyId()),
		},
	})
}

// Sign signs the files as the staging account does, and the images as it and
// then the account for images do.
func (r *Release) Sign(ctx context.Context, s Signer) error {
	var due []string
	for _, name := range r.Names() {
		if k8slayout.KindOf(name).Signed {
			due = append(due, name)
		}
	}
	signed := make([]Signature, len(due))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for i, name := range due {
		group.Go(func() (err error) {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			signed[i], err = s.Sign(Staging, r.Files[name])
			return err
		})
	}
	for _, i := range r.Images {
		group.Go(func() error { return i.sign(s, Staging, Trust) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, name := range due {
		r.put(name, signed[i])
	}
	return nil
}

// SignFile signs one file anew, as an account.
func (r *Release) SignFile(s Signer, as, name string) error {
	one, err := s.Sign(as, r.Files[name])
	if err == nil {
		r.put(name, one)
	}
	return err
}

func (r *Release) put(name string, s Signature) {
	r.Files[name+k8slayout.SignatureSuffix], r.Files[name+k8slayout.CertificateSuffix] = s.Base64, s.Certificate
}
