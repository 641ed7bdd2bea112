package verify_test

import (
	"bytes"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestVerifiersShareNothing: what one verifier has proven counts for no other,
// in whatever order and at the same time, and nobody's bytes are changed. That
// the package has no variables, no files, no network and no clock is a check
// of the architecture at the root of the repository.
func TestVerifiersShareNothing(t *testing.T) {
	raw := genuine(t, "blob", "bundle.sigstore.json")
	before, set := bytes.Clone(raw), digest.SetOf(genuine(t, "blob", "artifact"))
	keyless, keyed := provers(t)[0], provers(t)[1]
	elsewhere, err := verify.New(trust.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	var wait sync.WaitGroup
	for range 8 {
		wait.Go(func() {
			for who, want := range map[prover]verdict.Code{keyless: "", elsewhere: verdict.LogUnknown, keyed: verdict.MaterialKind} {
				_, err := who.Blob(raw, set)
				if got := codeOf(err); got != want {
					t.Errorf("answered %q, want %q", got, want)
				}
			}
		})
	}
	wait.Wait()
	if !bytes.Equal(raw, before) {
		t.Error("the bundle was changed")
	}
}

func codeOf(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// TestZeroEvidence: what was made nowhere proves nothing.
func TestZeroEvidence(t *testing.T) {
	var e verify.Evidence
	if !e.IsZero() || e.Covers("", digest.Set{}) || e.Covers("a", digest.SetOf(nil)) || e.CoversBytes(digest.Digest{}) || e.CoversBytes(digest.SetOf(nil).SHA256) {
		t.Error("the zero evidence covers something")
	}
}

// TestMangledBundles takes prefixes of a bundle, and changes bytes all over it.
func TestMangledBundles(t *testing.T) {
	c := newCourt(t)
	for _, name := range []string{"blob-rekor-v1", "attestation", "blob-key"} {
		raw := genuine(t, name, "bundle.sigstore.json")
		for i := 0; i < len(raw); i += 7 {
			c.judged(t, raw[:i])
			bumped := bytes.Clone(raw)
			bumped[i]++
			c.judged(t, bumped)
		}
	}
}
