package signoff

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// quoted is a foreign text, shortened and safe to print.
func quoted(text string) string {
	const limit = 80
	if utf8.RuneCountInString(text) > limit {
		text = string([]rune(text)[:limit]) + "…"
	}
	return fmt.Sprintf("%q", text)
}

// high are the characters that the upper half of Windows-1252 has in place of
// control characters.
var high = []rune{
	0x20ac, 0x81, 0x201a, 0x192, 0x201e, 0x2026, 0x2020, 0x2021, 0x2c6, 0x2030, 0x160, 0x2039, 0x152, 0x8d, 0x17d, 0x8f,
	0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x2dc, 0x2122, 0x161, 0x203a, 0x153, 0x9d, 0x17e, 0x178,
}

// mend repairs UTF-8 that was read as Windows-1252: a dash that became three characters is
// a dash again.
func mend(text string) string {
	var out, run strings.Builder
	var bytes []byte
	whole := true
	flush := func() {
		if whole && len(bytes) > 1 && utf8.Valid(bytes) {
			out.Write(bytes)
		} else {
			out.WriteString(run.String())
		}
		run.Reset()
		bytes, whole = bytes[:0], true
	}
	for _, r := range text {
		if r < utf8.RuneSelf {
			flush()
			out.WriteRune(r)
			continue
		}
		run.WriteRune(r)
		b, ok := in1252(r)
		bytes, whole = append(bytes, b), whole && ok
	}
	flush()
	return out.String()
}

func in1252(r rune) (byte, bool) {
	if r >= 0xa0 && r <= 0xff {
		return byte(r), true
	}
	for i, h := range high {
		if h == r {
			return byte(0x80 + i), true
		}
	}
	return 0, false
}

var (
	inBrackets = pattern.Lazy(`\[([^\]]*)\]\([^)]*\)`)
	optional   = pattern.Lazy(`(?i)\s*\(optional\)\s*$`)
)

// shown is a Markdown text with links replaced by their words.
func shown(text string) string { return inBrackets().ReplaceAllString(text, "$1") }

// key identifies a title, ignoring "(Optional)", damaged characters, case and
// punctuation.
func key(title string) string {
	title = optional().ReplaceAllString(shown(mend(title)), "")
	words := strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return strings.Join(words, " ")
}

// unfilled matches a placeholder line, such as TBD, maybe with a name or a date.
var unfilled = pattern.Lazy(`(?i)^[\W_]*(?:(?:tbd|todo|fixme|tba|tbc)\b(?:\W*|\s*[:(\[,\x{2013}\x{2014}-].*)` +
	`|(?:wip|xxx|coming soon|work in progress|to be (?:done|decided|determined|defined|confirmed|written|filled in))[\W_]*)$`)
