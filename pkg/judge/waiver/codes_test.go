package waiver_test

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestOnlyTheseCodesAreEverExcepted walks every code that there is: a new one
// is not excepted until it is written here too, with a reviewer looking.
func TestOnlyTheseCodesAreEverExcepted(t *testing.T) {
	may := []verdict.Code{"EVIDENCE_REGRESSED", "LEVEL", "NO_PROVENANCE", "NO_SBOM", "TAG_CONFLICT", "UNSIGNED"}
	if !slices.Equal(waiver.Codes(), may) {
		t.Errorf("%v can be excepted, want %v", waiver.Codes(), may)
	}
	at := noon()
	for _, c := range append(verdict.Codes(), "", "NEVER_HEARD_OF", "*") {
		want := slices.Contains(may, c)
		why, can := waiver.Exceptable(c)
		if can != want || can != (why != "") {
			t.Errorf("%s: exceptable %t (%q), want %t", c, can, why, want)
		}
		p := exception.Predicate{
			Code: c, Reason: "r", Destination: "https://dl.example.test/", Policy: digest.Of(digest.SHA256, nil), Issued: at, Expires: at.Add(time.Hour),
		}
		_, err := waiver.NewException(intoto.Subject{Name: "a", Digests: digest.SetOf([]byte("a"))}, p)
		switch f := verdict.FindingOf("", err); {
		case want && err != nil:
			t.Errorf("%s: %v", c, err)
		case !want && (err == nil || f.Code != "NEVER_EXCEPTED"):
			t.Errorf("%s: an exception is written: %v, want NEVER_EXCEPTED", c, err)
		}
	}
}

// TestNeverExceptedEvenIfSigned: were a signed exception for such a code to get
// through, or a user to accept a defect of it, the finding stands.
func TestNeverExceptedEvenIfSigned(t *testing.T) {
	for _, c := range verdict.Codes() {
		if _, may := waiver.Exceptable(c); may {
			continue
		}
		s := newScene(t, c)
		s.c.Exceptions = []waiver.Exception{s.exception(func(x *exception.Exception) { x.Code = c })}
		s.defect.Code = c
		s.accept()
		v := s.apply()
		if len(v.Waived) > 0 || len(v.Findings) != 1 || v.Outcome() == verdict.Accepted {
			t.Errorf("%s was set aside: %s", c, v.Headline())
		}
		if v.Findings[0].Known == nil {
			t.Errorf("%s is not explained", c)
		}
	}
}

// TestPageNamesEveryCode: the table of the format's page is this table.
func TestPageNamesEveryCode(t *testing.T) {
	raw, err := os.ReadFile("../../../attestations/exception/v1/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range waiver.Codes() {
		why, _ := waiver.Exceptable(c)
		if row := "| `" + string(c) + "` | " + why + " |\n"; !strings.Contains(string(raw), row) {
			t.Errorf("the page has no row %q", row)
		}
	}
	if got := strings.Count(string(raw), "\n| `") - len(waiver.Codes()); got != 9 {
		t.Errorf("the page has %d rows besides, want 9: of files and fields", got)
	}
}
