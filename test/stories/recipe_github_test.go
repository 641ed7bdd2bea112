package stories

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rhysd/actionlint"

	"github.com/waybill-release/waybill/cmd/waybill/deploy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// workflows are all that we ship: our own, and the examples.
func workflows(t *testing.T) []string {
	t.Helper()
	own, err := filepath.Glob(checkout(t, ".github", "workflows", "*"))
	if err != nil || len(own) != 4 {
		t.Fatalf("%q, %v", own, err)
	}
	for _, name := range []string{"github-build.yaml", "github-release.yaml", "github-tag.yaml", "github-workflow.yaml"} {
		own = append(own, checkout(t, "cmd", "waybill", "deploy", name))
	}
	return own
}

// pinned is an action by commit, with its version as a comment; our own action
// has a tag until there is a commit to name.
var pinned = regexp.MustCompile(`^(\./[a-z./-]+|actions/[a-z-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+|waybill-release/waybill/\.github/actions/[a-z-]+@v0\.1\.0 # pin the commit of this tag)$`)

// TestDocsWorkflows: actionlint finds nothing in any workflow, and each fault
// that is put into one; every action is pinned; no script has an expression in
// it, and each that has more than one line stops at the first error.
func TestDocsWorkflows(t *testing.T) {
	for _, file := range workflows(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text := string(contents(t, file))
			for _, fault := range lint(t, file, text) {
				t.Error(fault)
			}
			faults := map[string]string{
				"runs-on: ubuntu-24.04": "runs-on: ubuntu-1", "timeout-minutes": "timeout-hours", "run: ": "run: echo ${{ github.event.head_commit.message }} ",
			}
			if strings.HasSuffix(strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), "tag") { // only calls
				faults = map[string]string{"needs: build": "needs: built", "uses: ./": "uses: /", "id-token: write": "id-token: all"}
			}
			for old, with := range faults {
				if changed := strings.Replace(text, old, with, 1); changed == text || len(lint(t, file, changed)) == 0 {
					t.Errorf("with %q it is accepted", with)
				}
			}
			for _, used := range regexp.MustCompile(`uses: (.*)`).FindAllStringSubmatch(text, -1) {
				if !pinned.MatchString(used[1]) {
					t.Errorf("%s is not pinned", used[1])
				}
			}
			if _, names, says := strings.Cut(text, "\n#   type: uri\n"); says && !strings.HasPrefix(names, `#   claims: {runnerEnvironment: github-hosted, sourceRepositoryURI: "https://github.com/example/lantern"`) {
				t.Error("the identity in the comment is also that of a run of another repository, which calls this file")
			}
			var w githubWorkflow
			if filepath.Base(file) == "github-workflow.yaml" {
				return // TestDocsWorkflow reads it
			}
			strictly(t, file, &w)
			if len(w.Permissions) != 0 {
				t.Errorf("every job has the permissions %v", w.Permissions)
			}
			for name, job := range w.Jobs {
				if job.Permissions["contents"] == "" || job.Uses == "" && job.Timeout == 0 {
					t.Errorf("%s has %v and %d minutes", name, job.Permissions, job.Timeout)
				}
				safe(t, job.Steps)
			}
		})
	}
}

// TestDocsActions: the same of the composite actions.
func TestDocsActions(t *testing.T) {
	for _, name := range []string{"setup-waybill", "stage", "verify-release", "attest"} {
		var a githubAction
		strictly(t, checkout(t, ".github", "actions", name, "action.yml"), &a)
		if a.Runs.Using != "composite" || a.Name == "" || a.Description == "" {
			t.Errorf("%+v", a)
		}
		for input, i := range a.Inputs {
			if i.Description == "" || i.Required == (i.Default != nil) {
				t.Errorf("%s, %s: %+v", name, input, i)
			}
		}
		for _, step := range a.Runs.Steps {
			if step.Shell != "bash" || step.Uses != "" {
				t.Errorf("%s: %+v", name, step)
			}
		}
		safe(t, a.Runs.Steps)
	}
}

func safe(t *testing.T, steps []githubStep) {
	t.Helper()
	for _, step := range steps {
		script := strings.TrimSpace(step.Run)
		if strings.Contains(script, "${{") || strings.Contains(script, "\n") && !strings.HasPrefix(script, "set -euo pipefail\n") {
			t.Errorf("%s:\n%s", step.Name, script)
		}
	}
}

func lint(t *testing.T, file, text string) (faults []string) {
	t.Helper()
	l, err := actionlint.NewLinter(io.Discard, &actionlint.LinterOptions{})
	if err != nil {
		t.Fatal(err)
	}
	found, err := l.Lint(file, []byte(text), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range found {
		faults = append(faults, f.Error())
	}
	return faults
}

// isolating skips where steps cannot be isolated, except in CI.
func isolating(t *testing.T) {
	t.Helper()
	if why := scene.LowerLevel(t.Context(), bin); why != "" {
		if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_ISOLATION") != "" {
			t.Fatal(why)
		}
		t.Skip(why)
	}
}

// ends checks how a job ended.
func ends(t *testing.T, e ended, code int, said ...string) {
	t.Helper()
	if e.code != code {
		t.Fatalf("ended with status %d, want %d\n%s", e.code, code, e.log)
	}
	for _, s := range said {
		if !strings.Contains(e.log, s) {
			t.Errorf("did not say %q:\n%s", s, e.log)
		}
	}
}

// called is how the jobs of two workflow files sign: each under the name of its
// own file, as GitHub and Fulcio write it into certificates.
const (
	buildFile   = "build.yml"
	releaseFile = "release.yml"
)

// listsWorkflows has the policy list the identities that the comments of the
// two files name, of the lab's issuer instead of GitHub's.
func listsWorkflows(t *testing.T, r *runner, build, release string) {
	t.Helper()
	for role, file := range map[string]string{"builder": build, "release": release} {
		text := string(contents(t, file))
		pattern := regexp.MustCompile(`#   pattern: ('.*')\n`).FindStringSubmatch(text)
		claims := regexp.MustCompile(`#   claims: (\{.*\})\n`).FindStringSubmatch(text)
		if pattern == nil || claims == nil { // our own: policies/waybill-release.yaml has them
			pattern = []string{"", `'https://github\.com/` + r.repository + `/\.github/workflows/` + strings.TrimSuffix(filepath.Base(file), ".yml") + `\.yml@refs/tags/v.*'`}
			claims = []string{"", `{sourceRepositoryURI: "https://github.com/` + r.repository + `"}`}
		}
		issuer, subject := r.scene.Lab.Identity(role)
		workflows, _ := lab.Workflow{}.Identity(r.scene.Lab)
		edit(t, r.scene.Path("policy.yaml"), fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject),
			fmt.Sprintf("{issuer: %q, pattern: %s, type: uri, claims: %s}", workflows, pattern[1], claims[1]))
	}
}

// rendered are the workflow files for a repository, in a directory.
func rendered(t *testing.T, repository string) string {
	t.Helper()
	dir := t.TempDir()
	for path, text := range deploy.Workflows(repository) {
		save(t, []byte(text), dir, path)
		if strings.Contains(text, "example/lantern") {
			t.Errorf("%s still names the example", path)
		}
		if faults := lint(t, filepath.Join(dir, path), text); len(faults) > 0 {
			t.Errorf("%s: %v", path, faults)
		}
	}
	return filepath.Join(dir, ".github", "workflows")
}

// TestGithubRelease runs our own workflows, and those for other projects, in the
// lab, from the tag to the verified release: built by one identity, signed by
// another, each of which is the workflow file. A build that the builder did not
// sign, or that changed between the jobs, is refused; and so is the builder as
// the release identity.
func TestGithubRelease(t *testing.T) {
	isolating(t)
	own, theirs := checkout(t, ".github", "workflows"), rendered(t, "me/my.hello")
	for _, r := range []struct{ name, dir, repository string }{{"ours", own, "waybill-release/waybill"}, {"example", theirs, "me/my.hello"}} {
		t.Run(r.name, func(t *testing.T) {
			build, release := filepath.Join(r.dir, buildFile), filepath.Join(r.dir, releaseFile)
			run := newRunner(t, open(t))
			run.repository = r.repository
			listsWorkflows(t, run, build, release)
			// A directory, which the jobs hand on.
			edit(t, run.scene.Path("profile.yaml"), `staging: "gs+`+run.scene.Lab.Bucket+`/staging/lantern/{version}/"`, "staging: staging/{version}/")
			ends(t, run.job(t, build, "build", releaseFile), 1, "SIGNED_AS_ELSE", "use two workflows") // one identity is never both
			run.repository = "another/repository"                                                      // which calls the same file
			ends(t, run.job(t, build, "build", buildFile), 1, "SIGNED_AS_ELSE")
			run.repository = r.repository
			ends(t, run.job(t, build, "build", buildFile), 0)

			run.tamper = func(t *testing.T, dir string) {
				files := filepath.Join(t.TempDir(), "state")
				script(t, dir, "mkdir "+files+" && tar -xf build.tar -C "+files+" && printf x >> "+files+"/files/bin/linux/amd64/lantern && tar -cf build.tar -C "+files+" .")
			}
			e := run.job(t, release, "stage", releaseFile)
			ends(t, e, 1)
			if out := outcomeOf(t, run, "stage-reports", "stage"); out != "refused" {
				t.Errorf("outcome %s\n%s", out, e.log)
			}
			run.tamper = nil
			ends(t, run.job(t, release, "stage", buildFile), 1, "SIGNED_AS_ELSE", "use two workflows")
			staged := run.job(t, release, "stage", releaseFile)
			ends(t, staged, 0)
			run.tamper = func(t *testing.T, dir string) {
				script(t, dir, "tar -xf staging.tar && printf x >> staging/v0.1.0/bin/linux/amd64/lantern && tar -cf staging.tar staging && rm -r staging")
			}
			ends(t, run.job(t, release, "release", ""), 1, "TAMPERED")
			run.tamper = nil
			published := run.job(t, release, "release", "")
			ends(t, published, 0)
			if !strings.Contains(staged.summary, "lantern") || !strings.Contains(published.summary, "lantern") {
				t.Errorf("the summaries are\n%s\n%s", staged.summary, published.summary)
			}
			for report, name := range map[string]string{"stage-reports": "stage", "release-reports": "verdict"} {
				if out := outcomeOf(t, run, report, name); out != "accepted" {
					t.Errorf("%s: outcome %s", report, out)
				}
			}
		})
	}
}

// TestDocsGithubTag: the caller gives both jobs the right to get tokens, builds
// before it releases, and calls the two files that are beside it.
func TestDocsGithubTag(t *testing.T) {
	for _, dir := range []string{rendered(t, "me/my.hello"), checkout(t, ".github", "workflows")} {
		callsTwo(t, dir)
	}
}

func callsTwo(t *testing.T, dir string) {
	t.Helper()
	var w githubWorkflow
	strictly(t, filepath.Join(dir, "tag.yml"), &w)
	if len(w.Jobs) != 2 || w.Jobs["release"].Needs != "build" || w.On["push"] == nil {
		t.Errorf("%+v", w)
	}
	for name, job := range w.Jobs {
		var called githubWorkflow
		strictly(t, filepath.Join(dir, strings.TrimPrefix(job.Uses, "./.github/workflows/")), &called)
		if _, is := called.On["workflow_call"]; !is || len(called.On) != 1 || called.Name != name {
			t.Errorf("%s: called as %s, on %v", name, called.Name, called.On)
		}
		for inner, sub := range called.Jobs {
			for permission, grade := range sub.Permissions {
				if given := job.Permissions[permission]; given != grade && given != "write" {
					t.Errorf("%s, %s: %s: %s, but the caller passes on %v", name, inner, permission, grade, job.Permissions)
				}
			}
		}
	}
}

// TestDocsOwnSigning: our own profile names the signing services in .github,
// which are Sigstore's public ones.
func TestDocsOwnSigning(t *testing.T) {
	raw := contents(t, checkout(t, ".github", "signing_config.json"))
	services, err := sign.ParseServices(raw, time.Now())
	if err != nil || services.Fulcio != "https://fulcio.sigstore.dev" || len(services.Logs) != 1 || len(services.TSAs) != 1 {
		t.Errorf("%+v, %v", services, err)
	}
	p, err := os.ReadFile(checkout(t, ".github", "profile.yaml"))
	if err != nil || !strings.Contains(string(p), "\nsigningConfig: signing_config.json\n") {
		t.Errorf("%v: it does not name signing_config.json:\n%s", err, p)
	}
}

// script runs a shell script in a directory.
func script(t *testing.T, dir, text string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", text, err, out)
	}
}

// outcomeOf is the outcome of the verdict that a job uploaded.
func outcomeOf(t *testing.T, r *runner, artifact, name string) string {
	t.Helper()
	var v answer
	if err := json.Unmarshal(contents(t, r.artifacts, artifact, name+".json"), &v); err != nil {
		t.Fatal(err)
	}
	return v.Outcome
}
