package verdict

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Levels is the level that one artifact reached on one track, and the answer to each
// requirement of the track; or the lowest level and the worst answers of several
// artifacts: see [Levels.Join]. It is for information: a required level that was not
// reached is a [Finding].
type Levels struct {
	// Subject is the artifact; of several, the first with the lowest level.
	Subject string `json:"subject"`
	Track   string `json:"track"`
	Level   int    `json:"level"`
	Most    int    `json:"most"`
	// Next names the requirements that the next level lacks.
	Next []string `json:"next,omitempty"`
	// Artifacts counts the artifacts whose answers are joined; 0 means that
	// nothing is joined.
	Artifacts    int           `json:"artifacts,omitempty"`
	Requirements []Requirement `json:"requirements"`
}

// Least is the lowest level that so many artifacts reached, over everything
// that each was made of.
type Least struct {
	Track     string `json:"track"`
	Level     int    `json:"level"`
	Artifacts int    `json:"artifacts"`
	// Path leads from the artifact to what limits it.
	Path []string `json:"path"`
}

// Requirement is the answer to one requirement of a level.
type Requirement struct {
	ID       string `json:"id"`
	Title    string `json:"title"`
	Level    int    `json:"level"` // from which on it is required
	Optional bool   `json:"optional,omitempty"`
	State    string `json:"state"` // "met", "not met", "declared", "not implementable" or "not shown"; of controls also "not evidenced", "outside"
	// Why says what meets or contradicts it, or what is missing.
	Why string `json:"why"`
	// DeclaredBy names who declares it, until when, if the state is "declared",
	// or who says that it is not implementable.
	DeclaredBy string          `json:"declaredBy,omitempty"`
	Until      string          `json:"until,omitempty"`
	Evidence   []digest.Digest `json:"evidence,omitempty"`
	// Met counts the artifacts that meet it, if the answers of several are
	// joined. The rest is then the answer for Artifact, the first one with the
	// worst answer; empty if all meet it.
	Met      int    `json:"met,omitempty"`
	Artifact string `json:"artifact,omitempty"`
}

// Differs reports whether the artifacts differ in what the next level lacks, so
// that one of them limits the others.
func (l Levels) Differs() bool {
	return slices.ContainsFunc(l.Requirements, func(r Requirement) bool {
		return slices.Contains(l.Next, r.ID) && r.Met > 0 && r.Met < l.Artifacts
	})
}

// maxCited is how many pieces of evidence a joined answer names.
const maxCited = 3

// Join adds the answers for more artifacts, on the same track: the lowest level
// and the worst answers remain. Joined to the zero Levels, they are counted.
func (l *Levels) Join(more Levels) {
	more = more.counted()
	if l.Track == "" {
		*l = more
		l.Requirements = slices.Clone(l.Requirements) // joined in place
		return
	}
	*l = l.counted()
	for i, r := range l.Requirements {
		l.Requirements[i].join(more.answer(i, r))
	}
	for i, r := range more.Requirements {
		if l.find(i, r.ID) < 0 {
			l.Requirements = append(l.Requirements, l.answer(i, r))
			l.Requirements[len(l.Requirements)-1].join(r)
		}
	}
	l.Artifacts += more.Artifacts
	l.Most = max(l.Most, more.Most)
	switch {
	case more.Level < l.Level:
		l.Subject, l.Level, l.Next = more.Subject, more.Level, more.Next
	case more.Level == l.Level:
		for _, id := range more.Next {
			if !slices.Contains(l.Next, id) {
				l.Next = append(l.Next[:len(l.Next):len(l.Next)], id)
			}
		}
	}
}

// unanswered is why a requirement is not shown that others have an answer to.
const unanswered = "missing: an answer; nothing is known about the build"

// find is the index of a requirement, probably at; negative if there is none.
func (l Levels) find(at int, id string) int {
	if at < len(l.Requirements) && l.Requirements[at].ID == id {
		return at
	}
	return slices.IndexFunc(l.Requirements, func(r Requirement) bool { return r.ID == id })
}

// answer is the answer to a requirement, probably at an index. Where there is
// none, it is not shown.
func (l Levels) answer(at int, to Requirement) Requirement {
	if at = l.find(at, to.ID); at >= 0 {
		return l.Requirements[at]
	}
	return Requirement{ID: to.ID, Title: to.Title, Level: to.Level, Optional: to.Optional, State: stateNotShown, Why: unanswered, Artifact: l.Subject}
}

// counted is l as joined answers, if it is the answer for one artifact.
func (l Levels) counted() Levels {
	if l.Artifacts > 0 {
		return l
	}
	l.Artifacts, l.Requirements = 1, slices.Clone(l.Requirements)
	for i := range l.Requirements {
		r := &l.Requirements[i]
		if r.State == stateMet {
			r.Met = 1
		} else {
			r.Artifact = l.Subject
		}
		r.Evidence = r.Evidence[:min(len(r.Evidence), maxCited)]
	}
	return l
}

const stateMet, stateNotShown = "met", "not shown"

// severity orders the states, the worst first. An unknown state is the worst.
func severity(state string) int {
	return slices.Index([]string{"not met", stateNotShown, "not implementable", "declared", stateMet}, state)
}

func (r *Requirement) join(more Requirement) {
	met := r.Met + more.Met
	switch {
	case severity(more.State) < severity(r.State):
		*r = more
	case r.State == stateMet && more.State == stateMet:
		for _, d := range more.Evidence {
			if len(r.Evidence) < maxCited && !slices.Contains(r.Evidence, d) {
				r.Evidence = append(r.Evidence[:len(r.Evidence):len(r.Evidence)], d)
			}
		}
	}
	r.Met = met
}
