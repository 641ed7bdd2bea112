package serve

import (
	"fmt"
	"slices"
	"strings"
	"time"

	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	"github.com/waybill-release/waybill/pkg/govern/feature"
)

// featuresPage is the part of the status page about features.
type featuresPage struct {
	Site     string
	Read     time.Time // zero: never
	Until    time.Time // until when the reading is valid
	Failed   string
	FailedAt time.Time
	Known    bool
	Rows     []featureRow
}

type featureRow struct {
	Name, State string
	// Mode is the effect of the state on the policy, and where.
	Mode string
	// Since and Last describe the last transition, if known.
	Since   time.Time
	Last    string
	Waiting string
}

// page returns nil if the service uses no features.
func (f *featureReader) page(basis *standing) *featuresPage {
	now := basis.switched
	if now == nil {
		return nil
	}
	p := &featuresPage{Site: f.world.Features.Site, Known: f.checkKnown(now) == nil, FailedAt: now.failedAt.UTC()}
	if now.failed != nil {
		p.Failed = now.failed.Error()
	}
	if now.Switches == nil {
		return p
	}
	p.Read, p.Until = now.at.UTC(), now.until().UTC()
	counts := now.States()
	for _, o := range now.objects {
		row := featureRow{Name: o.Key().Short(), State: string(o.Status.State), Mode: "does not switch this policy", Waiting: waiting(o)}
		row.Since, row.Last = lastTransition(o)
		if i := slices.IndexFunc(counts, func(c featuretransition.State) bool {
			return c.Namespace == o.Metadata.Namespace && c.Name == o.Metadata.Name
		}); i >= 0 {
			row.count(basis, counts[i])
			counts = slices.Delete(counts, i, i+1)
		}
		p.Rows = append(p.Rows, row)
	}
	for _, c := range counts { // the list could not be read
		row := featureRow{Name: c.Name}
		row.count(basis, c)
		p.Rows = append(p.Rows, row)
	}
	return p
}

// count shows the state in force, which is the signed one.
func (r *featureRow) count(basis *standing, c featuretransition.State) {
	r.State = fmt.Sprintf("%s (transition %d)", c.State, c.Number)
	floor := feature.Mode(basis.Policy.Floors()[c.Name])
	elsewhere := string(feature.ModeOf(feature.Off, floor))
	var modes []string
	if !c.Enforced.IsNone() {
		modes = append(modes, string(feature.ModeOf(feature.On, floor))+scopeText(c.Enforced))
	}
	if !c.Preparing.IsNone() {
		modes = append(modes, string(feature.ModeOf(feature.TurningOn, floor))+scopeText(c.Preparing))
	}
	switch {
	case len(modes) == 0:
		modes = append(modes, elsewhere)
	case !c.Enforced.Everything && !c.Preparing.Everything:
		modes = append(modes, elsewhere+" elsewhere")
	}
	r.Mode = strings.Join(modes, ", ")
}

// scopeText names the first repositories of a scope.
func scopeText(s feature.Scope) string {
	const few = 3
	switch more := len(s.Repositories) - few; {
	case s.Everything:
		return " everywhere"
	case more > 0:
		return fmt.Sprintf(" in %s and %d more", strings.Join(s.Repositories[:few], ", "), more)
	}
	return " in " + strings.Join(s.Repositories, ", ")
}

func lastTransition(f feature.Feature) (at time.Time, text string) {
	all := f.Status.History
	if len(all) == 0 {
		return time.Time{}, ""
	}
	t := all[len(all)-1]
	text = fmt.Sprintf("%s to %s by %s: %s", t.Transition.From, t.Transition.To, t.Transition.Reconciler, t.Transition.Reason)
	if t.Statement == "" {
		text += "; not signed yet, so not in force"
	}
	return t.Transition.At.UTC(), text
}

func waiting(f feature.Feature) string {
	if len(f.Status.Tasks) == 0 {
		return ""
	}
	t := f.Status.Tasks[0]
	if t.Message == "" {
		return t.Name
	}
	return t.Name + ": " + t.Message
}
