package main

import (
	"cmp"
	"context"
	"crypto/sha512"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"slices"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	commonpb "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

// The artifact that every vector is asked about, and what is said of it.
const (
	artifact      = "the bytes of an artifact\n"
	artifactName  = "bin/linux/amd64/lantern"
	predicateType = "https://example.test/predicate/v1"
)

// The genuine bundles that vectors start from.
const (
	blob            = "blob"
	blobAgain       = "blob again"         // the same author signs once more
	blobByAnother   = "blob by another"    // another certificate of the same identity
	blobByStranger  = "blob by a stranger" // another identity
	blobOfAnother   = "blob of another artifact"
	blobInOldLog    = "blob in a log of version 1"
	blobElsewhere   = "blob of another world"
	attestation     = "attestation"
	attestAgain     = "attestation again"
	attestSHA512    = "attestation by SHA-512 alone"
	attestOfAnother = "attestation of another artifact"
	attestPlain     = "attestation of another payload type"
	attestInOldLog  = "attestation in a log of version 1"
	keyBlob         = "blob by a key"
	keyBlobByOther  = "blob by another key"
	keyAttestation  = "attestation by a key"

	keyAttestByOther        = "attestation by another key, with the key id of the key"
	attestAgainInOldLog     = "attestation again, in a log of version 1"
	attestOfAnotherInOldLog = "attestation of another artifact in a log of version 1"

	blobOfStatement = "signature of a statement's bytes"
	blobInRogueLog  = "blob in another world's log"
	blobByForeigner = "blob by another world's certificate"
)

// maker is a lab with what it signed.
type maker struct {
	lab     *lab.Lab
	genuine map[string]*bundlepb.Bundle
	key     []byte // the long-lived key, PEM
	weak    []byte // a public key in place of a certificate, DER
	made           // what no honest service makes
}

// made is what an attacker has of the authorities.
type made struct {
	fulcio       [][]byte            // the chain of the lab's authority, DER
	small, large []byte              // certificates of keys that nobody should use, DER
	authorities  map[string][][]byte // the chains of the attacker's own, DER
	stampers     map[string]stamper
}

// author signs what it is told to.
type author struct {
	lab    *lab.Lab
	pair   sign.Keypair
	der    []byte // nil: signs with the bare key
	oldLog bool
	log    string // of another world; empty: the lab's
}

// GetCertificate hands out the certificate there is.
func (a author) GetCertificate(context.Context, sign.Keypair, *sign.CertificateProviderOptions) ([]byte, error) {
	return a.der, nil
}

func newAuthor(ctx context.Context, l *lab.Lab, as string) (author, error) {
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil || as == "" {
		return author{lab: l, pair: pair}, err
	}
	fulcio := sign.NewFulcio(&sign.FulcioOptions{BaseURL: l.Fulcio})
	der, err := fulcio.GetCertificate(ctx, pair, &sign.CertificateProviderOptions{IDToken: l.Token(as)})
	return author{lab: l, pair: pair, der: der}, err
}

func (a author) sign(ctx context.Context, content sign.Content) (*bundlepb.Bundle, error) {
	log := sign.NewRekor(&sign.RekorOptions{BaseURL: cmp.Or(a.log, a.lab.Rekor), Version: 2})
	if a.oldLog {
		log = sign.NewRekor(&sign.RekorOptions{BaseURL: a.lab.RekorV1, Version: 1})
	}
	options := sign.BundleOptions{
		Context:              ctx,
		TimestampAuthorities: []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: a.lab.TSA})},
		TransparencyLogs:     []sign.Transparency{log},
	}
	if a.der != nil {
		options.CertificateProvider = a
	}
	return sign.Bundle(content, a.pair, options)
}

// newMaker signs everything that vectors are made from.
func newMaker(ctx context.Context, l *lab.Lab) (*maker, error) {
	elsewhere, err := lab.Start(ctx, lab.Options{})
	if err != nil {
		return nil, err
	}
	defer elsewhere.Close()
	s := &maker{lab: l, genuine: map[string]*bundlepb.Bundle{}}
	cast := map[string]author{}
	for name, from := range map[string]struct {
		lab *lab.Lab
		as  string
	}{
		"author": {l, lab.RoleRelease}, "another": {l, lab.RoleRelease}, "stranger": {l, lab.RoleBuilder},
		"elsewhere": {elsewhere, lab.RoleRelease}, "key": {l, ""}, "other key": {l, ""},
	} {
		if cast[name], err = newAuthor(ctx, from.lab, from.as); err != nil {
			return nil, err
		}
	}
	old, rogue, foreign := cast["author"], cast["author"], cast["elsewhere"]
	old.oldLog, rogue.log, foreign.lab = true, elsewhere.Rekor, l
	cast["old"], cast["rogue"], cast["foreign"] = old, rogue, foreign
	for _, script := range scripts() {
		if s.genuine[script.name], err = cast[script.author].sign(ctx, script.content); err != nil {
			return nil, fmt.Errorf("signing %s: %w", script.name, err)
		}
	}
	s.genuine[keyAttestByOther].GetDsseEnvelope().Signatures[0].Keyid = "the key that is asked"
	if err := s.signAsTold(ctx, cast["author"]); err != nil {
		return nil, err
	}
	text, err := cast["key"].pair.GetPublicKeyPem()
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(text))
	s.key, s.weak = []byte(text), block.Bytes
	return s, nil
}

// signAsTold signs with forged certificates, and what is no good statement.
func (s *maker) signAsTold(ctx context.Context, honest author) error {
	f, err := newForger(s.lab)
	if err != nil {
		return err
	}
	if err := s.forgeKeys(ctx, f); err != nil {
		return err
	}
	for _, r := range slices.Concat(forgeries(), runs()) {
		a, err := f.of(r.ca).author(ctx, r)
		if err == nil {
			s.genuine[r.name], err = a.sign(ctx, r.content())
		}
		if err != nil {
			return fmt.Errorf("forging %s: %w", r.name, err)
		}
	}
	for _, r := range sayings() {
		if s.genuine[r.name], err = honest.sign(ctx, &sign.DSSEData{Data: []byte(r.payload), PayloadType: intoto.PayloadType}); err != nil {
			return fmt.Errorf("signing %s: %w", r.name, err)
		}
	}
	return nil
}

type script struct {
	name, author string
	content      sign.Content
}

// scripts are in order: the only entry of a log has an empty proof, so the
// first is made again.
func scripts() []script {
	plain := func(text string) sign.Content { return &sign.PlainData{Data: []byte(text)} }
	said := func(payloadType string, subject string) sign.Content {
		return &sign.DSSEData{PayloadType: payloadType, Data: []byte(`{"_type":"` + intoto.TypeV1 + `","subject":[` + subject + `],` +
			`"predicateType":"` + predicateType + `","predicate":{}}`)}
	}
	subject := func(algorithm, hex string) string {
		return `{"name":"` + artifactName + `","digest":{"` + algorithm + `":"` + hex + `"}}`
	}
	of := subject("sha256", digest.Of(digest.SHA256, []byte(artifact)).Hex())
	ofAnother := subject("sha256", digest.Of(digest.SHA256, []byte("another artifact")).Hex())
	long := sha512.Sum512([]byte(artifact))
	return []script{
		{blob, "author", plain(artifact)},
		{blobInOldLog, "old", plain(artifact)},
		{blob, "author", plain(artifact)},
		{blobInOldLog, "old", plain(artifact)},
		{blobAgain, "author", plain(artifact)},
		{blobByAnother, "another", plain(artifact)},
		{blobByStranger, "stranger", plain(artifact)},
		{blobOfAnother, "author", plain("another artifact")},
		{blobElsewhere, "elsewhere", plain(artifact)},
		{attestation, "author", said(intoto.PayloadType, of)},
		{attestAgain, "author", said(intoto.PayloadType, of)},
		{attestSHA512, "author", said(intoto.PayloadType, subject("sha512", hex.EncodeToString(long[:])))},
		{attestOfAnother, "author", said(intoto.PayloadType, ofAnother)},
		{attestInOldLog, "old", said(intoto.PayloadType, of)},
		{attestAgainInOldLog, "old", said(intoto.PayloadType, of)},
		{attestOfAnotherInOldLog, "old", said(intoto.PayloadType, ofAnother)},
		{attestPlain, "author", said("application/json", of)},
		{keyBlob, "key", plain(artifact)},
		{keyBlobByOther, "other key", plain(artifact)},
		{keyAttestation, "key", said(intoto.PayloadType, of)},
		{keyAttestByOther, "other key", said(intoto.PayloadType, of)},
		{blobOfStatement, "author", &sign.PlainData{Data: said(intoto.PayloadType, of).(*sign.DSSEData).Data}},
		{blobInRogueLog, "rogue", plain(artifact)},
		{blobInRogueLog, "rogue", plain(artifact)},
		{blobByForeigner, "foreign", plain(artifact)},
	}
}

// certificate is a bundle's material of one certificate.
func certificate(der []byte) *bundlepb.VerificationMaterial_Certificate {
	return &bundlepb.VerificationMaterial_Certificate{Certificate: &commonpb.X509Certificate{RawBytes: der}}
}

// chain is a bundle's material of several certificates.
func chain(ders ...[]byte) *bundlepb.VerificationMaterial_X509CertificateChain {
	list := &commonpb.X509CertificateChain{}
	for _, der := range ders {
		list.Certificates = append(list.Certificates, &commonpb.X509Certificate{RawBytes: der})
	}
	return &bundlepb.VerificationMaterial_X509CertificateChain{X509CertificateChain: list}
}
