package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// bundleCase is one row of the corpus of real bundles.
type bundleCase struct {
	bundle, digest, mode, who, issuer, predicate string
}

// ask is what one row asks; the negatives change one field of it.
type ask struct {
	digest, who, issuer, predicate string
}

// TestSLSABundles verifies real provenance that other builders signed, and
// refuses it for another artifact, identity, issuer and predicate.
func TestSLSABundles(t *testing.T) {
	dir := material(t, "slsa")
	for _, c := range bundleCases(t, dir) {
		t.Run(strings.TrimPrefix(c.bundle, "bundles/"), func(t *testing.T) {
			p, raw := prepare(t, dir, c)
			good := ask{c.digest, c.who, c.issuer, c.predicate}
			if !answers(t, p, raw, c.mode, good) {
				t.Fatal("a real bundle is refused")
			}
			for what, change := range map[string]func(*ask){
				"artifact":  func(a *ask) { a.digest = other(a.digest) },
				"identity":  func(a *ask) { a.who += "x" },
				"issuer":    func(a *ask) { a.issuer += "x" },
				"predicate": func(a *ask) { a.predicate += "x" },
			} {
				if c.mode == "key" && (what == "identity" || what == "issuer") {
					continue // a key has neither
				}
				bad := good
				change(&bad)
				if answers(t, p, raw, c.mode, bad) {
					t.Errorf("accepted for another %s", what)
				}
			}
		})
	}
}

func bundleCases(t *testing.T, dir string) []bundleCase {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, "bundle-cases.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []bundleCase
	for _, line := range strings.Split(strings.TrimSpace(string(body)), "\n")[1:] {
		f := strings.Split(line, "\t")
		if len(f) != 8 || f[0] != "pass" {
			t.Fatalf("a row of another form: %q", line)
		}
		cases = append(cases, bundleCase{f[1], f[2], f[3], f[4], f[5], f[6]})
	}
	if len(cases) != 13 {
		t.Fatalf("%d cases, the corpus has 13", len(cases))
	}
	return cases
}

func prepare(t *testing.T, dir string, c bundleCase) (prover, []byte) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(dir, c.bundle))
	if err != nil {
		t.Fatal(err)
	}
	trusted, err := os.ReadFile(filepath.Join(dir, "..", "trusted-roots", "public-good.json"))
	if err != nil {
		t.Fatal(err)
	}
	root, err := trust.Parse(trusted)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(root)
	if err != nil {
		t.Fatal(err)
	}
	if c.mode != "key" {
		return v, raw
	}
	public, err := readKey(filepath.Join(dir, c.who))
	if err != nil {
		t.Fatal(err)
	}
	k, err := v.Key(public)
	if err != nil {
		t.Fatal(err)
	}
	return k, raw
}

// answers reports whether the bundle answers what is asked.
func answers(t *testing.T, p prover, raw []byte, mode string, a ask) bool {
	t.Helper()
	e, err := p.Attestation(raw)
	if err != nil {
		t.Logf("refused: %v", err)
		return false
	}
	want, err := digest.Parse(a.digest)
	if err != nil {
		t.Fatal(err)
	}
	if !e.CoversBytes(want) || e.Kind() != a.predicate {
		return false
	}
	return mode == "key" || named(e, a)
}

func named(e verify.Evidence, a ask) bool {
	m, err := identity.Exact(identity.Identity{Issuer: a.issuer, Subject: a.who, Type: identity.URI})
	return err == nil && m.Match(e.Identity())
}

// other changes one digit of a digest.
func other(d string) string {
	last := "0"
	if strings.HasSuffix(d, "0") {
		last = "1"
	}
	return d[:len(d)-1] + last
}
