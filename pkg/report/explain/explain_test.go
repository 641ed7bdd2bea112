package explain

import (
	"bytes"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// page is docs/codes.md, as it is in the repository.
const page = "../../../docs/codes.md"

// TestPage compares the page with its sources. "make docs-pages" writes it.
func TestPage(t *testing.T) {
	if os.Getenv("WAYBILL_GOLDEN") == "write" {
		if err := os.WriteFile(page, []byte(Markdown()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(page); err != nil || string(raw) != Markdown() {
		t.Errorf("docs/codes.md is not what its sources say (%v): run make docs-pages", err)
	}
}

// TestEveryCodeHasOneEntry: no code is without an explanation, and no explanation
// is about a code that does not exist.
func TestEveryCodeHasOneEntry(t *testing.T) {
	all, err := parse(texts)
	if err != nil {
		t.Fatal(err)
	}
	var explained []verdict.Code
	for _, e := range all {
		explained = append(explained, e.Code)
	}
	codes := verdict.Codes()
	slices.Sort(codes)
	slices.Sort(explained)
	if !slices.Equal(codes, explained) {
		t.Errorf("the codes of the table:\n%v\nthose of codes.txt:\n%v", codes, explained)
	}
}

// TestTexts: texts are short, plain and complete.
func TestTexts(t *testing.T) {
	avoid := regexp.MustCompile(`(?i)\b(nobody|whoever|whatever|deeds?)\b`)
	for _, e := range All() {
		if len(e.Title) > 80 || strings.HasSuffix(e.Title, ".") {
			t.Errorf("%s: title %q: want at most 80 characters, without a stop", e.Code, e.Title)
		}
		for _, text := range []string{e.Title, e.What, e.Who, e.Attack} {
			if word := avoid.FindString(text); word != "" || len(text) > 300 || strings.Contains(text, "  ") {
				t.Errorf("%s: %q: want at most 300 characters, without %q", e.Code, text, word)
			}
		}
		if !strings.HasSuffix(e.What, ".") || e.Attack != "" && e.Attack[0] >= 'a' && !strings.HasPrefix(e.Attack, "what") {
			t.Errorf("%s: want sentences: %q, %q", e.Code, e.What, e.Attack)
		}
		if _, err := os.Stat("../../../" + strings.TrimPrefix(e.Read, home)); err != nil {
			t.Errorf("%s: %v", e.Code, err)
		}
	}
}

// TestAnchors: each address leads to one heading of the page, as GitHub names it.
func TestAnchors(t *testing.T) {
	headings := map[string]int{}
	for line := range strings.Lines(Markdown()) {
		if title := strings.TrimLeft(line, "#"); title != line {
			headings[strings.ReplaceAll(strings.ToLower(strings.TrimSpace(title)), " ", "-")]++
		}
	}
	for _, c := range verdict.Codes() {
		if _, anchor, _ := strings.Cut(URL(c), "#"); headings[anchor] != 1 {
			t.Errorf("%s: %d headings have the anchor %q", c, headings[anchor], anchor)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	const good = "== Group\nread: README.md\n\nTAMPERED Title\nwhat: What.\nwho: you\nattack: none\n"
	if all, err := parse(good); err != nil || len(all) != 1 || all[0].Attack != "" || all[0].Group != "Group" {
		t.Fatalf("%+v, %v", all, err)
	}
	for _, bad := range []string{
		strings.Replace(good, "who: you\n", "", 1), strings.Replace(good, "who:", "what:", 1), strings.Replace(good, " Title", "", 1),
		good + "try: x\nmore: y\n", strings.Replace(good, "What.", "", 1), strings.Replace(good, "what: ", "what:", 1),
	} {
		if _, err := parse(bad); err == nil {
			t.Errorf("parsed:\n%s", bad)
		}
	}
}

func TestText(t *testing.T) {
	for _, code := range []string{"UNSIGNED", "tampered", "USAGE"} {
		e, known := Of(code)
		if !known {
			t.Fatalf("%s is unknown", code)
		}
		var b bytes.Buffer
		if err := Text(&b, e); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(b.String()) {
			if len(line) > 81 && !strings.Contains(line, "://") {
				t.Errorf("%s: %q is wider than a terminal", code, line)
			}
		}
		for _, want := range []string{string(e.Code), e.Title, "What happened", "exit status", "What to do"} {
			if !strings.Contains(strings.Join(strings.Fields(b.String()), " "), want) {
				t.Errorf("%s: want %q:\n%s", code, want, b.String())
			}
		}
	}
	if _, known := Of("TAMPER"); known {
		t.Error("TAMPER is no code")
	}
}
