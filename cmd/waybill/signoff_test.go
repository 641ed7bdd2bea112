package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// tree writes the good enhancement, and answers where.
func tree(t *testing.T) string {
	t.Helper()
	archive, err := txtar.ParseFile("../../pkg/govern/signoff/testdata/good.txtar")
	if err != nil {
		t.Fatal(err)
	}
	top := t.TempDir()
	for _, f := range archive.Files {
		to := filepath.Join(top, f.Name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return top
}

// TestReviewsAbove: a part of a tree is judged with the reviews of the tree,
// which lie at most two directories above; who may approve is never taken from
// there.
func TestReviewsAbove(t *testing.T) {
	top := tree(t)
	check := func(keps, aliases, words string) {
		t.Helper()
		o := &documents{
			keps: filepath.Join(top, keps), template: filepath.Join(top, "template.md"), milestone: "v1.37", now: "2026-02-10T12:00:00Z",
		}
		if aliases != "" {
			o.aliases = filepath.Join(top, aliases)
		}
		q, _, err := o.question()
		if err != nil {
			t.Fatal(err)
		}
		v, _ := signoff.Check(q)
		switch {
		case words == "" && v.Outcome() != verdict.Accepted:
			t.Errorf("%s: %s: %v", keps, v.Headline(), v.Findings)
		case words != "" && (v.Outcome() != verdict.Refused || !strings.Contains(v.Findings[0].Message+v.Findings[0].Fix, words)):
			t.Errorf("%s: %s: %v, want %q", keps, v.Headline(), v.Findings, words)
		}
	}
	const sig, one, aliases = "keps/sig-release", "keps/sig-release/7001-lantern-dimmer", "OWNERS_ALIASES"
	check(".", "", "")
	for _, keps := range []string{"keps", sig, one} {
		check(keps, aliases, "")
		check(keps, "", "--aliases")
	}
	move := func(from, to string) {
		t.Helper()
		if err := os.Rename(filepath.Join(top, from), filepath.Join(top, to)); err != nil {
			t.Fatal(err)
		}
	}
	move("keps/prod-readiness", "prod-readiness") // three directories above one
	check(sig, aliases, "")
	check(one, aliases, "beside the directories of SIGs")
	move("prod-readiness", "reviews")
	check(sig, aliases, "the review prod-readiness/sig-release/7001.yaml is missing")
}
