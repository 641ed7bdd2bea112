package stories

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// The part of GitHub's syntax that our workflows use. Reading is strict; what it
// means, actionlint checks.
type (
	githubWorkflow struct {
		Name        string               `json:"name"`
		On          map[string]any       `json:"true"` // on: what YAML 1.1 reads as yes
		Permissions map[string]string    `json:"permissions"`
		Concurrency map[string]any       `json:"concurrency"`
		Jobs        map[string]githubJob `json:"jobs"`
	}
	githubJob struct {
		RunsOn      string            `json:"runs-on"`
		Needs       string            `json:"needs"`
		Environment string            `json:"environment"`
		Timeout     int               `json:"timeout-minutes"`
		Permissions map[string]string `json:"permissions"`
		Strategy    map[string]any    `json:"strategy"`
		Container   map[string]string `json:"container"`
		Env         map[string]string `json:"env"`
		Uses        string            `json:"uses"`
		Steps       []githubStep      `json:"steps"`
	}
	githubStep struct {
		ID    string            `json:"id"`
		Name  string            `json:"name"`
		If    string            `json:"if"`
		Uses  string            `json:"uses"`
		With  map[string]any    `json:"with"`
		Env   map[string]string `json:"env"`
		Shell string            `json:"shell"`
		Run   string            `json:"run"`
	}
	githubAction struct {
		Name        string `json:"name"`
		Description string `json:"description"`
		Inputs      map[string]struct {
			Description string  `json:"description"`
			Required    bool    `json:"required"`
			Default     *string `json:"default"`
		} `json:"inputs"`
		Outputs map[string]struct {
			Description string `json:"description"`
			Value       string `json:"value"`
		} `json:"outputs"`
		Runs struct {
			Using string       `json:"using"`
			Steps []githubStep `json:"steps"`
		} `json:"runs"`
	}
)

// strictly reads YAML: an unknown key is an error, and so is one that is there
// twice.
func strictly(t *testing.T, file string, into any) {
	t.Helper()
	raw, err := yaml.YAMLToJSONStrict(contents(t, file))
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	faults, err := json.UnmarshalStrict(raw, into)
	if err := errors.Join(append(faults, err)...); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// checkout is the root of this repository.
func checkout(t *testing.T, elem ...string) string {
	t.Helper()
	return absolute(t, append([]string{"..", ".."}, elem...)...)
}

// A runner runs jobs of a workflow as GitHub does, as far as ours need it: the
// shell of each step runs with its environment, actions of this repository are
// run from their files, and those of GitHub are played.
type runner struct {
	scene     *scene.Scene
	artifacts string            // what jobs hand to each other
	programs  string            // first in the PATH
	tokens    *httptest.Server  // gives a job the token of its identity
	values    map[string]string // of expressions, by name
	env       []string          // of every step
	tamper    func(t *testing.T, workspace string)
	// repository, OWNER/NAME, is where workflows run whose file is an identity.
	repository string
}

// newRunner is a runner whose commands are those built here. GitHub's machines
// have sudo, which would ask for nothing there.
func newRunner(t *testing.T, s *scene.Scene) *runner {
	t.Helper()
	r := &runner{scene: s, artifacts: t.TempDir(), programs: t.TempDir(), values: map[string]string{
		"github.ref_name": scene.Version, "github.ref": "refs/tags/" + scene.Version, "github.server_url": "file://" + s.Dir, "github.repository": "lantern",
		"github.actor": "maintainer", "github.token": "job-token",
	}}
	for name, script := range map[string]string{
		"sudo":   "case $1 in --preserve-env=*) shift ;; esac\nexec \"$@\"\n",
		"docker": "test \"$(cat)\" = job-token\n",
		"make":   "test \"$*\" = build && ln -s '" + bin + "' bin\n",
	} {
		save(t, []byte("#!/bin/sh\n"+script), r.programs, name)
		if err := os.Chmod(filepath.Join(r.programs, name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r.tokens = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		as, bears := strings.CutPrefix(q.Header.Get("Authorization"), "Bearer job-of-")
		if !bears || q.URL.Query().Get("audience") != "sigstore" {
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		token := ""
		if strings.HasSuffix(as, ".yml") {
			token, _ = lab.Workflow{Repository: r.repository, File: as, Tag: scene.Version, Commit: strings.Repeat("a", 40)}.Token(s.Lab)
		} else {
			token = s.Lab.Token(as)
		}
		_, _ = fmt.Fprintf(w, `{"value":%q}`, token)
	}))
	t.Cleanup(r.tokens.Close)
	return r
}

// ended is how a job, or an action, ended.
type ended struct {
	code    int
	log     string
	dir     string // the workspace
	summary string
	outputs map[string]string
	path    []string
}

// job runs a job of a workflow file, under the identity that its certificate
// would name.
func (r *runner) job(t *testing.T, file, name, identity string) ended {
	t.Helper()
	var w githubWorkflow
	strictly(t, file, &w)
	job, there := w.Jobs[name]
	if !there {
		t.Fatalf("%s has no job %s", file, name)
	}
	env := slices.Clone(r.env)
	if job.Permissions["id-token"] == "write" {
		env = append(env, "ACTIONS_ID_TOKEN_REQUEST_URL="+r.tokens.URL+"/?v=2", "ACTIONS_ID_TOKEN_REQUEST_TOKEN=job-of-"+identity)
	}
	for key, value := range job.Env {
		env = append(env, key+"="+r.value(t, value, nil))
	}
	return r.steps(t, job.Steps, t.TempDir(), append(env, "PATH="+r.programs+":"+os.Getenv("PATH")), nil)
}

// steps runs steps in a workspace. The PATH is the last of the variables.
func (r *runner) steps(t *testing.T, steps []githubStep, dir string, env []string, local map[string]string) ended {
	t.Helper()
	all := ended{dir: dir, outputs: map[string]string{}}
	for _, step := range steps {
		if all.code != 0 && step.If != "always()" {
			continue
		}
		run := r.shell
		if step.Uses != "" {
			run = r.uses
		}
		one := run(t, step, dir, env, local)
		for _, added := range one.path {
			env = append(slices.Clone(env), "PATH="+added+":"+strings.TrimPrefix(env[len(env)-1], "PATH="))
		}
		all.log, all.summary, all.path = all.log+one.log, all.summary+one.summary, append(all.path, one.path...)
		all.code = max(all.code, one.code)
		for key, value := range one.outputs {
			all.outputs["steps."+step.ID+".outputs."+key] = value
		}
	}
	return all
}

// shell runs the script of a step.
func (r *runner) shell(t *testing.T, step githubStep, dir string, env []string, local map[string]string) ended {
	t.Helper()
	if strings.Contains(step.Run, "${{") {
		t.Fatalf("an expression is a part of the script:\n%s", step.Run)
	}
	files := t.TempDir()
	for _, name := range []string{"output", "summary", "path"} {
		save(t, nil, files, name)
	}
	cmd := exec.CommandContext(t.Context(), "bash", "--noprofile", "--norc", "-e", "-o", "pipefail", "-c", step.Run)
	cmd.Dir, cmd.Env = dir, append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "CI=") }), env...)
	cmd.Env = append(cmd.Env, "XDG_CACHE_HOME="+r.scene.Path("cache"), "WAYBILL_PATIENCE=2s", "RUNNER_TEMP="+files, "RUNNER_OS=Linux", "RUNNER_ARCH=X64",
		"GITHUB_OUTPUT="+filepath.Join(files, "output"), "GITHUB_STEP_SUMMARY="+filepath.Join(files, "summary"), "GITHUB_PATH="+filepath.Join(files, "path"))
	for key, value := range step.Env {
		cmd.Env = append(cmd.Env, key+"="+r.value(t, value, local))
	}
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	err := cmd.Run()
	if cmd.ProcessState == nil {
		t.Fatal(err)
	}
	e := ended{code: cmd.ProcessState.ExitCode(), log: log.String(), dir: dir, summary: string(contents(t, files, "summary")), outputs: map[string]string{}}
	e.path = strings.Fields(string(contents(t, files, "path")))
	for line := range strings.Lines(string(contents(t, files, "output"))) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		e.outputs[key] = value
	}
	return e
}

// ours are actions of this repository, used from here or from elsewhere.
var ours = regexp.MustCompile(`^(\./|waybill-release/waybill/)\.github/actions/([a-z-]+)(@v0\.1\.0)?$`)

// uses runs an action.
func (r *runner) uses(t *testing.T, step githubStep, dir string, env []string, local map[string]string) ended {
	t.Helper()
	with := map[string]string{}
	for key, value := range step.With {
		with[key] = r.value(t, fmt.Sprint(value), local)
	}
	if name := ours.FindStringSubmatch(step.Uses); len(name) > 0 {
		if name[2] == "setup-waybill" { // would install a release; here the commands are those of this commit
			return ended{dir: dir, path: []string{bin}}
		}
		return r.action(t, name[2], with, dir, env)
	}
	action, _, _ := strings.Cut(step.Uses, "@")
	switch action {
	case "actions/checkout":
		for _, name := range []string{"profile.yaml", "policy.yaml", "trusted_root.json", "signing_config.json"} {
			save(t, contents(t, r.scene.Path(name)), dir, name)
			save(t, contents(t, r.scene.Path(name)), dir, ".github", name) // where our own is
		}
	case "actions/setup-go":
	case "actions/upload-artifact": // modes of files are lost
		from, to := filepath.Join(dir, with["path"]), filepath.Join(r.artifacts, with["name"])
		if _, err := os.Stat(from); err != nil && with["if-no-files-found"] != "error" {
			break
		}
		if err := errors.Join(os.RemoveAll(to), copyPlain(from, to)); err != nil {
			t.Fatal(err)
		}
	case "actions/download-artifact":
		if err := copyPlain(filepath.Join(r.artifacts, with["name"]), dir); err != nil {
			t.Fatal(err)
		}
		if r.tamper != nil {
			r.tamper(t, dir)
		}
	default:
		t.Fatalf("this runner does not know %s", step.Uses)
	}
	return ended{dir: dir}
}

// copyPlain copies a file into a directory, or what a directory holds.
func copyPlain(from, to string) error {
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if info.IsDir() {
		return os.CopyFS(to, os.DirFS(from))
	}
	body, err := os.ReadFile(from)
	return errors.Join(err, os.MkdirAll(to, 0o755), os.WriteFile(filepath.Join(to, filepath.Base(from)), body, 0o644))
}

// action runs a composite action of this repository.
func (r *runner) action(t *testing.T, name string, with map[string]string, dir string, env []string) ended {
	t.Helper()
	var a githubAction
	at := checkout(t, ".github", "actions", name)
	strictly(t, filepath.Join(at, "action.yml"), &a)
	local := map[string]string{"github.action_path": at}
	for key, input := range a.Inputs {
		value, given := with[key]
		switch {
		case !given && input.Default == nil:
			t.Fatalf("%s needs %s", name, key)
		case !given:
			value = r.value(t, *input.Default, nil)
		}
		local["inputs."+key] = value
	}
	for key := range with {
		if _, there := a.Inputs[key]; !there {
			t.Fatalf("%s has no input %s", name, key)
		}
	}
	e := r.steps(t, a.Runs.Steps, dir, env, local)
	for key, value := range e.outputs {
		local[key] = value
	}
	e.outputs = map[string]string{}
	for key, output := range a.Outputs {
		if id := expression.FindStringSubmatch(output.Value); e.code == 0 || local[id[1]] != "" {
			e.outputs[key] = r.value(t, output.Value, local)
		}
	}
	return e
}

var expression = regexp.MustCompile(`\$\{\{ ([a-z0-9_.-]+) \}\}`)

// value replaces the expressions in a value.
func (r *runner) value(t *testing.T, text string, local map[string]string) string {
	t.Helper()
	return expression.ReplaceAllStringFunc(text, func(match string) string {
		name := expression.FindStringSubmatch(match)[1]
		for _, values := range []map[string]string{local, r.values} {
			if value, there := values[name]; there {
				return value
			}
		}
		t.Fatalf("the value of %s is not known here", name)
		return ""
	})
}
