package promoterfile

import (
	"path"
	"slices"
	"strings"
)

// Caller limits which runs may call a builder that is a workflow which anyone
// can call.
type Caller struct {
	Workflows []string `yaml:"workflows" json:"workflows,omitempty"`
	Refs      []string `yaml:"refs" json:"refs,omitempty"`
	Events    []string `yaml:"events" json:"events,omitempty"`
}

// Run is a workflow and the ref that it ran for.
type Run struct {
	Repository string // https://HOST/OWNER/NAME
	Path       string
	Ref        string
}

// ParseRun reads the run in a certificate: https://HOST/OWNER/NAME/PATH@REF.
func ParseRun(uri string) (Run, bool) {
	where, ref, _ := strings.Cut(uri, "@")
	rest, https := strings.CutPrefix(where, "https://")
	parts := strings.SplitN(rest, "/", 4)
	if !https || ref == "" || len(parts) != 4 || slices.Contains(parts, "") {
		return Run{}, false
	}
	return Run{"https://" + strings.Join(parts[:3], "/"), parts[3], ref}, true
}

// String prints the run as certificates name it.
func (r Run) String() string { return r.Repository + "/" + r.Path + "@" + r.Ref }

// MayBe reports whether a run with this trigger may have called the builder. A
// nil Caller allows every run.
func (c *Caller) MayBe(r Run, event string) bool {
	switch {
	case c == nil:
		return true
	case len(c.Workflows) > 0 && !slices.Contains(c.Workflows, r.Path):
		return false
	case len(c.Events) > 0 && !slices.Contains(c.Events, event):
		return false
	}
	return slices.ContainsFunc(c.Refs, func(pattern string) bool { ok, err := path.Match(pattern, r.Ref); return ok && err == nil })
}

// check refuses a caller without refs: anyone who can push some ref decides the
// contents of a workflow file there.
func (c *Caller) check(builder string) error {
	if c == nil {
		return nil
	}
	if len(c.Refs) == 0 {
		return refuse("builder %s: caller: refs are required", builder)
	}
	for _, w := range c.Workflows {
		if path.Clean(w) != w || !strings.HasPrefix(w, ".github/workflows/") || strings.Contains(w, "@") {
			return refuse("builder %s: workflow %q: want a file in .github/workflows/", builder, w)
		}
	}
	for _, r := range c.Refs {
		if _, err := path.Match(r, "x"); err != nil || !strings.HasPrefix(r, "refs/") {
			return refuse("builder %s: ref %q: want a pattern of a whole ref, such as refs/tags/v*", builder, r)
		}
	}
	if slices.Contains(c.Events, "") {
		return refuse("builder %s: an event has no name", builder)
	}
	return nil
}
