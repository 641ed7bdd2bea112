package stories

import (
	"encoding/pem"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
	"github.com/waybill-release/waybill/test/scene"
)

// TestKubernetesLevels: a release with the names of Kubernetes, built from a
// server of its source, reaches level 3 of KEP-3027 with a summary of the source
// and a declaration, and is refused without either.
func TestKubernetesLevels(t *testing.T) {
	if r := sandbox.Examine(t.Context()); r.Mode != sandbox.Isolated {
		if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_ISOLATION") != "" {
			t.Fatal(r.Reason())
		}
		t.Skip(r.Reason())
	}
	s := ship{&scene.Scene{Options: scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir()}, Lab: lab.New(t)}}
	v, err := version.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	repositories, err := scene.Repositories(s.Dir)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(repositories)
	t.Cleanup(server.Close)
	if err := os.WriteFile(s.Path("server.pem"), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", s.Path("server.pem"))
	source := "git+" + server.URL + "/source"
	if err := (kubernetes.Sealed{Lab: s.Lab, Version: v, Dir: s.Dir, Source: source}).Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.VerifyRevision(t.Context(), s.Path("source"), upstream, source); err != nil {
		t.Fatal(err)
	}
	shipped, err := os.ReadFile(s.Path("policy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	declared := string(s.Declared(shipped))
	from, to := strings.Index(declared, "declares:"), strings.Index(declared, "source: {")
	if from < 0 || to < from {
		t.Fatalf("the policy declares nothing:\n%s", declared)
	}
	undeclared := declared[:from] + declared[to:]
	asked := []string{"--require-level", "kep-3027=3", "--report", "kep-3027"}
	summary := append([]string{"--source-vsa", scene.SourceSummary}, asked...)
	for _, row := range []struct {
		name   string
		policy string
		flags  []string
		status int
		says   []string
	}{
		{"every fact", declared, summary, 0, []string{"nothing extra", "declared   source.retained", "KEP-3027 level 3 of 4 for 192 artifacts"}},
		{"no summary", declared, asked, 1, []string{"LEVEL", "source.verified-history (not shown)"}},
		{"no declaration", undeclared, summary, 1, []string{"LEVEL", "source.retained (not shown)"}},
		{"a builder of level 2", strings.ReplaceAll(declared, "  level: 3\n", "  level: 2\n"), summary, 1, []string{"LEVEL"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			if err := os.WriteFile(s.Path("policy.yaml"), []byte(row.policy), 0o600); err != nil {
				t.Fatal(err)
			}
			want(t, s.verify(t, row.flags...), row.status, row.says...)
		})
	}
}
