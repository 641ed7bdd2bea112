package lineage

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TestCommandsEnd: each command that a journal has ends as the journal says, with
// its parts; what was stopped never ended, and what runs has not yet.
func TestCommandsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		entries []string // one a second: its act, or "begin" and its subject
		busy    bool
		want    []string
	}{
		"one after another": {
			entries: []string{"begin build", "build", "begin sign", "failed sign", "begin sign", "sign"},
			want:    []string{"began build, done after 1s", "began sign, failed after 1s", "began sign, done after 1s"},
		},
		"with parts": {
			entries: []string{"begin release", "begin release: gate", "begin release: promote", "release"},
			want:    []string{"began release, done after 3s", "began release: gate, done after 1s", "began release: promote, done after 1s"},
		},
		"in a part that failed": {
			entries: []string{"begin release", "begin release: gate", "begin release: promote", "failed release"},
			want:    []string{"began release, failed after 3s", "began release: gate, done after 1s", "began release: promote, failed after 1s"},
		},
		"stopped, and begun again": {
			entries: []string{"begin release", "begin release: gate", "begin release", "begin release: gate", "release"},
			want:    []string{"began release, which never ended", "began release: gate, which never ended", "began release, done after 2s", "began release: gate, done after 1s"},
		},
		"stopped": {entries: []string{"begin build"}, want: []string{"began build, which never ended"}},
		"running": {
			entries: []string{"begin seal", "begin build", "begin build: walls"}, busy: true,
			want: []string{"began seal, which never ended", "began build, which still runs", "began build: walls, which still runs"},
		},
		"an end of nothing": {entries: []string{"seal", "begin build", "sign", "build"}, want: []string{"began build, done after 2s"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, a := range commandsOf(entriesOf(t, c.entries), c.busy) {
				got = append(got, joint{Act: a}.title())
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

// entriesOf are the entries of a journal.
func entriesOf(t *testing.T, said []string) (list []journal.Entry) {
	t.Helper()
	detail, err := json.Marshal(noted{Args: []string{"/usr/bin/waybill", "release", "v0.1.0"}, Trace: trace.IDs{Trace: id(t, "1"), Span: trace.SpanID{1}}})
	if err != nil {
		t.Fatal(err)
	}
	for i, text := range said {
		e := journal.Entry{Time: time.Date(2026, 3, 1, 12, 0, i, 0, time.UTC), Act: text, Subject: "lantern v0.1.0"}
		for _, word := range []string{"begin", "failed"} {
			if len(text) > len(word) && text[:len(word)] == word {
				e.Act, e.Subject = word, text[len(word)+1:]
			}
		}
		if e.Act == "begin" {
			e.Detail = detail
		}
		list = append(list, e)
	}
	return list
}

// TestStateAlone: the state directory of a release that nothing was signed of
// yet says which commands ran, and how each ended.
func TestStateAlone(t *testing.T) {
	of, err := version.Parse("v0.1.0")
	if err != nil {
		t.Fatal(err)
	}
	w, err := workspace.Create(filepath.Join(t.TempDir(), "state"), workspace.Identity{
		Name: "lantern", Version: of, Commit: git.Commit{Commit: fmt.Sprintf("%040d", 1), Repository: "git+https://example.test/lantern"}, Plan: digest.Of(digest.SHA256, nil), Invocation: "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(w.Journal())
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entriesOf(t, []string{"begin build", "failed build", "begin build", "build", "begin sbom"}) {
		if err := j.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	told := func() []string {
		trail := Start(Believed{})
		if err := trail.State(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		l, err := trail.Of(ask(t, id(t, "1").String()))
		if err != nil || len(l.Runs) != 1 {
			t.Fatalf("%+v, %v", l, err)
		}
		var titles []string
		for _, a := range l.Runs[0].Acts {
			titles = append(titles, joint{Act: a}.title())
		}
		return titles
	}
	want := []string{"began build, failed after 1s", "began build, done after 1s", "began sbom, which still runs"}
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("while it runs: %q", got)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	want[2] = "began sbom, which never ended"
	if got := told(); !slices.Equal(got, want) {
		t.Errorf("after it was stopped: %q", got)
	}
}
