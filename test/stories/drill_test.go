package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/drill"
	"github.com/waybill-release/waybill/test/scene"
)

// TestDocsIncident: a stolen identity is ended by the commands of the page, each place
// then refuses what the thief signed, and what was signed before stays accepted. The drill
// fails if a place does otherwise; here its commands and answers are those of the page.
func TestDocsIncident(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "docs", "how-to", "incident.md"))
	if err != nil {
		t.Fatal(err)
	}
	p := page{path: filepath.Join("..", "..", "docs", "how-to", "incident.md")}
	blocks, err := p.blocks()
	if err != nil {
		t.Fatal(err)
	}
	var commands []command
	for _, b := range blocks {
		commands = append(commands, b.commands()...)
	}
	last := len(commands) - 1
	lab := &strings.Replacer{}
	r, err := drill.Run(t.Context(), drill.Options{Bin: bin, Example: shell, Dir: t.TempDir(), Tell: t.Output(), Then: func(s *scene.Scene) error {
		lab = onThePage(t, s)
		policyOnThePage(t, s, lab, string(raw))
		p.dir, p.env, p.lab = s.Dir, []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, strings.NewReplacer()
		return p.typed(t.Context(), commands[last])
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Commands) != last {
		t.Fatalf("the drill ran %d commands, and the page shows %d and the one that measures", len(r.Commands), last)
	}
	handled := regexp.MustCompile(`( --handled \S+)+`)
	for i, c := range r.Commands {
		typed := handled.ReplaceAllString(strings.ReplaceAll(lab.Replace(c.Typed), "'", `"`), " --handled LOG/INDEX …")
		if said := commands[i]; strings.TrimSpace(said.typed) != typed || said.code != c.Status {
			t.Errorf("the page shows\n%s(exit %d)\nthe drill ran\n%s\n(exit %d)", said.typed, said.code, typed, c.Status)
		}
	}
	if first := r.Commands[0].Output; !strings.Contains(first, `"code": "LOG_UNEXPLAINED"`) {
		t.Errorf("no alarm:\n%s", first)
	}
	for i, c := range commands[1:last] {
		if begins, _, _ := strings.Cut(c.shows, "…"); !strings.Contains(r.Commands[i+1].Output, begins) {
			t.Errorf("$ %s\nshows %q on the page, and prints\n%s", c.typed, begins, r.Commands[i+1].Output)
		}
	}
	drilled(t, r, string(raw))
}

// onThePage replaces what is the lab's by what the page has.
func onThePage(t *testing.T, s *scene.Scene) *strings.Replacer {
	t.Helper()
	return strings.NewReplacer(s.Lab.Rekor, "https://log.example.test", s.Lab.Issuer, "https://accounts.example.test", "@lab.invalid", "@example.test")
}

// policyOnThePage compares the role in the policy with the lines on the page, but for the
// time.
func policyOnThePage(t *testing.T, s *scene.Scene, lab *strings.Replacer, page string) {
	t.Helper()
	at := regexp.MustCompile(`"20\d\d-[^"]*Z"`)
	_, role, _ := strings.Cut(lab.Replace(string(sceneFile(t, s, "policy.yaml"))), "\n  release:")
	role, _, _ = strings.Cut(role, "\n  verifier:")
	if !strings.Contains(at.ReplaceAllString(strings.ReplaceAll(page, "\n      -", "\n  -"), "TIME"), "    release:"+at.ReplaceAllString(role, "TIME")) {
		t.Errorf("the page does not show this role:%s", role)
	}
}

// drilled compares the report with the table of the page.
func drilled(t *testing.T, r drill.Report, page string) {
	t.Helper()
	want := map[string]string{
		"origin": "IDENTITY_WINDOW", "mirror": "IDENTITY_WINDOW", "kit": "IDENTITY_WINDOW", "gate check": "IDENTITY_WINDOW", "gate serve": "IDENTITY_WINDOW",
		"origin, old policy": "IDENTITY", "mirror, old policy": "IDENTITY", "kit, old policy": "WITHDRAWN",
	}
	for _, p := range r.Places {
		if want[p.String()] != p.Code || !p.Kept || p.RefusedAfter <= 0 || p.Because == "" {
			t.Errorf("%s: %+v", &p, p)
		}
		delete(want, p.String())
		if !strings.Contains(page, "`"+p.Code+"`") {
			t.Errorf("the page does not name %s", p.Code)
		}
	}
	if len(want) > 0 {
		t.Errorf("not asked: %v", want)
	}
	var table strings.Builder
	if err := r.WriteTable(&table); err != nil || strings.Count(table.String(), " s  IDENTITY_WINDOW") != 5 || !strings.Contains(table.String(), fmt.Sprintf("%d commands in ", len(r.Commands))) {
		t.Errorf("%v\n%s", err, table.String())
	}
}
