package stories

import (
	"context"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	flagLine    = regexp.MustCompile(`(?m)^ +(?:-\w, )?--([\w-]+) (string|stringArray|int) `)
	commandLine = regexp.MustCompile(`(?m)^  ([a-z]\S*) {2,}\S`)
)

// TestLongNoFlagIsEmpty: an unset variable never drops a check. Every flag of every
// command that takes text is refused where it is given empty, and every flag
// that counts once where it is given twice.
func TestLongNoFlagIsEmpty(t *testing.T) {
	t.Parallel()
	flags := 0
	var walk func(path []string)
	walk = func(path []string) {
		help, err := exec.CommandContext(t.Context(), path[0], append(path[1:len(path):len(path)], "--help")...).Output()
		if err != nil {
			t.Fatalf("%q --help: %v", path, err)
		}
		_, listed, _ := strings.Cut(string(help), "\nFlags:\n")
		listed, _, _ = strings.Cut(listed, "\nGlobal Flags:\n") // which are those of the program
		for _, f := range flagLine.FindAllStringSubmatch(listed, -1) {
			flags++
			flagIsChecked(t.Context(), t, path, f[1], f[2])
		}
		if !strings.Contains(string(help), " [command]") {
			return
		}
		for _, c := range commandLine.FindAllStringSubmatch(commandsOf(string(help)), -1) {
			if c[1] != "completion" && c[1] != "help" {
				walk(append(path[:len(path):len(path)], c[1]))
			}
		}
	}
	walk([]string{filepath.Join(bin, "waybill")})
	walk([]string{filepath.Join(bin, "k8s-verify-release")})
	if flags < 150 {
		t.Errorf("only %d flags were found", flags)
	}
}

// commandsOf is the part of a help text that lists commands.
func commandsOf(help string) string {
	_, after, _ := strings.Cut(help, "\nUsage:\n")
	before, _, _ := strings.Cut(after, "\nFlags:\n")
	return before
}

// flagIsChecked gives one flag empty, and twice, and with content: then nothing
// is said about the flag being empty or given twice.
func flagIsChecked(ctx context.Context, t *testing.T, path []string, flag, kind string) {
	t.Helper()
	run := func(values ...string) (int, string) {
		args := path[1:len(path):len(path)]
		for _, v := range values {
			args = append(args, "--"+flag, v)
		}
		cmd := exec.CommandContext(ctx, path[0], append(args, "--no-such-flag")...) // nothing is begun
		cmd.Dir = t.TempDir()
		out, _ := cmd.CombinedOutput() // its status is asked below
		return cmd.ProcessState.ExitCode(), string(out)
	}
	refused := func(why string, values ...string) {
		if code, out := run(values...); code != 2 || !strings.Contains(out, "USAGE") || !strings.Contains(out, "--"+flag) || !strings.Contains(out, why) {
			t.Errorf("%q --%s %q ended with %d:\n%s", path[1:], flag, values, code, out)
		}
	}
	value := "1"
	if flag == "output" && kind == "string" { // its words are checked as they are read
		value = "json"
	}
	refused("given, but empty", "")
	if kind == "stringArray" {
		refused("given, but empty", "1", "")
	} else {
		refused("given twice", value, value)
	}
	if _, out := run(value); strings.Contains(out, "given") {
		t.Errorf("%q --%s with content:\n%s", path[1:], flag, out)
	}
}
