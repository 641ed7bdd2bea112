package feature

import (
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/value/version"
)

// keptMinors is for how many minor versions an unknown feature is kept.
const keptMinors = 3

// Announce makes the object of a new feature. Its state is Off, whatever its
// default: a feature that is on by default is turned on like any other.
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
