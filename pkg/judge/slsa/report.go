package slsa

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// State is the state of one requirement. The zero State is "not shown".
type State uint8

// The states. Declared is met by the word of a person, where a program cannot
// check; it counts up to the level that the policy allows. notImplementable is
// not met, and a person says why nobody can.
const (
	NotShown State = iota
	NotMet
	Met
	Declared
	notImplementable
)

// String returns the state in words.
func (s State) String() string {
	return cmp.Or(map[State]string{Met: "met", NotMet: "not met", Declared: "declared", notImplementable: "not implementable"}[s], "not shown")
}

// MarshalText encodes the state in words.
func (s State) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// Track is a scale of levels.
type Track string

// The tracks.
const (
	V01    Track = "v0.1"   // SLSA v0.1, levels 1 to 4, as KEP-3027 counts
	Build  Track = "build"  // SLSA v1.2 Build, levels 0 to 3, and the drafted level 4
	Source Track = "source" // SLSA v1.2 Source, levels 0 to 4
	// Controls has no levels: what people declare of the OpenSSF Baseline, whose
	// controls begin with OSPS-.
	Controls Track = "osps"
)

// Answer is the answer to one requirement.
type Answer struct {
	Track       Track  `json:"track"`
	Requirement string `json:"requirement"`
	Title       string `json:"title"`
	Level       int    `json:"level"` // lowest level that requires it
	Optional    bool   `json:"optional,omitempty"`
	State       State  `json:"state"`
	// Why says what meets or contradicts the requirement, or what is missing.
	Why string `json:"why"`
	// DeclaredBy names who declares it, where a program cannot check, or who
	// says that it is not implementable. Until is when a declaration ends. The declaration counts up to the level UpTo.
	DeclaredBy string          `json:"declaredBy,omitempty"`
	Until      string          `json:"until,omitempty"`
	UpTo       int             `json:"upTo,omitempty"`
	Evidence   []digest.Digest `json:"evidence,omitempty"`
}

func met(why string, evidence []digest.Digest) Answer {
	return Answer{State: Met, Why: why, Evidence: evidence}
}

func notMet(evidence []digest.Digest, why string, args ...any) Answer {
	return Answer{State: NotMet, Why: fmt.Sprintf(why, args...), Evidence: evidence}
}

// missing returns "not shown", with the evidence that is missing.
func missing(what string, args ...any) Answer {
	return Answer{Why: "missing: " + fmt.Sprintf(what, args...)}
}

// declared answers with the first declaration that counts, where no evidence
// meets the requirement. If none counts, it says what the first one lacks.
func (a Answer) declared(f *facts) Answer {
	lacks := ""
	for _, d := range f.declared[a.Requirement] {
		switch {
		case d.NotImplementable && (a.State == NotShown || a.State == NotMet):
			a.State, a.DeclaredBy = notImplementable, d.By
			a.Why = fmt.Sprintf("not implementable, says %s: %s (%s)", quote(d.By), quote(d.Reason), a.Why)
			return a
		case a.State != NotShown || d.NotImplementable:
			return a
		}
		why := f.lacks(d)
		if why == "" {
			return a.declaredBy(d)
		}
		lacks = cmp.Or(lacks, why)
	}
	if lacks != "" {
		a.Why = "missing: " + lacks
	}
	return a
}

// declaredBy answers with a declaration that counts.
func (a Answer) declaredBy(d Declaration) Answer {
	until, signed := d.Until.UTC().Format(time.RFC3339), ""
	if d.Signer != "" {
		signed = ", signed by " + quote(d.Signer)
	}
	a.State, a.DeclaredBy, a.Until, a.UpTo, a.Evidence = Declared, d.By, until, d.UpTo, []digest.Digest{d.Evidence}
	a.Why = fmt.Sprintf("declared by %s until %s%s: %s", quote(d.By), until, signed, quote(d.Reason))
	if a.Track != Controls {
		a.Why += fmt.Sprintf(" (counts up to %s)", Demand{a.Track, d.UpTo})
	}
	return a
}

// meets reports whether the answer is enough for a level of its track.
func (a Answer) meets(level int) bool {
	return a.State == Met || a.State == Declared && level <= a.UpTo
}

// Reached is the level of one track.
type Reached struct {
	Track Track `json:"track"`
	Level int   `json:"level"`
	Most  int   `json:"most"`
	// Next lists the requirements of the next level that are not met.
	Next []string `json:"next,omitempty"`
}

// Report contains all answers about one artifact. The zero Report has level 0
// on every track.
type Report struct {
	Artifact string            `json:"artifact"`
	Bytes    map[string]string `json:"digest"`
	Builder  string            `json:"builder,omitempty"`
	Signer   string            `json:"signer,omitempty"`
	Levels   []Reached         `json:"levels"`
	Answers  []Answer          `json:"answers"`
}

// Level is the level that the artifact reached on a track.
func (r Report) Level(t Track) int {
	return slice.First(r.Levels, func(l Reached) bool { return l.Track == t }).Level
}

// scales returns the tracks with their highest levels, at level 0. Level 4 of
// Build is a draft: it is on the scale of builders that are trusted for it.
func scales(builder int) []Reached {
	return []Reached{{Track: V01, Most: 4}, {Track: Build, Most: max(3, builder)}, {Track: Source, Most: 4}}
}

// levelsOf counts: a level is reached if all its requirements and those of
// lower levels are met.
func levelsOf(answers []Answer, builder int) (out []Reached) {
	for _, scale := range scales(builder) {
		for scale.Level < scale.Most {
			scale.Next = open(answers, scale.Track, scale.Level+1)
			if len(scale.Next) > 0 {
				break
			}
			scale.Level++
		}
		out = append(out, scale)
	}
	return out
}

// open lists the requirements of one level that are not met, and those of lower
// levels whose declarations do not count up to this level. A level without any
// requirement is never reached.
func open(answers []Answer, t Track, level int) (list []string) {
	asked := 0
	for _, a := range answers {
		if a.Track != t || a.Level > level || a.Optional {
			continue
		}
		if a.Level == level {
			asked++
		}
		if (a.Level == level || a.State == Declared) && !a.meets(level) {
			list = append(list, a.Requirement)
		}
	}
	if asked == 0 {
		return []string{"no requirement was evaluated"}
	}
	return list
}

// String formats the report as a table.
func (r Report) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "artifact %s\nbuilder  %s\nsigner   %s\n", quote(r.Artifact), orNobody(r.Builder), orNobody(r.Signer))
	for _, l := range r.Levels {
		fmt.Fprintf(&b, "level    %s: %d of %d", l.Track, l.Level, l.Most)
		if len(l.Next) > 0 {
			fmt.Fprintf(&b, "; for %d: %s", l.Level+1, strings.Join(l.Next, ", "))
		}
		b.WriteByte('\n')
	}
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\ntrack\tlevel\trequirement\tanswer\twhy\n")
	for _, a := range r.Answers {
		level := fmt.Sprint(a.Level)
		if a.Optional {
			level = "(" + level + ")"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s%s\n", a.Track, level, a.Requirement, a.State, a.Why, citing(a.Evidence))
	}
	_ = w.Flush() // a strings.Builder never fails
	return b.String()
}

// citing names evidence by a prefix of its digest; the JSON form has the whole
// digest.
func citing(evidence []digest.Digest) string {
	var b strings.Builder
	for _, d := range evidence {
		fmt.Fprintf(&b, " [%.12s]", d.Hex())
	}
	return b.String()
}

func orNobody(s string) string {
	if s == "" {
		return "none"
	}
	return quote(s)
}

// quote makes untrusted text safe to show, and limits its length.
func quote(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%q…", s[:200])
	}
	return fmt.Sprintf("%q", s)
}
