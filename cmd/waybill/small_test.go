package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// TestSchemaKinds: an unknown kind is refused with the list of kinds; a known one prints
// its schema.
func TestSchemaKinds(t *testing.T) {
	said := execute(t, "schema", "nonsense")
	for _, d := range documentKinds() {
		if !strings.Contains(said, d.name) {
			t.Errorf("the refusal does not name %s: %s", d.name, said)
		}
		if text := execute(t, "schema", d.name); !strings.HasPrefix(text, "{\n") {
			t.Errorf("schema %s prints %q", d.name, text)
		}
	}
	if !strings.Contains(said, "USAGE KIND") {
		t.Errorf("schema nonsense: %s", said)
	}
}

// TestMergeOfShards: a merge accounts for all shards, so it takes no shard.
func TestMergeOfShards(t *testing.T) {
	dir := t.TempDir()
	manifest, plan := filepath.Join(dir, "m.yaml"), filepath.Join(dir, "plan.json")
	text := "registries:\n- {name: a.example.test/x, src: true}\n- {name: b.example.test/x}\nimages:\n- name: lantern\n  dmap:\n    \"sha256:" + strings.Repeat("a", 64) + "\": [v1]\n"
	if err := os.WriteFile(manifest, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(plan, []byte(execute(t, "promote", "plan", manifest, "--output", "json")), 0o600); err != nil {
		t.Fatal(err)
	}
	if said := execute(t, "sbom", "images", plan, "--to", dir, "--merge", "--shard", "1/2"); !strings.Contains(said, "either --shard or --merge") {
		t.Error(said)
	}
	if said := execute(t, "sbom", "images", plan, "--to", dir, "--merge"); !strings.Contains(said, "REFUSED") {
		t.Error(said)
	}
}

// TestManPages: there is a page for each command, with each of its flags, in ASCII, and
// no line of its text is a command of man.
func TestManPages(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "man")
	execute(t, "man", dir)
	macro := regexp.MustCompile(`^\.(TH|SH|TP|B|nf|fi)\b`)
	pages := 0
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		raw, err := os.ReadFile(filepath.Join(dir, strings.ReplaceAll(c.CommandPath(), " ", "-")+".1"))
		if err != nil {
			t.Fatal(err)
		}
		pages++
		for line := range strings.Lines(string(raw)) {
			if (line[0] == '.' || line[0] == '\'') && !macro.MatchString(line) || strings.ContainsFunc(line, func(r rune) bool { return r > 127 }) {
				t.Errorf("%s: line %q", c.CommandPath(), line)
			}
		}
		text := strings.ReplaceAll(string(raw), `\-`, "-")
		for _, want := range []string{".SH NAME\n", c.Short, ".SH EXIT STATUS\n", "--log-format"} {
			if !strings.Contains(text, want) && (want != ".SH EXIT STATUS\n" || strings.Contains(c.Long, "EXIT STATUS")) {
				t.Errorf("%s: no %q", c.CommandPath(), want)
			}
		}
		for _, sub := range c.Commands() {
			if sub.IsAvailableCommand() {
				visit(sub)
			}
		}
	}
	top := root()
	top.InitDefaultCompletionCmd()
	visit(top)
	if there, err := filepath.Glob(dir + "/*.1"); err != nil || len(there) != pages || pages < 40 {
		t.Errorf("%d pages for %d commands, %v", len(there), pages, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said := execute(t, "man", file); !strings.Contains(said, "NOT_WRITABLE") {
		t.Errorf("a file in place of the directory: %s", said)
	}
}

// TestCompletion: flags with few values offer those that the command has.
func TestCompletion(t *testing.T) {
	for typed, want := range map[string]string{
		"schema|":                      "release\nlock\nprofile\n",
		"plan|--output|":               "table\njson\n:4",
		"verify|release|--output|":     "table\njson\njunit\nsarif\nmarkdown\nhtml\n:4",
		"gate|check|--stage|":          "staging\nrelease\n:4",
		"signoff|check|--stage|":       "alpha\nbeta\nstable\n:4",
		"doctor|--for|":                "build\nstage\nrelease\nverify\n:4",
		"policy|sign|--identity|":      "policy=ambient\n",
		"policy|except|--code|":        "TAG_CONFLICT\n",
		"verify|file|--type|":          "slsaprovenance1\n",
		"verify|release|--log-format|": "text\njson\n:4",
		"signoff|attest|--to|":         ":0",
	} {
		args := append([]string{"__complete"}, strings.Split(typed, "|")...)
		if said := execute(t, args...); !strings.Contains(said, want) || want == ":0" && !strings.HasPrefix(said, want) {
			t.Errorf("%s: %q, want %q", typed, said, want)
		}
	}
}

// TestDoctorListsUnusableSource: a source of tokens that cannot be used here is a bad
// item of doctor, beside the others; other commands refuse it.
func TestDoctorListsUnusableSource(t *testing.T) {
	for _, name := range []string{"ACTIONS_ID_TOKEN_REQUEST_URL", "SIGSTORE_ID_TOKEN", "GCE_METADATA_HOST"} {
		t.Setenv(name, "")
	}
	profile := filepath.Join(t.TempDir(), "profile.yaml")
	args := []string{"v0.1.0", "--profile", profile, "--identity", "release=nonsense"}
	if said := execute(t, append([]string{"doctor"}, args...)...); strings.Contains(said, "is not a source of tokens") && !strings.Contains(said, "ok    disk") {
		t.Errorf("doctor ends with the source: %s", said)
	} else if !strings.Contains(said, "bad   ") || !strings.Contains(said, "disk") {
		t.Errorf("doctor lists nothing else: %s", said)
	}
	if said := execute(t, append([]string{"doctor"}, append(args[:3:3], "--identity", "unknown=ambient")...)...); !strings.Contains(said, "USAGE --identity") {
		t.Errorf("a name that no command knows: %s", said)
	}
}
