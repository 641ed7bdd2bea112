package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/testing/checkacts"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
)

func TestActsCanBeDone(t *testing.T) {
	program := checkacts.Each(command())
	checkacts.All(t, verdict.Consumer, program)
	checkacts.Written(t, "../../pkg/gate", program, "bymanifest.go", "bypolicy.go", "plan.go") // those judge for waybill gate and promote
	checkacts.Written(t, "../../pkg/backend/store", program)
}

// run executes the program and returns all that it prints.
func run(t *testing.T, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	cmd := command()
	cmd.SetArgs(args)
	cmd.SetOut(&said)
	cmd.SetErr(&said)
	cmd.SilenceErrors, cmd.SilenceUsage = true, true
	if err := cmd.ExecuteContext(t.Context()); err != nil {
		exit.Report(&said, cmd.CommandPath(), err)
	}
	return said.String()
}

// profileOf writes a profile whose release is at an address.
func profileOf(t *testing.T, address string) string {
	t.Helper()
	policy, err := policies.Read("kubernetes-release")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, raw := range map[string][]byte{
		"policy.yaml": policy, "root.json": trust.Embedded().Raw(),
		"profile.yaml": []byte("apiVersion: waybill/v1\nkind: Profile\nname: lantern\npolicy: policy.yaml\ntrustedRoot: root.json\n" +
			"places:\n  files: {canonical: \"" + address + "/{version}/\", release: \"" + address + "/{version}/\"}\n"),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "profile.yaml")
}

// TestActsNameTheCause: one code has several causes, and each its own act.
func TestActsNameTheCause(t *testing.T) {
	secret := httptest.NewTLSServer(http.NotFoundHandler())
	defer secret.Close()
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for _, row := range []struct {
		name string
		args []string
		says string // the code and the act
		not  string
	}{
		{"unknown authority", []string{"--profile", profileOf(t, secret.URL)}, "UNAVAILABLE … SSL_CERT_FILE", "try again"},
		{"offline", []string{"--profile", profileOf(t, secret.URL), "--offline"}, "UNAVAILABLE … → leave out --offline, or name a place on this machine", "try again"},
		{"no answer", []string{"--profile", profileOf(t, closed.URL)}, "UNAVAILABLE … → nothing was decided; try again when the place answers, and check the network and HTTPS_PROXY", ""},
		{"no profile", []string{"--profile", "there/is/none.yaml"}, "USAGE there/is/none.yaml … kubernetes, kubernetes-sealed", "--help"},
		{"no manifest", []string{"--profile", profileOf(t, empty.URL)}, "EVIDENCE_MISSING … check version, profile and address", "seal again"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.name == "no answer" {
				t.Setenv("WAYBILL_PATIENCE", "50ms")
			}
			said := run(t, append([]string{"v1.31.2"}, row.args...)...)
			rest := said
			for part := range strings.SplitSeq(row.says, " … ") {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Errorf("want %q in:\n%s", part, said)
				}
				rest = after
			}
			if row.not != "" && strings.Contains(said, row.not) {
				t.Errorf("do not want %q in:\n%s", row.not, said)
			}
		})
	}
}

// TestQuiet: one line with the answer, on stdout alone, for a refusal too; an error
// before there is a verdict is on stderr; what contradicts the flag is wrong use.
func TestQuiet(t *testing.T) {
	empty := httptest.NewServer(http.NotFoundHandler())
	defer empty.Close()
	profile := profileOf(t, empty.URL)
	saved := "json=" + filepath.Join(t.TempDir(), "verdict.json")
	for name, c := range map[string]struct {
		args     []string
		out, err int // lines
		code     int
	}{
		"refused":                     {[]string{"v0.1.0", "--quiet"}, 1, 0, 1},
		"and written to a file":       {[]string{"v0.1.0", "--quiet", "--output", saved}, 1, 0, 1},
		"in words":                    {[]string{"v0.1.0"}, 2, 1, 1},
		"the file alone":              {[]string{"v0.1.0", "--output", saved}, 0, 1, 1},
		"no verdict":                  {[]string{"v0.1.0", "--quiet", "--now", "noon"}, 0, 2, 2},
		"with everything":             {[]string{"v0.1.0", "--quiet", "--verbose"}, 0, 2, 2},
		"with a whole verdict":        {[]string{"v0.1.0", "--quiet", "--output", "markdown"}, 2, 2, 2},
		"with a report":               {[]string{"v0.1.0", "--quiet", "--report", "kep-3027"}, 0, 2, 2},
		"color that is none":          {[]string{"v0.1.0", "--color", "blue"}, 0, 2, 2},
		"color never":                 {[]string{"v0.1.0", "--color", "never", "--quiet"}, 1, 0, 1},
		"a report to a file is meant": {[]string{"v0.1.0", "--quiet", "--report", "kep-3027", "--output", "markdown=" + filepath.Join(t.TempDir(), "levels.md")}, 1, 0, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var out, errs bytes.Buffer
			cmd := command()
			cmd.SetArgs(append(c.args, "--profile", profile))
			cmd.SetOut(&out)
			cmd.SetErr(&errs)
			cmd.SilenceErrors, cmd.SilenceUsage = true, true
			code := exit.Report(&errs, cmd.CommandPath(), cmd.ExecuteContext(t.Context()))
			gotOut, gotErr := strings.Count(out.String(), "\n"), strings.Count(errs.String(), "\n")
			if code != c.code || gotOut < c.out || c.out < 2 && gotOut != c.out || gotErr != c.err {
				t.Errorf("exit %d\nstdout: %s\nstderr: %s", code, out.String(), errs.String())
			}
		})
	}
}

// TestExplainIsNoVersion: the subcommand explains, and versions are verified as
// before, also where a flag has its name as a value.
func TestExplainIsNoVersion(t *testing.T) {
	if said := run(t, "explain", "UNSIGNED"); !strings.HasPrefix(said, "UNSIGNED: ") {
		t.Error(said)
	}
	if said := run(t, "explain", "UNSIGND"); !strings.Contains(said, "malformed: USAGE CODE") || !strings.Contains(said, "similar: UNSIGNED") {
		t.Error(said)
	}
	for _, args := range [][]string{{"v1.31.2", "--profile", "explain"}, {"--profile", "explain", "v1.31.2"}, {"v1.31.2", "explain", "--profile", "explain"}} {
		if said := run(t, args...); !strings.Contains(said, `the profile file "explain" does not exist`) {
			t.Errorf("%q: %s", args, said)
		}
	}
}
