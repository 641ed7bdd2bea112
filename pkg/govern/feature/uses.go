package feature

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// atLeast is the parameter of a wait with the oldest version of a reporter that counts.
const atLeast = "atLeast"

// keptUses is how long a use is kept while the feature is not being switched.
const keptUses = 90 * 24 * time.Hour

// Report adds uses to an object and changes nothing else. Uses of one identity with
// different versions or values are kept side by side, to notice a program that runs in
// two places under one name, one of them old. During a transition nothing is dropped and
// a full list is an error; otherwise the oldest use is dropped.
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
				Advise("let programs report under one name per place, not one per run")
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

// OnlyUses refuses an update that changes anything but uses, for reporters.
func OnlyUses(before, after Feature) error {
	before.Status.Uses, after.Status.Uses = nil, nil
	return sameBytes(before, after, "its uses")
}

// OnlyWishes refuses an update that changes anything but the desired state of dynamic
// features and the version to prepare for, for people.
func OnlyWishes(before, after Feature) error {
	after.Spec.PrepareFor = before.Spec.PrepareFor
	if before.Spec.Dynamic {
		after.Spec.Desired, after.Spec.Scope = before.Spec.Desired, before.Spec.Scope
	}
	return sameBytes(before, after, "the desired state of a dynamic feature")
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
		return usage("writing feature %s: the update changes more than %s, and only a reconciler may do that", before.Key(), but)
	}
	return nil
}

// oldUses lists the reporters of another value than the expected one. All uses were
// recorded after the window began, whatever a clock says: the store orders writes.
func (p *pass) oldUses() (names []string) {
	want := p.f.Status.State.goal() == On
	for _, u := range p.f.Status.Uses {
		if u.Value != want {
			names = append(names, u.Identity+" ("+u.Version+")")
		}
	}
	return names
}

// judgeUses judges a wait. The window began by clearing the uses. At its end every
// expected reporter must have reported the new value, and none the old one; otherwise the
// window restarts. A missing report proves nothing, because jobs run rarely.
func (p *pass) judgeUses(t Task) Outcome {
	ends := t.Since.Add(p.Window)
	if late := p.oldUses(); len(late) > 0 {
		return Outcome{reopen: true, Remaining: len(late), Message: "the old value was reported by " + listed(late)}
	}
	missing := p.missing(t)
	switch {
	case p.Now.Add(p.Window).Before(t.Since):
		return Outcome{reopen: true, Remaining: len(missing), Message: "the window began in the future: a clock was wrong"}
	case p.Now.Before(ends):
		return Outcome{Remaining: max(len(missing), 1), Message: "the window ends " + ends.Format(time.RFC3339) + missingText(missing)}
	case len(missing) > 0:
		return Outcome{reopen: true, Remaining: len(missing), Message: "reports are missing from: " + listed(missing)}
	}
	expected := slice.Unique(p.Expected)
	return Outcome{Done: true, Message: fmt.Sprintf("all of %s have the new value", plural.Of(len(expected), "reporter")), reporters: expected}
}

func missingText(missing []string) string {
	if len(missing) == 0 {
		return "; every reporter has reported"
	}
	return "; no report yet from: " + listed(missing)
}

// missing lists the expected reporters that did not report the new value within the
// window, and why their reports do not count.
func (p *pass) missing(t Task) (names []string) {
	for _, who := range slice.Unique(p.Expected) {
		if why, counts := p.reported(who, t); !counts {
			names = append(names, who+why)
		}
	}
	return names
}

// reported judges the reports of one reporter. Its clock may differ by a quarter of the
// window; an earlier report may be about an earlier value.
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

// listed joins at most ten names.
func listed(names []string) string {
	const most = 10
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Leader is the reconciler that works on a feature: the one with the highest hash of its
// name and the feature's. Reconcilers that see the same names find the same leader
// without communication. With different names two may act at once; then one of their
// writes is refused. It is "" without identities.
func Leader(k Key, identities []string) (leader string) {
	var highest []byte
	for _, who := range identities {
		sum := sha256.Sum256([]byte(k.String() + "\x00" + who))
		if order := bytes.Compare(sum[:], highest); who != "" && (order > 0 || leader == "") {
			leader, highest = who, sum[:]
		}
	}
	return leader
}
