package trust

import (
	_ "embed" // for the embedded root and its page
	"fmt"
	"regexp"
	"time"
)

//go:embed embedded/trusted_root.json
var embeddedRoot []byte

//go:embed embedded/README.md
var embeddedPage string

// embeddedDate finds the date in the page that make trust-refresh writes.
var embeddedDate = regexp.MustCompile(`(?m)^\| date \| ([0-9]{4}-[0-9]{2}-[0-9]{2}) \|$`)

// Embedded is the trust root of the Sigstore public-good instance in this
// program, for verification without a network. [Root.Date] is its date: it does
// not contain authorities added later, and still contains those removed later.
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

// Date is when the root was current, in UTC: that of an [Embedded] one, and that
// which [Root.CurrentOn] gave. It is zero for any other root, because a file does
// not contain its age.
func (r Root) Date() time.Time { return r.date }

// Chained is the same root, with the signatures that lead to it from an older root, as
// package tuf reads them.
func (r Root) Chained(chain []byte) Root {
	r.chain = chain
	return r
}

// Chain is what [Root.Chained] gave; nil for any other root.
func (r Root) Chain() []byte { return r.chain }

// CurrentOn is the same root, verified to have been current at a time.
func (r Root) CurrentOn(date time.Time) Root {
	r.date = date.UTC()
	return r
}
