package policy

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// largest reads the largest shipped policy that requires provenance and needs no
// rules engine and no summary of the source, and the case of it that is accepted.
func largest(b testing.TB) (raw []byte, accepts testCase) {
	b.Helper()
	paths, err := filepath.Glob(filepath.Join("..", "..", "..", "policies", "*.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	largest := ""
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			b.Fatal(err)
		}
		if strings.Contains(string(text), "provenance: require") && !strings.Contains(string(text), "\nrules:\n") && !strings.Contains(string(text), "\nsources:") && len(text) > len(raw) {
			raw, largest = text, path
		}
	}
	archive, err := os.ReadFile(strings.TrimSuffix(largest, ".yaml") + ".txtar")
	if err != nil {
		b.Fatal(err)
	}
	cases, err := parseCases(archive)
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range cases {
		if c.Name == "a published binary" {
			return raw, c
		}
	}
	b.Fatalf("nothing is accepted by %s", largest)
	return nil, testCase{}
}

// BenchmarkParse reads the largest shipped policy.
func BenchmarkParse(b *testing.B) {
	raw, _ := largest(b)
	b.SetBytes(int64(len(raw)))
	for b.Loop() {
		if _, err := Parse(raw, nil); err != nil {
			b.Fatal(err)
		}
	}
}

// The release that is decided about: as many artifacts as a large one has,
// and so many of each step.
const (
	artifacts = 1000
	perStep   = 20
)

// bench is a question and the evidence that was brought for it.
type bench struct {
	q     Question
	facts []*fact
}

// wholeRelease makes artifacts with a signature each and a provenance for each
// step. The facts are not read yet.
func wholeRelease(b testing.TB, c testCase) []bench {
	b.Helper()
	q, err := c.question()
	if err != nil {
		b.Fatal(err)
	}
	all := make([]bench, artifacts)
	for i := range all {
		all[i].q = q
		all[i].q.Subject = fmt.Sprintf("bin/%d", i)
		all[i].q.Bytes = digest.SetOf([]byte(all[i].q.Subject))
		all[i].q.SBOM = all[i].q.Bytes.SHA256
		signed, err := c.Said["signature"].fact(all[i].q)
		if err != nil {
			b.Fatal(err)
		}
		all[i].facts = append(all[i].facts, signed)
	}
	for i := 0; i < artifacts; i += perStep {
		var subjects []intoto.Subject
		for _, a := range all[i : i+perStep] {
			subjects = append(subjects, intoto.Subject{Name: a.q.Subject, Digests: a.q.Bytes})
		}
		said := c.Said["provenance"]
		made, err := said.fact(all[i].q)
		if err != nil {
			b.Fatal(err)
		}
		if made.said, err = intoto.New(said.Type, subjects, said.Predicate); err != nil {
			b.Fatal(err)
		}
		made.covers = made.said.Names
		made.remember()
		for n := range all[i : i+perStep] {
			all[i+n].facts = append(all[i+n].facts, made)
		}
	}
	return all
}

// BenchmarkDecide decides about a release of 1000 artifacts, with everything
// that a verdict needs: each provenance is read once, and after each yes the
// probe asks again.
func BenchmarkDecide(b *testing.B) {
	raw, accepts := largest(b)
	p, err := Parse(raw, nil)
	if err != nil {
		b.Fatal(err)
	}
	all := wholeRelease(b, accepts)
	for b.Loop() {
		for i := range all {
			for _, f := range all[i].facts {
				if i%perStep == 0 && !f.said.IsZero() {
					f.read, f.covers = reading{}, f.said.Names // as if it were new
					f.remember()
				}
			}
			for _, r := range (&judgement{policy: &p, q: all[i].q, facts: all[i].facts}).decide() {
				if !r.met {
					b.Fatal(r.err)
				}
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/artifacts, "ns/decision")
}
