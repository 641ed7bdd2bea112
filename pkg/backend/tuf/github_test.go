package tuf_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestGitHub: the embedded roots are those of their page, and the names of trust
// domains give the target that has the root.
func TestGitHub(t *testing.T) {
	page, err := os.ReadFile("github/README.md")
	if err != nil {
		t.Fatal(err)
	}
	root, date := tuf.EmbeddedGitHub()
	from, _, err := tuf.GitHub("github")
	if err != nil || !root.IsLogless() || root.IsLab() {
		t.Fatal(err, "the embedded root is of another kind")
	}
	for _, d := range []digest.Digest{root.Digest(), digest.Of(digest.SHA256, from.Root)} {
		if row := fmt.Sprintf("| date | %s |\n| digest | %s |", date.Format(time.DateOnly), d); !strings.Contains(string(page), row) {
			t.Errorf("the page has no row %q", row)
		}
	}
	for _, kind := range []trust.Kind{trust.CertificateAuthority, trust.TimestampAuthority} {
		valid := 0
		for _, a := range root.Authorities() {
			if a.Kind == kind && a.ValidAt(date) {
				valid++
			}
		}
		if valid == 0 {
			t.Errorf("no valid %s on its own date", kind)
		}
	}
	for domain, want := range map[string]string{
		"github": "trusted_root.json", "github:octo-corp": "octo-corp.trusted_root.json",
		"": "", "github:": "", "github:../x": "", "GitHub": "", "public-good": "", "github:a\n": "",
	} {
		_, target, err := tuf.GitHub(domain)
		if target != want || want == "" && verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%q: target %q, %v", domain, target, err)
		}
	}
}
