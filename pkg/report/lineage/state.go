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
)

// stateName is the name of the state directory in the output.
const stateName = "state"

// State reads the state directory of a release: the evidence, sealed or not,
// the logs of the steps, and the journal, whose entries are hints.
func (t *Trail) State(ctx context.Context, w *workspace.Workspace) error {
	p := Published{Name: stateName, Files: w.Files(), Images: w.Images()}
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
		t.began = append(t.began, beginning{id.Trace, stateName})
		t.mu.Unlock()
	}
	t.findLogs(w)
	return t.commands(ctx, w)
}

// findLogs finds the logs of the steps on this machine. A log with another
// digest than in the provenance is ignored.
func (t *Trail) findLogs(w *workspace.Workspace) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, a := range t.acts {
		if a.Kind != Step || a.Log == nil || strings.ContainsAny(a.Name, "/\\") || !slices.Contains(a.Found, stateName) {
			continue
		}
		path := w.Log(a.Name)
		f, err := os.Open(path)
		if err != nil {
			continue // it was not kept
		}
		sum, _, err := digest.SumSHA256(f)
		_ = f.Close() // opened for reading only
		if err == nil && sum.Equal(a.Log.Digest) {
			a.Log.Path = path
		}
	}
}

// noted is the part of a journal entry beside its act: the command line, and
// ids.
type noted struct {
	Args  []string  `json:"args"`
	Trace trace.IDs `json:"trace"`
}

func (t *Trail) commands(ctx context.Context, w *workspace.Workspace) error {
	entries, err := journal.Read(w.Journal())
	if err != nil {
		return t.failed(ctx, stateName, err)
	}
	for _, a := range commandsOf(entries, journal.Busy(w.Journal())) {
		t.add(stateName, a)
	}
	return nil
}

// How a command ended, or whether it still runs.
const (
	commandDone    = "done"
	commandFailed  = "failed"
	commandRunning = "running"
)

// commandsOf joins the journal's entries about commands: their beginnings and
// ends. A command can have parts, named after it. Only the beginning of a part
// is recorded: it ended when the next part began, or with the whole. A command
// without end that is followed by another one was stopped at an unknown time.
func commandsOf(entries []journal.Entry, busy bool) (all []Act) {
	var open []int // commands that have not ended; each but the first is part of the one before
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

// beganAt is the command whose beginning a journal entry records.
func beganAt(e journal.Entry) (Act, bool) {
	var said noted
	if err := json.Unmarshal(e.Detail, &said); err != nil {
		return Act{}, false // a journal in another form; it is only a hint
	}
	why := "the journal of the state directory is unsigned"
	a := Act{Kind: Command, Name: e.Subject, Began: e.Time, Signer: Signer{Mark: Hint, Why: why}}
	if len(said.Args) > 0 {
		a.Typed = append([]string{filepath.Base(said.Args[0])}, said.Args[1:]...)
	}
	a.trust(said.Trace)
	return a, true
}
