// Package bundles measures how many bundles one process verifies.
package bundles

import (
	"context"
	"fmt"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	"github.com/sigstore/sigstore-go/pkg/sign"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/test/lab"
)

// signed is a bundle with what it signs.
type signed struct {
	raw []byte
	set digest.Set
}

// kept is one certificate for many signatures, as a release has it.
type kept struct{ der []byte }

// GetCertificate hands out the one certificate.
func (k *kept) GetCertificate(context.Context, sign.Keypair, *sign.CertificateProviderOptions) ([]byte, error) {
	return k.der, nil
}

func bundles(b *testing.B, l *lab.Lab, n int, shared bool) []signed {
	b.Helper()
	fulcio := sign.NewFulcio(&sign.FulcioOptions{BaseURL: l.Fulcio})
	options := sign.BundleOptions{
		CertificateProvider:        fulcio,
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: l.Token(lab.RoleRelease)},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: l.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: l.Rekor, Version: 2})},
	}
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		b.Fatal(err)
	}
	if shared {
		der, err := fulcio.GetCertificate(b.Context(), pair, options.CertificateProviderOptions)
		if err != nil {
			b.Fatal(err)
		}
		options.CertificateProvider = &kept{der}
	}
	list := make([]signed, n)
	for i := range list {
		if !shared {
			if pair, err = sign.NewEphemeralKeypair(nil); err != nil {
				b.Fatal(err)
			}
		}
		content := fmt.Appendf(nil, "artifact %d", i)
		pb, err := sign.Bundle(&sign.PlainData{Data: content}, pair, options)
		if err != nil {
			b.Fatal(err)
		}
		raw, err := protojson.Marshal(pb)
		if err != nil {
			b.Fatal(err)
		}
		list[i] = signed{raw, digest.SetOf(content)}
	}
	return list
}

// BenchmarkBundles compares, on the same bundles, our verifier with
// sigstore-go in a loop that loads its trust root once. Both check the same:
// certificate, SCT, log, timestamp, signature.
func BenchmarkBundles(b *testing.B) {
	l := lab.New(b)
	for _, kind := range []string{"fresh certificates", "shared certificate"} {
		list := bundles(b, l, 200, kind == "shared certificate")
		b.Run(kind+"/waybill", func(b *testing.B) {
			r, err := trust.Parse(l.TrustedRoot)
			if err != nil {
				b.Fatal(err)
			}
			var v *verify.Verifier
			for i := 0; b.Loop(); i++ {
				if i%len(list) == 0 { // a new process each round: nothing is remembered from the last
					if v, err = verify.New(r); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := v.Blob(list[i%len(list)].raw, list[i%len(list)].set); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(kind+"/sigstore-go", func(b *testing.B) {
			v := library(b, l)
			for i := 0; b.Loop(); i++ {
				s := list[i%len(list)]
				var entity bundle.Bundle
				if err := entity.UnmarshalJSON(s.raw); err != nil {
					b.Fatal(err)
				}
				policy := sigstore.NewPolicy(sigstore.WithArtifactDigest("sha256", s.set.SHA256.Bytes()), sigstore.WithoutIdentitiesUnsafe())
				if _, err := v.Verify(&entity, policy); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func library(b *testing.B, l *lab.Lab) *sigstore.Verifier {
	b.Helper()
	trusted, err := root.NewTrustedRootFromJSON(l.TrustedRoot)
	if err != nil {
		b.Fatal(err)
	}
	v, err := sigstore.NewVerifier(trusted, sigstore.WithSignedCertificateTimestamps(1), sigstore.WithTransparencyLog(1), sigstore.WithSignedTimestamps(1))
	if err != nil {
		b.Fatal(err)
	}
	return v
}
