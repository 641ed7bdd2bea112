package start_test

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
	"github.com/waybill-release/waybill/pkg/pipeline/start"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const lab = `{"issuer": "http://127.0.0.1:1", "bucket": "http://127.0.0.1:2", "registry": "127.0.0.1:3", "dir": "DIR", "trustedRoot": "DIR/trusted_root.json",
"signingConfig": "DIR/signing_config.json", "identities": {"builder": {"issuer": "http://127.0.0.1:1", "subject": "builder@lab.invalid"},
"builder-unisolated": {"issuer": "http://127.0.0.1:1", "subject": "unisolated@lab.invalid"}, "release": {"issuer": "http://127.0.0.1:1", "subject": "release@lab.invalid"}}}`

// project is a Go module in a clone with this remote, and the page of a lab;
// without a remote it is in no repository.
func project(t *testing.T, remote string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.test/hello\n", "main.go": "package main\n\nvar version = \"\"\n\nfunc main() {}\n", "README.md": "hello\n",
		"lab/lab.json": strings.ReplaceAll(lab, "DIR", filepath.Join(dir, "lab")),
	} {
		save(t, filepath.Join(dir, name), text)
	}
	if remote == "" {
		return dir
	}
	if _, err := exec.LookPath("git"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("git is not installed")
	}
	for _, args := range [][]string{{"init", "-q"}, {"remote", "add", "origin", remote}} {
		if out, err := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir}, args...)...).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	return dir
}

func save(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func workflows(repository string) map[string]string {
	return map[string]string{".github/workflows/build.yml": "builds " + repository + "\n", ".github/workflows/release.yml": "releases\n"}
}

// prepare prepares a project, and checks that every file can be read.
func prepare(t *testing.T, r start.Request) (start.Set, map[string]string) {
	t.Helper()
	r.Workflows = workflows
	set, err := start.Prepare(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, f := range set.Files {
		texts[f.Name] = string(f.Text)
	}
	rules, err := cel.New()
	if err != nil {
		t.Fatal(err)
	}
	_, err = policy.Parse([]byte(texts["policy.yaml"]), rules)
	_, err2 := plan.ParseConfig([]byte(texts["release.yaml"]))
	if err := errors.Join(err, err2, profile.Check([]byte(texts["profile.yaml"]))); err != nil {
		t.Fatalf("%v\n%s", err, texts["policy.yaml"])
	}
	return set, texts
}

// TestFilesSayWhatIsKnown: each row is a remote and a request.
func TestFilesSayWhatIsKnown(t *testing.T) {
	const github, elsewhere = "git@github.com:example/hello.git", "https://git.example.test/a/hello.git"
	for name, row := range map[string]struct {
		remote string
		with   start.Request
		says   map[string][]string // by file; "" for the notes
		never  string              // in any file
	}{
		"a lab": {github, start.Request{Lab: "lab"}, map[string][]string{
			"release.yaml": {"-X main.version={version}", "add: [\"README.md\"]", `files: "github://example/hello/{version}/"`},
			"profile.yaml": {`canonical: "github://example/hello/{version}/"`, `release: "gs+http://127.0.0.1:2/release/hello/{version}/"`, `trustedRoot: "lab/trusted_root.json"`, `release: "file:lab/tokens/release"`},
			"policy.yaml":  {`repository: "git+https://github.com/example/hello", ref: "refs/tags/{version}"`, `subject: "unisolated@lab.invalid"`, "lab: warn"},
			".gitignore":   {"/.waybill/\n", "/lab/\n"},
		}, "signing_config.json:"},
		"a lab without a remote": {"", start.Request{Lab: "lab"}, map[string][]string{
			"policy.yaml": {`repository: "git+file:///`}, "": {"git init", "git remote add origin"},
		}, "github.com/example"},
		"GitHub": {elsewhere, start.Request{GitHub: "example/hello"}, map[string][]string{
			"profile.yaml":                  {`release: "github://example/hello/{version}/"`, `signingConfig: "signing_config.json"`},
			"policy.yaml":                   {`example/hello/\\.github/workflows/build\\.yml@refs/tags/v`, `sourceRepositoryURI: "https://github.com/example/hello"`, `lab: "off"`, `sourceRepositoryRef: "refs/tags/{version}"`},
			".github/workflows/build.yml":   {"builds example/hello"},
			".github/workflows/release.yml": {"releases"},
			"signing_config.json":           {"fulcio.sigstore.dev"},
		}, "git.example.test"},
		"a remote on GitHub": {github, start.Request{}, map[string][]string{
			"policy.yaml": {`workflows/release\\.yml`}, "": {"--github example/hello"},
		}, "builds example/hello"},
		"a remote of an unknown host": {elsewhere, start.Request{}, map[string][]string{
			"release.yaml": {`repository: "https://git.example.test/a/hello"`, "https://dl.example.test/hello/{version}/"},
			"policy.yaml":  {"release@example.test", "# replace it"}, "": {"git.example.test", "--place", "replace the identities in policy.yaml"},
		}, "github"},
		"a place": {elsewhere, start.Request{Place: "gs://dl/hello/{version}/"}, map[string][]string{
			"release.yaml": {`files: "gs://dl/hello/{version}/"`}, "profile.yaml": {`release: "gs://dl/hello/{version}/"`},
		}, "dl.example.test"},
	} {
		t.Run(name, func(t *testing.T) {
			r := row.with
			if r.Dir = project(t, row.remote); r.Lab != "" {
				r.Lab = filepath.Join(r.Dir, r.Lab)
			}
			set, texts := prepare(t, r)
			notes := strings.Join(set.Notes, "\n")
			for file, list := range row.says {
				text := texts[file]
				if file == "" {
					text = notes
				}
				for _, want := range list {
					if !strings.Contains(text, want) {
						t.Errorf("%s lacks %q:\n%s", file, want, text)
					}
				}
			}
			for file, text := range texts {
				text = strings.ReplaceAll(text, "github.com/waybill-release/", "")
				if file != "signing_config.json" && strings.Contains(text, row.never) {
					t.Errorf("%s says %q:\n%s", file, row.never, text)
				}
			}
		})
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	for name, row := range map[string]struct {
		with          start.Request
		subject, says string
		code          verdict.Code
	}{
		"no module":             {start.Request{Dir: "lab"}, "go.mod", "no go.mod here", verdict.Usage},
		"no lab":                {start.Request{Dir: ".", Lab: "nowhere"}, "nowhere", "no lab runs", verdict.Usage},
		"another lab.json":      {start.Request{Dir: ".", Lab: "other"}, "other/lab.json", "not the page of a lab", verdict.ConfigParse},
		"a lab and GitHub":      {start.Request{Dir: ".", Lab: "lab", GitHub: "a/b"}, "--lab and --github", "one of them", verdict.Usage},
		"no repository":         {start.Request{Dir: ".", GitHub: "hello"}, "--github", "not OWNER/REPO", verdict.Usage},
		"a place without slash": {start.Request{Dir: ".", Place: "gs://dl"}, "--place", "must end in", verdict.Usage},
		"no .goreleaser.yaml":   {start.Request{Dir: ".", Convert: true}, ".goreleaser.yaml", "no such file", verdict.Usage},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(project(t, ""))
			save(t, "other/lab.json", "{}")
			_, err := start.Prepare(t.Context(), row.with)
			f := verdict.FindingOf("", err)
			if err == nil || f.Code != row.code || f.Subject != row.subject || !strings.Contains(err.Error(), row.says) || f.Fix == "" {
				t.Errorf("%v (%s of %q), next: %s", err, f.Code, f.Subject, f.Fix)
			}
		})
	}
}

func diff(t *testing.T, s start.Set) string {
	t.Helper()
	text, err := s.Diff(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// TestWriteReplacesNothing: a second run changes nothing, an edited file stays,
// and with replace it is replaced.
func TestWriteReplacesNothing(t *testing.T) {
	r := start.Request{Dir: project(t, "https://git.example.test/hello")}
	save(t, filepath.Join(r.Dir, ".gitignore"), "bin")
	set, texts := prepare(t, r)
	if err := errors.Join(set.Check(), set.Write(false)); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(r.Dir, ".gitignore")); err != nil || string(got) != "bin\n/.waybill/\n/staging/\n" {
		t.Errorf(".gitignore: %q, %v", got, err)
	}
	again, _ := prepare(t, r)
	if again.Writes(true) || diff(t, again) != "" {
		t.Errorf("a second run would write:\n%s", diff(t, again))
	}
	at := filepath.Join(r.Dir, "policy.yaml")
	save(t, at, strings.Replace(texts["policy.yaml"], "sequence: 1", "sequence: 2", 1))
	edited, _ := prepare(t, r)
	if err := errors.Join(edited.Check(), edited.Write(false)); err != nil || edited.Writes(false) || !edited.Writes(true) {
		t.Errorf("an edited file: %v", err)
	}
	if diff := diff(t, edited); !strings.Contains(diff, "\n-sequence: 2 ") || !strings.Contains(diff, "\n+sequence: 1 ") || !strings.HasPrefix(diff, "--- a/policy.yaml\n+++ b/policy.yaml\n@@ -4,7 +4,7 @@\n") {
		t.Errorf("the difference:\n%s", diff)
	}
	if err := os.Remove(filepath.Join(r.Dir, "profile.yaml")); err != nil {
		t.Fatal(err)
	}
	gone, _ := prepare(t, r)
	if f := verdict.FindingOf("", gone.Check()); f.Code != verdict.Usage || f.Subject != at || !strings.Contains(f.Fix, "--force") {
		t.Errorf("beside an edited file: %v", f)
	}
	if err := gone.Write(true); err != nil {
		t.Fatal(err)
	}
	if last, _ := prepare(t, r); last.Writes(true) {
		t.Errorf("it was not replaced:\n%s", diff(t, last))
	}
}

// TestWhatCannotBeWritten: new files are removed again.
func TestWhatCannotBeWritten(t *testing.T) {
	r := start.Request{Dir: project(t, ""), GitHub: "example/hello"}
	set, _ := prepare(t, r)
	save(t, filepath.Join(r.Dir, ".github"), "a file")
	err := set.Write(false)
	if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.Usage || f.Subject != filepath.Join(r.Dir, ".github", "workflows", "build.yml") || !strings.Contains(f.Fix, "writable") {
		t.Errorf("%v, next: %s", err, verdict.FindingOf("", err).Fix)
	}
	if _, err := os.Lstat(filepath.Join(r.Dir, "release.yaml")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("release.yaml was left: %v", err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(r.Dir, "policy.yaml")); err != nil {
		t.Skip(err)
	}
	if _, err := start.Prepare(t.Context(), start.Request{Dir: r.Dir}); verdict.FindingOf("", err).Code != verdict.FileType {
		t.Errorf("a link: %v", err)
	}
}

// TestAnotherRepositoryOfGoReleaser: a configuration may name another repository to
// publish at. That is no reason to trust what runs there.
func TestAnotherRepositoryOfGoReleaser(t *testing.T) {
	for name, row := range map[string]struct {
		remote, owner string
		with          start.Request
		place         string
		noted         bool
	}{
		"another":             {"git@github.com:example/hello.git", "stranger", start.Request{}, "github://stranger/hello/", true},
		"the same":            {"git@github.com:example/hello.git", "example", start.Request{}, "github://example/hello/", false},
		"another, and GitHub": {"", "stranger", start.Request{GitHub: "example/hello"}, "github://example/hello/", false},
		"another, at a place": {"git@github.com:example/hello.git", "stranger", start.Request{Place: "gs://dl/hello/{version}/"}, "gs://dl/hello/", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := row.with
			r.Dir, r.Convert = project(t, row.remote), true
			save(t, filepath.Join(r.Dir, ".goreleaser.yaml"), "release: {github: {owner: "+row.owner+", name: hello}}\n")
			set, texts := prepare(t, r)
			if policy := texts["policy.yaml"]; strings.Contains(policy, "stranger") || !strings.Contains(policy, `sourceRepositoryURI: "https://github.com/example/hello"`) {
				t.Errorf("the policy:\n%s", policy)
			}
			if !strings.Contains(texts["profile.yaml"], `release: "`+row.place) {
				t.Errorf("the profile lacks %s:\n%s", row.place, texts["profile.yaml"])
			}
			if notes := strings.Join(set.Notes, "\n"); strings.Contains(notes, "if it is not yours") != row.noted {
				t.Errorf("the notes: %s", notes)
			}
		})
	}
}

// TestLinksOutOfTheSource: a link of the source is neither read nor written through,
// if it leads elsewhere.
func TestLinksOutOfTheSource(t *testing.T) {
	link := func(t *testing.T, dir, to, name string) {
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Skip(err)
		}
	}
	t.Run("workflows", func(t *testing.T) {
		for _, inside := range []bool{true, false} {
			r := start.Request{Dir: project(t, ""), GitHub: "example/hello", Workflows: workflows}
			to := t.TempDir()
			if inside {
				to = "lab"
			}
			link(t, r.Dir, to, ".github")
			set, err := start.Prepare(t.Context(), r)
			if err == nil {
				err = set.Write(false)
			}
			if (err == nil) != inside {
				t.Errorf("a link to %s: %v", to, err)
			}
			if left, _ := os.ReadDir(to); !inside && len(left) > 0 {
				t.Errorf("it was written: %v", left)
			}
		}
	})
	t.Run("Dockerfile", func(t *testing.T) {
		r := start.Request{Dir: project(t, "git@github.com:example/hello.git"), Convert: true}
		secret := filepath.Join(t.TempDir(), "secret")
		save(t, secret, "VERY SECRET\n")
		save(t, filepath.Join(r.Dir, ".goreleaser.yaml"), "dockers: [{image_templates: [registry.example.test/hello]}]\n")
		link(t, r.Dir, secret, "Dockerfile")
		if set, _ := prepare(t, r); strings.Contains(strings.Join(set.Notes, "\n"), "SECRET") {
			t.Errorf("a note has it: %s", set.Notes)
		}
		if err := errors.Join(os.Remove(filepath.Join(r.Dir, "Dockerfile")), os.WriteFile(filepath.Join(r.Dir, "Dockerfile"), []byte("VERY SECRET\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
		if set, _ := prepare(t, r); !strings.Contains(strings.Join(set.Notes, "\n"), "SECRET") {
			t.Errorf("a file of the source is not read: %s", set.Notes)
		}
	})
	t.Run("device", func(t *testing.T) {
		r := start.Request{Dir: project(t, "")}
		link(t, r.Dir, os.DevNull, "go.sum")
		if _, err := start.Prepare(t.Context(), r); err == nil {
			t.Error("a device was read")
		}
	})
}

// TestSigningConfigIsOurs: projects sign with the services that Waybill's own
// releases use.
func TestSigningConfigIsOurs(t *testing.T) {
	own, err := os.ReadFile("../../../.github/signing_config.json")
	if err != nil {
		t.Fatal(err)
	}
	if copied, err := os.ReadFile("signing_config.json"); err != nil || string(copied) != string(own) {
		t.Errorf("it differs from .github/signing_config.json, %v", err)
	}
}
