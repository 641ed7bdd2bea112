package feature

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// atLeast is the parameter of a wait that names the oldest version of a reporter
// that counts.
const atLeast = "atLeast"

// keptUses is how long a use is kept of a feature that nobody switches.
const keptUses = 90 * 24 * time.Hour

// Report adds uses to an object and changes nothing else. What an identity said
// with another version or another value stands beside it: a program that runs
// in two places under one name, one of them old, is seen to. While somebody
// waits for uses nothing is dropped, so a full list refuses; else the oldest
// goes.
func Report(f Feature, uses ...Use) (Feature, error) {
	f = f.clone()
	s := &f.Status
	for _, u := range uses {
		u.LastSeen = stamp(u.LastSeen)
		if err := u.validate(); err != nil {
			return Feature{}, usage("reporting on feature %s: %w", f.Key(), err)
		}
		same := func(o Use) bool { return o.Identity == u.Identity && o.Version == u.Version && o.Value == u.Value }
		if i := slices.IndexFunc(s.Uses, same); i >= 0 {
			u.Checked = u.Checked || s.Uses[i].Checked
			s.Uses[i] = u
			continue
		}
		s.Uses = append(s.Uses, u)
	}
	if extra := len(s.Uses) - MaxUses; extra > 0 {
		if len(s.Tasks) > 0 {
			return Feature{}, verdict.Refuse(verdict.Limit, "feature "+f.Key().String(), "%d uses are reported, the limit is %d", len(s.Uses), MaxUses).
				Advise("have programs report under one name for each place that they run in")
		}
		slices.SortStableFunc(s.Uses, func(a, b Use) int { return a.LastSeen.Compare(b.LastSeen) })
		s.Uses = slices.Clone(s.Uses[extra:])
	}
	slices.SortFunc(s.Uses, compareUses)
	return f, nil
}

func compareUses(a, b Use) int {
	switch {
	case a.Identity != b.Identity:
		return strings.Compare(a.Identity, b.Identity)
	case a.Version != b.Version:
		return strings.Compare(a.Version, b.Version)
	case a.Value == b.Value:
		return 0
	case b.Value:
		return -1
	}
	return 1
}

// OnlyUses refuses an update that changes anything but uses, which is all that
// reporters write.
func OnlyUses(before, after Feature) error {
	before.Status.Uses, after.Status.Uses = nil, nil
	return sameBytes(before, after, "its uses, as a reporter does")
}

// OnlyWishes refuses an update that changes anything but what is wanted, which
// is all that people write, and only of dynamic features; the version to
// prepare for is for all.
func OnlyWishes(before, after Feature) error {
	after.Spec.PrepareFor = before.Spec.PrepareFor
	if before.Spec.Dynamic {
		after.Spec.Desired, after.Spec.Scope = before.Spec.Desired, before.Spec.Scope
	}
	return sameBytes(before, after, "what is wanted of a dynamic feature")
}

func sameBytes(before, after Feature, but string) error {
	before.Metadata.Generation, after.Metadata.Generation = 0, 0
	a, err := before.Bytes()
	if err != nil {
		return err
	}
	b, err := after.Bytes()
	if err != nil {
		return err
	}
	if string(a) != string(b) {
		return usage("writing feature %s: this changes more than %s: only a reconciler changes states and tasks", before.Key(), but)
	}
	return nil
}

// oldUses names who came with another value than the one that is waited for.
// All uses were recorded after the window was opened, whatever a clock says:
// the store orders them.
func (p *pass) oldUses() []string {
	want := p.f.Status.State.goal() == On
	var names []string
	for _, u := range p.f.Status.Uses {
		if u.Value != want {
			names = append(names, u.Identity+" ("+u.Version+")")
		}
	}
	return names
}

// judgeUses judges a wait. The window was opened by clearing the uses; at its
// end every expected reporter has come with the new value, and nobody with the
// old one, or it is opened again. Silence proves nothing: jobs run rarely.
func (p *pass) judgeUses(t Task) Outcome {
	ends := t.Since.Add(p.Window)
	if late := p.oldUses(); len(late) > 0 {
		return Outcome{reopen: true, Remaining: len(late), Message: "the old value was reported by " + listed(late)}
	}
	missing := p.missing(t)
	switch {
	case p.Now.Add(p.Window).Before(t.Since):
		return Outcome{reopen: true, Remaining: len(missing), Message: "the window was opened in the future: a clock was wrong"}
	case p.Now.Before(ends):
		return Outcome{Remaining: max(len(missing), 1), Message: "the window ends " + ends.Format(time.RFC3339) + heard(missing)}
	case len(missing) > 0:
		return Outcome{reopen: true, Remaining: len(missing), Message: "nobody may be missing, and these are: " + listed(missing)}
	}
	expected := slices.Sorted(slices.Values(p.Expected))
	expected = slices.Compact(expected)
	return Outcome{Done: true, Message: fmt.Sprintf("all of %s have the new value", plural.Of(len(expected), "reporter")), reporters: expected}
}

func heard(missing []string) string {
	if len(missing) == 0 {
		return "; everybody has reported"
	}
	return "; not yet heard of: " + listed(missing)
}

// missing names the expected reporters that did not report the new value inside
// the window, and why what they said does not count.
func (p *pass) missing(t Task) []string {
	var names []string
	for _, who := range slices.Compact(slices.Sorted(slices.Values(p.Expected))) {
		if why, counts := p.reported(who, t); !counts {
			names = append(names, who+why)
		}
	}
	return names
}

// reported judges what one reporter said. Its clock may differ by a quarter of
// the window: what it saw before that was another value's time.
func (p *pass) reported(who string, t Task) (why string, counts bool) {
	slack := p.Window / 4
	for _, u := range p.f.Status.Uses {
		switch {
		case u.Identity != who:
		case u.LastSeen.Before(t.Since.Add(-slack)):
			why = " (its report is older than the window, or its clock is behind)"
		case u.LastSeen.After(p.Now.Add(slack)):
			why = " (its clock is ahead)"
		case older(u.Version, t.Params[atLeast]):
			why = " (" + u.Version + " is too old)"
		default:
			return "", true
		}
	}
	return why, false
}

func older(have, want string) bool {
	if want == "" {
		return false
	}
	a, err := version.Parse(have)
	b, wrong := version.Parse(want)
	return err != nil || wrong != nil || !notAfter(b, a)
}

// listed names at most ten.
func listed(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}
