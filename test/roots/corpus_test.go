package roots

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// corpora is test material that others wrote, beside the checkout.
const corpora = "../../../shared/corpora"

// material skips where there is none, except in CI.
func material(t *testing.T, name ...string) string {
	t.Helper()
	path := filepath.Join(append([]string{corpora}, name...)...)
	if _, err := os.Stat(path); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("CI needs the test material: %v", err)
		}
		t.Skipf("the test material is not here: %v", err)
	}
	return path
}

// A repository that another implementation wrote, as of its own time.
func TestStaticRepository(t *testing.T) {
	dir := material(t, "tuf", "static", "tuf-on-ci-0.11")
	root, err := os.ReadFile(filepath.Join(dir, "initial_root.json"))
	if err != nil {
		t.Fatal(err)
	}
	at, err := os.ReadFile(filepath.Join(dir, "faketime"))
	if err != nil {
		t.Fatal(err)
	}
	reference, err := time.Parse("2006-01-02 15:04:05-07:00", strings.TrimSpace(string(at)))
	if err != nil {
		t.Fatal(err)
	}
	name, err := os.ReadFile(filepath.Join(dir, "targetpath"))
	if err != nil {
		t.Fatal(err)
	}
	files := http.NewServeMux()
	files.Handle("/targets/", http.FileServer(http.Dir(dir)))
	files.Handle("/", http.FileServer(http.Dir(filepath.Join(dir, "metadata"))))
	server := httptest.NewServer(files)
	defer server.Close()
	c := tuf.Config{
		URL: server.URL, Root: root, Cache: t.TempDir(), Now: reference, Files: []string{strings.TrimSpace(string(name))},
		Transport: transport.New(transport.Config{}),
	}
	got, err := tuf.Refresh(t.Context(), c)
	if err != nil || len(got.File(c.Files[0])) == 0 {
		t.Fatalf("%q has %d bytes, %v", c.Files[0], len(got.File(c.Files[0])), err)
	}
	if again, err := tuf.Load(t.Context(), c); err != nil || string(again.File(c.Files[0])) != string(got.File(c.Files[0])) {
		t.Errorf("from the cache: %v", err)
	}
	c.Now = got.Expires().Add(time.Second)
	if _, err := tuf.Refresh(t.Context(), c); verdict.FindingOf("", err).Code != "TUF_EXPIRED" {
		t.Errorf("a second after it expired: %v", err)
	}
	c.Now = reference
	c.Files = nil
	if _, err := tuf.Refresh(t.Context(), c); verdict.FindingOf("", err).Code != "TUF_TARGET" {
		t.Errorf("a trust root that it has not: %v", err)
	}
}

// Roots of other instances and of the conformance suite are read; the one that
// is wrong is not.
func TestRootsOfOthers(t *testing.T) {
	suite := material(t, "sigstore-conformance", "assets", "bundle-verify")
	others, err := filepath.Glob(filepath.Join(suite, "*", "trusted_root.json"))
	if err != nil || len(others) == 0 {
		t.Fatalf("no roots in the suite: %v", err)
	}
	for _, instance := range []string{"public-good.json", "staging.json"} {
		others = append(others, material(t, "trusted-roots", instance))
	}
	for _, path := range others {
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		_, err = trust.Parse(raw)
		if wrong := strings.Contains(path, "trust-root-tlog-missing-validity-start_fail"); (err != nil) != wrong {
			t.Errorf("%s: %v", path, err)
		}
	}
}
