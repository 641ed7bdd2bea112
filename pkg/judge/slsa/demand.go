package slsa

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Demand is a required level on a track. The zero Demand is never met.
type Demand struct {
	Track Track
	Level int
}

// kep3027 is another name of [V01]: the levels that KEP-3027 counts by.
const kep3027 = "kep-3027"

// ParseDemand parses a required level: build=2, source=2, v0.1=3 or, the same,
// kep-3027=3.
func ParseDemand(s string) (Demand, error) {
	track, number, _ := strings.Cut(s, "=")
	level, err := strconv.Atoi(number)
	if track == kep3027 {
		track = string(V01)
	}
	for _, scale := range scales(4) {
		if string(scale.Track) == track && err == nil && level >= 1 && level <= scale.Most {
			return Demand{scale.Track, level}, nil
		}
	}
	return Demand{}, fmt.Errorf("%s: want build=1 to build=4, source=1 to source=4, or v0.1=1 to v0.1=4, which kep-3027 is another name of", quote(s))
}

// String formats the demand as [ParseDemand] reads it.
func (d Demand) String() string { return fmt.Sprintf("%s=%d", d.Track, d.Level) }

// Meet refuses an artifact below a level, and names the first requirement that
// is not met.
func (r Report) Meet(d Demand) error {
	for _, l := range r.Levels {
		switch {
		case l.Track != d.Track || d.Level < 1:
		case l.Level >= d.Level:
			return nil
		default:
			return r.below(d, l)
		}
	}
	return verdict.Refuse(verdict.Level, r.Artifact, "the report has no level for %s", d)
}

func (r Report) below(d Demand, l Reached) error {
	got := Demand{l.Track, l.Level}
	f := verdict.Find(verdict.Level, r.Artifact, "the level is %s", got)
	next := l.Next
	if len(next) == 0 { // the end of its scale
		next = open(r.Answers, l.Track, l.Level+1)
	}
	for _, a := range r.Answers {
		if a.Track != l.Track || len(next) == 0 || a.Requirement != next[0] {
			continue
		}
		f = verdict.Find(verdict.Level, r.Artifact, "the level is %s, limited by %s (%s): %s", got, a.Requirement, a.State, a.Why).Citing(a.Evidence...)
		if more := len(next) - 1; more > 0 {
			f.Message += fmt.Sprintf("; and %d more: %s", more, strings.Join(next[1:], ", "))
		}
	}
	return &verdict.Error{Finding: f.Differ(d.String(), got.String())}
}

// On returns the report of one track, for verdicts.
func (r Report) On(t Track) verdict.Levels {
	out := verdict.Levels{Subject: r.Artifact, Track: string(t), Requirements: []verdict.Requirement{}}
	for _, l := range r.Levels {
		if l.Track == t {
			out.Level, out.Most, out.Next = l.Level, l.Most, l.Next
		}
	}
	for _, a := range r.Answers {
		if a.Track == t && a.Level <= out.Most {
			out.Requirements = append(out.Requirements, verdict.Requirement{
				ID: a.Requirement, Title: a.Title, Level: a.Level, Optional: a.Optional,
				State: a.State.String(), Why: a.Why, DeclaredBy: a.DeclaredBy, Until: a.Until, Evidence: a.Evidence,
			})
		}
	}
	return out
}
