package lineage

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Of returns the part of the trail that concerns a target. If no run does, the
// lineage lists what was searched, and there is an error.
func (t *Trail) Of(target Target) (Lineage, error) {
	l := Lineage{Schema: lineageForm, Target: target, Runs: []Run{}}
	all := t.runs()
	releases := t.releases()
	t.checkInitialTraces(all, releases)
	if target.Kind == OfArtifact {
		l.Runs = t.touching(&l.Target, all)
	} else {
		l.Runs = belonging(target.IDs, all)
	}
	for _, r := range l.Runs {
		for _, a := range r.Acts {
			if !a.Upstream {
				l.collect(a.Artifacts)
			}
		}
	}
	if len(l.Runs) > 0 {
		l.Releases = releases
	}
	for _, list := range [][]verdict.Finding{t.findings, t.down} {
		slices.SortFunc(list, func(a, b verdict.Finding) int {
			return cmp.Or(strings.Compare(string(a.Code), string(b.Code)), strings.Compare(a.Subject, b.Subject), strings.Compare(a.Message, b.Message), strings.Compare(a.Got, b.Got))
		})
	}
	slices.Sort(t.notes)
	l.Findings, l.Unasked, l.Notes = t.findings, t.down, t.notes
	if len(l.Runs) == 0 {
		return l, verdict.Refuse(verdict.EvidenceMissing, target.title(), "no run is known that made or moved this").
			Advise("search more places: --state DIR of the machine that made it, --profile FILE with VERSION for a published release, or HOST/PATH@sha256:… and --images for a registry that it was promoted to")
	}
	return l, nil
}

// collect adds artifacts to those of the lineage, each once.
func (l *Lineage) collect(list []Artifact) {
	seen := slice.Set(l.Artifacts, func(a Artifact) Artifact { return a })
	for _, a := range list {
		if !seen[a] {
			seen[a] = true
			l.Artifacts = append(l.Artifacts, a)
		}
	}
}

// belonging returns the runs with one of the ids: as trace, as initial trace,
// or as invocation.
func belonging(ids []trace.ID, all []Run) []Run {
	is := func(id trace.ID) bool { return !id.IsZero() && slices.Contains(ids, id) }
	found := []Run{}
	for _, r := range all {
		named := slices.ContainsFunc(r.Invocations, func(text string) bool {
			id, err := trace.ParseID(text)
			return err == nil && is(id)
		})
		if named || is(r.IDs.Trace) || is(r.IDs.Initial) {
			found = append(found, r)
		}
	}
	return found
}

// touching returns the runs that touched an artifact, with the acts that did,
// and the steps that made its inputs.
func (t *Trail) touching(target *Target, all []Run) []Run {
	t.complete(target)
	touched := map[*Act]bool{} // and whether the target itself was touched
	for i := range all {
		for j := range all[i].Acts {
			if a := &all[i].Acts[j]; t.touches(target, a) {
				touched[a] = true
			}
		}
	}
	upstream(touched, all)
	found := []Run{}
	for _, r := range all {
		var kept []Act
		for j := range r.Acts {
			own, is := touched[&r.Acts[j]]
			if !is {
				continue
			}
			a := r.Acts[j]
			if a.Upstream = !own; own {
				t.narrow(target, &a)
			}
			kept = append(kept, a)
		}
		if len(kept) > 0 {
			r.Others, r.Acts = len(r.Acts)-len(kept), kept
			found = append(found, r)
		}
	}
	return found
}

// complete adds to a target the digests of its name, and the parts of an image.
func (t *Trail) complete(target *Target) {
	if target.Name != "" {
		for _, a := range t.acts {
			for _, made := range a.Artifacts {
				if made.Name == target.Name && !made.SHA256.IsZero() && !slices.Contains(target.Digests, made.SHA256) {
					target.Digests = append(target.Digests, made.SHA256)
				}
			}
		}
	}
	for i := 0; i < len(target.Digests); i++ { // the loop also visits added elements; each is added once
		for _, part := range t.parts[target.Digests[i]] {
			if !slices.Contains(target.Digests, part) {
				target.Digests = append(target.Digests, part)
			}
		}
	}
}

// touches reports whether an act made, signed or moved a target, or whether the
// target is its evidence.
func (t *Trail) touches(target *Target, a *Act) bool {
	if slices.ContainsFunc(target.Digests, a.Evidence.Equal) {
		return true
	}
	return slices.ContainsFunc(a.Artifacts, func(made Artifact) bool { return t.isTarget(target, made) })
}

// isTarget reports whether an artifact is the target. If the user gave a name, an
// artifact with the same bytes and another listed name is not.
func (t *Trail) isTarget(target *Target, made Artifact) bool {
	if !target.names(made) {
		return false
	}
	return target.Name == "" || made.Name == target.Name || !t.lists(made.Name)
}

// lists reports whether a release lists an artifact of this name.
func (t *Trail) lists(name string) bool {
	return slices.ContainsFunc(t.sealed, func(m foundManifest) bool {
		a, is := m.Find(name)
		return is && !a.IsImage() // an image lists platforms, and has other names elsewhere
	})
}

// upstream adds the steps that made the inputs, recursively.
func upstream(touched map[*Act]bool, all []Run) {
	for next := slices.Collect(maps.Keys(touched)); len(next) > 0; {
		a := next[0]
		next = next[1:]
		if a.Kind != Step {
			continue
		}
		for i := range all {
			for j := range all[i].Acts {
				made := &all[i].Acts[j]
				if _, known := touched[made]; !known && made.Kind == Step && made.makes(a.Uses) {
					touched[made] = false
					next = append(next, made)
				}
			}
		}
	}
}

// makes reports whether a step made one of the artifacts.
func (a *Act) makes(list []Artifact) bool {
	return slices.ContainsFunc(a.Artifacts, func(made Artifact) bool {
		return slices.ContainsFunc(list, func(used Artifact) bool { return used.Name == made.Name && made.is(used) })
	})
}

// narrow lists only the target's artifacts of an act, and counts the rest.
func (t *Trail) narrow(target *Target, a *Act) {
	all := a.Artifacts
	a.Artifacts = slices.DeleteFunc(slices.Clone(all), func(made Artifact) bool { return !t.isTarget(target, made) })
	if len(a.Artifacts) == 0 { // the target is the act's evidence
		a.Artifacts = all
	}
	if len(a.Artifacts) < len(all) {
		a.Of = len(all)
	}
}
