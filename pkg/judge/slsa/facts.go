package slsa

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/buildrecord"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/osps"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// facts are the inputs of the requirements. The zero facts meet no requirement.
type facts struct {
	given    bool // there is provenance, for any artifact
	exists   bool // there is provenance for this artifact
	signed   bool // the provenance is signed
	signer   string
	known    bool // the trust map has an entry for the builder
	pair     Pair // the entry for signer and builder; zero if there is none
	claim    provenance.Claim
	lint     []provenance.Note
	evidence []digest.Digest
	rebuilt  []digest.Digest
	source   sourceFacts
	declared map[string][]Declaration
}

// sourceFacts is what a verification summary states about the revision.
type sourceFacts struct {
	level    int
	reviewed bool
	evidence []digest.Digest
	why      string // why the level is 0
	clone    string // how a clone shows level 1
}

// twoParty is the property of a revision that two people approved.
const twoParty vsa.Level = "SLSA_SOURCE_TWO_PARTY_REVIEWED"

// reviewLevel is the Source level that requires two parties. A verifier that is
// trusted for less cannot confirm it.
const reviewLevel = 4

// declarable lists the requirements of [V01] that only people can assess, and the
// lowest level that requires each.
func declarable() map[string]int {
	return map[string]int{
		"source.retained": 3, "source.retained-indefinitely": 4, "common.security": 4, "common.access": 4, "common.superusers": 4,
	}
}

// Check refuses a declaration of something else, one that has no effect, and one
// without author, end or document.
func (d Declaration) Check() error {
	if d.NotImplementable {
		if !slices.ContainsFunc(v01(), func(r requirement) bool { return r.id == d.Requirement }) {
			return fmt.Errorf("%q is no requirement of %s", d.Requirement, V01)
		}
		if d.By == "" || d.Reason == "" || d.UpTo != 0 || !d.Until.IsZero() {
			return fmt.Errorf("that %s is not implementable needs by and reason, and has neither until nor levels: it counts towards no level", d.Requirement)
		}
		return nil
	}
	least, known := declarable()[d.Requirement]
	switch {
	case isControl(d.Requirement) && d.UpTo != 0:
		return fmt.Errorf("%s is a control of the OpenSSF Baseline, which counts towards no level; leave levels out", d.Requirement)
	case isControl(d.Requirement):
	case !known:
		return fmt.Errorf("%q cannot be declared, want a control of the OpenSSF Baseline or one of %v", d.Requirement, slices.Sorted(maps.Keys(declarable())))
	case d.UpTo < least || d.UpTo > 4:
		return fmt.Errorf("the declaration of %s counts up to level %d, want %d to 4", d.Requirement, d.UpTo, least)
	}
	if d.Lacks == "" && (d.By == "" || d.Until.IsZero() || d.Evidence.IsZero()) {
		return fmt.Errorf("the declaration of %s lacks who makes it, its end, or its document", d.Requirement)
	}
	return nil
}

// isControl reports whether a requirement is a control of the OpenSSF Baseline,
// such as OSPS-GV-03.01. People declare those that no program can check.
func isControl(id string) bool { return osps.Names(id) }

// lacks says what is missing for a declaration to count; empty if nothing is. A
// signed declaration about the source names its repository, and one about the
// platform its builder.
func (f *facts) lacks(d Declaration) string {
	what, want := "builder", f.claim.Builder.ID
	if strings.HasPrefix(d.Requirement, "source.") || isControl(d.Requirement) {
		what, want = "repository", f.claim.Source.Repository
	}
	switch {
	case d.Lacks != "" || d.About == "":
		return d.Lacks
	case f.level() < 2:
		return "a builder that is trusted to name the revision it built"
	case d.About != want:
		return fmt.Sprintf("a declaration about the %s %s, which the provenance names; that of %s is about %s", what, quote(want), quote(d.By), quote(d.About))
	}
	return ""
}

func (f *facts) declare(list []Declaration) error {
	for _, d := range list {
		if err := d.Check(); err != nil {
			return verdict.Wrap(verdict.Usage, "declaration", err)
		}
		f.declared[d.Requirement] = append(f.declared[d.Requirement], d)
	}
	return nil
}

func signerOf(e signed) string {
	if !e.Key().IsZero() {
		return "key " + e.Key().String()
	}
	return e.Identity().String()
}

// level is the highest Build level that the trust map allows the signer for the
// builder, and that such provenance can show.
func (f *facts) level() int {
	return min(f.pair.Level, buildrecord.MostLevel(f.claim.Builder.ID, f.claim.BuildType))
}

// noted reports whether the provenance has this contradiction.
func (f *facts) noted(code string) bool {
	return slices.ContainsFunc(f.lint, func(n provenance.Note) bool { return n.Code == code })
}

// unisolated reports whether provenance of our build type says that its steps
// were not isolated.
func (f *facts) unisolated() bool {
	if f.claim.BuildType != provenance.BuildType {
		return false
	}
	mode, _ := f.claim.InternalParameter("isolation")
	apart := string(mode) == `"isolated"` || string(mode) == `"control-plane"` // which runs no code of the source
	return !apart || f.claim.Builder.ID == provenance.BuilderUnisolated
}

// saidHermetic is what provenance of our build type says about its own step:
// whether it had no network, and all its inputs were fixed by digest.
func (f *facts) saidHermetic() provenance.Said {
	said, ok := f.claim.InternalParameter("hermetic")
	switch {
	case f.claim.BuildType != provenance.BuildType || !ok:
		return provenance.NotSaid
	case string(said) == "true":
		return provenance.SaidYes
	}
	return provenance.SaidNo
}

// local reports whether the source is a directory of one machine. The owner of
// that machine can rewrite its history, and other people cannot fetch the
// commit.
func (f *facts) local() bool { return strings.HasPrefix(f.claim.Source.Repository, "git+file:") }

// noCanonicalSource is the missing requirement for a local source.
const noCanonicalSource = "a canonical source; a git+file:// URL is local to one machine"

// sourceSummary is a summary of the revision by a trusted verifier, and its
// signer.
type sourceSummary struct {
	vsa.Summary
	testimony
	most int // highest level that the verifier may state
}

// judgeSources accepts a source summary only if its signer may sign for its
// verifier, and it covers the revision that a trusted builder built. Of several
// the one that shows most counts.
func (f *facts) judgeSources(t Trust, q question) error {
	f.source.why = cmp.Or(q.NoSource, "a verification summary of the source revision")
	var list []sourceSummary
	for _, e := range q.sources {
		if e.IsZero() {
			continue
		}
		s, err := vsa.Parse(e.Statement())
		if err != nil {
			return err
		}
		one := sourceSummary{s, e, t.verifier(e.Identity(), s.Verifier.ID)}
		if why := f.notAbout(one); why != "" {
			f.source.why = why
			continue
		}
		list = append(list, one)
	}
	for _, one := range list {
		replaced := slices.ContainsFunc(list, func(o sourceSummary) bool { return o.Verifier.ID == one.Verifier.ID && o.replaces(one) })
		if found := one.facts(); !replaced && (f.source.level == 0 || found.shows(f.source)) {
			found.clone, f.source = f.source.clone, found
		}
	}
	return nil
}

// notAbout says what is missing for a summary to be about the revision, by a
// trusted verifier; empty if nothing is.
func (f *facts) notAbout(s sourceSummary) string {
	switch {
	case f.local():
		return noCanonicalSource
	case f.level() < 2:
		return "a builder that is trusted to name the revision it built"
	case f.claim.Source.Commit == "" || !slices.ContainsFunc(s.Summary.Statement().Resources(), func(r intoto.Resource) bool { return r.Digest["gitCommit"] == f.claim.Source.Commit }):
		return fmt.Sprintf("a verification summary of revision %q; the given one is of another", f.claim.Source.Commit)
	case s.ResourceURI != f.claim.Source.Repository:
		return fmt.Sprintf("a verification summary of repository %q; the given one is of another", f.claim.Source.Repository)
	case s.most == 0:
		return fmt.Sprintf("a trusted verifier of sources; %s may not sign for %q", s.Identity(), s.Verifier.ID)
	}
	return ""
}

// replaces reports whether a summary is later than another. Of two at the same
// time the one that did not pass counts.
func (s sourceSummary) replaces(o sourceSummary) bool {
	return s.Verified.After(o.Verified) || s.Verified.Equal(o.Verified) && s.Result != vsa.Passed && o.Result == vsa.Passed
}

func (s sourceSummary) facts() sourceFacts {
	said, stated := s.Level(vsa.TrackSource)
	if s.Result != vsa.Passed || !stated {
		return sourceFacts{why: "a passed verification summary that states a level of the Source track"}
	}
	return sourceFacts{
		level: min(said, s.most), evidence: []digest.Digest{s.Bundle()},
		reviewed: s.most >= reviewLevel && slices.Contains(s.Levels, twoParty),
		why:      fmt.Sprintf("a higher level; the verifier states %d and is trusted up to %d", said, s.most),
	}
}

// shows reports whether these facts show more than others.
func (s sourceFacts) shows(o sourceFacts) bool {
	return s.level > o.level || s.level == o.level && s.reviewed && !o.reviewed
}
