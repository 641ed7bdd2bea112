package stories

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// TestWrongUse: wrong use and malformed files end with status 2 and say what
// to do; the twin with the one thing right does not.
func TestWrongUse(t *testing.T) {
	s := open(t)
	plan := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "plan"}, flags...)...)
	}
	good := []string{scene.Version, "--profile", "profile.yaml", "--source", "lantern"}
	want(t, plan(good...), 0, "bin/linux/amd64/lantern")
	rows := map[string]struct {
		args []string
		said string
	}{
		"no version":      {[]string{"plan"}, "USAGE"},
		"not a version":   {[]string{"plan", "1.0", "--profile", "profile.yaml"}, "VERSION"},
		"only a profile":  {[]string{"build", scene.Version}, "--source"}, // the one of the directory
		"absent profile":  {[]string{"plan", scene.Version, "--profile", "absent.yaml"}, "absent.yaml"},
		"no source":       {[]string{"plan", scene.Version, "--profile", "profile.yaml"}, "--source"},
		"unknown flag":    {[]string{"plan", scene.Version, "--frobnicate"}, "frobnicate"},
		"unknown command": {[]string{"frobnicate"}, "frobnicate"},
		"nothing":         {nil, "give one of its subcommands"},
		"half a command":  {[]string{"verify"}, "give one of its subcommands"},
		"no such half":    {[]string{"verify", scene.Version}, "unknown command"},
		"an empty place":  {[]string{"verify", "release", scene.Version, "--profile", "profile.yaml", "--files", ""}, "empty"},
		"no such tag":     {[]string{"plan", scene.Version, "--profile", "profile.yaml", "--source", "lantern@v9.9.9"}, "create the tag"},
		"unknown token":   {append([]string{"stage"}, append(good, "--identity-token", "nobody=x")...), "builder-unisolated"},
		"unknown format":  {[]string{"gate", "check", scene.Version, "--profile", "profile.yaml", "--output", "poem"}, "poem"},
		"bad time":        {[]string{"gate", "check", scene.Version, "--profile", "profile.yaml", "--now", "noon"}, "--now"},
		"no state":        {[]string{"seal", scene.Version, "--profile", "profile.yaml", "--state", "nowhere"}, "waybill build"},
		"no token":        {append([]string{"build"}, good...), "--identity-token"},
		"no patience":     {append([]string{"build"}, append(good, "--patience", "-1s")...), "--patience"},
	}
	for name, row := range rows {
		t.Run(name, func(t *testing.T) {
			want(t, s.Run(t.Context(), append([]string{"waybill"}, row.args...)...), 2, row.said)
		})
	}
}

// TestDryRun: without --confirm nothing is written anywhere.
func TestDryRun(t *testing.T) {
	s := open(t)
	r := s.Run(t.Context(), "waybill", "stage", scene.Version, "--profile", "profile.yaml", "--state", "state", "--source", "lantern")
	want(t, r, 0, "nothing was done", "--confirm")
	if _, err := os.Stat(s.Path("state")); !os.IsNotExist(err) {
		t.Errorf("the state directory was made: %v", err)
	}
}

// TestTokenOnTheCommandLine: cosign takes a token itself there. Everybody on the
// machine can read it, so it is refused, and neither shown nor kept.
func TestTokenOnTheCommandLine(t *testing.T) {
	s := open(t)
	token := s.Lab.Token("release")
	for _, flags := range [][]string{{"--identity-token", "release=" + token}, {"--identity-token", token}, {"--identity", "release=" + token}} {
		args := []string{"waybill", "stage", scene.Version, "--profile", "profile.yaml", "--state", "state", "--source", "lantern", "--confirm"}
		r := s.Run(t.Context(), append(args, flags...)...)
		want(t, r, 2, "USAGE", "write a new token to a file")
		if said := r.Stdout + r.Stderr; strings.Contains(said, token[:40]) {
			t.Errorf("the token is shown: %s", said)
		}
		if _, err := os.Stat(s.Path("state")); !os.IsNotExist(err) {
			t.Errorf("the state directory was made: %v", err)
		}
	}
}

// TestSomebodyElsesToken: a genuine token of another role signs nothing.
func TestSomebodyElsesToken(t *testing.T) {
	s := open(t)
	for _, role := range []string{"builder", "builder-unisolated"} {
		if err := os.WriteFile(s.Path(role+".token"), []byte(s.Lab.Token("release")), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := s.Run(t.Context(), "waybill", "build", scene.Version, "--profile", "profile.yaml", "--source", "lantern",
		"--identity-token", "builder=builder.token", "--identity-token", "builder-unisolated=builder-unisolated.token")
	want(t, r, 1, "SIGNED_AS_ELSE")
	if _, err := os.Stat(s.Path(".waybill", "files", "provenance")); !os.IsNotExist(err) {
		t.Errorf("provenance was written: %v", err)
	}
}

// TestHelp: every command explains itself, with the one table of statuses.
func TestHelp(t *testing.T) {
	s := open(t)
	for _, line := range []string{
		"waybill plan", "waybill stage", "waybill release", "waybill status", "waybill build", "waybill sbom", "waybill sign",
		"waybill seal", "waybill promote", "waybill gate check", "waybill verify release", "k8s-verify-release",
	} {
		r := s.Run(t.Context(), append(strings.Fields(line), "--help")...)
		want(t, r, 0, "EXIT STATUS", "Examples:", "--profile")
	}
	for _, line := range []string{"waybill verify file", "waybill verify bundle", "waybill verify image"} {
		r := s.Run(t.Context(), append(strings.Fields(line), "--help")...)
		want(t, r, 0, "EXIT STATUS", "Examples:", "--certificate-identity", "--key", "--trusted-root", "--type", "--min-logs")
	}
	want(t, s.Run(t.Context(), "waybill", "inspect", "--help"), 0, "EXIT STATUS", "Examples:", "Nothing is verified", "--lint")
}
