// Package version parses and orders the versions of releases.
//
// A version is written vMAJOR.MINOR.PATCH, optionally followed by one of
// -alpha.N, -beta.N and -rc.N:
//
//	v1.31.0-alpha.1 < v1.31.0-beta.0 < v1.31.0-rc.1 < v1.31.0 < v1.31.1
//
// A build between two releases, as continuous integration makes them, also has
// the number of commits since the tag, and the commit:
//
//	v1.31.0-alpha.1 < v1.31.0-alpha.1.35+2a4f1c09d3be1f < v1.31.0-alpha.2
//
// This is the subset of Semantic Versioning 2.0.0 that release tags use, and
// its precedence (clause 11) holds. Everything else is refused: a missing or
// upper-case v, a missing part, leading zeros, other pre-release words, other
// build metadata, numbers of a thousand million or more. One version therefore
// has one spelling.
//
//	v, err := version.Parse("v1.31.0-rc.1")
//	…
//	v.Channel() // version.RC
//
// The package does not know which versions exist, nor which is the latest.
package version

import (
	"cmp"
	"fmt"
	"strings"
)

// Channel is the kind of release a version announces.
type Channel string

// The channels, from the least to the most finished.
const (
	Alpha  Channel = "alpha"  // Alpha is for trying things out.
	Beta   Channel = "beta"   // Beta is feature complete, or nearly.
	RC     Channel = "rc"     // RC is a release candidate.
	Stable Channel = "stable" // Stable is a release without suffix.

	ci Channel = "ci" // of builds between two releases
)

// String returns the name of the channel.
func (c Channel) String() string { return string(c) }

// rank orders channels. It is also what a [Version] stores: 0, the rank of the
// zero value, belongs to no channel.
type rank uint8

const (
	rankNone rank = iota
	rankAlpha
	rankBeta
	rankRC
	rankStable
)

func (r rank) channel() Channel {
	switch r {
	case rankAlpha:
		return Alpha
	case rankBeta:
		return Beta
	case rankRC:
		return RC
	case rankStable:
		return Stable
	}
	return ""
}

// Version is a parsed version, comparable with == and usable as a map key. The
// zero Version is invalid: it is not v0.0.0, it orders before every version
// and cannot be marshalled.
type Version struct {
	major, minor, patch, n uint32
	rank                   rank
	since                  uint32 // commits since the tag, of a build
	commit                 string // of a build
}

// FormError reports text that is not a version.
type FormError struct {
	Text   string // the refused text, untouched; print it quoted only
	Reason string // what is wrong with it
}

// Error quotes at most the first 200 bytes of the refused text.
func (e *FormError) Error() string {
	text, more := e.Text, ""
	if len(text) > 200 {
		text, more = text[:200], "…"
	}
	return fmt.Sprintf("parsing version %q%s: %s", text, more, e.Reason)
}

// Parse reads a version. Any other spelling is a [*FormError].
func Parse(s string) (Version, error) {
	rest, found := strings.CutPrefix(s, "v")
	if !found {
		return Version{}, &FormError{Text: s, Reason: "want a lower-case v, as in v1.31.0"}
	}
	numbers, suffix, prerelease := strings.Cut(rest, "-")
	v := Version{rank: rankStable}
	reason := parseNumbers(numbers, &v.major, &v.minor, &v.patch)
	if reason == "" && prerelease {
		reason = v.parseSuffix(suffix)
	}
	if reason != "" {
		return Version{}, &FormError{Text: s, Reason: reason}
	}
	return v, nil
}

// parseNumbers reads as many dot-separated numbers as there are places.
func parseNumbers(s string, places ...*uint32) (reason string) {
	parts := strings.SplitN(s, ".", len(places)+1)
	if len(parts) != len(places) {
		return "want exactly three numbers, as in v1.31.0"
	}
	for i, part := range parts {
		n, reason := parseNumber(part)
		if reason != "" {
			return reason
		}
		*places[i] = n
	}
	return ""
}

// parseSuffix reads -alpha.N and the like, and what a build adds.
func (v *Version) parseSuffix(s string) (reason string) {
	tag, commit, build := strings.Cut(s, "+")
	word, number, _ := strings.Cut(tag, ".")
	number, since, more := strings.Cut(number, ".")
	for r := rankAlpha; r < rankStable; r++ {
		if word != string(r.channel()) {
			continue
		}
		if v.n, reason = parseNumber(number); reason == "" && (build || more) {
			v.since, v.commit = 0, commit
			reason = v.parseBuild(since)
		}
		v.rank = r
		return reason
	}
	return "want -alpha.N, -beta.N or -rc.N after the numbers"
}

// parseBuild reads the number of commits, and checks the commit.
func (v *Version) parseBuild(since string) (reason string) {
	v.since, reason = parseNumber(since)
	isHex := strings.Trim(v.commit, "0123456789abcdef") == ""
	if reason != "" || v.since == 0 || !isHex || len(v.commit) < 7 || len(v.commit) > 40 {
		return "want a build between two releases as in v1.32.0-alpha.0.123+2a4f1c09d3be1f: the commits since the tag, and the commit"
	}
	return ""
}

// parseNumber accepts 0 and decimal numbers without leading zeros below 1e9,
// which is what keeps every number inside a uint32.
func parseNumber(s string) (n uint32, reason string) {
	switch {
	case s == "":
		return 0, "a number is missing"
	case len(s) > 1 && s[0] == '0':
		return 0, "numbers have no leading zeros"
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return 0, "numbers consist of the digits 0-9"
		}
		if i >= 9 {
			return 0, "numbers are below 1000000000"
		}
		n = n*10 + uint32(s[i]-'0')
	}
	return n, ""
}

// String returns the text form that [Parse] reads, "" for the zero Version.
func (v Version) String() string {
	switch v.rank {
	case rankNone:
		return ""
	case rankStable:
		return fmt.Sprintf("v%d.%d.%d", v.major, v.minor, v.patch)
	}
	tag := fmt.Sprintf("v%d.%d.%d-%s.%d", v.major, v.minor, v.patch, v.rank.channel(), v.n)
	if v.IsBuild() {
		return fmt.Sprintf("%s.%d+%s", tag, v.since, v.commit)
	}
	return tag
}

// IsBuild reports whether the version is of a build between two releases.
func (v Version) IsBuild() bool { return v.commit != "" }

// Of reports whether the version can be that of a commit, given by its full id.
// The version of a build names its commit; that of a release names none, and can
// be of any.
func (v Version) Of(commit string) bool { return strings.HasPrefix(commit, v.commit) }

// ImageTag returns the version as the tag of an image, which cannot contain a
// plus sign.
func (v Version) ImageTag() string { return strings.ReplaceAll(v.String(), "+", "_") }

// IsZero reports whether v is the invalid zero value.
func (v Version) IsZero() bool { return v.rank == rankNone }

// Compare returns -1, 0 or +1 as v is lower than, the same as or higher than
// other. Numbers come first, then alpha < beta < rc < stable, then N, then the
// commits since the tag. It is a total order in which 0 means ==, fit for
// [slices.SortFunc]: builds of two commits at the same distance are ordered by
// the text of the commit, which says nothing.
func (v Version) Compare(other Version) int {
	return cmp.Or(
		// Only the zero value has rankNone; it is below v0.0.0-alpha.0 too.
		cmp.Compare(min(v.rank, rankAlpha), min(other.rank, rankAlpha)),
		cmp.Compare(v.major, other.major),
		cmp.Compare(v.minor, other.minor),
		cmp.Compare(v.patch, other.patch),
		cmp.Compare(v.rank, other.rank),
		cmp.Compare(v.n, other.n),
		cmp.Compare(v.since, other.since),
		cmp.Compare(v.commit, other.commit),
	)
}

// Less reports whether v is lower than other.
func (v Version) Less(other Version) bool { return v.Compare(other) < 0 }

// Channel returns the channel, "" for the zero Version. That of a build is "ci".
func (v Version) Channel() Channel {
	if v.IsBuild() {
		return ci
	}
	return v.rank.channel()
}

// Major returns the first number.
func (v Version) Major() int { return int(v.major) }

// Minor returns the second number.
func (v Version) Minor() int { return int(v.minor) }

// Patch returns the third number.
func (v Version) Patch() int { return int(v.patch) }

// MarshalText returns the text form; the zero Version has none and is an error.
func (v Version) MarshalText() ([]byte, error) {
	if v.IsZero() {
		return nil, fmt.Errorf("marshalling version: the zero version has no text form")
	}
	return []byte(v.String()), nil
}

// UnmarshalText is [Parse]. On error v is the zero Version.
func (v *Version) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	*v = parsed
	return err
}
