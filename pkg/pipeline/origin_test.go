package pipeline

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/policies"
)

// clone is a job on a clone whose remote does not answer, under a policy that
// accepts one source.
func clone(t *testing.T, accepted string) (*job, git.Commit, *string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("git is not installed")
	}
	dir := t.TempDir()
	for _, args := range [][]string{
		{"init", "-q"}, {"remote", "add", "origin", "https://127.0.0.1:1/hello"},
		{"-c", "user.name=A", "-c", "user.email=a@example.test", "commit", "-q", "--allow-empty", "-m", "a"}, {"tag", "v1.0.0"},
	} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	raw, err := policies.Read("slsa-build-l1")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse([]byte(strings.Replace(string(raw), "git+https://example.test/lantern", strings.ReplaceAll(accepted, "DIR", dir), 1)), nil)
	if err != nil {
		t.Fatal(err)
	}
	repo, err := git.Open(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	c, err := repo.Resolve(t.Context(), "v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	said := new(string)
	j := &job{Profile: profile.Profile{Policy: p, TrustRoot: trust.Embedded()}}
	j.Source.Repository = dir
	j.Report = func(_ context.Context, format string, args ...any) { *said += fmt.Sprintf(format, args...) }
	return j, c, said
}

// TestOriginThatDoesNotAnswer: outside of a lab, the remote of a clone is only
// recorded if it has the tag. The story of the first release has the twin, in a
// lab.
func TestOriginThatDoesNotAnswer(t *testing.T) {
	for name, row := range map[string]struct {
		accepted, typed string
		warned          bool
	}{
		"the policy wants the remote":           {"git+https://127.0.0.1:1/hello", "", true},
		"the policy wants the clone":            {"git+file://DIR", "", false},
		"the policy wants neither":              {"git+https://127.0.0.1:1/other", "", false},
		"the clone is named as a URI of itself": {"git+https://127.0.0.1:1/hello", "git+file://", false},
	} {
		t.Run(name, func(t *testing.T) {
			j, c, said := clone(t, row.accepted)
			j.Source.Repository = row.typed + j.Source.Repository
			got, err := atOrigin(t.Context(), j, c)
			if err != nil || got != c {
				t.Errorf("recorded as %+v, %v", got, err)
			}
			if strings.Contains(*said, "did not answer") != row.warned {
				t.Errorf("it said %q", *said)
			}
		})
	}
}

// TestClonesOfOthersAreNotSigned: the record of a state directory may have been
// written by another account.
func TestClonesOfOthersAreNotSigned(t *testing.T) {
	j, c, _ := clone(t, "git+https://127.0.0.1:1/hello")
	j.State = t.TempDir()
	v, err := version.Parse("v1.0.0")
	if err != nil {
		t.Fatal(err)
	}
	id := workspace.Identity{Name: "hello", Version: v, Plan: digest.Of(digest.SHA256, nil), Commit: c.At("git+https://127.0.0.1:1/hello")}
	if _, err := workspace.Create(j.State, id); err != nil {
		t.Fatal(err)
	}
	if _, err := ownClone(t.Context(), j, facts{}); err != nil {
		t.Errorf("its own clone: %v", err)
	}
	for _, other := range []string{"", filepath.Dir(j.Source.Repository), "git+https://127.0.0.1:1/hello"} {
		j.Source.Repository = other
		if _, err := ownClone(t.Context(), j, facts{}); err == nil || verdict.FindingOf("", err).Code != verdict.SourceRepo {
			t.Errorf("in %q: %v", other, err)
		}
	}
}
