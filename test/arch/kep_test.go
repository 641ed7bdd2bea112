package arch_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// kepPage answers every requirement of KEP-3027.
const kepPage = "docs/kep-3027.md"

var (
	kepID      = regexp.MustCompile(`\A[A-Z][0-9](\.[0-9])?\z`)
	kepAnswer  = regexp.MustCompile(`\A(met|declared|not met|not implementable)\b`)
	kepTest    = regexp.MustCompile("\\A`([a-z0-9/_]+_test\\.go)` (Test[A-Za-z0-9]+)\\z")
	commandUse = regexp.MustCompile(`(?m)(?:\bUse: +"|^Use: )([a-z0-9-]+)`)
)

// kepLines are the lines of the KEP: goals, graduation criteria, user stories,
// and the work of each level.
func kepLines() []string {
	return strings.Fields("G1 G2 C1 C2 C3 U1 U2 U3 U4 L1.1 L1.2 L2.1 L2.2 L2.3 L2.4 L2.5 L2.6 L3.1 L3.2 L3.3 L4.1 L4.2 L4.3 L4.4 L4.5 L4.6")
}

// pageAnswersKEP refuses a page that does not answer every line of the KEP and
// every requirement, each with a command, code and a test that exist.
func pageAnswersKEP(tr *tree, page string) (refusals []string) {
	wrong := func(format string, args ...any) {
		refusals = append(refusals, kepPage+": "+fmt.Sprintf(format, args...))
	}
	var uses, sources []string
	for _, s := range tr.code() {
		if strings.HasPrefix(s.path, "cmd/") {
			text := readText(tr, s.path)
			sources = append(sources, text)
			for _, m := range commandUse.FindAllStringSubmatch(text, -1) {
				uses = append(uses, m[1])
			}
		}
	}
	for _, name := range tr.names {
		if strings.HasPrefix(name, "cmd/waybill/help/") {
			for _, m := range commandUse.FindAllStringSubmatch(readText(tr, name), 1) {
				uses = append(uses, m[1])
			}
		}
	}
	var seen []string
	for line := range strings.Lines(page) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		if len(cells) != 6 || !strings.HasPrefix(line, "|") || cells[0] == "id" || strings.HasPrefix(cells[0], "---") {
			continue
		}
		id := cells[0]
		if seen = append(seen, id); !kepID.MatchString(id) || !slices.Contains(kepLines(), id) {
			wrong("%q is no line of the KEP", id)
		}
		if !kepAnswer.MatchString(cells[2]) || cells[1] == "" {
			wrong("%s: want met, declared, not met or not implementable, got %q", id, cells[2])
		}
		if strings.HasPrefix(cells[2], "not") && !strings.Contains(cells[2], ": ") {
			wrong("%s: %q gives no reason", id, cells[2])
		}
		if why := missingCommand(cells[3], uses, sources); why != "" {
			wrong("%s: %s", id, why)
		}
		for _, path := range quoted(cells[4]) {
			if !slices.ContainsFunc(tr.names, func(n string) bool { return under(n, path) }) {
				wrong("%s: there is no %s", id, path)
			}
		}
		m := kepTest.FindStringSubmatch(cells[5])
		if len(quoted(cells[4])) == 0 || m == nil || !strings.Contains(readText(tr, m[1]), "\nfunc "+m[2]+"(t *testing.T)") {
			wrong("%s: want code and a test that exist, got %s and %s", id, cells[4], cells[5])
		}
	}
	for _, id := range kepLines() {
		if n := len(seen) - len(slices.DeleteFunc(slices.Clone(seen), func(s string) bool { return s == id })); n != 1 {
			wrong("%s is answered %d times", id, n)
		}
	}
	for _, id := range requirementsOfV01() {
		if !strings.Contains(page, "`"+id+"`") {
			wrong("it does not name %s", id)
		}
	}
	return refusals
}

// missingCommand says which word of a command, or which flag, no command has.
func missingCommand(cell string, uses, sources []string) string {
	list := quoted(cell)
	for _, command := range list {
		words := strings.Fields(command)
		for _, word := range words {
			flag, is := strings.CutPrefix(word, "--")
			if is && !slices.ContainsFunc(sources, func(s string) bool { return strings.Contains(s, `"`+flag+`"`) }) || !is && !slices.Contains(uses, word) {
				return fmt.Sprintf("no command has %q of %q", word, command)
			}
		}
	}
	if len(list) == 0 {
		return "no command"
	}
	return ""
}

// requirementsOfV01 are the ids of all requirements of SLSA v0.1.
func requirementsOfV01() (ids []string) {
	r, err := slsa.Trust{}.Judge(slsa.Question{Name: "a", Bytes: digest.SetOf([]byte("a"))})
	if err != nil {
		panic(err)
	}
	for _, a := range r.Answers {
		if a.Track == slsa.V01 {
			ids = append(ids, a.Requirement)
		}
	}
	return ids
}

// TestDocsKEP3027: the page answers everything, and each fault in it is found.
func TestDocsKEP3027(t *testing.T) {
	tr := parseTree(t, os.DirFS(root))
	page := readText(tr, kepPage)
	for _, r := range pageAnswersKEP(tr, page) {
		t.Error(r)
	}
	for _, row := range [][2]string{
		{"| L2.3 | images", "| L2.9 | images"}, {"| L2.3 |", "| L2.2 |"}, {"met: each index", "perhaps: each index"}, {"not implementable: people", "not implementable, people"},
		{"`waybill trace`", "`waybill follow`"}, {"--overriders`", "--underriders`"}, {"`waybill trace`", "none"},
		{"`pkg/gate/images.go`", "`pkg/gate/pictures.go`"}, {"test/attacks/image_test.go", "test/attacks/picture_test.go"}, {"TestGateImages", "TestGatePictures"},
		{"`build.hermetic`", "`build.closed`"},
	} {
		if bad := strings.Replace(page, row[0], row[1], 1); bad == page || len(pageAnswersKEP(tr, bad)) == 0 {
			t.Errorf("%q in place of %q is not found", row[1], row[0])
		}
	}
	if n := len(requirementsOfV01()); n != 31 {
		t.Errorf("%d requirements, want 31", n)
	}
}
