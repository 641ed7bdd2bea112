package render

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/osps"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// fixSaved is the next act about a file that is no saved verdict.
const fixSaved = "name a file that --output json=FILE wrote, unchanged"

// MaxSaved is the largest saved verdict that is read, in bytes.
const MaxSaved = 64 << 20

// Read reads a verdict that was saved as [JSON]. Nothing is verified: anybody
// can write such a file. One that contradicts itself is refused, such as one
// whose outcome does not follow from its findings and proofs.
func Read(raw []byte) (verdict.Verdict, error) {
	var saved struct {
		Schema   string `json:"schema"`
		Outcome  string `json:"outcome"`
		Headline string `json:"headline"`
		verdict.Verdict
	}
	err := strictjson.UnmarshalOpen(raw, &saved, strictjson.MaxSize(MaxSaved)) // for the schema alone
	if err == nil && saved.Schema != verdict.Schema {
		return verdict.Verdict{}, verdict.Refuse(verdict.ConfigParse, "verdict", "not a saved verdict of a version that this program reads").Differ(verdict.Schema, saved.Schema).
			Advise(fixSaved)
	}
	if err == nil {
		err = strictjson.Unmarshal(raw, &saved, strictjson.MaxSize(MaxSaved))
	}
	if err == nil {
		err = consistent(saved.Verdict, saved.Outcome, saved.Headline)
	}
	if err != nil {
		return verdict.Verdict{}, verdict.Wrap(verdict.ConfigParse, "verdict", err).Advise(fixSaved)
	}
	return saved.Verdict, nil
}

func consistent(v verdict.Verdict, outcome, headline string) error {
	switch {
	case v.Question == "" || v.Time.IsZero():
		return errors.New("it has no question or no time")
	case outcome != v.Outcome().String() || headline != v.Headline():
		return fmt.Errorf("it says %q, and its content says %q", headline, v.Headline())
	}
	if err := miscounted(v); err != nil {
		return err
	}
	for _, l := range v.Levels {
		for _, r := range l.Requirements {
			if !slices.Contains([]string{"met", "declared", "not implementable", "not met", "not shown", osps.NotEvidenced, osps.Outside}, r.State) {
				return fmt.Errorf("requirement %q has the unknown state %q", r.ID, r.State)
			}
		}
		if why := contradiction(l); why != "" {
			return fmt.Errorf("%s level %d of %d: %s", l.Track, l.Level, l.Most, why)
		}
	}
	return nil
}

// miscounted says why objects and groups cannot be what a verdict counts: a page
// that begins with "OK" would otherwise list what is not verified.
func miscounted(v verdict.Verdict) error {
	proven := slice.Count(v.Objects, func(o verdict.Object) bool { return o.Verified })
	whole := v.Outcome() == verdict.Accepted && len(v.Waived) == 0
	switch {
	case proven > v.Counts.Verified:
		return fmt.Errorf("it counts %d verified objects, and lists %d", v.Counts.Verified, proven)
	case whole && proven < len(v.Objects):
		return fmt.Errorf("it accepts, and lists %d objects that are not verified", len(v.Objects)-proven)
	case v.Complete() && v.Counts.Missing+v.Counts.Extra != 0:
		return fmt.Errorf("it accepts everything, and counts %s", v.Counts)
	}
	for _, g := range v.Groups {
		if g.Verified < 0 || g.Verified > g.Required || whole && g.Verified < g.Required {
			return fmt.Errorf("its answer is %s, and %d of %d of the group %q are verified", v.Outcome(), g.Verified, g.Required, g.Name)
		}
	}
	return nil
}

// contradiction says why a level does not follow from the answers beside it;
// empty if it may. A level can be lower than the answers, where an input is
// unknown, and never higher.
func contradiction(l verdict.Levels) string {
	highest := l.Most
	for _, w := range Views() {
		if scale := View(w).scale(); scale.track == l.Track {
			highest = len(scale.about)
		}
	}
	if l.Level < 0 || l.Level > l.Most || l.Most > highest || l.Artifacts < 0 || l.Artifacts > MaxSaved {
		return "no such level, or number of artifacts"
	}
	answered := make([]bool, l.Level+1)
	for _, r := range l.Requirements {
		met := r.State == met
		switch {
		case r.Met < 0 || r.Met > l.Artifacts || l.Artifacts > 0 && met != (r.Met == l.Artifacts):
			return fmt.Sprintf("requirement %q is %s, and %d of %d artifacts meet it", r.ID, r.State, r.Met, l.Artifacts)
		case r.Optional || r.Level < 0 || r.Level > l.Level:
		case !met && r.State != "declared":
			return fmt.Sprintf("requirement %q of level %d is %s", r.ID, r.Level, r.State)
		default:
			answered[r.Level] = true
		}
	}
	for level := 1; level <= l.Level; level++ {
		if !answered[level] {
			return fmt.Sprintf("no requirement of level %d is answered", level)
		}
	}
	return ""
}

func notice(v verdict.Verdict) string {
	return fmt.Sprintf("SAVED VERDICT of %s: nothing was verified now", v.Time.UTC().Format(time.RFC3339))
}

func (p *page) saved(v verdict.Verdict) {
	if p.Saved {
		p.line("%s", notice(v))
	}
}
