package scene

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
)

// Attack is one thing that somebody does to a release. Undo takes it back, so
// that the very same release is its own twin: with the one fact changed it is
// refused, without it is accepted.
type Attack struct {
	Name  string
	Why   string
	Codes []string
	// Do attacks and returns what takes the attack back.
	Do func(context.Context, *Scene) (undo func() error, err error)
	// Check runs the command that must refuse.
	Check func(context.Context, *Scene) Result
}

func verify(ctx context.Context, s *Scene) Result { return s.Verify(ctx) }

func seal(ctx context.Context, s *Scene) Result { return s.Seal(ctx) }

// Attacks are the ones that the demo shows and the stories assert.
func Attacks() []Attack {
	return []Attack{
		{
			Name: "one flipped byte", Codes: []string{"TAMPERED"}, Check: verify, Do: flipByte,
			Why: "Somebody with access to the bucket changes one byte of a published binary.",
		}, {
			Name: "one deleted file", Codes: []string{"MISSING"}, Check: verify, Do: deleteFile,
			Why: "A file disappears. Checks that only look at the files that are there do not notice.",
		}, {
			Name: "one extra file and one extra tag", Codes: []string{"EXTRA"}, Check: verify, Do: addExtras,
			Why: "Somebody uploads beside the release. Every signature still holds; only a closed list shows it.",
		}, {
			Name: "two swapped names", Codes: []string{"NAME_SWAP"}, Check: verify, Do: swapNames,
			Why: "Both files are genuine and signed, under each other's name. Matching by digest alone accepts them.",
		}, {
			Name: "a manifest by the wrong role", Codes: []string{"IDENTITY_ROLE"}, Check: verify, Do: resignManifest,
			Why: "The verifier's identity, genuine and known to the policy, signs the manifest in the release's place.",
		}, {
			Name: "a file dropped in before the seal", Codes: []string{"SEAL_EXTRA"}, Check: seal, Do: dropFile,
			Why: "A file lies in the build directory that nobody planned. Signing a listing would sign it too.",
		},
	}
}

const (
	victim   = "bin/linux/amd64/lantern"
	archiveA = "lantern-linux-amd64.tar.gz"
	archiveB = "lantern-linux-arm64.tar.gz"
)

func flipByte(ctx context.Context, s *Scene) (func() error, error) {
	body, err := s.object(ctx, victim)
	if err != nil {
		return nil, err
	}
	changed := bytes.Clone(body)
	changed[len(changed)/2] ^= 1
	return s.replace(ctx, victim, body, changed)
}

func deleteFile(ctx context.Context, s *Scene) (func() error, error) {
	body, err := s.object(ctx, archiveB)
	if err != nil {
		return nil, err
	}
	return func() error { return s.put(ctx, archiveB, body) }, s.remove(ctx, archiveB)
}

func swapNames(ctx context.Context, s *Scene) (func() error, error) {
	a, errA := s.object(ctx, archiveA)
	b, errB := s.object(ctx, archiveB)
	if err := errors.Join(errA, errB); err != nil {
		return nil, err
	}
	undo := func() error { return errors.Join(s.put(ctx, archiveA, a), s.put(ctx, archiveB, b)) }
	return undo, errors.Join(s.put(ctx, archiveA, b), s.put(ctx, archiveB, a))
}

func addExtras(ctx context.Context, s *Scene) (func() error, error) {
	const file, tag = "bin/linux/amd64/lantern-debug", Version + "-debug"
	remote, err := registry.OpenRemote(s.Places.Images+"/release/lantern", cmp.Or(s.Places.Transport, http.DefaultTransport))
	if err != nil {
		return nil, err
	}
	d, err := remote.Resolve(ctx, "lantern", Version)
	if err != nil {
		return nil, err
	}
	undo := func() error { return errors.Join(s.remove(ctx, file), s.untag(ctx, tag)) }
	return undo, errors.Join(s.put(ctx, file, []byte("not in any manifest")), remote.Tag(ctx, "lantern", tag, d))
}

func dropFile(_ context.Context, s *Scene) (func() error, error) {
	path := s.Path("state", "files", "bin", "linux", "amd64", "lantern-helper")
	return func() error { return os.Remove(path) }, os.WriteFile(path, []byte("nobody planned this"), 0o755)
}

// resignManifest has the verifier identity sign the very same statement.
func resignManifest(ctx context.Context, s *Scene) (func() error, error) {
	genuine, err := s.object(ctx, releasemanifest.Name)
	if err != nil {
		return nil, err
	}
	b := &bundle.Bundle{}
	if err := b.UnmarshalJSON(genuine); err != nil {
		return nil, err
	}
	forged, err := s.Sign(ctx, "verifier", b.GetDsseEnvelope().GetPayload())
	if err != nil {
		return nil, err
	}
	return s.replace(ctx, releasemanifest.Name, genuine, forged)
}

// Sign signs a statement as any role of the lab, without any of the checks
// that the product makes before it signs.
func (s *Scene) Sign(ctx context.Context, role string, statement []byte) ([]byte, error) {
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return nil, err
	}
	b, err := sign.Bundle(&sign.DSSEData{Data: statement, PayloadType: intoto.PayloadType}, pair, sign.BundleOptions{
		Context:                    ctx,
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: s.Lab.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: s.Lab.Token(role)},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: s.Lab.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: s.Lab.Rekor, Version: 2})},
	})
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(b)
}

// replace puts an object and returns what puts the old one back.
func (s *Scene) replace(ctx context.Context, name string, old, body []byte) (func() error, error) {
	return func() error { return s.put(ctx, name, old) }, s.put(ctx, name, body)
}

// released is the name of an object of the release in its place.
func released(name string) string { return "release/lantern/" + Version + "/" + name }

// object reads an object of the released files, as anybody can.
func (s *Scene) object(ctx context.Context, name string) ([]byte, error) {
	return s.Places.Objects.Get(ctx, released(name))
}

func (s *Scene) put(ctx context.Context, name string, body []byte) error {
	return s.Places.Objects.Put(ctx, released(name), body)
}

func (s *Scene) remove(ctx context.Context, name string) error {
	return s.Places.Objects.Remove(ctx, released(name))
}

func (s *Scene) untag(ctx context.Context, tag string) error {
	return s.Places.Untag(ctx, "release/lantern/lantern", tag)
}
