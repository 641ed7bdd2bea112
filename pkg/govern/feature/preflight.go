package feature

import (
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Preflight says whether another version of the program can be started with the
// features as they are, and why not.
type Preflight struct {
	Key  Key
	From version.Version
	To   version.Version
	// Unsafe has the reasons against it, each with what to do first.
	Unsafe []string
	// Notes say what will happen; they are no reasons against it.
	Notes []string
}

// IsSafe reports whether there is no reason against it. The zero Preflight is not safe.
func (p Preflight) IsSafe() bool { return len(p.Unsafe) == 0 && !p.To.IsZero() }

func (p *Preflight) stop(format string, args ...any) {
	p.Unsafe = append(p.Unsafe, fmt.Sprintf(format, args...))
}

// Check judges one feature before the program changes from one version to another. d is
// nil if the running program does not know the feature.
func Check(f Feature, d *Definition, from, to version.Version) Preflight {
	p := Preflight{Key: f.Key(), From: from, To: to}
	s := f.Status
	dangling := f.Condition(Dangling)
	used := s.State != Off || dangling.Status != "False"
	switch {
	case !s.State.IsSteady():
		p.stop("the feature is %s: let the transition end, or reverse it, first", s.State)
	case len(s.Tasks) > 0:
		p.stop("the data are being converted to the form of %s: let that end first", s.Moving.Version)
	}
	if _, _, missing := f.Unsigned(); missing {
		p.stop("a transition is not signed yet: run waybill feature reconcile first")
	}
	if d == nil {
		if used {
			p.stop("unknown to %s, but the feature is %s%s: turn it off with %s, which knew it", from, s.State, danglingText(dangling), s.LastKnownVersion)
		}
		return p
	}
	then, known := d.At(to)
	switch {
	case !known && used:
		p.stop("unknown to %s, but the feature is %s%s: turn it off first", to, s.State, danglingText(dangling))
	case !known:
		p.Notes = append(p.Notes, fmt.Sprintf("unknown to %s; the object is kept for %d minor versions", to, keptMinors))
	default:
		p.form(f, *d, then, used)
	}
	return p
}

// form judges the form of the data: an older program cannot read a newer form; a newer
// program converts an older one when it runs.
func (p *Preflight) form(f Feature, d Definition, then Version, used bool) {
	s := f.Status
	switch {
	case !used || s.Schema == then.Schema:
	case s.Schema > then.Schema:
		p.stop("the data have schema %d, but %s reads schema %d: convert them first, with waybill feature set --prepare-for %s", s.Schema, p.To, then.Schema, p.To)
	case skipped(d, s.Schema, then.Schema):
		p.stop("the data have schema %d, but %s reads schema %d: start each version in between first", s.Schema, p.To, then.Schema)
	default:
		p.Notes = append(p.Notes, fmt.Sprintf("%s will convert the data from schema %d to schema %d", p.To, s.Schema, then.Schema))
	}
	if f.Spec.Desired == "" && then.Default != s.Default {
		p.Notes = append(p.Notes, fmt.Sprintf("the default becomes %s, so the feature will be switched", then.Default))
	}
}

// skipped reports whether there is a form between two: tasks convert one step at a
// time.
func skipped(d Definition, from, to int) bool {
	return slices.ContainsFunc(d.Versions, func(v Version) bool { return !v.Removed && from < v.Schema && v.Schema < to })
}

func danglingText(c Condition) string {
	switch c.Status {
	case "True":
		return fmt.Sprintf(" with %s still referring to it", plural.Of(c.Count, "object"))
	case "Unknown":
		return ", and it is unknown what refers to it"
	}
	return ""
}

// minor is another minor version of the same major; the zero Version before the first.
func minor(v version.Version, n int) version.Version {
	out, err := version.Parse(fmt.Sprintf("v%d.%d.0", v.Major(), n))
	if err != nil {
		return version.Version{}
	}
	return out
}

// SafeConditions are the conditions about the two neighbouring versions.
func SafeConditions(f Feature, d *Definition, running version.Version) (list []Condition) {
	for _, way := range []struct {
		kind string
		to   version.Version
	}{{SafeToUpgrade, minor(running, running.Minor()+1)}, {SafeToDowngrade, minor(running, running.Minor()-1)}} {
		c := Condition{Type: way.kind, Status: "True"}
		if p := Check(f, d, running, way.to); way.to.IsZero() {
			c.Status, c.Message = "Unknown", "there is no previous minor version"
		} else if !p.IsSafe() {
			c.Status, c.Message = "False", p.Unsafe[0]
		}
		list = append(list, c)
	}
	return list
}

// keptMinors is for how many minor versions an unknown feature is kept.
const keptMinors = 3

// Announce makes the object of a new feature. Its state is Off, even
// if it is on by default: such a feature is turned on like any other.
func Announce(k Key, d Definition, running version.Version) (Feature, error) {
	now, known := d.At(running)
	if !known {
		return Feature{}, usage("feature %s: unknown to version %s", k, running)
	}
	f := Feature{
		APIVersion: APIVersion, Kind: documentKind,
		Metadata: Metadata{Namespace: k.Namespace, Name: k.Name},
		Spec:     Spec{Scope: Scope{Everything: true}},
		Status: Status{
			State: Off, Default: now.Default, Stage: string(now.Stage),
			Version: running.String(), Schema: now.Schema, LastKnownVersion: running.String(),
		},
	}
	return f, f.Validate()
}

// Forget marks a feature as forgotten that the running program has not known for
// three minor versions: until then a downgrade may bring back a program that knows
// it. Lists leave a forgotten feature out, but it is never removed.
func Forget(f Feature, running version.Version) (Feature, bool) {
	last, err := version.Parse(f.Status.LastKnownVersion)
	if err != nil || f.Status.Forgotten || apart(last, running) <= keptMinors {
		return f, false
	}
	f.Status.Forgotten = true
	return f, true
}

// apart counts the minor versions between two versions. Across a major version the
// number is unknown, and only those since are counted.
func apart(a, b version.Version) int {
	if b.Less(a) {
		a, b = b, a
	}
	if a.Major() != b.Major() {
		return b.Minor() + 1
	}
	return b.Minor() - a.Minor()
}

// WithConditions is the object with conditions set, at most one of each type.
func WithConditions(f Feature, conditions ...Condition) Feature {
	f = f.clone()
	for _, c := range conditions {
		c.Message = line(c.Message)
		c.Sample = slices.Clone(c.Sample[:min(len(c.Sample), maxSample)])
		for i := range c.Sample {
			c.Sample[i] = line(c.Sample[i])
		}
		list := &f.Status.Conditions
		if i := slices.IndexFunc(*list, func(o Condition) bool { return o.Type == c.Type }); i >= 0 {
			(*list)[i] = c
			continue
		}
		*list = append(*list, c)
	}
	return f
}

// DropOldUses is the object without old reports, and without reports from the
// future. While tasks remain nothing is dropped.
func DropOldUses(f Feature, now time.Time) Feature {
	if len(f.Status.Tasks) > 0 {
		return f
	}
	f = f.clone()
	f.Status.Uses = slices.DeleteFunc(f.Status.Uses, func(u Use) bool {
		return u.LastSeen.Before(now.Add(-keptUses)) || u.LastSeen.After(now.Add(keptUses))
	})
	return f
}
