package feature

import (
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/value/version"
)

// keptMinors is for how many minor versions a feature is kept that no program
// knows any more, or not yet.
const keptMinors = 3

// Announce is the object of a feature that has none yet. It is Off, whatever its
// default: what is on by default is turned on as everything else is.
func Announce(k Key, d Definition, running version.Version) (Feature, error) {
	now, known := d.At(running)
	if !known {
		return Feature{}, usage("feature %s: %s does not know it", k, running)
	}
	f := Feature{
		APIVersion: APIVersion, Kind: Kind,
		Metadata: Metadata{Namespace: k.Namespace, Name: k.Name},
		Spec:     Spec{Scope: Scope{Everything: true}},
		Status: Status{
			State: Off, Default: now.Default, Stage: string(now.Stage),
			Version: running.String(), Schema: now.Schema, LastKnownVersion: running.String(),
		},
	}
	return f, f.Validate()
}

// Forget is the object of a feature that the running program does not know. It
// is kept as it is for three minor versions, for the program that knows it may
// come back; after that it is marked as forgotten, and lists leave it out.
// Nothing is removed: a program that knows it again finds it.
func Forget(f Feature, running version.Version) (Feature, bool) {
	last, err := version.Parse(f.Status.LastKnownVersion)
	if err != nil || f.Status.Forgotten || apart(last, running) <= keptMinors {
		return f, false
	}
	f.Status.Forgotten = true
	return f, true
}

// apart counts the minor versions between two versions. Nobody knows how many
// there were before another major version; at least those since are counted.
func apart(a, b version.Version) int {
	if b.Less(a) {
		a, b = b, a
	}
	if a.Major() != b.Major() {
		return b.Minor() + 1
	}
	return b.Minor() - a.Minor()
}

// WithConditions is the object with conditions set, one of a type.
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

// DropOldUses is the object without the uses that were seen long ago, or are
// said to be seen in a time that has not come, of a feature that waits for none.
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
