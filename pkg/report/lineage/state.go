package lineage

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
	for _, a := range commandsOf(entries, journal.Busy(w.Journal())) {
		t.add(StateName, a)
	}
	return nil
}

// How a command ended, or did not yet.
const (
	commandDone    = "done"
	commandFailed  = "failed"
	commandRunning = "running"
)

// commandsOf joins what a journal says of commands: that each began, and how it
// ended. A command can have parts, named after it. Of a part only the beginning
// is noted: it ended when the next began, or the whole did. A command that is
// followed by another and has no end was stopped, and nobody knows when.
func commandsOf(entries []journal.Entry, busy bool) (all []Act) {
	var open []int // of those that began and did not end; each but the first is a part of the one before
	end := func(from int, e journal.Entry, result string) {
		for _, i := range open[from:] {
			all[i].Ended, all[i].Result = e.Time, result
		}
		open = open[:from]
	}
	for _, e := range entries {
		if e.Act != "begin" {
			subject, result := e.Act, commandDone
			if e.Act == commandFailed {
				subject, result = e.Subject, commandFailed
			}
			if from := slices.IndexFunc(open, func(i int) bool { return all[i].Name == subject }); from >= 0 {
				end(from, e, result)
			}
			continue
		}
		whole := slices.IndexFunc(open, func(i int) bool { return strings.HasPrefix(e.Subject, all[i].Name+": ") })
		if whole < 0 {
			open = nil
		} else {
			end(whole+1, e, commandDone)
		}
		if a, is := beganAt(e); is {
			open = append(open, len(all))
			all = append(all, a)
		}
	}
	for _, i := range open {
		if busy {
			all[i].Result = commandRunning
		}
	}
	return all
}

// beganAt is the command that a journal's entry says to have begun.
func beganAt(e journal.Entry) (Act, bool) {
	var said noted
	if err := json.Unmarshal(e.Detail, &said); err != nil {
		return Act{}, false // another form than ours: it is a hint
	}
	why := "the journal of the state directory is signed by nobody"
	a := Act{Kind: Command, Name: e.Subject, Began: e.Time, Signer: Signer{Mark: Hint, Why: why}}
	if len(said.Args) > 0 {
		a.Typed = append([]string{filepath.Base(said.Args[0])}, said.Args[1:]...)
	}
	a.trust(said.Trace)
	return a, true
}

// refuse is the answer about something that nobody knows.
func refuse(t Target) error {
	return verdict.Refuse(verdict.EvidenceMissing, t.title(), "no run is known that touched it").
		Advise("look where it is known: --state DIR where it was made, --profile FILE with VERSION where it is published, or HOST/PATH@sha256:… and --images where it was promoted to")
}
