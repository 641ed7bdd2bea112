package lineage

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Trail collects everything that was found, in any order and in any number of
// places. [Start] makes it. One goroutine may use it; it reads with several.
type Trail struct {
	who Believed

	mu       sync.Mutex // guards the fields below
	acts     []*Act
	known    map[string]*Act // by evidence and artifact
	sealed   []foundManifest
	began    []beginning // from a machine's notes
	parts    map[digest.Digest][]digest.Digest
	findings []verdict.Finding
	down     []verdict.Finding
	notes    []string
}

// A foundManifest is a release manifest that was found.
type foundManifest struct {
	manifest.Manifest
	Signer
	bundle digest.Digest
	found  []string
}

// beginning is the initial trace of a release, as a note says.
type beginning struct {
	ids   trace.IDs
	where string
}

// Start makes an empty trail.
func Start(who Believed) *Trail {
	return &Trail{who: who, known: map[string]*Act{}, parts: map[digest.Digest][]digest.Digest{}}
}

// Note adds a note about the search.
func (t *Trail) Note(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if said := fmt.Sprintf(format, args...); !slices.Contains(t.notes, said) {
		t.notes = append(t.notes, said)
	}
}

// failed records why something in a place could not be read: unreachable, or
// invalid. A cancelled context is returned.
func (t *Trail) failed(ctx context.Context, where string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	f := verdict.FindingOf(where, err)
	if !strings.Contains(f.Subject, where) {
		f.Subject = where + " " + f.Subject
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	list := &t.findings
	if f.Code.Outcome() == verdict.Unavailable {
		list = &t.down
	}
	if !slices.ContainsFunc(*list, func(o verdict.Finding) bool { return o.Subject == f.Subject && o.Message == f.Message }) {
		*list = append(*list, f)
	}
	return nil
}

// add adds an act. If it is known already, the place is added to those where it
// was found.
func (t *Trail) add(where string, a Act) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := string(a.Kind) + " " + a.Evidence.String()
	if a.Kind == Signature && len(a.Artifacts) > 0 { // several files may have the same bytes
		key += " " + a.Artifacts[0].Name
	}
	old, is := t.known[key]
	if !is || a.Evidence.IsZero() {
		a.Found = []string{where}
		t.known[key] = &a
		t.acts = append(t.acts, &a)
		return
	}
	if !slices.Contains(old.Found, where) {
		old.Found = append(old.Found, where)
	}
	if a.Kind == Step && strings.Contains(a.Name, "-") { // the file's name is more precise than the statement
		old.Name = a.Name
	}
	switch {
	case old.IDs.IsZero():
		old.IDs, old.Traced = a.IDs, a.Traced
	case old.Traced == Hint && a.Traced == Hint && differ(old.IDs, a.IDs):
		t.conflict(old, a.IDs, where)
	}
}

// differ reports whether two sets of ids contradict each other.
func differ(a, b trace.IDs) bool {
	return !a.Trace.IsZero() && !b.Trace.IsZero() && a.Trace != b.Trace ||
		!a.Span.IsZero() && !b.Span.IsZero() && a.Span != b.Span ||
		!a.Initial.IsZero() && !b.Initial.IsZero() && a.Initial != b.Initial
}

// conflict records that a place names other ids for an act than those that are
// trusted. The caller holds mu.
func (t *Trail) conflict(a *Act, said trace.IDs, where string) {
	name := a.Name
	if name == "" && len(a.Artifacts) > 0 {
		name = a.Artifacts[0].Name
	}
	f := verdict.Find(verdict.TraceConflict, strings.TrimSpace(string(a.Kind)+" "+name), "ignored other ids from %s", where).
		Differ(trace.URI(a.IDs), trace.URI(said))
	if !a.Evidence.IsZero() {
		f = f.Citing(a.Evidence)
	}
	t.contradict(f)
}

// contradict records a contradiction once. The caller holds mu.
func (t *Trail) contradict(f verdict.Finding) {
	same := func(o verdict.Finding) bool {
		return o.Code == f.Code && o.Subject == f.Subject && o.Want == f.Want && o.Got == f.Got
	}
	if !slices.ContainsFunc(t.findings, same) {
		t.findings = append(t.findings, f)
	}
}

// annotate adds the hints of an annotation to a bundle's act.
func (t *Trail) annotate(a *Act, hints trace.IDs, where string) {
	switch {
	case hints.IsZero():
	case a.IDs.IsZero():
		a.IDs, a.Traced = hints, Hint
	case differ(a.IDs, hints):
		t.mu.Lock()
		defer t.mu.Unlock()
		t.conflict(a, hints, "an annotation at "+where)
	}
}

func (t *Trail) seal(where string, m manifest.Manifest, h markedBundle) {
	t.mu.Lock()
	for i := range t.sealed {
		if t.sealed[i].bundle.Equal(h.Evidence) {
			t.sealed[i].found = append(t.sealed[i].found, where)
			t.mu.Unlock()
			t.add(where, Act{Kind: sealKind(m), Signer: h.Signer})
			return
		}
	}
	t.sealed = append(t.sealed, foundManifest{m, h.Signer, h.Evidence, []string{where}})
	for _, a := range m.Images() {
		for _, child := range m.Children(a.Name) {
			t.parts[a.Digests.SHA256] = append(t.parts[a.Digests.SHA256], child.Digests.SHA256)
		}
	}
	t.mu.Unlock()
	a := Act{Kind: sealKind(m), Name: m.Name + " " + m.Version.String(), Signer: h.Signer, Ended: m.SealedOn, Result: m.Change}
	if m.Withdrawn != nil {
		a.Result = m.Withdrawn.Reason
	}
	a.Artifacts = slice.Map(m.Artifacts, artifactOf)
	a.trust(manifest.IDsOf(sealRun(m)))
	t.add(where, a)
}

func artifactOf(a manifest.Artifact) Artifact {
	return Artifact{Name: a.Name, SHA256: a.Digests.SHA256, SHA512: a.Digests.SHA512}
}

func sealKind(m manifest.Manifest) Kind {
	switch {
	case m.Withdrawn != nil:
		return Withdrawal
	case m.Revision > 1:
		return Amendment
	}
	return Seal
}

// sealRun is the run that signed a manifest: the last one that did.
func sealRun(m manifest.Manifest) manifest.Run {
	want := map[Kind]string{Seal: manifest.RunSeal, Amendment: manifest.RunAmend, Withdrawal: manifest.RunWithdraw}[sealKind(m)]
	for _, r := range slices.Backward(m.Runs) {
		if r.Kind == want {
			return r
		}
	}
	return manifest.Run{}
}

// isGone reports whether something does not exist, as opposed to being
// unreachable.
func isGone(err error) bool { return errors.Is(err, store.ErrNotFound) }
