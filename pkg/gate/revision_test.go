package gate

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
)

// gitIn runs git in a directory, without the settings of this machine.
func gitIn(t *testing.T, dir string) func(args ...string) string {
	return func(args ...string) string {
		t.Helper()
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=L", "GIT_AUTHOR_EMAIL=l@e.test", "GIT_COMMITTER_NAME=L", "GIT_COMMITTER_EMAIL=l@e.test")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
}

// TestSourceOfAClone: what a clone alone shows of a commit, and what it cannot.
func TestSourceOfAClone(t *testing.T) {
	dir := t.TempDir()
	git := gitIn(t, dir)
	commit := func(message string) string {
		git("commit", "-q", "--allow-empty", "-m", message)
		return git("rev-parse", "HEAD")
	}
	git("init", "-q", "-b", "main")
	first := commit("first")
	git("tag", "v0.1.0")
	second := commit("second\n\nReviewed-by: Somebody <s@e.test>")
	noted := commit("third")
	git("notes", "add", "-m", "reviewed by two people", noted)
	git("checkout", "-q", "--orphan", "stranger")
	other := commit("of another history")
	git("tag", "other")
	git("checkout", "-q", "main")

	raw, err := policies.Read("kubernetes-today")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(bytes.Replace(raw, []byte("defects: {atLeast: 1}\n"), nil, 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.NewWith(trust.Embedded(), p.Verification())
	if err != nil {
		t.Fatal(err)
	}
	g := Under(profile.Profile{Policy: p, TrustRoot: trust.Embedded()}, v, Waivers{}, nil)
	ask := func(t *testing.T, commit string, c Checkout, level int, code verdict.Code, review string) {
		t.Helper()
		c.Repository = dir
		answer := g.Source(t.Context(), commit, Options{Checkout: c, Scope: Scope{Levels: []slsa.Demand{{Track: slsa.Source, Level: level}}}}, time.Now())
		if code == "" && answer.Err() != nil || code != "" && (answer.Err() == nil || answer.Findings[0].Code != code) {
			t.Errorf("got %v, want %q", answer.Err(), code)
		}
		if len(answer.Levels) > 0 && answer.Levels[0].Level != 1 {
			t.Errorf("a clone shows level %d", answer.Levels[0].Level)
		}
		if !strings.Contains(strings.Join(answer.Sentences, " "), review) {
			t.Errorf("got %q, want %q", answer.Sentences, review)
		}
	}
	main := Checkout{Ref: "refs/heads/main"}
	for _, r := range []struct {
		name, commit string
		at           Checkout
		level        int
		code         verdict.Code
		review       string
	}{
		{"in the history", first, main, 1, "", "neither shown nor claimed"},
		{"a level that a clone cannot show", first, main, 2, verdict.Level, ""},
		{"a trailer claims a review", second, main, 1, "", "Review: claimed"},
		{"a trailer shows no level 4", second, main, 4, verdict.Level, "Review: claimed"},
		{"an unsigned note claims a review", noted, main, 1, "", "Review: claimed"},
		{"an unsigned note shows no level 4", noted, main, 4, verdict.Level, "Review: claimed"},
		{"not in the history of the branch", other, main, 1, verdict.SourceRef, ""},
		{"in the history of its tag", other, Checkout{Ref: "refs/tags/other"}, 1, "", ""},
		{"the earlier release is in the history", second, Checkout{Ref: "refs/heads/main", Previous: "v0.1.0"}, 1, "", ""},
		{"the earlier release is in another history", second, Checkout{Ref: "refs/heads/main", Previous: "other"}, 1, verdict.SourceRef, ""},
		{"no allowed signer signed", first, Checkout{Ref: "refs/tags/v0.1.0", Signers: []byte("a@e.test ssh-ed25519 AAAA\n")}, 1, verdict.Unsigned, ""},
	} {
		t.Run(r.name, func(t *testing.T) { ask(t, r.commit, r.at, r.level, r.code, r.review) })
	}
	t.Run("a replacement puts it into the history", func(t *testing.T) {
		git("replace", "--graft", git("rev-parse", "main"), other)
		if got := git("merge-base", "main", other); got != other {
			t.Fatal("git does not believe the replacement")
		}
		ask(t, other, main, 1, verdict.SourceRef, "")
		ask(t, first, main, 1, "", "")
	})
	t.Run("grafts put it into the history", func(t *testing.T) {
		if err := os.WriteFile(filepath.Join(dir, ".git", "info", "grafts"), []byte(git("rev-parse", "main")+" "+other+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		ask(t, other, main, 1, verdict.SourceRef, "")
		ask(t, first, main, 1, "", "")
	})
}
