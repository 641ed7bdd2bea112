package promoterfile

import (
	"path"
	"slices"
	"strings"
)

// Caller narrows the runs that a builder may have been called by, where it is a
// workflow that anybody can call.
type Caller struct {
	Workflows []string `yaml:"workflows" json:"workflows,omitempty"`
	Refs      []string `yaml:"refs" json:"refs,omitempty"`
	Events    []string `yaml:"events" json:"events,omitempty"`
}

// Run is a workflow at the ref that a run was for.
type Run struct {
	Repository string // https://HOST/OWNER/NAME
	Path       string
	Ref        string
}

// ParseRun reads what a certificate says of the run that it was issued to:
// https://HOST/OWNER/NAME/PATH@REF.
func ParseRun(uri string) (Run, bool) {
	where, ref, _ := strings.Cut(uri, "@")
	rest, https := strings.CutPrefix(where, "https://")
	parts := strings.SplitN(rest, "/", 4)
	if !https || ref == "" || len(parts) != 4 || slices.Contains(parts, "") {
		return Run{}, false
	}
	return Run{"https://" + strings.Join(parts[:3], "/"), parts[3], ref}, true
}

// String is the run as a certificate names it.
func (r Run) String() string { return r.Repository + "/" + r.Path + "@" + r.Ref }

// MayBe reports whether a run with this trigger may have called the builder. No
// Caller lets everybody.
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

// check refuses a caller that narrows nothing: whoever pushes a ref decides what
// a workflow's file holds there.
func (c *Caller) check(builder string) error {
	if c == nil {
		return nil
	}
	if len(c.Refs) == 0 {
		return refuse("builder %s: a caller needs refs", builder)
	}
	for _, w := range c.Workflows {
		if path.Clean(w) != w || !strings.HasPrefix(w, ".github/workflows/") || strings.Contains(w, "@") {
			return refuse("builder %s: the workflow %q is no file in .github/workflows/", builder, w)
		}
	}
	for _, r := range c.Refs {
		if _, err := path.Match(r, "x"); err != nil || !strings.HasPrefix(r, "refs/") {
			return refuse("builder %s: the ref %q is no pattern of a whole ref, such as refs/tags/v*", builder, r)
		}
	}
	if slices.Contains(c.Events, "") {
		return refuse("builder %s: an event without a name", builder)
	}
	return nil
}
