// Package mint makes the bundles that package bundles measures with, in a lab
// whose authorities have keys of the kinds that the public instances have.
package mint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/test/bench/bundles"
	"github.com/waybill-release/waybill/test/lab"
)

// Make makes n bundles of every set in dir, a bundle with a large statement,
// and what it takes to verify them.
func Make(ctx context.Context, dir string, n int) (err error) {
	world := filepath.Join(dir, "lab")
	if err := Authorities(filepath.Join(world, "state")); err != nil {
		return err
	}
	l, err := lab.Start(ctx, lab.Options{Dir: world})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	if err := os.WriteFile(filepath.Join(dir, bundles.RootName), l.TrustedRoot, 0o600); err != nil {
		return err
	}
	issuer, subject := l.Identity(lab.RoleRelease)
	for name, text := range map[string]string{bundles.IssuerName: issuer, bundles.SubjectName: subject} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	for _, set := range bundles.Sets() {
		s, err := NewSigner(ctx, l, set, lab.RoleRelease)
		if err != nil {
			return err
		}
		for i := range n {
			content := bundles.Content(i)
			raw, err := s.Sign(&sign.PlainData{Data: content})
			if err != nil {
				return fmt.Errorf("making bundle %d of %s: %w", i, set, err)
			}
			if err := set.Write(dir, i, bundles.Signed{Raw: raw, Content: content}); err != nil {
				return err
			}
		}
	}
	return statement(ctx, l, dir)
}

// statement makes one bundle with very many subjects.
func statement(ctx context.Context, l *lab.Lab, dir string) error {
	s, err := NewSigner(ctx, l, bundles.Set{Shape: bundles.RekorV2}, lab.RoleRelease)
	if err != nil {
		return err
	}
	b, err := s.Sign(&sign.DSSEData{Data: bundles.Statement(bundles.Subjects), PayloadType: intoto.PayloadType})
	if err != nil {
		return fmt.Errorf("making a statement of %d subjects: %w", bundles.Subjects, err)
	}
	return os.WriteFile(filepath.Join(dir, bundles.StatementName), b, 0o600)
}

// Signer signs with one certificate, or with one for each signature.
type Signer struct {
	options sign.BundleOptions
	pair    *sign.EphemeralKeypair // nil: one for each signature
}

// kept hands out the one certificate.
type kept struct{ der []byte }

// GetCertificate hands out the one certificate.
func (k kept) GetCertificate(context.Context, sign.Keypair, *sign.CertificateProviderOptions) ([]byte, error) {
	return k.der, nil
}

// NewSigner returns one that signs as a role of the lab, and as the bundles of a
// set are signed.
func NewSigner(ctx context.Context, l *lab.Lab, set bundles.Set, role string) (*Signer, error) {
	fulcio := sign.NewFulcio(&sign.FulcioOptions{BaseURL: l.Fulcio})
	s := &Signer{options: sign.BundleOptions{
		Context: ctx, CertificateProvider: fulcio,
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: l.Token(role)},
	}}
	switch set.Shape {
	case bundles.RekorV1:
		s.options.TransparencyLogs = []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: l.RekorV1, Version: 1})}
	case bundles.RekorV2:
		s.options.TransparencyLogs = []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: l.Rekor, Version: 2})}
		s.options.TimestampAuthorities = []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: l.TSA})}
	default:
		return nil, fmt.Errorf("no bundle has the shape %q", set.Shape)
	}
	if !set.Shared {
		return s, nil
	}
	var err error
	if s.pair, err = sign.NewEphemeralKeypair(nil); err != nil {
		return nil, err
	}
	der, err := fulcio.GetCertificate(ctx, s.pair, s.options.CertificateProviderOptions)
	s.options.CertificateProvider = kept{der}
	return s, err
}

// Sign returns a bundle.
func (s *Signer) Sign(content sign.Content) ([]byte, error) {
	pair := s.pair
	if pair == nil {
		var err error
		if pair, err = sign.NewEphemeralKeypair(nil); err != nil {
			return nil, err
		}
	}
	pb, err := sign.Bundle(content, pair, s.options)
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(pb)
}
