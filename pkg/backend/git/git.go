package git

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// git runs git against one repository directory.
type git struct {
	dir      string      // the git directory
	objects  string      // where objects are, if not in dir
	work     string      // the work tree, for commands that need one
	protocol string      // the only network protocol allowed, "" for none
	passed   []string    // variables of our own environment passed on to git
	replaced [][2]string // settings of the repository to override
}

// remoteVariables are the variables that a remote repository may need. None of
// them makes git read a configuration or run a program of its choice.
func remoteVariables() []string {
	return []string{
		"HOME", "SSH_AUTH_SOCK", "SSL_CERT_FILE", "SSL_CERT_DIR",
		"HTTPS_PROXY", "https_proxy", "NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy",
	}
}

func (g git) environment() []string {
	env := []string{
		"PATH=" + os.Getenv("PATH"),
		"LC_ALL=C",
		"GIT_DIR=" + g.dir,
		"GIT_CONFIG_NOSYSTEM=1",
		"GIT_CONFIG_GLOBAL=" + os.DevNull,
		"GIT_ATTR_NOSYSTEM=1",
		"GIT_NO_REPLACE_OBJECTS=1",
		"GIT_NO_LAZY_FETCH=1",
		"GIT_OPTIONAL_LOCKS=0",
		"GIT_TERMINAL_PROMPT=0",
		"GIT_ASKPASS=",
		"SSH_ASKPASS=",
		"GIT_SSH_COMMAND=ssh -o BatchMode=yes",
		// Unlike the settings below, this cannot be overridden by a repository:
		// one that lacks objects could name a program to fetch them with.
		"GIT_ALLOW_PROTOCOL=" + cmp.Or(g.protocol, "none"),
	}
	if g.work != "" {
		env = append(env, "GIT_WORK_TREE="+g.work)
	}
	if g.objects != "" {
		env = append(env, "GIT_OBJECT_DIRECTORY="+g.objects)
	}
	for _, name := range g.passed {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	config := [][2]string{
		{"safe.directory", g.dir},
		{"safe.directory", strings.TrimSuffix(g.dir, string(filepath.Separator)+".git")},
		{"core.hooksPath", os.DevNull},
		{"core.attributesFile", os.DevNull},
		{"core.fsmonitor", "false"},
		{"core.logAllRefUpdates", "false"},
		{"gc.auto", "0"},
		{"maintenance.auto", "false"},
		{"credential.helper", ""},
		{"transfer.fsckObjects", "true"},
		{"fetch.recurseSubmodules", "false"},
		{"protocol.allow", "never"},
	}
	if g.protocol != "" {
		config = append(config, [2]string{"protocol." + g.protocol + ".allow", "always"})
	}
	if file := os.Getenv("SSL_CERT_FILE"); file != "" && g.protocol == "https" {
		// Not every build of git's HTTP library reads the variable.
		config = append(config, [2]string{"http.sslCAInfo", file})
	}
	config = append(config, g.replaced...)
	env = append(env, "GIT_CONFIG_COUNT="+strconv.Itoa(len(config)))
	for i, pair := range config {
		n := strconv.Itoa(i)
		env = append(env, "GIT_CONFIG_KEY_"+n+"="+pair[0], "GIT_CONFIG_VALUE_"+n+"="+pair[1])
	}
	return env
}

// command prepares git with args. Arguments from outside must come after
// --end-of-options, or be ids or full names of references.
func (g git) command(ctx context.Context, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "git", append([]string{"--no-pager"}, args...)...)
	cmd.Env = g.environment()
	cmd.Dir = string(filepath.Separator)
	cmd.WaitDelay = 5 * time.Second // for children that keep the pipes open
	return cmd
}

// gitError says how git exited.
type gitError struct {
	act    string
	code   int
	stderr string
	err    error
}

func (e *gitError) Error() string {
	return fmt.Sprintf("git %s: %v: %q", e.act, e.err, e.stderr)
}

func (e *gitError) Unwrap() error { return e.err }

// run returns git's standard output.
func (g git) run(ctx context.Context, args ...string) (string, error) {
	cmd := g.command(ctx, args...)
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err := cmd.Run()
	if err == nil {
		return out.String(), nil
	}
	failed := &gitError{act: args[0], code: -1, stderr: lastLines(complaint.String()), err: err}
	if exit, is := errors.AsType[*exec.ExitError](err); is {
		failed.code = exit.ExitCode()
	}
	if cause := context.Cause(ctx); cause != nil {
		failed.err = cause
	}
	return "", failed
}

// lastLines returns the end of git's error output, where the reason is.
func lastLines(text string) string {
	const limit = 400
	text = strings.TrimSpace(text)
	if len(text) > limit {
		text = text[len(text)-limit:]
	}
	return text
}

// exitCode is git's exit code, -1 if there is none.
func exitCode(err error) int {
	if failed, is := errors.AsType[*gitError](err); is {
		return failed.code
	}
	return -1
}
