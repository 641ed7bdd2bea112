package verdict

import "github.com/waybill-release/waybill/pkg/value/digest"

// Levels is the level that one artifact reached on one track, and the answer to each
// requirement of the track. It is for information: a required level that was not
// reached is a [Finding].
type Levels struct {
	Subject string `json:"subject"`
	Track   string `json:"track"`
	Level   int    `json:"level"`
	Most    int    `json:"most"`
	// Next names the requirements that the next level lacks.
	Next         []string      `json:"next,omitempty"`
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
	State    string `json:"state"` // "met", "not met", "declared", "not implementable" or "not shown"
	// Why says what meets or contradicts it, or what is missing.
	Why string `json:"why"`
	// DeclaredBy names who declares it, until when, if the state is "declared",
	// or who says that it is not implementable.
	DeclaredBy string          `json:"declaredBy,omitempty"`
	Until      string          `json:"until,omitempty"`
	Evidence   []digest.Digest `json:"evidence,omitempty"`
}
