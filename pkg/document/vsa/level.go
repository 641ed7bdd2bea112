package vsa

import (
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// Level is an entry of the list of verified levels: a level on a track, such as
// SLSA_BUILD_LEVEL_3; a verified property, such as
// SLSA_SOURCE_TWO_PARTY_REVIEWED; FAILED; or a custom value.
type Level string

// levelFailed replaces the levels if the verification failed.
const levelFailed Level = "FAILED"

// The tracks of SLSA v1.2.
const (
	TrackBuild  = "BUILD"
	TrackSource = "SOURCE"
)

var (
	onTrack  = pattern.Lazy(`\ASLSA_([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*?)_LEVEL_(0|[1-9][0-9]?|UNEVALUATED)\z`)
	property = pattern.Lazy(`\ASLSA_[A-Z][A-Z0-9]*(_[A-Z0-9]+)+\z`)
	ownWord  = pattern.Lazy(`\A[[:graph:]]+\z`)
)

// parseLevel parses one level. Values with the prefix of SLSA must be SLSA
// levels.
func parseLevel(text string) (Level, error) {
	switch {
	case onTrack().MatchString(text) && strings.Count(text, "_LEVEL_") == 1:
	case strings.HasPrefix(strings.ToUpper(text), "SLSA"):
		if !property().MatchString(text) || strings.Contains(text, "_LEVEL") {
			return "", refuse("level %q has the prefix of SLSA levels, but is not one", short(text))
		}
	case strings.EqualFold(text, string(levelFailed)) && text != string(levelFailed):
		return "", refuse("level %q must be spelled %s", short(text), levelFailed)
	case len(text) > 200 || !ownWord().MatchString(text):
		return "", refuse("level %q is not a single printable word", short(text))
	}
	return Level(text), nil
}

// Track is the track of the level, or "".
func (l Level) Track() string {
	if m := onTrack().FindStringSubmatch(string(l)); m != nil {
		return m[1]
	}
	return ""
}

// Number is the number of the level on its track, if it has one.
func (l Level) Number() (int, bool) {
	m := onTrack().FindStringSubmatch(string(l))
	if len(m) < 3 || m[2] == "UNEVALUATED" {
		return 0, false
	}
	n, err := strconv.Atoi(m[2])
	return n, err == nil
}
