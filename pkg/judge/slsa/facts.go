package slsa

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
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
	source   sourceFacts
	rebuilds []digest.Digest
	declared map[string]Declaration
}

// sourceFacts is what a verification summary states about the revision.
type sourceFacts struct {
	level    int
	reviewed bool
	evidence []digest.Digest
	why      string // why the level is 0
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
	least, known := declarable()[d.Requirement]
	switch {
	case !known:
		return fmt.Errorf("%q cannot be declared, want one of %v", d.Requirement, slices.Sorted(maps.Keys(declarable())))
	case d.By == "" || d.Until.IsZero() || d.Evidence.IsZero():
		return fmt.Errorf("the declaration of %s lacks who makes it, its end, or its document", d.Requirement)
	case d.UpTo < least || d.UpTo > 4:
		return fmt.Errorf("the declaration of %s counts up to level %d, want %d to 4", d.Requirement, d.UpTo, least)
	}
	return nil
}

func (f *facts) declare(list []Declaration) error {
	for _, d := range list {
		if err := d.Check(); err != nil {
			return verdict.Wrap(verdict.Usage, "declaration", err)
		}
		f.declared[d.Requirement] = d
	}
	return nil
}

func (f *facts) trust(t Trust, e signed) {
	f.pair, f.known = t.pair(e, f.claim.Builder.ID)
}

// signerOf names the signer.
func signerOf(e signed) string {
	if !e.Key().IsZero() {
		return "key " + e.Key().String()
	}
	return e.Identity().String()
}

// level is the highest Build level that the trust map allows the signer for the
// builder.
func (f *facts) level() int { return f.pair.Level }

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

// judgeSource accepts a source summary only if its signer may sign for its
// verifier, and it covers the revision that a trusted builder built.
func (f *facts) judgeSource(t Trust, q question) error {
	e := q.source
	f.source.why = cmp.Or(q.NoSource, "a verification summary of the source revision")
	if e.IsZero() {
		return nil
	}
	s, err := vsa.Parse(e.Statement())
	if err != nil {
		return err
	}
	said, stated := s.Level(vsa.TrackSource)
	most := t.verifier(e.Identity(), s.Verifier.ID)
	switch {
	case f.local():
		f.source.why = noCanonicalSource
	case f.level() < 2:
		f.source.why = "a builder that is trusted to name the revision it built"
	case f.claim.Source.Commit == "" || !namesCommit(s, f.claim.Source.Commit):
		f.source.why = fmt.Sprintf("a verification summary of revision %q; the given one is of another", f.claim.Source.Commit)
	case s.ResourceURI != f.claim.Source.Repository:
		f.source.why = fmt.Sprintf("a verification summary of repository %q; the given one is of another", f.claim.Source.Repository)
	case most == 0:
		f.source.why = fmt.Sprintf("a trusted verifier of sources; %s may not sign for %q", e.Identity(), s.Verifier.ID)
	case s.Result != vsa.Passed || !stated:
		f.source.why = "a passed verification summary that states a level of the Source track"
	default:
		f.source = sourceFacts{
			level: min(said, most), evidence: []digest.Digest{e.Bundle()},
			reviewed: most >= reviewLevel && slices.Contains(s.Levels, twoParty),
			why:      fmt.Sprintf("a higher level; the verifier states %d and is trusted up to %d", said, most),
		}
	}
	return nil
}

func namesCommit(s vsa.Summary, commit string) bool {
	return slices.ContainsFunc(s.Statement().Resources(), func(r intoto.Resource) bool { return r.Digest["gitCommit"] == commit })
}

// countRebuilds counts other builders of the same bytes from the same source,
// each signer and each builder once, without the first builder.
func (f *facts) countRebuilds(t Trust, q question) error {
	if f.level() == 0 {
		return nil
	}
	signers, builders := []string{f.signer}, []string{f.claim.Builder.ID}
	for _, e := range q.rebuilds {
		if e.IsZero() || !q.binds(e.Statement()) {
			continue
		}
		c, err := provenance.Read(e.Statement())
		if err != nil {
			return err
		}
		who, id := signerOf(e), c.Builder.ID
		p, _ := t.pair(e, id)
		if p.Level == 0 || c.Source != f.claim.Source || slices.Contains(signers, who) || slices.Contains(builders, id) {
			continue
		}
		signers, builders = append(signers, who), append(builders, id)
		f.rebuilds = append(f.rebuilds, e.Bundle())
	}
	return nil
}
