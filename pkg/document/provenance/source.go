package provenance

import (
	"cmp"
	"strings"

	"golang.org/x/mod/semver"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// layout says where the parameters of a known build type name the source and
// the instructions. Those parameters do not count for a parameterless build.
type layout struct {
	buildType             string
	repository, ref, path string
	own                   []string
}

// layouts returns the known build types.
var layouts = []layout{
	{BuildType, "config.repository", "config.ref", "config.path", []string{"config.", "step", "each."}},
	{"https://actions.github.io/buildtypes/workflow/v1", "workflow.repository", "workflow.ref", "workflow.path", []string{"workflow."}},
	{"https://slsa-framework.github.io/github-actions-buildtypes/workflow/v1", "workflow.repository", "workflow.ref", "workflow.path", []string{"workflow."}},
	{"https://cloud.google.com/build/gcb-buildtypes/google-worker/v1", "buildConfigSource.repository", "buildConfigSource.ref", "buildConfigSource.path", []string{"buildConfigSource."}},
}

// cloudBuildV01 is the build type with which Google Cloud Build repeats the
// whole request in the arguments; only substitutions with an underscore are the
// user's.
const (
	cloudBuildV01   = "https://cloudbuild.googleapis.com/CloudBuildYaml@v0.1"
	substitutions   = "substitutions."
	userSubstituted = "substitutions._"
)

func (c Claim) layout() layout {
	return slice.First(layouts, func(l layout) bool { return l.buildType == c.BuildType })
}

// findSource reads repository, ref and commit from the fields of the format
// version and the build type.
func (c *Claim) findSource() Source {
	if l := c.layout(); l.repository != "" {
		c.EntryPoint = c.text(l.path)
		named := Source{Repository: address(c.text(l.repository)), Ref: c.text(l.ref)}
		named.Commit = c.commitOf(named)
		return named
	}
	if c.Source != (Source{}) {
		return c.Source // the configSource of v0.2
	}
	s := c.firstCommit()
	if c.DefinedIn >= 0 && c.DefinedIn < len(c.Dependencies) {
		s = sourceOf(c.Dependencies[c.DefinedIn])
	}
	s.Ref = cmp.Or(s.Ref, c.substitutedRef())
	return s
}

// substitutedRef reads the ref that Google Cloud Build gives beside the source.
func (c Claim) substitutedRef() string {
	if tag := c.text(substitutions + "TAG_NAME"); tag != "" {
		return "refs/tags/" + tag
	}
	if branch := c.text(substitutions + "BRANCH_NAME"); branch != "" {
		return "refs/heads/" + branch
	}
	return ""
}

func (c Claim) firstCommit() Source {
	for _, r := range c.Dependencies {
		if r.Commit() != "" {
			return sourceOf(r)
		}
	}
	return Source{}
}

// commitOf finds the commit of a repository among the dependencies.
func (c Claim) commitOf(s Source) string {
	for _, r := range c.Dependencies {
		if got := sourceOf(r); got.Commit != "" && got.Repository == s.Repository && (got.Ref == s.Ref || got.Ref == "") {
			return got.Commit
		}
	}
	return ""
}

func sourceOf(r intoto.Resource) Source {
	s := Source{Commit: r.Commit()}
	s.Repository, s.Ref = splitRef(r.URI)
	return s
}

// splitRef splits an address into repository and ref.
func splitRef(uri string) (repository, ref string) {
	head, path := "", uri
	if i := strings.Index(uri, "://"); i >= 0 {
		if slash := strings.IndexByte(uri[i+3:], '/'); slash >= 0 {
			head, path = uri[:i+3+slash], uri[i+3+slash:]
		}
	}
	at := strings.Index(path, "@refs/")
	if at < 0 {
		at = strings.LastIndexByte(path, '@')
	}
	if at < 0 {
		return address(uri), ""
	}
	return address(head + path[:at]), path[at+1:]
}

// address normalizes the address of a Git repository.
func address(uri string) string {
	if strings.HasPrefix(uri, "https://") || strings.HasPrefix(uri, "http://") {
		uri = "git+" + uri
	}
	return strings.TrimSuffix(uri, ".git")
}

// UserParameters are the caller's parameters that name neither the source nor
// the instructions: a parameterless build has none.
func (c Claim) UserParameters() (list []Parameter) {
	own := c.layout().own
	_, request := c.Parameter("@type")
	for _, p := range c.Parameters {
		switch {
		case covered(own, p.Name):
		case c.BuildType == cloudBuildV01 && request && !strings.HasPrefix(p.Name, userSubstituted):
		case c.BuildType == BuildType && p.Name == "version" && "refs/tags/"+c.text("version") == c.Source.Ref:
			// The tag is the version, so it is chosen with the source.
		case string(p.Value) == "{}":
		default:
			list = append(list, p)
		}
	}
	return list
}

// Tagged checks that the ref is a tag that a versioned tag covers. v14 covers
// v14, v14.2 and v14.2.3-rc.1, but not v140; v14.2.3 covers itself alone.
func (s Source) Tagged(versioned string) error {
	if !semver.IsValid(versioned) || semver.Build(versioned) != "" {
		return verdict.Refuse(verdict.Usage, "versioned tag", "%.200q: want a version such as v14, v14.2 or v14.2.3", versioned)
	}
	tag, is := strings.CutPrefix(s.Ref, "refs/tags/")
	if !is || versioned != semver.Major(tag) && versioned != semver.MajorMinor(tag) && strings.TrimSuffix(tag, semver.Build(tag)) != versioned {
		return &verdict.Error{Finding: verdict.Find(verdict.SourceRef, "source", "not built from a tag of the required version").Differ("refs/tags/"+versioned+", or a version that it covers", short(s.Ref))}
	}
	return nil
}

// Address is the repository without the parts that only say how to fetch it.
func (s Source) Address() string {
	return strings.TrimSuffix(strings.TrimPrefix(s.Repository, "git+"), ".git")
}

// Contradiction names the part in which the repository and commit of a certificate
// differ from the source, with both values; empty if in none. A value that either
// omits is not compared.
func (s Source) Contradiction(repository, commit string) (what, certificate, statement string) {
	for _, c := range [][3]string{{"the repository", Source{Repository: repository}.Address(), s.Address()}, {"the commit", commit, s.Commit}} {
		if c[1] != "" && c[2] != "" && c[1] != c[2] {
			return c[0], c[1], c[2]
		}
	}
	return "", "", ""
}
