package verdict

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestEveryCodeHasAShortPhrase(t *testing.T) {
	subject := regexp.MustCompile(`\A(the|no|a) [a-z]`)
	for _, c := range Codes() {
		phrase, counted := c.brief()
		switch {
		case phrase == "" || len(phrase) > 48 || phrase != strings.TrimSpace(phrase):
			t.Errorf("%s: %q: want 1 to 48 characters", c, phrase)
		case strings.HasSuffix(phrase, ".") || phrase[0] < 'a' || phrase[0] > 'z':
			t.Errorf("%s: %q: want no capital and no stop", c, phrase)
		case counted == subject.MatchString(phrase):
			t.Errorf("%s: %q: counted is %t, but only a clause about the whole release begins with its subject", c, phrase, counted)
		}
	}
	if !slices.IsSorted(Codes()) {
		t.Errorf("table.txt is not sorted by code")
	}
}

func TestShortPhrasesOfBothKinds(t *testing.T) {
	for c, want := range map[Code]struct {
		phrase  string
		counted bool
	}{
		Tampered: {"altered", true}, Expired: {"the manifest has expired", false},
		"NEVER_HEARD_OF": {"never_heard_of", true},
	} {
		if got, counted := c.brief(); got != want.phrase || counted != want.counted {
			t.Errorf("%s: %q, counted %t", c, got, counted)
		}
	}
}
