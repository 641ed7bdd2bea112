package verdict

import (
	"regexp"
	"strings"
	"testing"
)

func TestEveryCodeHasAShortPhrase(t *testing.T) {
	subject := regexp.MustCompile(`\A(the|no|a) [a-z]`)
	for _, c := range Codes() {
		if strings.Count("\n"+briefs, "\n"+string(c)+" ") != 1 {
			t.Errorf("%s: want exactly one line in brief.txt", c)
		}
		phrase := c.brief()
		switch {
		case phrase == "" || len(phrase) > 48 || phrase != strings.TrimSpace(phrase):
			t.Errorf("%s: %q: want 1 to 48 characters", c, phrase)
		case strings.HasSuffix(phrase, ".") || phrase[0] < 'a' || phrase[0] > 'z':
			t.Errorf("%s: %q: want no capital and no stop", c, phrase)
		case c.counted() == subject.MatchString(phrase):
			t.Errorf("%s: %q: counted is %t, but only a clause about the whole release begins with its subject", c, phrase, c.counted())
		}
	}
	if lines := strings.Count(briefs, "\n"); lines != len(Codes()) {
		t.Errorf("brief.txt has %d lines for %d codes", lines, len(Codes()))
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
		if got := c.brief(); got != want.phrase || c.counted() != want.counted {
			t.Errorf("%s: %q, counted %t", c, got, c.counted())
		}
	}
}
