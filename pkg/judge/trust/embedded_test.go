package trust_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

func TestEmbeddedIsWhatItsPageSays(t *testing.T) {
	page, err := os.ReadFile("embedded/README.md")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("embedded/trusted_root.json")
	if err != nil {
		t.Fatal(err)
	}
	r := trust.Embedded()
	if string(r.Raw()) != string(raw) || r.Digest() != digest.Of(digest.SHA256, raw) {
		t.Error("the embedded root is not the file")
	}
	for _, row := range []string{
		"| digest | " + r.Digest().String() + " |",
		"| date | " + r.Date().Format(time.DateOnly) + " |",
	} {
		if !strings.Contains(string(page), row+"\n") {
			t.Errorf("the page has no row %q", row)
		}
	}
}

func TestEmbeddedServesEveryPurpose(t *testing.T) {
	r := trust.Embedded()
	if r.IsLab() {
		t.Error("a laboratory is embedded")
	}
	for _, kind := range []trust.Kind{trust.CertificateAuthority, trust.CertificateLog, trust.TransparencyLog, trust.TimestampAuthority} {
		valid := 0
		for _, a := range r.Authorities() {
			if a.Kind == kind && a.ValidAt(r.Date()) {
				valid++
			}
		}
		if valid == 0 {
			t.Errorf("on its own date it names no valid %s", kind)
		}
	}
}

func TestOnlyTheEmbeddedRootHasADate(t *testing.T) {
	r, err := trust.Parse(trust.Embedded().Raw())
	if err != nil {
		t.Fatal(err)
	}
	if !r.Date().IsZero() {
		t.Errorf("a parsed root is dated %s", r.Date())
	}
}
