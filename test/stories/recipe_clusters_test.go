package stories

import (
	"encoding/xml"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/api/cloudbuild/v1"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/scene"
)

// A cluster runs the scripts of recipes for Google's services, on a machine
// whose account may create tokens of others.
type cluster struct {
	*scene.Scene
	env []string
	as  []string // the command under which scripts run
}

func newCluster(t *testing.T, s *scene.Scene) cluster {
	t.Helper()
	google := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		w.Header().Set("Metadata-Flavor", "Google")
		account, speaks := strings.CutPrefix(q.URL.Path, "/v1/projects/-/serviceAccounts/")
		role, project, _ := strings.Cut(strings.TrimSuffix(account, ":generateIdToken"), "@")
		switch {
		case strings.HasSuffix(q.URL.Path, "/default/token"):
			_, _ = fmt.Fprint(w, `{"access_token":"access"}`)
		case speaks && project == "example.iam.gserviceaccount.com" && q.Header.Get("Authorization") == "Bearer access":
			_, _ = fmt.Fprintf(w, `{"token":%q}`, s.Lab.Token(role))
		default:
			http.Error(w, "no", http.StatusForbidden)
		}
	}))
	t.Cleanup(google.Close)
	at, err := url.Parse(google.URL)
	if err != nil {
		t.Fatal(err)
	}
	return cluster{Scene: s, as: []string{"env"}, env: []string{
		"GCE_METADATA_HOST=" + at.Host, "GOOGLE_CLOUD_IAMCREDENTIALS_ENDPOINT=" + google.URL, "PATH=" + bin + ":" + os.Getenv("PATH"),
	}}
}

// runs executes a script in a directory with the project's documents; an
// address of GitHub is that of the scene.
func (c cluster) runs(t *testing.T, dir, text string, env ...string) ended {
	t.Helper()
	for _, name := range []string{"profile.yaml", "policy.yaml", "trusted_root.json", "signing_config.json"} {
		save(t, contents(t, c.Path(name)), dir, name)
	}
	args := append(slices.Clone(c.as), "bash", "-c", strings.ReplaceAll(text, "git+https://github.com/", "git+file://"+c.Dir+"/"))
	cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
	cmd.Dir, cmd.Env = dir, slices.Concat(os.Environ(), c.env, []string{"XDG_CACHE_HOME=" + filepath.Join(dir, "cache")}, env)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return ended{code: cmd.ProcessState.ExitCode(), log: string(out), dir: dir}
}

// unprivileged is a directory for scripts of an account that can isolate no step.
func (c *cluster) unprivileged(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if os.Geteuid() != 0 {
		return dir
	}
	uses(t, "setpriv")
	c.as = []string{"setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "env", "HOME=" + dir}
	for _, to := range []string{dir, bin, c.Dir} {
		if err := openUp(to); err != nil {
			t.Fatal(err)
		}
	}
	c.own(t, dir)
	c.own(t, c.Path("lantern"))
	return dir
}

// own gives a directory to the account under which scripts run.
func (c *cluster) own(t *testing.T, dir string) {
	t.Helper()
	if os.Geteuid() == 0 {
		script(t, dir, "chown -R 65534:65534 .")
	}
}

// failures counts those of a JUnit file, of which there must be one.
func failures(t *testing.T, elem ...string) (n int) {
	t.Helper()
	var junit struct {
		Suites []struct {
			Tests    int `xml:"tests,attr"`
			Failures int `xml:"failures,attr"`
		} `xml:"testsuite"`
	}
	if err := xml.Unmarshal(contents(t, elem...), &junit); err != nil || len(junit.Suites) == 0 {
		t.Fatalf("%+v, %v", junit, err)
	}
	for _, suite := range junit.Suites {
		n += suite.Failures
		if suite.Tests == 0 {
			t.Errorf("%q has no test", elem)
		}
	}
	return n
}

// TestDocsCloudBuildRelease: the build is one of the API, its scripts get what
// the trigger says as variables, and in the lab they release the example. The
// builder is the unisolated one, and a policy that asks for more refuses it.
func TestDocsCloudBuildRelease(t *testing.T) {
	b := deployed(t, "cloudbuild-release.yaml", func() any { return new(cloudbuild.Build) }).(*cloudbuild.Build)
	ids := []string{}
	for _, step := range b.Steps {
		ids = append(ids, step.Id)
		shebang, rest, _ := strings.Cut(step.Script, "\n")
		if !strings.Contains(step.Name, "@sha256:") || shebang != "#!/usr/bin/env bash" || !strings.HasPrefix(rest, "set -euo pipefail\n") || strings.Contains(rest, "${") || step.Entrypoint != "" || len(step.Args) > 0 {
			t.Errorf("%+v", step)
		}
	}
	if !slices.Equal(ids, []string{"stage", "release", "verify"}) || !b.Options.AutomapSubstitutions || b.ServiceAccount == "" || b.Substitutions["_SOURCE"] == "" || !slices.Equal(b.Artifacts.Objects.Paths, []string{"reports/*.xml"}) {
		t.Errorf("%q %+v", ids, b)
	}
	c := newCluster(t, open(t))
	variables := []string{"TAG_NAME=" + scene.Version, "_SOURCE=git+file://" + c.Path("lantern")}
	dir := c.unprivileged(t)
	save(t, nil, dir, "reports", "empty")
	c.own(t, dir)
	ends(t, c.runs(t, dir, b.Steps[1].Script, variables...), 1, "EVIDENCE_MISSING") // nothing is staged
	for _, step := range b.Steps {
		ends(t, c.runs(t, dir, step.Script, variables...), 0)
		if n := failures(t, dir, "reports", "junit_"+step.Id+".xml"); n != 0 {
			t.Errorf("%s: %d failures", step.Id, n)
		}
	}
	edit(t, c.Path("policy.yaml"), "sbom: require}\n", "sbom: require}\n  level: 2\n")
	ends(t, c.runs(t, dir, b.Steps[2].Script, variables...), 1, "LEVEL")
	if failures(t, dir, "reports", "junit_verify.xml") == 0 {
		t.Error("a refusal is no failure in the file")
	}
	if !strings.Contains(string(contents(t, checkout(t, "cmd", "waybill", "deploy", "cloudbuild-release.yaml"))), provenance.BuilderUnisolated) {
		t.Errorf("it does not name %s", provenance.BuilderUnisolated)
	}
}

// TestDocsProwRelease: the jobs are Prow's, with tags as branches; only the one
// that builds is privileged; and in the lab their scripts release the example,
// isolated, and write JUnit files, also of a refusal.
func TestDocsProwRelease(t *testing.T) {
	jobs := deployed(t, "prow-release.yaml", func() any { return new(prowJobs) }).(*prowJobs).Postsubmits["example/lantern"]
	if len(jobs) != 2 {
		t.Fatalf("%+v", jobs)
	}
	scripts := make([]string, 2)
	for i, job := range jobs {
		c := job.Spec.Containers[0]
		if len(c.Command) != 2 || c.Command[0] != "bash" || c.Command[1] != "-c" || len(c.Args) != 1 || !strings.HasPrefix(c.Args[0], "set -euo pipefail\n") || strings.Contains(c.Args[0], "$(") {
			t.Fatalf("%+v", c)
		}
		builds := c.SecurityContext.Privileged != nil && *c.SecurityContext.Privileged
		if builds != (i == 0) || !job.Decorate || *job.Spec.AutomountServiceAccountToken || !strings.Contains(c.Image, "@sha256:") || job.Annotations["testgrid-dashboards"] == "" ||
			!strings.HasPrefix(job.Branches[0], "^") || !strings.HasSuffix(job.Branches[0], "$") {
			t.Errorf("%+v", job)
		}
		scripts[i] = c.Args[0]
	}
	isolating(t)
	c := newCluster(t, open(t))
	artifacts := t.TempDir()
	run := func(script, ref string) ended {
		return c.runs(t, t.TempDir(), strings.ReplaceAll(script, "/state/release", filepath.Join(t.TempDir(), "release")),
			"PULL_BASE_REF="+ref, "REPO_OWNER=.", "REPO_NAME=lantern", "ARTIFACTS="+artifacts, "HOME="+t.TempDir())
	}
	ends(t, run(scripts[1], "publish/"+scene.Version), 1, "EVIDENCE_MISSING") // nothing is staged
	if n := failures(t, artifacts, "junit_release.xml"); n == 0 {
		t.Error("a refusal is no failure for TestGrid")
	}
	ends(t, run(scripts[0], scene.Version), 0)
	ends(t, run(scripts[1], "publish/"+scene.Version), 0)
	for _, name := range []string{"stage", "release", "verify"} {
		if n := failures(t, artifacts, "junit_"+name+".xml"); n != 0 {
			t.Errorf("%s: %d failures", name, n)
		}
	}
}
