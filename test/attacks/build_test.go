package attacks

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// project is the small project with one thing changed in its release.yaml,
// committed and tagged in a repository of its own.
func (w *world) project(t testing.TB, old, with string) string {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"LICENSE", "release.lock.yaml", "release.yaml"} {
		body := must[[]byte](t)(os.ReadFile(w.Path("lantern", name)))
		if name == "release.yaml" {
			body = replaceOne(t, body, old, with)
		}
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."}, {"commit", "-q", "-m", "attack"}, {"tag", w.version.String()}} {
		inRepository(t, dir, args...)
	}
	return dir
}

// TestBuildSteps: a step that does not do what it declared leaves nothing
// behind that could be signed for.
func TestBuildSteps(t *testing.T) {
	w := theWorld(t)
	const write = "> {out}/bin/{os}/{arch}/lantern"
	rows := []struct {
		name, old, with string
		codes           []verdict.Code
	}{
		{"as declared", "echo lantern", "echo lantern", nil},
		{"it fails", "mkdir -p", "false && mkdir -p", codes(verdict.StepFailed)},
		{"it writes more", write, write + " && touch {out}/more", codes("OUTPUT_EXTRA")},
		{"it writes less", write, "> /dev/null", codes("OUTPUT_MISSING")},
		{"it writes a symbolic link", write, "> /dev/null && ln -s /etc/passwd {out}/bin/{os}/{arch}/lantern", codes(verdict.FileType)},
		{"it writes provenance itself", write, write + " && mkdir {out}/provenance && touch {out}/provenance/compile-linux-amd64.sigstore.json", codes("OUTPUT_EXTRA")},
		{"an unknown key in the configuration", "lock:", "trusted: true\nlock:", codes(verdict.ConfigParse)},
		{"a step that takes what nobody makes", `take: ["bin`, `take: ["sbin`, codes(verdict.ConfigParse)},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			state := filepath.Join(t.TempDir(), "state")
			source := w.project(t, r.old, r.with)
			p := must[*pipeline.Pipeline](t)(w.pipeline(state, func(c *pipeline.Config) { c.Source.Repository = source }))
			refused(t, p.Build(t.Context()), r.codes...)
			_, err := os.Stat(filepath.Join(state, "files", filepath.FromSlash(compiled)))
			if signed := err == nil; signed != (r.codes == nil) {
				t.Errorf("provenance was signed: %t", signed)
			}
		})
	}
	t.Logf("isolation: %q", sandbox.Examine(t.Context()).Reason())
	_, err := sandbox.Run(t.Context(), sandbox.Mode("vault"), sandbox.Step{Scratch: t.TempDir(), Command: []string{"/bin/true"}})
	refused(t, err, verdict.NotIsolated)
}

// TestWorkspaceOfAnotherRelease: what was begun for one release is not gone on
// with for another.
func TestWorkspaceOfAnotherRelease(t *testing.T) {
	w := theWorld(t)
	r := w.attacked(t)
	sealing := func(edits ...func(*pipeline.Config)) error {
		return must[*pipeline.Pipeline](t)(w.pipeline(r.dir, edits...)).Seal(t.Context())
	}
	accepted(t, sealing())
	refused(t, sealing(func(c *pipeline.Config) { c.Version = must[version.Version](t)(version.Parse("v0.1.1")) }), verdict.Usage)
	refused(t, sealing(func(c *pipeline.Config) { c.State = t.TempDir() }), verdict.Usage)
	was := must[[]byte](t)(os.ReadFile(filepath.Join(r.dir, "release.json")))
	r.edit(t, "release.json", `"plan": "sha256:`, `"plan": "sha256:0000000000000000000000000000000000000000000000000000000000000000", "was": "sha256:`)
	refused(t, sealing(), verdict.ConfigParse)
	at := bytes.Index(was, []byte(`"plan": "sha256:`)) + len(`"plan": "sha256:`)
	other := bytes.Clone(was)
	copy(other[at:], "0000")
	if err := os.WriteFile(filepath.Join(r.dir, "release.json"), other, 0o644); err != nil {
		t.Fatal(err)
	}
	refused(t, sealing(), verdict.PlanStale)
}

// odd is a place that fails in a way that it never said it would.
type odd struct{ store.Place }

// Open fails.
func (odd) Open(context.Context, string) (io.ReadCloser, int64, error) {
	return nil, 0, errors.New("something odd")
}

// TestErrorsOfNobody: an error that says nothing of itself is a bug of ours,
// and never fine (A23).
func TestErrorsOfNobody(t *testing.T) {
	r := theWorld(t).attacked(t)
	accepted(t, r.gate(t).Err())
	v := r.gate(t, func(q *gate.Request) { q.Files = odd{q.Files} })
	refused(t, v.Err(), verdict.InternalBug)
	if v.Outcome() != verdict.Internal {
		t.Errorf("outcome %s", v.Outcome())
	}
}
