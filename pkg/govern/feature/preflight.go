package feature

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Preflight is whether a program of another version can be started over the
// features as they are, and why not.
type Preflight struct {
	Key  Key
	From version.Version
	To   version.Version
	// Unsafe says what would go wrong, each with what to do first. None is safe.
	Unsafe []string
	// Notes say what will happen, and is no reason to wait.
	Notes []string
}

// IsSafe reports whether nothing speaks against it. A zero Preflight looked at
// nothing, and is not safe.
func (p Preflight) IsSafe() bool { return len(p.Unsafe) == 0 && !p.To.IsZero() }

func (p *Preflight) stop(format string, args ...any) {
	p.Unsafe = append(p.Unsafe, fmt.Sprintf(format, args...))
}

// Check judges one feature before the program goes from one version to another.
// d is nil where the running program does not know the feature.
func Check(f Feature, d *Definition, from, to version.Version) Preflight {
	p := Preflight{Key: f.Key(), From: from, To: to}
	s := f.Status
	dangling := f.Condition(Dangling)
	used := s.State != Off || dangling.Status != "False"
	switch {
	case !s.State.IsSteady():
		p.stop("it is %s: let that end, or turn it back, first", s.State)
	case len(s.Tasks) > 0:
		p.stop("its data are on their way to the form of %s: let that end first", s.Moving.Version)
	}
	if _, _, missing := f.Unsigned(); missing {
		p.stop("a transition is not signed yet: let the reconciler do that first")
	}
	if d == nil {
		if used {
			p.stop("%s does not know it, and it is %s%s: turn it off with %s, which knew it", from, s.State, loose(dangling), s.LastKnownVersion)
		}
		return p
	}
	then, known := d.At(to)
	switch {
	case !known && used:
		p.stop("%s does not know it, and it is %s%s: turn it off first", to, s.State, loose(dangling))
	case !known:
		p.Notes = append(p.Notes, fmt.Sprintf("%s does not know it; the object is kept for %d minor versions", to, keptMinors))
	default:
		p.form(f, *d, then, used)
	}
	return p
}

// form judges the form of the data: an older program cannot read a newer one,
// and a newer one brings the older up to date when it runs.
func (p *Preflight) form(f Feature, d Definition, then Version, used bool) {
	s := f.Status
	switch {
	case !used || s.Schema == then.Schema:
	case s.Schema > then.Schema:
		p.stop("its data have form %d, and %s reads form %d: set prepareFor to %s, so that they are brought there first", s.Schema, p.To, then.Schema, p.To)
	case skipped(d, s.Schema, then.Schema):
		p.stop("its data have form %d, and %s reads form %d: start the versions between one by one", s.Schema, p.To, then.Schema)
	default:
		p.Notes = append(p.Notes, fmt.Sprintf("%s will bring its data from form %d to form %d", p.To, s.Schema, then.Schema))
	}
	if f.Spec.Desired == "" && then.Default != s.Default {
		p.Notes = append(p.Notes, fmt.Sprintf("its default becomes %s, so it will be turned", then.Default))
	}
}

// skipped reports whether a form lies between two: tasks go one form at a time.
func skipped(d Definition, from, to int) bool {
	for _, v := range d.Versions {
		if !v.Removed && from < v.Schema && v.Schema < to {
			return true
		}
	}
	return false
}

func loose(c Condition) string {
	switch c.Status {
	case "True":
		return fmt.Sprintf(" with %s still referring to it", plural.Of(c.Count, "thing"))
	case "Unknown":
		return ", and nobody looked what refers to it"
	}
	return ""
}

// NextMinor and PreviousMinor are the versions that the conditions
// [SafeToUpgrade] and [SafeToDowngrade] are about.
func NextMinor(v version.Version) version.Version { return minor(v, v.Minor()+1) }

// PreviousMinor is the zero Version before a first minor version.
func PreviousMinor(v version.Version) version.Version { return minor(v, v.Minor()-1) }

func minor(v version.Version, n int) version.Version {
	out, err := version.Parse(fmt.Sprintf("v%d.%d.0", v.Major(), n))
	if err != nil {
		return version.Version{}
	}
	return out
}

// SafeConditions are the conditions about the two neighbouring versions.
func SafeConditions(f Feature, d *Definition, running version.Version) []Condition {
	var list []Condition
	for _, way := range []struct {
		kind string
		to   version.Version
	}{{SafeToUpgrade, NextMinor(running)}, {SafeToDowngrade, PreviousMinor(running)}} {
		c := Condition{Type: way.kind, Status: "True"}
		if p := Check(f, d, running, way.to); way.to.IsZero() {
			c.Status, c.Message = "Unknown", "there is no minor version before"
		} else if !p.IsSafe() {
			c.Status, c.Message = "False", p.Unsafe[0]
		}
		list = append(list, c)
	}
	return list
}
