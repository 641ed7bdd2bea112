package lineage

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// unknownRun groups acts with neither a trace nor an invocation.
const unknownRun = "?"

// key groups acts into one run: by trace or, if they are older than traces, by
// invocation.
func key(ids trace.IDs, invocation string) string {
	switch {
	case !ids.Trace.IsZero():
		return ids.Trace.String()
	case invocation != "":
		return "invocation " + invocation
	}
	return unknownRun
}

// runs groups everything that was found into runs, ordered by their beginning.
func (t *Trail) runs() []Run {
	t.addManifestIDs()
	byKey := map[string]*Run{}
	var order []string
	of := func(k string, ids trace.IDs) *Run {
		r := byKey[k]
		if r == nil {
			r = &Run{IDs: trace.IDs{Trace: ids.Trace}}
			byKey[k] = r
			order = append(order, k)
		}
		return r
	}
	for i := range t.sealed {
		for _, listed := range t.sealed[i].Runs {
			r := of(key(manifest.IDsOf(listed), listed.ID), manifest.IDsOf(listed))
			t.addIDs(r, manifest.IDsOf(listed), t.sealed[i].Mark)
			r.Kinds = with(r.Kinds, listed.Kind)
			r.Command = cmp.Or(r.Command, manifest.CommandOf(listed))
			if listed.ID != listed.TraceID {
				r.Invocations = with(r.Invocations, listed.ID)
			}
		}
	}
	slices.SortFunc(t.acts, byTime)
	for _, a := range t.acts {
		slices.Sort(a.Found)
		r := of(key(a.IDs, a.Invocation), a.IDs)
		t.addIDs(r, a.IDs, a.Traced)
		r.Invocations = with(r.Invocations, a.Invocation)
		if a.Kind != Command {
			r.By = with(r.By, a.By)
		} else if r.Command == "" {
			r.Command = strings.Join(a.words(), " ")
		}
		r.Acts = append(r.Acts, *a)
	}
	list := make([]Run, 0, len(order))
	for _, k := range order {
		r := byKey[k]
		r.close()
		list = append(list, *r)
	}
	slices.SortFunc(list, func(a, b Run) int {
		if a.Began.IsZero() != b.Began.IsZero() { // acts without a time come last
			return cmp.Compare(b.Began.Unix(), a.Began.Unix())
		}
		return cmp.Or(a.Began.Compare(b.Began), strings.Compare(a.IDs.Trace.String(), b.IDs.Trace.String()))
	})
	return list
}

// rank is the usual order within a run of acts of this kind.
func (k Kind) rank() int {
	return slices.Index([]Kind{Command, Step, Statement, Signature, Seal, Amendment, Withdrawal, Promotion, Summary}, k)
}

// addManifestIDs gives trace ids to acts that have none, if a verified manifest tells
// them: a signature that the manifest lists was made in its only run that
// signs.
func (t *Trail) addManifestIDs() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.sealed {
		m := &t.sealed[i]
		m.name(t.acts)
		if m.Mark != Verified {
			continue
		}
		var signing []trace.IDs
		for _, r := range m.Runs {
			ids := trace.IDs{Trace: manifest.IDsOf(r).Trace, Initial: manifest.IDsOf(r).Initial}
			if r.Kind == "sign" && !ids.Trace.IsZero() && !slices.Contains(signing, ids) {
				signing = append(signing, ids)
			}
		}
		listed := m.evidence()
		for _, a := range t.acts {
			if a.Kind == Signature && a.Mark == Verified && a.Traced != Verified && listed[a.Evidence.String()] {
				t.place(a, signing)
			}
		}
	}
}

// name adds the name of an image from a manifest to acts that have only its
// digest.
func (m *foundManifest) name(acts []*Act) {
	names := map[string]string{}
	for _, a := range m.Images() {
		names[a.Digests.SHA256.String()] = a.Name
	}
	for _, a := range acts {
		for i := range a.Artifacts {
			if made := &a.Artifacts[i]; made.Name == "" {
				made.Name = names[made.SHA256.String()]
			}
		}
	}
}

// evidence are the signatures that a manifest lists, by the digests of their
// bundles.
func (m *foundManifest) evidence() map[string]bool {
	listed := map[string]bool{}
	for _, a := range m.Artifacts {
		if a.IsImage() {
			listed[a.Signature] = true
		} else {
			listed[a.Digests.SHA256.String()] = true
		}
	}
	return listed
}

// place puts a signature into the signing run of the manifest that lists it. If
// there are several such runs, only a hint can choose one.
func (t *Trail) place(a *Act, signing []trace.IDs) {
	hinted := slices.ContainsFunc(signing, func(ids trace.IDs) bool { return ids.Trace == a.IDs.Trace })
	switch {
	case len(signing) == 0 || len(signing) > 1 && (hinted || a.IDs.IsZero()):
	case len(signing) == 1:
		said := a.IDs
		a.IDs, a.Traced = signing[0], Verified
		if differ(a.IDs, said) {
			t.conflict(a, said, "an annotation")
		} else if said.Trace == a.IDs.Trace {
			a.IDs.Span = said.Span
		}
	default:
		t.conflict(&Act{Kind: a.Kind, Artifacts: a.Artifacts, IDs: signing[0], Signer: a.Signer}, a.IDs, "an annotation")
		a.IDs, a.Traced = trace.IDs{}, ""
	}
}

// addIDs adds what an act says about the beginning of a run. Verified ids take
// precedence over hints, and contradictions are findings.
func (t *Trail) addIDs(r *Run, said trace.IDs, mark Mark) {
	if said.Trace.IsZero() {
		return
	}
	was := r.Mark
	if mark == Verified || was == "" {
		r.Mark = mark
	}
	switch {
	case said.Initial.IsZero() || said.Initial == r.IDs.Initial:
	case r.IDs.Initial.IsZero():
		r.IDs.Initial = said.Initial
	default:
		kept, other := r.IDs.Initial, said.Initial
		if mark == Verified && was != Verified {
			r.IDs.Initial, kept, other = said.Initial, said.Initial, r.IDs.Initial
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		t.contradict(verdict.Find(verdict.TraceConflict, "run "+r.IDs.Trace.String(), "its acts name two initial traces").Differ(kept.String(), other.String()))
	}
}

// byTime orders acts by time, independent of the order in which they were
// found.
func byTime(a, b *Act) int {
	if a.when().IsZero() != b.when().IsZero() { // acts without a time come last
		return cmp.Compare(b.when().Unix(), a.when().Unix())
	}
	// Signed times are whole seconds; within one, use the usual order.
	return cmp.Or(a.when().Truncate(time.Second).Compare(b.when().Truncate(time.Second)), cmp.Compare(a.Kind.rank(), b.Kind.rank()),
		a.when().Compare(b.when()), strings.Compare(a.Name, b.Name), strings.Compare(a.first(), b.first()), strings.Compare(a.Evidence.String(), b.Evidence.String()))
}

// first is the name of the first artifact of an act.
func (a *Act) first() string {
	if len(a.Artifacts) == 0 {
		return ""
	}
	return a.Artifacts[0].Name
}

// close sets the beginning and end of a run.
func (r *Run) close() {
	for _, a := range r.Acts {
		if at := a.when(); !at.IsZero() && (r.Began.IsZero() || at.Before(r.Began)) {
			r.Began = at
		}
		if at := a.until(); at.After(r.Ended) {
			r.Ended = at
		}
	}
}

// releases are the releases that were found, with their initial trace: from the
// manifest, or from a note.
func (t *Trail) releases() (list []Release) {
	for _, m := range t.sealed {
		r := Release{
			Name: m.Name, Version: m.Version.String(), Commit: m.Source.Commit, Revision: m.Revision,
			Initial: manifest.OriginOf(m.Manifest), Mark: m.Mark, Found: m.found,
		}
		for _, b := range t.began {
			if r.Initial.IsZero() || b.ids.Initial.IsZero() || b.ids.Initial == r.Initial || !slices.Contains(m.found, b.where) {
				continue
			}
			t.contradict(verdict.Find(verdict.TraceConflict, r.Name+" "+r.Version, "the notes of the %s directory name another initial trace", b.where).
				Differ(r.Initial.String(), b.ids.Initial.String()))
		}
		list = append(list, r)
	}
	slices.SortStableFunc(list, func(a, b Release) int { return cmp.Compare(a.Revision, b.Revision) })
	return list
}

// checkInitialTraces compares the initial trace that each run names with those of the
// releases that it touched.
func (t *Trail) checkInitialTraces(runs []Run, releases []Release) {
	for _, rel := range releases {
		for _, r := range runs {
			if rel.Mark != Verified || rel.Initial.IsZero() || r.IDs.Initial.IsZero() || r.IDs.Initial == rel.Initial {
				continue
			}
			t.contradict(verdict.Find(verdict.TraceConflict, "run "+r.IDs.Trace.String(), "the run names another initial trace than %s %s", rel.Name, rel.Version).
				Differ(rel.Initial.String(), r.IDs.Initial.String()))
		}
	}
}

// with adds a word to a list, unless it is there.
func with(list []string, word string) []string {
	if word == "" || slices.Contains(list, word) {
		return list
	}
	return append(list, word)
}

// span is how long a run took.
func (r Run) span() time.Duration { return r.Ended.Sub(r.Began) }
