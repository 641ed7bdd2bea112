package trust

import (
	_ "embed" // the embedded root and its page
	"fmt"
	"regexp"
	"time"
)

//go:embed embedded/trusted_root.json
var embeddedRoot []byte

//go:embed embedded/README.md
var embeddedPage string

// embeddedDate finds the row of the page that make trust-refresh writes.
var embeddedDate = regexp.MustCompile(`(?m)^\| date \| ([0-9]{4}-[0-9]{2}-[0-9]{2}) \|$`)

// Embedded is the public-good root that this program carries, for judging with
// the network switched off. It ages: [Root.Date] says since when. What it
// cannot know is an authority that began, or was taken out, after that day.
func Embedded() Root {
	r, err := Parse(embeddedRoot)
	if err != nil {
		panic(fmt.Sprintf("trust: the embedded root: %v", err))
	}
	row := embeddedDate.FindStringSubmatch(embeddedPage)
	if row == nil {
		panic("trust: the page of the embedded root names no date")
	}
	if r.date, err = time.Parse(time.DateOnly, row[1]); err != nil {
		panic(fmt.Sprintf("trust: the date of the embedded root: %v", err))
	}
	return r
}

// Date is the day on which an [Embedded] root was current, by UTC. It is zero
// for any other root: a file does not say how old it is.
func (r Root) Date() time.Time { return r.date }
