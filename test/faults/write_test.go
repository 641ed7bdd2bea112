package faults_test

import (
	"bytes"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

// spoiled is one fault of a promotion, and how the promotion ends with it.
type spoiled struct {
	name string
	of   func(*night) *faults.Proxy
	by   []faults.Fault
	code int
	said string
}

func toBucket(n *night) *faults.Proxy   { return n.bucket }
func toRegistry(n *night) *faults.Proxy { return n.registry }
func fromFiles(n *night) *faults.Proxy  { return n.stagedFiles }
func fromImages(n *night) *faults.Proxy { return n.stagedImage }

// promotions plays faults of a promotion. Whatever does not end well leaves
// nothing that looks like a release, and whatever it was: the same command,
// once more, finishes it.
func promotions(t *testing.T, rows []spoiled) {
	t.Helper()
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			p := row.of(n)
			p.Spoil(row.by...)
			n.patient = row.code == 0
			r := n.promote()
			want(t, r, row.code, row.said)
			if p.Spoiled() == 0 {
				t.Fatal("the fault was never met")
			}
			if row.code == 3 && !strings.Contains(r.Stderr, "nothing was decided") {
				t.Errorf("it does not say what to do:\n%s", r.Stderr)
			}
			if row.code != 0 {
				n.hidden()
			}
			n.converges()
		})
	}
}

func one(method, path string, do faults.Act) []faults.Fault {
	return []faults.Fault{{Method: method, Path: path, Times: 1, Do: do}}
}

func all(method, path string, do faults.Act) []faults.Fault {
	return []faults.Fault{{Method: method, Path: path, Do: do}}
}

// Row 1: 429 with Retry-After, in seconds, as a date, and absurd.
func TestRow01AsksToWait(t *testing.T) {
	t.Parallel()
	soon := func() string { return time.Now().Add(time.Second).UTC().Format(http.TimeFormat) }
	promotions(t, []spoiled{
		{"registry, seconds", toRegistry, one("PUT", "/manifests/", faults.Status(429, "Retry-After", "1")), 0, ""},
		{"registry, date", toRegistry, one("PUT", "/manifests/", faults.Status(429, "Retry-After", soon())), 0, ""},
		{"registry, absurd", toRegistry, all("PUT", "/manifests/", faults.Status(429, "Retry-After", "1000000000")), 3, ""},
		{"bucket, seconds", toBucket, one("POST", "/upload/", faults.Status(429, "Retry-After", "1")), 0, ""},
		{"bucket, absurd", toBucket, all("POST", "/upload/", faults.Status(429, "Retry-After", "1000000000")), 3, ""},
		{"bucket read, seconds", fromFiles, one("GET", "/download/", faults.Status(429, "Retry-After", "1")), 0, ""},
	})
}

// Row 2: 429 without Retry-After, and no end of it.
func TestRow02SustainedOverload(t *testing.T) {
	t.Parallel()
	promotions(t, []spoiled{
		{"registry", toRegistry, all("", "", faults.Status(429)), 3, "429"},
		{"bucket", toBucket, all("POST", "", faults.Status(429)), 3, ""},
		{"staged files", fromFiles, all("", "", faults.Status(429)), 3, "429"},
	})
}

// bursts spoils two in ten requests, each kind of failure in turn. Three in ten,
// with many seeds, is a test of package transport.
func bursts() (script []faults.Fault) {
	for i, code := range []int{500, 502, 503, 504} {
		script = append(script, faults.Fault{Skip: i, Every: 17 + 2*i, Do: faults.Status(code)})
	}
	return script
}

// Row 3: bursts of 5xx, everywhere at once.
func TestRow03Bursts(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	for _, p := range []*faults.Proxy{n.bucket, n.registry, n.stagedFiles, n.stagedImage} {
		p.Spoil(bursts()...)
	}
	patient := []string{"WAYBILL_PATIENCE=1m"}
	want(t, runWith(t, patient, "waybill", "promote", scene.Version, "--to", "release", "--profile", n.profile, "--state", "state", "--confirm"), 0)
	want(t, runWith(t, patient, "waybill", "gate", "check", scene.Version, "--profile", n.profile), 0)
	want(t, runWith(t, patient, "k8s-verify-release", scene.Version, "--profile", n.profile), 0, "nothing extra")
	if n.bucket.Spoiled() < 20 || n.registry.Spoiled() < 5 {
		t.Errorf("only %d and %d requests failed", n.bucket.Spoiled(), n.registry.Spoiled())
	}
	n.converges()
}

// Row 4: a write that fails and was done all the same.
func TestRow04FailsButPersisted(t *testing.T) {
	t.Parallel()
	does := faults.FailsButDoes(503)
	promotions(t, []spoiled{
		{"image manifest, once", toRegistry, one("PUT", "/manifests/sha256:", does), 0, ""},
		{"image manifests, always", toRegistry, all("PUT", "/manifests/v", does), 0, ""},
		{"the connection dies", toRegistry, one("PUT", "/manifests/sha256:", faults.DoesAndDies), 0, ""},
		{"blob", toRegistry, one("PUT", "/blobs/uploads/", does), 0, ""},
		{"object", toBucket, one("POST", "/upload/", does), 0, ""},
		{"object, and the connection dies", toBucket, one("POST", "/upload/", faults.DoesAndDies), 0, ""},
		{"the manifest of the release", toBucket, one("POST", "release.manifest", does), 0, ""},
	})
	t.Run("nothing is written twice", func(t *testing.T) {
		t.Parallel()
		n := newNight(t)
		n.registry.Spoil(all("PUT", "/manifests/v", does)...)
		want(t, n.promote(), 0)
		times := map[string]int{}
		for _, r := range n.registry.Seen() {
			if r.Method == "PUT" && strings.Contains(r.Path, "/manifests/sha256:") {
				if times[r.Path]++; times[r.Path] > 1 {
					t.Errorf("%s was written twice", r.Path)
				}
			}
		}
		n.converges()
	})
}

// onlyThere does the same to every request for the first thing that it meets,
// and nothing to others: they come side by side.
func onlyThere(do faults.Act) faults.Act {
	var once sync.Once
	var there string
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		once.Do(func() { there = r.URL.Path })
		if r.URL.Path == there {
			do(w, r, next)
			return
		}
		next.ServeHTTP(w, r)
	}
}

// Row 5: a write that the other side took, and lost.
func TestRow05SaysYesAndLostIt(t *testing.T) {
	t.Parallel()
	object := faults.Loses(200, `{"kind":"storage#object","bucket":"release","name":"x","generation":"1","size":"1"}`)
	promotions(t, []spoiled{
		{"image manifest", toRegistry, one("PUT", "/manifests/sha256:", faults.Loses(201, "")), 3, ""},
		{"every manifest", toRegistry, all("PUT", "/manifests/sha256:", faults.Loses(201, "")), 3, ""},
		{"a signature", toRegistry, []faults.Fault{{Method: "PUT", Path: "/manifests/sha256:", Skip: 4, Do: onlyThere(faults.Loses(201, ""))}}, 3, "does not have the object"},
		{"tag", toRegistry, all("PUT", "/manifests/v", faults.Loses(201, "")), 3, "does not have the object"},
		{"blob", toRegistry, one("PUT", "/blobs/uploads/", faults.Loses(201, "")), 3, ""},
		{"object", toBucket, []faults.Fault{{Method: "POST", Path: "/upload/", Skip: 1, Times: 1, Do: object}}, 3, "does not have it"}, // the first asks about conditions
		{"the manifest of the release", toBucket, one("POST", "release.manifest", object), 3, "does not have it"},
	})
}

// Row 14: the token expires in the middle.
func TestRow14TokenExpires(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, method, path string }{
		{"before anything", "HEAD", "/blobs/"},
		{"third chunk", "PATCH", "/uploads/"},
		{"end of an upload", "PUT", "/uploads/"},
		{"manifest", "PUT", "/manifests/sha256:"},
		{"tag", "PUT", "/manifests/v"},
		{"read back", "GET", "/manifests/sha256:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			fault := faults.Fault{Method: c.method, Path: c.path, Times: 1, Do: faults.Challenges}
			if c.name == "third chunk" {
				fault.Skip = 2
			}
			n.registry.Spoil(
				faults.Fault{Path: "/faults/token", Do: faults.Tokens},
				faults.Fault{Method: "GET", Path: "/v2/$", Do: faults.Challenges}, fault)
			want(t, n.promote(), 0)
			if n.registry.Count("GET", "/faults/token") < 2 {
				t.Error("no second token was fetched")
			}
			n.converges()
		})
	}
}

// Row 17: what was just written is seen a little later.
func TestRow17ReadAfterWrite(t *testing.T) {
	t.Parallel()
	promotions(t, []spoiled{
		{"image manifest", toRegistry, []faults.Fault{{Method: "GET", Path: "/manifests/sha256:", Times: 3, Do: faults.Status(404)}}, 0, ""},
		{"object", toBucket, []faults.Fault{{Method: "GET", Path: "/storage/v1/b/release/o/", Times: 3, Do: faults.Status(404)}}, 0, ""},
		{"image manifest, never", toRegistry, all("GET", "/manifests/sha256:", faults.Status(404)), 3, "does not have the object"},
	})
}

// The services of signing fail as registries do. A run rides out what passes,
// and ends well when it is repeated after what does not; nothing that the log
// took while its answer was lost is there twice.
func TestRowsOfSigning(t *testing.T) {
	for _, c := range []struct {
		name string
		of   func(*night) *faults.Proxy
		by   []faults.Fault
		code int
	}{
		{"row 1, certificate", func(n *night) *faults.Proxy { return n.fulcio }, one("POST", "", faults.Status(429, "Retry-After", "1")), 0},
		{"row 1, log", func(n *night) *faults.Proxy { return n.rekor }, one("POST", "", faults.Status(429, "Retry-After", "1")), 0},
		{"row 3, log", func(n *night) *faults.Proxy { return n.rekor }, []faults.Fault{{Every: 3, Do: faults.Status(503)}}, 0},
		{"row 3, timestamps", func(n *night) *faults.Proxy { return n.tsa }, []faults.Fault{{Every: 3, Do: faults.Status(502)}}, 0},
		{"row 4, log", func(n *night) *faults.Proxy { return n.rekor }, one("POST", "", faults.FailsButDoes(502)), 0},
		{"row 4, the connection dies", func(n *night) *faults.Proxy { return n.rekor }, one("POST", "", faults.DoesAndDies), 0},
		{"row 7, timestamps", func(n *night) *faults.Proxy { return n.tsa }, one("POST", "", faults.Resets), 0},
		{"row 11, log", func(n *night) *faults.Proxy { return n.rekor }, all("POST", "", faults.Endless), 1},
		{"row 12, certificate", func(n *night) *faults.Proxy { return n.fulcio }, all("POST", "", faults.Redirects("http://169.254.169.254/")), 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNight(t)
			state := n.unsigned()
			c.of(n).Spoil(c.by...)
			before := entries(t)
			r := n.sign(state)
			want(t, r, c.code)
			if c.of(n).Spoiled() == 0 {
				t.Fatal("the fault was never met")
			}
			c.of(n).Heal()
			want(t, n.sign(state), 0)
			if added, wanted := entries(t)-before, signatures(t, state); added != wanted {
				t.Errorf("the log has %d new entries for %d signatures", added, wanted)
			}
		})
	}
}

// A run that is killed while the log has an entry and nobody knows it yet: the
// next run finds the signature, offers the same bytes, and is told where they
// are.
func TestKilledWhileTheLogAnswers(t *testing.T) {
	n := newNight(t)
	state, before := n.unsigned(), entries(t)
	taken, once := make(chan struct{}), sync.Once{}
	n.rekor.Spoil(all("POST", "", func(_ http.ResponseWriter, r *http.Request, next http.Handler) {
		next.ServeHTTP(httptest.NewRecorder(), r)
		once.Do(func() { close(taken) })
		<-r.Context().Done()
	})...)
	cmd := exec.CommandContext(t.Context(), filepath.Join(staged.Bin, "waybill"),
		"sign", scene.Version, "--profile", n.profile, "--state", state, "--identity-token", "release="+n.token(), "--confirm")
	cmd.Dir = staged.Dir
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	select {
	case <-taken:
	case err := <-ended:
		t.Fatalf("it ended before the log was asked: %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-ended
	n.rekor.Heal()
	want(t, n.sign(state), 0, "finished from an earlier run: ")
	if added, wanted := entries(t)-before, signatures(t, state); added != wanted {
		t.Errorf("the log has %d new entries for %d signatures", added, wanted)
	}
}

// entries is how many entries the log has.
func entries(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile(staged.Path("lab", "state", "rekor.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	return bytes.Count(raw, []byte("\n"))
}

// signatures is how many entries of the log the signatures of a state name.
func signatures(t *testing.T, state string) int {
	t.Helper()
	named := map[string]bool{}
	err := filepath.WalkDir(staged.Path(state, "files"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".sigstore.json") || strings.Contains(path, "/provenance/") {
			return err
		}
		raw, err := os.ReadFile(path)
		if index := logIndex.FindSubmatch(raw); index != nil {
			named[string(index[1])] = true
		}
		return err
	})
	if err != nil || len(named) == 0 {
		t.Fatalf("%d signatures, %v", len(named), err)
	}
	return len(named)
}

var logIndex = regexp.MustCompile(`"logIndex":\s*"(\d+)"`)
