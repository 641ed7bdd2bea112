package sbom_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestValidateTheTime: a document that is yet to come is a finding; one of a
// clock that is a little ahead is none.
func TestValidateTheTime(t *testing.T) {
	m, err := sbom.Directory(input(), "d", sourceTree(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for ahead, want := range map[time.Duration]int{-time.Hour: 0, 23 * time.Hour: 0, 25 * time.Hour: 1, 24 * 365 * 80 * time.Hour: 1} {
		v := sbom.Validate([]string{"d"}, []string{string(raw)}, "spdx", input().Created.Add(-ahead))
		if len(v.Findings) != want || want > 0 && (v.Findings[0].Code != verdict.SBOMInvalid || !strings.Contains(v.Findings[0].Message, "in the future")) {
			t.Errorf("%s ahead: %+v", ahead, v.Findings)
		}
	}
}

// TestValidateNamespaces: two documents of one namespace are a finding, and one
// that is named twice is none.
func TestValidateNamespaces(t *testing.T) {
	m, err := sbom.Directory(input(), "d", sourceTree(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	one, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m.Draft.Packages[1].Licence = "MIT"
	two, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	m.Draft.Namespace += "-2"
	three, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name string
		text []byte
		want int
	}{{"the same", one, 0}, {"another", two, 1}, {"another, called so", three, 0}} {
		v := sbom.Validate([]string{"a", "b"}, []string{string(one), string(row.text)}, "spdx", input().Created)
		if len(v.Findings) != row.want || row.want > 0 && (v.Findings[0].Subject != "b" || v.Findings[0].Code != verdict.SBOMInvalid) {
			t.Errorf("%s: %+v", row.name, v.Findings)
		}
	}
}
