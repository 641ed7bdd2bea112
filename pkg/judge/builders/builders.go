// Package builders is the list of known builders: who signs the provenance of
// each, and the highest SLSA Build level that its documentation claims. The list
// in builders.json changes only with a release of this program; a file of the
// user adds builders, and cannot change or widen an entry.
//
// The delegators of slsa-github-generator sign for workflows of others, whose id
// they write into the provenance: such an entry has the workflow as id and the
// delegator as signer.
//
// Other projects should not import this package: it changes without notice.
package builders

import (
	_ "embed" // for the list
	"fmt"
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed builders.json
var embedded []byte

// Builder is a builder, and who signs for it: an identity, or a key by its
// digest. ID and Signer are patterns of the whole text.
type Builder struct {
	ID     string        `yaml:"id" json:"id"`
	Issuer string        `yaml:"issuer" json:"issuer,omitempty"`
	Signer string        `yaml:"signer" json:"signer,omitempty"`
	Runner string        `yaml:"runner" json:"runner,omitempty"` // the certificate must claim it; empty for any but self-hosted
	Key    digest.Digest `yaml:"key" json:"key,omitzero"`
	Level  int           `yaml:"level" json:"level"`
	Source string        `yaml:"source" json:"source"` // the page that claims the level
}

// List is a list of known builders. The zero List knows none.
type List []Builder

// Read reads the list of this program and, before it, the builders of a file,
// unless it is nil.
func Read(file []byte) (List, error) {
	l, err := List{}.read(embedded)
	if err == nil && file != nil {
		l, err = l.read(file)
	}
	if err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, "--builders", err)
	}
	return l, nil
}

// read puts the builders of a file before the list. Only the list of this program
// has signers that everybody can be, at its end.
func (l List) read(raw []byte) (List, error) {
	var f struct {
		APIVersion string `yaml:"apiVersion"`
		Kind       string `yaml:"kind"`
		Builders   List   `yaml:"builders"`
	}
	err := strictyaml.Unmarshal(raw, &f)
	if err == nil && (f.APIVersion != "waybill/v1" || f.Kind != "Builders" || len(f.Builders) == 0) {
		err = fmt.Errorf("apiVersion %.40q, kind %.40q, builders %d: want waybill/v1, Builders and at least one entry", f.APIVersion, f.Kind, len(f.Builders))
	}
	if err != nil {
		return nil, err
	}
	own := len(l) == 0
	l = append(f.Builders, l...)
	for i, b := range f.Builders {
		if err := b.check(own); err != nil {
			return nil, fmt.Errorf("builder %.200q: %w", b.ID, err)
		}
		for _, other := range l[i+1:] {
			switch {
			case b.ID == other.ID, !other.weak() && matches(other.ID, strings.ReplaceAll(b.ID, `\`, "")):
				return nil, fmt.Errorf("builder %.200q: two entries", b.ID)
			case other.Level != b.Level && other.Signer == b.Signer && other.Key == b.Key:
				return nil, fmt.Errorf("builder %.200q: its signer also signs for %.200q, which has another level", b.ID, other.ID)
			}
		}
	}
	return l, nil
}

func (b Builder) check(own bool) (err error) {
	id, wrong := regexp.Compile(b.ID)
	if wrong != nil {
		return wrong
	}
	_, one := id.LiteralPrefix()
	switch {
	case b.ID == "" || b.Level < 1 || b.Level > 3 || !strings.HasPrefix(b.Source, "https://"):
		return fmt.Errorf("level %d, source %.200q: want an id, a level from 1 to 3, and the https address of the page that claims it", b.Level, b.Source)
	case !b.Key.IsZero() && b.Issuer+b.Signer+b.Runner != "":
		return fmt.Errorf("want a key, or issuer and signer")
	case !own && !one && len(identity.LintPattern(b.ID, identity.URI)) > 0: // a delegator signs for the workflows of everybody
		return fmt.Errorf("id: %s", strings.Join(identity.LintPattern(b.ID, identity.URI), "; "))
	case b.Key.IsZero() && !own:
		_, err = identity.Pattern(b.Issuer, b.Signer, identity.URI)
	}
	return err
}

// weak reports whether everybody can be the signer, as with GitHub's workflows.
func (b Builder) weak() bool {
	return b.Key.IsZero() && len(identity.LintPattern(b.Signer, identity.URI)) > 0
}

func matches(pattern, name string) bool {
	return regexp.MustCompile(`\A(?:` + pattern + `)\z`).MatchString(name)
}

// Evidence is verified provenance.
type Evidence interface {
	Identity() identity.Identity
	Claims() identity.Claims
	Key() digest.Digest
	Statement() intoto.Statement
}

// Find finds the entry for the signer of provenance and the builder that it
// names. Where an entry has one text for id and signer, they must be equal. A
// signer whom an entry names is not judged by a weak entry. The zero Pair is none.
func (l List) Find(e Evidence) (pair slsa.Pair, source string) {
	said, err := provenance.Read(e.Statement())
	named := false
	for _, b := range l {
		if err != nil || !b.signed(e) || named && b.weak() {
			continue
		}
		if id := said.Builder.ID; matches(b.ID, id) && (b.ID != b.Signer || id == e.Identity().Subject) {
			pair = slsa.Pair{BuilderID: id, Level: b.Level, Key: b.Key}
			if b.Key.IsZero() {
				pair.Signer, _ = identity.Exact(e.Identity()) // a zero matcher matches no identity
			}
			return pair, b.Source
		}
		named = named || !b.weak()
	}
	return slsa.Pair{}, ""
}

// signed reports whether the signer of the entry made the evidence.
func (b Builder) signed(e Evidence) bool {
	who := e.Identity()
	return e.Key() == b.Key && (!b.Key.IsZero() || who.Issuer == b.Issuer && who.Type == identity.URI && matches(b.Signer, who.Subject) &&
		(b.Runner == e.Claims().RunnerEnvironment || b.Runner == "" && e.Claims().RunnerEnvironment != "self-hosted"))
}
