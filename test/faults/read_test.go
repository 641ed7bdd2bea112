package faults_test

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/test/faults"
)

// verifications plays faults of reading a release that is published: what the
// verifier says of it, and that it says complete again when the fault is over.
func verifications(t *testing.T, rows []spoiled) {
	t.Helper()
	for _, row := range rows {
		t.Run("verify, "+row.name, func(t *testing.T) {
			t.Parallel()
			n := newNight(t)
			n.patient = true
			want(t, n.promote(), 0)
			p := row.of(n)
			p.Spoil(row.by...)
			n.patient = row.code == 0
			r := n.verify()
			want(t, r, row.code, row.said)
			if p.Spoiled() == 0 {
				t.Fatal("the fault was never met")
			}
			if row.code != 0 && strings.Contains(r.Stdout, "nothing extra") {
				t.Errorf("it says complete:\n%s", r.Stdout)
			}
			p.Heal()
			n.patient = true
			want(t, n.verify(), 0, "nothing extra")
		})
	}
}

// Row 6: nobody listens, and a name that nobody knows.
func TestRow06Unreachable(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := closed.Addr().String()
	closed.Close()
	n := newNight(t)
	want(t, n.promote(), 0)
	whole, err := os.ReadFile(staged.Path(n.profile))
	if err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"registry": n.registry.Host, "bucket": strings.TrimPrefix(n.bucket.URL, "http://")} {
		n.write(n.profile, strings.ReplaceAll(string(whole), from, address))
		want(t, n.promote(), 3, "nothing was decided")
		want(t, n.verify(), 3, "connection refused")
		t.Logf("%s: refused", name)
	}
	n.write(n.profile, string(whole))
	n.converges()
}

// Row 7: the connection breaks in the middle.
func TestRow07Resets(t *testing.T) {
	t.Parallel()
	promotions(t, []spoiled{
		{"blob read", fromImages, one("GET", "/blobs/", faults.Resets), 0, ""},
		{"file read", fromFiles, one("GET", "/download/", faults.Resets), 0, ""},
		{"file read, always", fromFiles, all("GET", "/download/storage/v1/b/staging/o/lantern%2Fv0.1.0%2Fbin", faults.Resets), 3, ""},
		{"manifest written", toRegistry, one("PUT", "/manifests/", faults.Dies), 0, ""},
		{"blob written", toRegistry, one("PATCH", "/uploads/", faults.Dies), 0, ""},
		{"object written", toBucket, one("POST", "/upload/", faults.Dies), 0, ""},
		{"object written, always", toBucket, all("POST", "/upload/", faults.Dies), 3, ""},
	})
	verifications(t, []spoiled{
		{"file", toBucket, one("GET", "/download/", faults.Resets), 0, "nothing extra"},
		{"listing", toBucket, one("GET", "/o?", faults.Dies), 0, "nothing extra"},
		{"blob", toRegistry, one("GET", "/blobs/", faults.Resets), 0, "nothing extra"},
		{"file, always", toBucket, all("GET", "lantern-linux-amd64.tar.gz?", faults.Resets), 3, ""},
	})
}

// Row 8: servers that take their time.
func TestRow08SlowLoris(t *testing.T) {
	t.Parallel()
	verifications(t, []spoiled{
		{"header, listing", toBucket, all("GET", "/o?", faults.Hangs), 3, ""},
		{"header, registry", toRegistry, all("GET", "/manifests/", faults.Hangs), 3, ""},
		{"a byte at a time", toBucket, all("GET", "lantern-linux-amd64.tar.gz?", faults.Dribbles(20*time.Millisecond)), 3, "bytes came in"},
		{"a byte at a time, once", toBucket, one("GET", "lantern-linux-amd64.tar.gz?", faults.Dribbles(20*time.Millisecond)), 0, "nothing extra"},
	})
	promotions(t, []spoiled{{"header of a write", toRegistry, all("PUT", "/manifests/", faults.Hangs), 3, ""}})
}

// Row 9: bodies that end too early, in three ways.
func TestRow09Truncated(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]faults.Act{"with a length": faults.Resets, "in chunks": faults.CutsChunks, "as HTTP 1 0 does it": faults.EndsEarly} {
		promotions(t, []spoiled{
			{"blob " + name, fromImages, one("GET", "/blobs/", cut), 0, ""},
			{"file " + name, fromFiles, all("GET", "lantern-linux-amd64.tar.gz?", cut), 3, ""},
		})
		verifications(t, []spoiled{
			{"file once " + name, toBucket, one("GET", "lantern-linux-amd64.tar.gz?", cut), 0, "nothing extra"},
			{"file " + name, toBucket, all("GET", "lantern-linux-amd64.tar.gz?", cut), 3, ""},
			{"manifest " + name, toBucket, all("GET", "release.manifest", cut), 3, ""},
			{"blob " + name, toRegistry, all("GET", "/blobs/", cut), 3, ""},
		})
	}
}

// Row 10: other bytes than asked for. That is no fault of the line.
func TestRow10WrongBytes(t *testing.T) {
	t.Parallel()
	promotions(t, []spoiled{
		{"blob", fromImages, all("GET", "/blobs/", faults.Flips), 1, "TAMPERED"},
		{"image manifest", fromImages, all("GET", "/manifests/sha256:", faults.Flips), 1, "TAMPERED"},
		{"file", fromFiles, all("GET", "lantern-linux-amd64.tar.gz?", faults.Flips), 1, "TAMPERED"},
	})
	verifications(t, []spoiled{
		{"file", toBucket, all("GET", "lantern-linux-amd64.tar.gz?", faults.Flips), 1, "TAMPERED"},
		{"blob", toRegistry, all("GET", "/blobs/", faults.Flips), 1, "TAMPERED"},
	})
}

// Row 12: redirects that lead nowhere, downwards or inside.
func TestRow12Redirects(t *testing.T) {
	t.Parallel()
	metadata := faults.Redirects("http://169.254.169.254/computeMetadata/v1/")
	verifications(t, []spoiled{
		{"loop", toBucket, all("GET", "/o?", faults.Redirects("/loop/o?")), 3, "redirects"},
		{"registry loop", toRegistry, all("GET", "/v2/", faults.Redirects("/v2/")), 3, ""},
		{"metadata", toBucket, all("GET", "/download/", metadata), 3, "169.254.169.254"},
		{"metadata from the registry", toRegistry, all("GET", "/blobs/", metadata), 3, ""},
		{"metadata with TLS", toBucket, all("GET", "/download/", faults.Redirects("https://169.254.169.254/")), 3, "internal address"},
		{"plain http elsewhere", toBucket, all("GET", "/o?", faults.Redirects("http://files.example.test/")), 3, "plain http"},
	})
	promotions(t, []spoiled{
		{"an upload to metadata", toRegistry, all("PATCH", "/uploads/", metadata), 3, ""},
		{"an object to elsewhere", toBucket, all("POST", "/upload/", faults.Redirects("http://files.example.test/")), 3, ""},
	})
	t.Run("credentials stay at home", func(t *testing.T) {
		t.Parallel()
		n := newNight(t)
		want(t, n.promote(), 0)
		other := faults.Before(t, "http://"+staged.Lab.Registry)
		n.registry.Spoil(
			faults.Fault{Path: "/faults/token", Do: faults.Tokens},
			faults.Fault{Method: "GET", Path: "/v2/$", Do: faults.Challenges},
			faults.Fault{Method: "GET", Path: "/blobs/", Do: faults.Redirects(other.URL + "…")})
		want(t, n.verify(), 0, "nothing extra")
		secrets := 0
		for _, r := range n.registry.Seen() {
			if r.Secrets {
				secrets++
			}
		}
		if secrets == 0 || len(other.Seen()) == 0 {
			t.Fatalf("%d requests carried credentials, %d were redirected", secrets, len(other.Seen()))
		}
		for _, r := range other.Seen() {
			if r.Secrets {
				t.Errorf("credentials went to another host with %s %s", r.Method, r.Path)
			}
		}
	})
}

// Row 15: a credential helper that hangs, and one that prints what it must not.
func TestRow15CredentialHelper(t *testing.T) {
	t.Parallel()
	n := newNight(t)
	for _, c := range []struct {
		name, script, said string
		code               int
	}{
		{"answers", `echo '{"Username":"u","Secret":"hunter2"}'`, "", 0},
		{"hangs", "exec sleep 20 > /dev/null 2>&1", "does not answer", 3},
		{"prints garbage", "echo hunter2; exit 1", "not shown", 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"config.json":              `{"credHelpers":{"` + n.registry.Host + `":"faulty"}}`,
				"docker-credential-faulty": "#!/bin/sh\n" + c.script + "\n",
			} {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			env := []string{"DOCKER_CONFIG=" + dir, "PATH=" + dir + string(os.PathListSeparator) + os.Getenv("PATH")}
			r := runWith(t, env, "waybill", "promote", "v0.1.0", "--to", "release", "--profile", n.profile, "--state", "state", "--confirm")
			want(t, r, c.code, c.said)
			if strings.Contains(r.Stderr, "hunter2") {
				t.Errorf("the secret is shown:\n%s", r.Stderr)
			}
		})
	}
	n.converges()
}

// Row 16: lists that never end, or go round.
func TestRow16EndlessLists(t *testing.T) {
	t.Parallel()
	var pages [3]int
	round := func(page int) string { return []string{"a", "b", "c"}[page%3] }
	verifications(t, []spoiled{
		{"tags go round", toRegistry, all("GET", "/tags/list", faults.NextPage(&pages[0], func(page int) (string, string) {
			return `{"tags":["v0.1.0"]}`, "<?n=1000&last=" + round(page) + `>; rel="next"`
		})), 3, ""},
		{"objects go round", toBucket, all("GET", "/o?", faults.NextPage(&pages[1], func(page int) (string, string) {
			return `{"items":[],"nextPageToken":"` + round(page) + `"}`, ""
		})), 3, "does not advance"},
	})
}
