package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// expectations say how a release must be built: source, build type and
// parameters.
type expectations struct {
	source fileSource
	types  []string
	params []fileParameter
}

// AllowsSource checks in advance whether the policy could accept a build of a
// repository.
func (h *Session) AllowsSource(repository string) error {
	if got := "git+" + strings.TrimPrefix(repository, "git+"); got != h.Repository() {
		return &verdict.Error{Finding: verdict.Find(verdict.SourceRepo, "source", "the policy does not accept builds of this repository").Differ(h.Repository(), got)}
	}
	return nil
}

// fromSource checks that the build used the canonical source.
func fromSource(m *judgement, f *fact) error {
	claim, err := f.claim()
	if err != nil {
		return err
	}
	if got := claim.Source.Repository; got != m.policy.build.source.Repository {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.SourceRepo, m.q.Subject, "built from another repository").Differ(m.policy.build.source.Repository, got)
		})
	}
	want := m.policy.build.fill(m.policy.build.source.Ref, m.q.Version)
	if got := claim.Source.Ref; want != "" && got != want {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.SourceRef, m.q.Subject, "built from another ref of the repository").Differ(want, got)
		})
	}
	if v := m.policy.build.source.VersionedTag; v != "" && claim.Source.Tagged(v) != nil {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.SourceRef, m.q.Subject, "built from another tag of the repository").Differ("a tag that "+v+" covers", short(claim.Source.Ref))
		})
	}
	if claim.Source.Commit == "" {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.SourceCommit, m.q.Subject, "the provenance names no commit, and a ref can change").Differ("a commit of "+claim.Source.Repository, "none")
		})
	}
	return asCertified(m, f, claim.Source)
}

// asCertified checks that provenance names the source that its signer's
// certificate names, which the platform wrote. What either omits is not compared,
// nor a clone of one machine, which no certificate names.
func asCertified(m *judgement, f *fact, said provenance.Source) error {
	if strings.HasPrefix(said.Repository, "git+file:") {
		return nil
	}
	from := f.certified()
	what, signed, stated := said.Contradiction(from.SourceRepository, from.SourceDigest)
	if what == "" {
		return nil
	}
	return refuse(f, func() verdict.Finding {
		return verdict.Find(verdict.CertStatement, m.q.Subject, "certificate and statement differ in %s", what).Differ(short(signed), short(stated))
	})
}

// ofType checks that the build type is one that the policy lists.
func ofType(m *judgement, f *fact) error {
	claim, err := f.claim()
	if err != nil || m.policy.build.types == nil {
		return err
	}
	if !slices.Contains(m.policy.build.types, claim.BuildType) {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.BuildType, m.q.Subject, "built with another build type").Differ(m.policy.build.types[0], claim.BuildType)
		})
	}
	return nil
}

// withParameters compares every external parameter with the policy. A parameter
// that the policy does not list is refused, because it may have changed what
// was built.
func withParameters(m *judgement, f *fact) error {
	claim, err := f.claim()
	if err != nil || m.policy.build.types == nil {
		return err
	}
	met := map[string]bool{}
	for _, given := range claim.Parameters {
		want, known := m.policy.build.parameter(given.Name)
		if !known {
			return refuse(f, func() verdict.Finding {
				return verdict.Find("PARAM_UNKNOWN", m.q.Subject, "the build used a parameter that the policy does not list").Differ("no parameter "+given.Name, short(string(given.Value)))
			})
		}
		met[want.Name] = true
		if got := plain(given.Value); !m.policy.build.allows(want, got, m.q.Version) {
			return refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.ParamValue, m.q.Subject, "parameter %s has another value", given.Name).Differ(m.policy.build.allowed(want, m.q.Version), short(got))
			})
		}
	}
	for _, p := range m.policy.build.params {
		if !met[p.Name] && !p.Optional {
			return refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.ParamValue, m.q.Subject, "the provenance lacks the required parameter %s", p.Name).Differ(m.policy.build.allowed(p, m.q.Version), "nothing")
			})
		}
	}
	return nil
}

// anyOther is the name of the entry for parameters without one of their own, in
// policies for build types that may get more.
const anyOther = "*"

// parameter finds the entry for a parameter: under its own name, under that of an
// object that contains it and has any: true, or else the one for any other.
func (b *expectations) parameter(name string) (fileParameter, bool) {
	for _, known := range b.params {
		if known.Name == name || known.Any && strings.HasPrefix(name, known.Name+".") {
			return known, true
		}
	}
	i := slices.IndexFunc(b.params, func(p fileParameter) bool { return p.Name == anyOther })
	if i < 0 {
		return fileParameter{}, false
	}
	return b.params[i], true
}

func (b *expectations) allows(want fileParameter, got, version string) bool {
	if want.Any {
		return true
	}
	return slices.ContainsFunc(append(slices.Clone(want.OneOf), want.Is), func(text string) bool {
		return text != "" && b.fill(text, version) == got
	})
}

func (b *expectations) allowed(want fileParameter, version string) string {
	switch {
	case want.Any:
		return "any value"
	case want.Is != "":
		return b.fill(want.Is, version)
	}
	return "one of " + strings.Join(slice.Map(want.OneOf, func(text string) string { return b.fill(text, version) }), ", ")
}

// fill replaces the placeholders in a text of the policy.
func (b *expectations) fill(text, version string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	text = strings.ReplaceAll(text, "{ref}", b.source.Ref)
	text = strings.ReplaceAll(text, "{repository}", b.source.Repository)
	return strings.ReplaceAll(text, "{version}", version)
}

// plain returns a JSON value as text, strings without quotes.
func plain(raw json.RawMessage) (s string) {
	if json.Unmarshal(raw, &s) == nil {
		return s
	}
	return string(raw)
}

const maxShort = 200

func short(s string) string {
	if len(s) > maxShort {
		return s[:maxShort] + "…"
	}
	return s
}

// claimsOf formats those claims of a certificate that the policy requires.
func claimsOf(c identity.Claims, asked map[string]string) string {
	said := map[string]string{}
	for name, value := range c.All() {
		if _, is := asked[name]; is {
			said[name] = value
		}
	}
	return fmt.Sprint(said)
}

// dependencies lists what the build used, according to its provenance.
func dependencies(c provenance.Claim) []DependencyView {
	list := make([]DependencyView, len(c.Dependencies))
	for i, d := range c.Dependencies {
		list[i] = DependencyView{Name: d.Name, URI: d.URI, SHA256: d.Digest["sha256"]}
	}
	return list
}
