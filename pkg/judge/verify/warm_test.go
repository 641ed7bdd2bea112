package verify_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/bundle"
	"github.com/sigstore/sigstore-go/pkg/root"
	sigstore "github.com/sigstore/sigstore-go/pkg/verify"
)

// What a verifier remembers from bundles that hold makes it faster, and never
// makes it answer differently. Here are many bundles that differ from a genuine
// one in a byte, of the whole or of one of its pieces.
func changed(t testing.TB, step int, each func(name string, raw []byte)) {
	t.Helper()
	for _, name := range genuineNames {
		whole := genuine(t, name, "bundle.sigstore.json")
		each(name, whole)
		for i := 0; i < len(whole); i += step {
			b := bytes.Clone(whole)
			b[i]++
			each(name, b)
		}
		for _, path := range parts {
			old, ok := exchange(t, whole, path, nil)
			if !ok {
				continue
			}
			for i := 0; i < len(old); i += step {
				value := bytes.Clone(old)
				value[i] ^= 1
				if b, ok := exchange(t, whole, path, value); ok {
					each(name, b)
				}
			}
		}
	}
}

// TestMemoryChangesNoAnswer asks verifiers that have seen everything genuine,
// and new ones that have seen nothing. Whatever is accepted is accepted by
// sigstore-go too.
func TestMemoryChangesNoAnswer(t *testing.T) {
	warm := newCourt(t) // has verified every genuine bundle
	library := newLibrary(t)
	accepted, refused := 0, 0
	changed(t, 97, func(name string, raw []byte) {
		for i, fresh := range provers(t) {
			for what, ask := range map[string]func(prover) (proof, error){
				"blob":        func(p prover) (proof, error) { e, err := p.Blob(raw, warm.set); return proofOf(e), err },
				"attestation": func(p prover) (proof, error) { e, err := p.Attestation(raw); return proofOf(e), err },
			} {
				want, errFresh := ask(fresh)
				got, errWarm := ask(warm.by[i])
				if codeOf(errFresh) != codeOf(errWarm) || got != want {
					t.Errorf("%s, a changed %s: new %v, warm %v", name, what, errFresh, errWarm)
				}
				if errWarm != nil {
					refused++
					continue
				}
				accepted++
				if name == "attestation-key-id" {
					continue // nobody signs the hint, and the library compares it
				}
				if err := library(raw, warm.set.SHA256.Bytes()); i == 0 && err != nil {
					t.Errorf("%s, a changed %s is accepted here, and sigstore-go says %v", name, what, err)
				}
			}
		}
	})
	if accepted < len(genuineNames) || refused < 500 {
		t.Errorf("%d accepted and %d refused prove little", accepted, refused)
	}
}

// newLibrary asks sigstore-go, with everything that is asked here.
func newLibrary(t testing.TB) func(raw, sum []byte) error {
	t.Helper()
	trusted, err := root.NewTrustedRootFromJSON(genuine(t, "blob", "trusted_root.json"))
	if err != nil {
		t.Fatal(err)
	}
	v, err := sigstore.NewVerifier(trusted, sigstore.WithSignedCertificateTimestamps(1), sigstore.WithTransparencyLog(1), sigstore.WithObserverTimestamps(1))
	if err != nil {
		t.Fatal(err)
	}
	return func(raw, sum []byte) error {
		var entity bundle.Bundle
		if err := entity.UnmarshalJSON(raw); err != nil {
			return err
		}
		policy := sigstore.NewPolicy(sigstore.WithArtifactDigest("sha256", sum), sigstore.WithoutIdentitiesUnsafe())
		if entity.GetDsseEnvelope() != nil {
			policy = sigstore.NewPolicy(sigstore.WithoutArtifactUnsafe(), sigstore.WithoutIdentitiesUnsafe())
		}
		_, err := v.Verify(&entity, policy)
		return err
	}
}

// TestMemoryIsShared: one verifier serves many goroutines, and what one of
// them asks changes no answer of the others. Run it with -race.
func TestMemoryIsShared(t *testing.T) {
	c := newCourt(t)
	type question struct {
		raw  []byte
		want []proof
	}
	var all []question
	changed(t, 997, func(_ string, raw []byte) {
		q := question{raw: raw}
		for _, e := range c.ask(raw) {
			q.want = append(q.want, proofOf(e))
		}
		all = append(all, q)
	})
	c.by = provers(t) // have seen nothing
	var wait sync.WaitGroup
	for worker := range 8 {
		wait.Go(func() {
			for i := range all {
				q := all[(i*(2*worker+1))%len(all)]
				got := c.ask(q.raw)
				if len(got) != len(q.want) || len(got) > 0 && proofOf(got[0]) != q.want[0] {
					t.Errorf("%d answers, want %d", len(got), len(q.want))
				}
			}
		})
	}
	wait.Wait()
}
