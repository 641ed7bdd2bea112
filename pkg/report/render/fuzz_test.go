package render_test

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/render"
)

// FuzzFinding: whatever others wrote into a finding, no form of it has a control
// character, a mark that changes the direction of text, or another structure
// than that of harmless text.
func FuzzFinding(f *testing.F) {
	for _, evil := range evils() {
		f.Add(evil)
	}
	f.Add("-----BEGIN CERTIFICATE-----\r\nMIIB\tAA==\n-----END CERTIFICATE-----\n")
	f.Add(strings.Repeat("0", 67)) // its title is cut
	f.Add("a\u2028b\u0085c\ufeffd")
	short, long := map[string]int{}, map[string]int{} // lines of each form
	for _, form := range render.Formats() {
		short[form] = lines(write(f, render.Format(form), filled("harmless")))
		long[form] = lines(write(f, render.Format(form), filled(strings.Repeat("harmless", 20)))) // what is cut in a title is below it whole
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 { // longer ones are cut
			return
		}
		for _, form := range render.Formats() {
			got := write(t, render.Format(form), filled(text))
			if i := strings.IndexFunc(got, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(got) {
				t.Errorf("%s of %q: %q is not printable", form, text, got[max(i, 0):])
			}
			if form == string(render.JSON) || form == string(render.SARIF) || form == string(render.Table) {
				continue // of a table, lines are filled up to its width; of the others, values are left out where they are empty
			}
			if n := lines(got); strings.TrimSpace(text) != "" && n != short[form] && n != long[form] {
				t.Errorf("%s of %q has %d lines, want %d or %d:\n%s", form, text, n, short[form], long[form], got)
			}
		}
	})
}

func lines(text string) int {
	return strings.Count(text, "\n")
}
