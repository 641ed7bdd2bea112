package policy_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var shippedDir = filepath.Join("..", "..", "..", "policies")

// shipped is one policy of the repository, with its page and cases.
type shipped struct {
	policy.Policy
	raw, page, archive []byte
	cases              []policy.Case
}

func rules(t testing.TB) policy.Compiler {
	t.Helper()
	compiler, err := cel.New()
	if err != nil {
		t.Fatal(err)
	}
	return compiler
}

func beside(t testing.TB, name, ending string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join(shippedDir, name+ending))
	if err != nil {
		t.Fatalf("%s has no %s of its own: %v", name, ending, err)
	}
	return raw
}

func ship(t testing.TB, name string) shipped {
	t.Helper()
	s := shipped{raw: beside(t, name, ".yaml"), page: beside(t, name, ".md"), archive: beside(t, name, ".txtar")}
	var err error
	if s.Policy, err = policy.Parse(s.raw, rules(t)); err != nil {
		t.Fatalf("%s does not load: %v", name, err)
	}
	if s.cases, err = policy.ParseCases(s.archive); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return s
}

// shippedNames lists every policy of the repository. Other files lie there too.
func shippedNames(t testing.TB) (names []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(shippedDir, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name := strings.TrimSuffix(filepath.Base(path), ".yaml")
		if strings.Contains(string(beside(t, name, ".yaml")), "\nkind: Policy\n") {
			names = append(names, name)
		}
	}
	for _, name := range []string{
		"slsa-build-l1", "slsa-build-l2", "slsa-build-l3", "slsa-build-l4", "kep-3027-l1", "kep-3027-l2", "kep-3027-l3", "kubernetes-release", "kubernetes-today", "kubernetes-promotion", "waybill-release",
	} {
		if !slices.Contains(names, name) {
			t.Fatalf("%s is not shipped", name)
		}
	}
	return names
}

// TestShippedPolicies holds every policy of the repository against its page
// and its cases.
func TestShippedPolicies(t *testing.T) {
	index, err := os.ReadFile(filepath.Join(shippedDir, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range shippedNames(t) {
		t.Run(name, func(t *testing.T) {
			s := ship(t, name)
			if _, err := policy.Parse(s.raw, nil); err != nil {
				t.Errorf("k8s-verify-release, which compiles no rules, does not load it: %v", err)
			}
			if s.Name() != name {
				t.Errorf("it calls itself %q", s.Name())
			}
			if !strings.HasPrefix(string(s.page), "# "+name+"\n") || !strings.Contains(string(s.page), "\n## What it does not require\n") {
				t.Error("the page has another title, or does not say what the policy does not ask")
			}
			for _, file := range []string{name + ".yaml", name + ".md"} {
				if !strings.Contains(string(index), "("+file+")") {
					t.Errorf("policies/README.md does not list %s", file)
				}
			}
			if said := linted(string(s.page)); !slices.Equal(said, policy.Lint(s.Policy)) {
				t.Errorf("lint says\n%q\nthe page\n%q", policy.Lint(s.Policy), said)
			}
			if len(policy.Explain(s.Policy)) < 4 || len(policy.Overriders(s.Policy)) == 0 {
				t.Error("it explains nothing")
			}
			s.rehearse(t)
			s.shows(t)
			s.covers(t)
		})
	}
}

// linted are the notes that a page quotes.
func linted(page string) (notes []string) {
	_, section, _ := strings.Cut(page, "\n## What lint says\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if note, is := strings.CutPrefix(line, "- "); is {
			notes = append(notes, strings.TrimSpace(note))
		}
	}
	return notes
}

// rehearse asks every case, and demands that the page names every code.
func (s shipped) rehearse(t *testing.T) {
	t.Helper()
	report, err := policy.Rehearse(s.Policy, s.archive)
	if err != nil {
		t.Fatal(err)
	}
	refused := 0
	for _, c := range report.Cases {
		if !c.OK {
			t.Errorf("%s: %v, want %v: %v", c.Name, c.Got, c.Want, c.Why)
		}
		if c.Want[0] == "accepted" {
			continue
		}
		refused++
		for _, code := range c.Want {
			if !strings.Contains(string(s.page), "`"+code+"`") {
				t.Errorf("the page does not name %s", code)
			}
		}
	}
	t.Logf("%d cases: %d refused, %d accepted", len(report.Cases), refused, len(report.Cases)-refused)
}

// shows demands the five kinds of evidence that no policy may take, by name.
func (s shipped) shows(t *testing.T) {
	t.Helper()
	kinds := map[string][]string{
		"no evidence":              {"UNSIGNED"},
		"a stranger's signature":   {"IDENTITY"},
		" from before ":            {"IDENTITY_WINDOW"},
		"a signature of other byt": {"NOT_BOUND"},
		" signs an image":          {"IDENTITY_ROLE"},
	}
	for words, codes := range kinds {
		if !slices.ContainsFunc(s.cases, func(c policy.Case) bool {
			return strings.Contains(c.Name, words) && slices.ContainsFunc(c.Want, func(got string) bool { return slices.Contains(codes, got) })
		}) {
			t.Errorf("no case %q is refused with %v", words, codes)
		}
	}
}

// covers demands that each check that is required is missing in one case of
// its stage and class, and that each class is accepted in another.
func (s shipped) covers(t *testing.T) {
	t.Helper()
	absent := map[policy.Check]string{policy.Provenance: "NO_PROVENANCE", policy.Signature: "UNSIGNED", policy.SBOM: "NO_SBOM", policy.Summary: "NO_EVIDENCE"}
	has := func(stage policy.Stage, class plan.Class, answer string) bool {
		return slices.ContainsFunc(s.cases, func(c policy.Case) bool {
			return c.Ask.Stage == stage && c.Ask.Class == class && slices.Contains(c.Want, answer)
		})
	}
	for _, stage := range []policy.Stage{policy.Staging, policy.Published} {
		for _, class := range policy.Judged() {
			for _, check := range policy.ChecksOf(class) {
				if s.Asks(stage, class, check) == policy.Require && !has(stage, class, absent[check]) {
					t.Errorf("no case lacks the %s of %s at stage %s", check, class, stage)
				}
			}
			if !has(stage, class, "accepted") {
				t.Errorf("no case of %s is accepted at stage %s", class, stage)
			}
		}
		if s.Asks(stage, plan.SBOM, policy.Signature) == policy.Require && (!has(stage, plan.SBOM, "UNSIGNED") || !has(stage, plan.SBOM, "accepted")) {
			t.Errorf("no case lacks the list of SBOMs at stage %s, or none has it", stage)
		}
	}
}

// TestShippedLives holds every policy that has an end against it.
func TestShippedLives(t *testing.T) {
	now := time.Date(2026, 11, 20, 0, 0, 0, 0, time.UTC)
	for _, name := range shippedNames(t) {
		p := ship(t, name).Policy
		if err := p.Life(now); err != nil {
			t.Errorf("%s is refused while it is valid: %v", name, err)
		}
		if p.Expires().IsZero() {
			continue
		}
		if err := p.Life(p.Expires()); code(err) != verdict.PolicyExpired {
			t.Errorf("%s after its end: %v", name, err)
		}
	}
}

func code(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// TestShippedRefuseLab says which policies judge by a lab's trust root: the
// template for beginners, and the one of the lab itself.
func TestShippedRefuseLab(t *testing.T) {
	for _, name := range shippedNames(t) {
		p, lab := ship(t, name).Policy, name == "slsa-build-l1" || name == "example-release"
		if err := p.Root(true, time.Time{}, time.Now()); (err == nil) != lab || err != nil && code(err) != "TRUST_LAB" {
			t.Errorf("%s by a lab's root: %v", name, err)
		}
		if err := p.Root(false, time.Time{}, time.Now()); err != nil {
			t.Errorf("%s by a real root: %v", name, err)
		}
	}
}

// TestKubernetesTodayIsNeverComplete asks what the policy lacks of each class
// alone: whatever is looked at, something would have to be proven besides.
func TestKubernetesTodayIsNeverComplete(t *testing.T) {
	today, whole := ship(t, "kubernetes-today"), ship(t, "kubernetes-release")
	for _, stage := range []policy.Stage{policy.Staging, policy.Published} {
		for _, class := range append(policy.Judged(), "") {
			lacks := today.Lacks(stage, []plan.Class{class})
			for _, want := range []string{"plan", "closed files", "closed images"} {
				if !slices.Contains(lacks, want) {
					t.Errorf("of %q at stage %s it does not lack %s", class, stage, want)
				}
			}
			for _, check := range policy.ChecksOf(class) {
				if is := slices.Contains(lacks, string(check)+" of "+string(class)); is != (check != policy.Summary && today.Asks(stage, class, check) != policy.Require) {
					t.Errorf("%s of %s at stage %s: lacks it %t", check, class, stage, is)
				}
			}
		}
		if lacks := whole.Lacks(stage, policy.Judged()); len(lacks) > 0 {
			t.Errorf("kubernetes-release lacks %q at stage %s", lacks, stage)
		}
	}
}

// TestPromotionStopsWhatIsStale holds the promoter's gate against a manifest
// that lay in staging too long. What is out may get old.
func TestPromotionStopsWhatIsStale(t *testing.T) {
	signed := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	const day = 24 * time.Hour
	promotion, released := ship(t, "kubernetes-promotion"), ship(t, "kubernetes-release")
	for age, stale := range map[time.Duration]bool{0: false, 14 * day: false, 14*day + time.Second: true, 400 * day: true} {
		if err := promotion.Fresh("manifest", signed, signed.Add(age)); (code(err) == verdict.Stale) != stale {
			t.Errorf("promoting what was signed %s ago: %v", age, err)
		}
		if err := released.Fresh("manifest", signed, signed.Add(age)); err != nil {
			t.Errorf("verifying what was signed %s ago: %v", age, err)
		}
	}
}

// TestLevelsDiffer says of each template which levels it takes.
func TestLevelsDiffer(t *testing.T) {
	for name, want := range map[string]string{
		"slsa-build-l1": "at SLSA Build level 1", "slsa-build-l2": "at SLSA Build level 2", "slsa-build-l3": "at SLSA Build level 3", "slsa-build-l4": "at SLSA Build level 4",
		"kep-3027-l1": "at v0.1=1", "kep-3027-l2": "at v0.1=2", "kep-3027-l3": "at v0.1=3",
	} {
		s := ship(t, name)
		var asked strings.Builder
		for _, section := range policy.Explain(s.Policy) {
			asked.WriteString(strings.Join(section.Lines, "\n"))
		}
		if n := strings.Count(asked.String(), "at SLSA Build level") + strings.Count(asked.String(), "at v0.1="); n == 0 || n != strings.Count(asked.String(), want) {
			t.Errorf("%s does not ask for %s everywhere", name, want)
		}
	}
}
