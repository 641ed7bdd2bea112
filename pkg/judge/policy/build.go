package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// expectations are of a build: of which source it is, of which type, and with
// which parameters.
type expectations struct {
	source fileSource
	types  []string
	params []fileParameter
}

// AllowsSource says beforehand whether a build of a repository could be of the
// canonical source.
func (p Policy) AllowsSource(repository string) error {
	if got := "git+" + strings.TrimPrefix(repository, "git+"); got != p.build.source.Repository {
		return &verdict.Error{Finding: verdict.Find(verdict.SourceRepo, "source", "the policy takes no release that is built from this repository").Differ(p.build.source.Repository, got)}
	}
	return nil
}

// fromSource asks whether the build was of the canonical source.
func fromSource(m *matter, f *Fact) error {
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
	if claim.Source.Commit == "" {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.SourceCommit, m.q.Subject, "the provenance names no commit; a ref can move").Differ("a commit of "+claim.Source.Repository, "none")
		})
	}
	return nil
}

// ofType asks for a build type whose parameters the policy knows.
func ofType(m *matter, f *Fact) error {
	claim, err := f.claim()
	if err != nil || m.policy.build.types == nil {
		return err
	}
	if !slices.Contains(m.policy.build.types, claim.BuildType) {
		return refuse(f, func() verdict.Finding {
			return verdict.Find(verdict.BuildType, m.q.Subject, "the build was of another kind").Differ(m.policy.build.types[0], claim.BuildType)
		})
	}
	return nil
}

// withParameters holds every external parameter against the policy. One that
// the policy does not know refuses: it may have changed what was built.
func withParameters(m *matter, f *Fact) error {
	claim, err := f.claim()
	if err != nil || m.policy.build.types == nil {
		return err
	}
	met := map[string]bool{}
	for _, given := range claim.Parameters {
		want, known := m.policy.build.parameter(given.Name)
		if !known {
			return refuse(f, func() verdict.Finding {
				return verdict.Find(verdict.ParamUnknown, m.q.Subject, "the build had a parameter that the policy does not know").Differ("no parameter "+given.Name, short(string(given.Value)))
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
				return verdict.Find(verdict.ParamValue, m.q.Subject, "the build does not say parameter %s", p.Name).Differ(m.policy.build.allowed(p, m.q.Version), "nothing")
			})
		}
	}
	return nil
}

// parameter finds what the policy says of a parameter: of its own name, or of
// the object that it is in, where any: true stands for all of that.
func (b *expectations) parameter(name string) (fileParameter, bool) {
	for _, known := range b.params {
		if known.Name == name || known.Any && strings.HasPrefix(name, known.Name+".") {
			return known, true
		}
	}
	return fileParameter{}, false
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
	texts := make([]string, len(want.OneOf))
	for i, text := range want.OneOf {
		texts[i] = b.fill(text, version)
	}
	return "one of " + strings.Join(texts, ", ")
}

// fill puts the release into the texts of a policy.
func (b *expectations) fill(text, version string) string {
	if !strings.Contains(text, "{") {
		return text
	}
	text = strings.ReplaceAll(text, "{ref}", b.source.Ref)
	text = strings.ReplaceAll(text, "{repository}", b.source.Repository)
	return strings.ReplaceAll(text, "{version}", version)
}

// plain is a JSON value as text: strings without their quotes.
func plain(raw json.RawMessage) string {
	var s string
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

// claimsOf prints those of a certificate's claims that were asked about.
func claimsOf(c identity.Claims, asked map[string]string) string {
	said := map[string]string{}
	for name, value := range c.All() {
		if _, is := asked[name]; is {
			said[name] = value
		}
	}
	return fmt.Sprint(said)
}

// dependencies are what provenance says that the build used.
func dependencies(c provenance.Claim) []DependencyView {
	list := make([]DependencyView, len(c.Dependencies))
	for i, d := range c.Dependencies {
		list[i] = DependencyView{Name: d.Name, URI: d.URI, SHA256: d.Digest["sha256"]}
	}
	return list
}
