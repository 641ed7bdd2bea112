package roots

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Whatever a repository does, it is refused for its own reason, what was
// believed before stays believed as long as it is valid, and the honest twin
// is accepted.
func TestAttacks(t *testing.T) {
	for _, a := range faketuf.Attacks() {
		t.Run(a.Name, func(t *testing.T) {
			t.Parallel()
			play := func(act func(*faketuf.Repository, map[string][]byte)) *client {
				r, c := faketuf.New(t, now), newClient(t, now)
				old := a.Trusted(r, trust.Embedded().Raw())
				c.initialise(r)
				act(r, old)
				c.now = now.Add(a.Later)
				return c
			}
			c := play(a.Attack)
			c.refuses(a.Code, "update")
			twin := play(a.Twin)
			twin.must("update")
			if !strings.Contains(twin.must("show"), "rekor.sigstore.dev") {
				t.Error("the twin shows no authority")
			}
		})
	}
}

// The repository is honest, and what it publishes is no trust root.
func TestPublishedNonsenseIsNotBelieved(t *testing.T) {
	honest := string(trust.Embedded().Raw())
	for name, raw := range map[string]string{
		"another media type": strings.Replace(honest, "version=0.1", "version=9.9", 1),
		"nobody in it":       `{"mediaType":"application/vnd.dev.sigstore.trustedroot+json;version=0.1"}`,
		"another document":   `{"signed":{}}`,
	} {
		t.Run(name, func(t *testing.T) {
			r, c := faketuf.New(t, now), newClient(t, now)
			r.Publish(map[string][]byte{"trusted_root.json": []byte(honest)})
			c.initialise(r)
			r.Publish(map[string][]byte{"trusted_root.json": []byte(raw)})
			c.refuses(verdict.TrustRootParse, "update")
			r.Publish(map[string][]byte{"trusted_root.json": []byte(honest)})
			c.must("update")
		})
	}
}

// A file that lies where the command is run is not taken for its own.
func TestWorkingDirectoryIsNotConfiguration(t *testing.T) {
	r, evil, c := faketuf.New(t, now), faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	want := c.must("show")
	evil.Publish(map[string][]byte{"trusted_root.json": []byte("evil")})
	for name, raw := range evil.Files() {
		if !strings.Contains(name, "/") {
			c.file(name, raw)
		}
	}
	for _, name := range []string{"root.json", "snapshot.json", "targets.json", "trusted_root.json", "source.json", "state.json", "config.json", ".waybill.yaml"} {
		c.file(name, []byte(`{"url":"`+evil.URL+`"}`))
	}
	if got := c.must("update"); !strings.Contains(got, r.URL) {
		t.Errorf("updated from another place: %s", got)
	}
	if got := c.must("show"); got != want {
		t.Errorf("shows\n%swant\n%s", got, want)
	}
	if asked := evil.Asked(); len(asked) > 0 {
		t.Errorf("the stranger was asked for %q", asked)
	}
}

// Going behind what was seen is refused although part of the cache is gone.
func TestLocalRollback(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	old := r.Files()
	r.Publish(nil)
	c.initialise(r)
	newest := r.Files()
	if err := os.Remove(filepath.Join(c.cache, "state.json")); err != nil {
		t.Fatal(err)
	}
	r.Serve(old)
	c.refuses(verdict.TUFRollback, "update")
	c.refuses(verdict.TrustDown, "show")
	r.Serve(newest)
	c.must("update")
	c.must("show")
}

func TestDamagedCacheIsRebuiltAndReported(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	if err := os.WriteFile(filepath.Join(c.cache, "state.json"), []byte(`{"roots":`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.refuses(verdict.TrustDown, "show")
	code, _, stderr := c.trust("update")
	if code != 0 || !strings.Contains(stderr, "rebuilt: ") {
		t.Errorf("ended with %d, said %q", code, stderr)
	}
	c.must("show")
	if err := os.WriteFile(filepath.Join(c.cache, "source.json"), []byte(`{"url":`), 0o600); err != nil {
		t.Fatal(err)
	}
	c.refuses(verdict.ConfigParse, "update")
	c.initialise(r)
	c.must("update")
}

// A cache that lost its source turns to no other repository.
func TestLostSource(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	c.must("update")
	if err := os.Remove(filepath.Join(c.cache, "source.json")); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"update", "show", "export"} {
		c.refuses(verdict.ConfigParse, verb)
	}
	if _, _, stderr := c.trust("update"); !strings.Contains(stderr, r.URL) || !strings.Contains(stderr, "trust init") {
		t.Errorf("the refusal names no way out: %s", stderr)
	}
	c.initialise(r)
	c.must("update")
}

// What was asked about the future is not held against the present.
func TestSupposedFuture(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	c.now = now.AddDate(0, 0, 28)
	c.must("update")
	c.now = now
	c.must("update")
	c.must("show")
	c.now = now.AddDate(0, 0, -1)
	c.refuses(verdict.Clock, "update")
}

func TestClockThatWasTurnedBack(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	c.now = now.AddDate(-2, 0, 0)
	for _, verb := range []string{"update", "show", "export"} {
		c.refuses(verdict.Clock, verb)
	}
	c.must("show", "--offline") // what needs no clock is shown
	c.now = now
	c.must("update")
}

// The repository is gone: what was fetched serves until it expires, and not a
// moment longer; nothing falls back to the embedded copy.
func TestRepositoryIsGone(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	r.Publish(map[string][]byte{"trusted_root.json": trust.Embedded().Raw()})
	c.initialise(r)
	r.Serve(nil)
	c.refuses(verdict.TrustDown, "update")
	c.must("show")
	c.now = now.AddDate(0, 0, 29)
	c.must("show")
	c.now = now.AddDate(0, 0, 31)
	c.refuses(verdict.TrustDown, "show")
	c.refuses(verdict.TrustDown, "export")
	c.must("show", "--offline")
}

// An export makes a file, and no directory.
func TestExportMakesNoDirectory(t *testing.T) {
	c := newClient(t, now)
	c.refuses(verdict.Usage, "export", "--offline", "--output", "none/of/these/root.json")
	if _, err := os.Stat(filepath.Join(c.dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a directory was made: %v", err)
	}
	c.must("export", "--offline", "--output", "root.json")
}

func TestWrongUse(t *testing.T) {
	r, c := faketuf.New(t, now), newClient(t, now)
	root := c.file("1.root.json", r.File("1.root.json"))
	for _, args := range [][]string{
		{"init"}, {"init", "--tuf", r.URL}, {"init", "--root", root},
		{"init", "--tuf", "http://tuf.example.test", "--root", root},
		{"init", "--tuf", "https://user:secret@tuf.example.test", "--root", root},
		{"init", "--tuf", r.URL, "--root", root + ".none"},
		{"show", "--trusted-root", root, "--offline"},
		{"show", "--offline", "--output", "html"},
		{"update", "extra"},
	} {
		c.refuses(verdict.Usage, args...)
	}
	c.refuses(verdict.TrustRootParse, "show", "--trusted-root", root)
	c.refuses(verdict.TUFParse, "init", "--tuf", r.URL, "--root", c.file("timestamp.json", r.File("timestamp.json")))
}
