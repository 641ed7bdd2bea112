package lineage

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// StateName is how the state directory is called in what was found.
const StateName = "state"

// State reads what the state directory of a release has: the evidence, sealed or
// not, the logs of the steps, and the machine's own notes, which are hints.
func (t *Trail) State(ctx context.Context, w *workspace.Workspace) error {
	p := Published{Name: StateName, Files: w.Files(), Images: w.Images()}
	m, h, err := t.manifestAt(ctx, p)
	switch {
	case isGone(err):
		t.Note("the release in the state directory is not sealed")
		err = t.loose(ctx, p)
	case err != nil:
		err = t.failed(ctx, p.Name, err)
	default:
		t.seal(p.Name, m, h)
		if err = t.listed(ctx, p, m); err == nil {
			err = t.Registry(ctx, p.Name, p.Images)
		}
	}
	if err != nil {
		return err
	}
	if id := w.Identity(); !id.Trace.IsZero() {
		t.mu.Lock()
		t.began = append(t.began, beginning{id.Trace, StateName})
		t.mu.Unlock()
	}
	t.findLogs(w)
	return t.commands(ctx, w)
}

// findLogs finds the logs of the steps on this machine. One that is another than
// provenance names is none.
func (t *Trail) findLogs(w *workspace.Workspace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.acts {
		if a.Kind != Step || a.Log == nil || strings.ContainsAny(a.Name, "/\\") || !slices.Contains(a.Found, StateName) {
			continue
		}
		path := w.Log(a.Name)
		f, err := os.Open(path)
		if err != nil {
			continue // it was not kept
		}
		sum, _, err := digest.SumSHA256(f)
		_ = f.Close() // it was only read
		if err == nil && sum.Equal(a.Log.Digest) {
			a.Log.Path = path
		}
	}
}

// noted is what a journal's entry says beside its act: a command as it was
// typed, and its ids.
type noted struct {
	Args  []string  `json:"args"`
	Trace trace.IDs `json:"trace"`
}

// commands reads which commands were typed, as the journal has them.
func (t *Trail) commands(ctx context.Context, w *workspace.Workspace) error {
	entries, err := journal.Read(w.Journal())
	if err != nil {
		return t.failed(ctx, StateName, err)
	}
	why := "the journal of the state directory is signed by nobody"
	var open *Act
	for _, e := range entries {
		if e.Act != "begin" {
			if open != nil {
				open.Ended, open.Result = e.Time, e.Act
			}
			continue
		}
		var said noted
		if err := json.Unmarshal(e.Detail, &said); err != nil {
			continue // another form than ours: it is a hint
		}
		a := Act{Kind: Command, Name: e.Subject, Began: e.Time, Signer: Signer{Mark: Hint, Why: why}}
		if len(said.Args) > 0 {
			a.Typed = append([]string{filepath.Base(said.Args[0])}, said.Args[1:]...)
		}
		a.trust(said.Trace)
		t.add(StateName, a)
		open = t.acts[len(t.acts)-1]
	}
	return nil
}

// refuse is the answer about something that nobody knows.
func refuse(t Target) error {
	return verdict.Refuse(verdict.EvidenceMissing, t.title(), "no run is known that touched it").
		Advise("look where it is known: --state DIR where it was made, --profile FILE with VERSION where it is published, or HOST/PATH@sha256:… and --images where it was promoted to")
}
