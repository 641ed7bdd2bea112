package roots

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// judge asks waybill verify about a bundle that is none. Which code comes back
// says whether there was a trust root to judge it by, and the verdict which.
func (c *client) judge(want verdict.Code, root digest.Digest, flags ...string) {
	c.t.Helper()
	c.file("torn.json", []byte("{"))
	c.file("a.bin", []byte("a"))
	cmd := exec.CommandContext(c.t.Context(), waybill, append([]string{
		"verify", "bundle", "torn.json", "a.bin", "--certificate-identity", "a@example.test", "--certificate-oidc-issuer", "https://issuer.example.test",
		"--output", "json", "--cache", c.cache, "--now", c.now.Format(time.RFC3339),
	}, flags...)...)
	cmd.Dir = c.dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	_ = cmd.Run() // its status is asked below
	if got := cmd.ProcessState.ExitCode(); got != verdict.ExitCode(want.Outcome()) || !strings.Contains(stdout.String()+stderr.String(), string(want)) {
		c.t.Fatalf("ended with %d, want %s\n%s%s", got, want, stdout.String(), stderr.String())
	}
	var v struct{ TrustRoot string }
	if !root.IsZero() && (json.Unmarshal(stdout.Bytes(), &v) != nil || v.TrustRoot != root.String()) {
		c.t.Errorf("judged by %q, want %s\n%s", v.TrustRoot, root, stdout.String())
	}
}

// Without a file, verification is judged by what the repository says: it is
// asked once a day, and where it must be asked and does not answer, nothing is
// decided. Neither an older root nor the carried copy stands in for it.
func TestVerifyAsksTheRepository(t *testing.T) {
	other := append([]byte(" "), trust.Embedded().Raw()...)
	sum, embedded := digest.Of(digest.SHA256, other), trust.Embedded().Digest()
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": other})
	c.initialise(r)
	honest := r.Files()
	r.Asked() // forget the first
	c.judge(verdict.BundleParse, sum)
	c.now = now.Add(23 * time.Hour)
	c.judge(verdict.BundleParse, sum)
	if asked := r.Asked(); len(asked) > 0 {
		t.Errorf("asked within a day: %q", asked)
	}
	c.now = now.Add(25 * time.Hour)
	r.Serve(nil)
	c.judge(verdict.TrustDown, digest.Digest{})
	due := c.now
	c.now = trust.Embedded().Date().AddDate(0, 0, 1)
	c.judge(verdict.BundleParse, embedded, "--offline")
	c.now = due
	r.Serve(honest)
	r.Asked()
	c.judge(verdict.BundleParse, sum)
	if len(r.Asked()) == 0 {
		t.Error("never asked again")
	}
	c.now = now
	r.Asked()
	c.judge(verdict.BundleParse, sum) // that an earlier run supposed another time proves nothing
	if len(r.Asked()) == 0 {
		t.Error("what was fetched in a supposed future is taken for fresh")
	}
	c.now = now.AddDate(0, 0, -1)
	c.judge(verdict.Clock, digest.Digest{})
}

// E15: the floor of the cache goes with the cache; one that is named does not.
func TestFloorWithoutACache(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	old := r.Files()
	c.initialise(r)
	c.refuses(verdict.TUFRollback, "update", "--min-root", "2")
	r.Rotate("timestamp")
	r.Publish(nil)
	c.must("update", "--min-root", "2")
	c.must("show", "--min-root", "2")
	c.judge(verdict.BundleParse, trust.Embedded().Digest(), "--min-root", "2")
	c.judge(verdict.TUFRollback, digest.Digest{}, "--min-root", "3")
	if err := os.RemoveAll(c.cache); err != nil {
		t.Fatal(err)
	}
	r.Serve(old)
	root := c.file("1.root.json", r.File("1.root.json"))
	c.refuses(verdict.TUFRollback, "init", "--tuf", r.URL, "--root", root, "--min-root", "2")
	c.must("init", "--tuf", r.URL, "--root", root) // what nobody remembers, nobody can tell
	c.refuses(verdict.Usage, "show", "--offline", "--min-root", "2")
	c.refuses(verdict.Usage, "update", "--min-root", "-1")
}

// The instances that are known by name are chosen alone.
func TestKnownInstances(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	root := c.file("1.root.json", r.File("1.root.json"))
	for _, args := range [][]string{
		{"init", "--staging", "--public-good"}, {"init", "--staging", "--tuf", r.URL, "--root", root}, {"init", "--public-good", "--root", root},
	} {
		c.refuses(verdict.Usage, args...)
	}
}

// A profile that names no trust root is judged by the repository's, like
// everything else; one that does needs no repository, and no floor of one.
func TestProfilesWithoutARoot(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, trust.Embedded().Date().AddDate(0, 0, 1))
	source, err := json.Marshal(map[string]any{"url": r.URL, "root": r.File("1.root.json")})
	if err != nil {
		t.Fatal(err)
	}
	r.Serve(nil)
	if err := os.MkdirAll(c.cache, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(c.cache, "source.json"), source, 0o644); err != nil {
		t.Fatal(err)
	}
	c.file("policy.yaml", []byte("kind: Poem\n"))
	c.file("without.yaml", []byte(profileOf("")))
	c.file("with.yaml", []byte(profileOf("trustedRoot: root.json\n")))
	c.file("root.json", trust.Embedded().Raw())
	for _, row := range []struct {
		args []string
		want verdict.Code
	}{
		{[]string{"--profile", "without.yaml", "--cache", c.cache}, verdict.TrustDown},
		{[]string{"--profile", "without.yaml", "--offline"}, verdict.ConfigParse}, // the policy is what is wrong
		{[]string{"--profile", "with.yaml"}, verdict.ConfigParse},
	} {
		cmd := exec.CommandContext(t.Context(), waybill, append([]string{"verify", "release", "v0.1.0", "--now", c.now.Format(time.RFC3339)}, row.args...)...)
		cmd.Dir = c.dir
		out, _ := cmd.CombinedOutput()
		if got := cmd.ProcessState.ExitCode(); got != verdict.ExitCode(row.want.Outcome()) || !strings.Contains(string(out), ": "+string(row.want)+" ") {
			t.Errorf("%q ended with %d, want %s\n%s", row.args, got, row.want, out)
		}
	}
}

func profileOf(root string) string {
	return "apiVersion: waybill/v1\nkind: Profile\nname: a\npolicy: policy.yaml\n" + root +
		"places:\n  files: {canonical: \"https://a.example/{version}/\", release: \"https://a.example/{version}/\"}\n"
}
