package plan

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Parse reads a plan that was printed as JSON, and applies the same rules as
// for a new plan. Anyone can have written it; only an expanded release.yaml is
// the plan of a release.
func Parse(raw []byte) (p Plan, err error) {
	if err := strictjson.Unmarshal(raw, &p); err != nil {
		return Plan{}, verdict.Wrap(verdict.ConfigParse, "plan", err)
	}
	refuse := func(format string, args ...any) (Plan, error) {
		return Plan{}, verdict.Refuse(verdict.ConfigParse, "plan", format, args...)
	}
	switch {
	case p.Schema != planSchema:
		return refuse("schema %s, want %s; print it again with waybill plan --output json", quote(p.Schema), planSchema)
	case p.Version.IsZero() || p.Name == "" || len(p.Steps) == 0 || len(p.Artifacts) == 0:
		return refuse("name, version, steps and artifacts are required")
	case len(p.Artifacts) > maxArtifacts:
		return refuse("%d artifacts, more than %d", len(p.Artifacts), maxArtifacts)
	}
	for i, s := range p.Steps {
		if len(s.Outputs) == 0 {
			return refuse("step %d has no output", i)
		}
	}
	if !slices.IsSortedFunc(p.Artifacts, func(a, b Artifact) int { return strings.Compare(a.Name, b.Name) }) {
		return refuse("the artifacts are not sorted by name")
	}
	if err := p.check(); err != nil {
		return Plan{}, verdict.Wrap(verdict.ConfigParse, "plan", err)
	}
	return p, nil
}

// Releases are the releases of one run: one for each version, each with its own
// plan, manifest and places.
type Releases []Plan

// NewReleases refuses releases that would overwrite each other.
func NewReleases(plans ...Plan) (Releases, error) {
	if len(plans) == 0 {
		return nil, invalid("VERSION", "no version was given")
	}
	files := map[string]string{}
	for _, p := range plans {
		at := p.Version.String()
		if other, taken := files[p.Files]; taken {
			return nil, invalid(at, "%s and %s would both be published at %s", other, at, p.Files)
		}
		files[p.Files] = at
	}
	return plans, nil
}

// Count is how many artifacts there will be in all releases.
func (r Releases) Count() (n int) {
	for _, p := range r {
		n += len(p.Artifacts)
	}
	return n
}

// String names the releases.
func (r Releases) String() string {
	return strings.Join(slice.Map(r, func(p Plan) string { return fmt.Sprintf("%s %s", p.Name, p.Version) }), ", ")
}
