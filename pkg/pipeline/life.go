package pipeline

import (
	"encoding/json"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/seal"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// lifeOf is the life of the release that a manifest lists, and the last act on it.
func lifeOf(m release.Manifest) trace.IDs {
	if len(m.Runs) == 0 {
		return trace.IDs{}
	}
	last := release.IDsOf(m.Runs[len(m.Runs)-1])
	last.Initial = release.OriginOf(m)
	return last
}

// historyOf is which runs had a hand in the release of a workspace, by its
// journal. A journal is a hint: what it does not say is not known, and nothing
// that is signed rests on it but where to look.
func historyOf(w *workspace.Workspace, typed Typed) seal.History {
	h := seal.History{Command: typed.command()}
	entries, err := journal.Read(w.Journal())
	if err != nil {
		return h
	}
	id := w.Identity()
	for i, e := range entries {
		var b beginning
		if e.Act != actBegin || json.Unmarshal(e.Detail, &b) != nil {
			continue
		}
		b.Trace.Initial = id.Trace.Initial
		traced, kind := !b.Trace.Trace.IsZero(), actNamed(e.Subject).run
		run := release.RunOf(kind, b.Trace.Trace.String(), b.Trace, b.command())
		switch kind {
		case release.RunBuild, release.RunSign:
			if kind == release.RunBuild {
				run.ID = id.Invocation
			}
			if traced {
				h.Earlier = append(h.Earlier, run)
			}
		case release.RunSeal, release.RunAmend, release.RunWithdraw:
			s := seal.Sealing{Began: e.Time}
			if traced {
				s.Run = run
			}
			if i+1 < len(entries) {
				s.Ended = entries[i+1].Time
			}
			h.Sealings = append(h.Sealings, s)
		}
	}
	return h
}

// command is what was typed, without its arguments.
func (t Typed) command() string {
	if len(t.Args) < 2 {
		return ""
	}
	return filepath.Base(t.Args[0]) + " " + t.Args[1]
}
