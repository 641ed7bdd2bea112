package verdict_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 987, time.UTC) }

func TestZeroVerdictIsUndecided(t *testing.T) {
	var v verdict.Verdict
	if v.Outcome() != verdict.Undecided || v.Complete() || v.Err() == nil {
		t.Errorf("the zero verdict is %s, complete %t, error %v", v.Outcome(), v.Complete(), v.Err())
	}
	if o := verdict.OutcomeOf(v.Err()); o != verdict.Undecided {
		t.Errorf("as an error it is %s, want undecided", o)
	}
}

func TestOutcome(t *testing.T) {
	proven := verdict.Counts{Verified: 3, Required: 3}
	rows := []struct {
		name   string
		counts verdict.Counts
		codes  []verdict.Code
		want   verdict.Outcome
	}{
		{"everything proven", proven, nil, verdict.Accepted},
		{"nothing asked", verdict.Counts{}, nil, verdict.Undecided},
		{"proven, but nothing asked", verdict.Counts{Verified: 3}, nil, verdict.Undecided},
		{"one not proven", verdict.Counts{Verified: 2, Required: 3}, nil, verdict.Undecided},
		{"proven, and one refusal", proven, []verdict.Code{verdict.Extra}, verdict.Refused},
		{"proven, and one place down", proven, []verdict.Code{verdict.PlaceDown}, verdict.Unavailable},
		{"a place down, then a refusal", proven, []verdict.Code{verdict.PlaceDown, verdict.Missing}, verdict.Refused},
		{"a refusal, then a place down", proven, []verdict.Code{verdict.Missing, verdict.PlaceDown}, verdict.Refused},
		{"malformed outranks refused", proven, []verdict.Code{verdict.ConfigParse, verdict.Tampered}, verdict.Malformed},
		{"a bug outranks all", proven, []verdict.Code{verdict.InternalBug, verdict.ConfigParse, verdict.Tampered}, verdict.Internal},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			v := verdict.New("q", noon())
			v.Counts, v.Proofs = r.counts, proofs()
			for _, c := range r.codes {
				v.Add(verdict.Find(c, "s", "m"))
			}
			if got := v.Outcome(); got != r.want {
				t.Errorf("outcome %s, want %s", got, r.want)
			}
			if accepted := v.Err() == nil; accepted != (r.want == verdict.Accepted) {
				t.Errorf("Err() is %v", v.Err())
			}
		})
	}
}

func TestCompleteNeedsFullScope(t *testing.T) {
	v := verdict.New("q", noon())
	v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs()
	if !v.Complete() || v.Headline() != "OK q: 1 of 1 object verified" {
		t.Errorf("full scope: %q", v.Headline())
	}
	v.Scope.Left = []string{"sha512", "closed files"}
	if v.Complete() || v.Err() != nil || v.Headline() != "OK q, in part: 1 of 1 object verified" {
		t.Errorf("partial scope: complete %t, %q", v.Complete(), v.Headline())
	}
	v.Add(verdict.Find(verdict.NotListable, "p", "no"))
	if v.Headline() != "UNAVAILABLE q: nothing was decided; cannot be listed: p" {
		t.Errorf("not listable: %q", v.Headline())
	}
	v.Add(verdict.Find(verdict.PlaceDown, "p", "no"))
	if v.Headline() != "UNAVAILABLE q: nothing was decided; no answer about p" {
		t.Errorf("unavailable: %q", v.Headline())
	}
}

// TestGivenFilesInPart: a question about given files is answered in part if checks of
// these files were left out, and whole if only the rest of the release was.
func TestGivenFilesInPart(t *testing.T) {
	for _, r := range []struct {
		left, notRequired []string
		part              bool
	}{
		{[]string{"the rest of the release"}, nil, false},
		{[]string{"the rest of the release", "other platforms than linux/amd64"}, nil, false},
		{[]string{"the rest of the release", "provenance of binary"}, []string{"provenance of binary"}, false},
		{[]string{"the rest of the release", "provenance"}, nil, true},
		{[]string{"signatures", "provenance", "SBOMs", "plan", "the rest of the release"}, nil, true},
	} {
		v := verdict.New("q", noon())
		v.Counts, v.Proofs = verdict.Counts{Verified: 1, Required: 1}, proofs()
		v.Scope = verdict.Scope{Checks: []string{"manifest", "given files"}, Left: r.left, NotRequired: r.notRequired}
		if part := strings.Contains(v.Headline(), ", in part"); part != r.part || (len(v.Scope.Unanswered()) > 0) != r.part || v.Complete() {
			t.Errorf("%q: %s", r.left, v.Headline())
		}
	}
}

func TestAddCounts(t *testing.T) {
	rows := []struct {
		code           verdict.Code
		missing, extra int
	}{
		{verdict.Missing, 1, 0}, {verdict.PlanMissing, 1, 0}, {verdict.SealMissing, 1, 0},
		{verdict.Extra, 0, 1}, {verdict.PlanExtra, 0, 1}, {verdict.SealExtra, 0, 1},
		{verdict.Tampered, 0, 0},
	}
	for _, r := range rows {
		v := verdict.New("q", noon())
		v.Add(verdict.Find(r.code, "s", "m"))
		if v.Counts.Missing != r.missing || v.Counts.Extra != r.extra {
			t.Errorf("%s: %s", r.code, v.Counts)
		}
	}
	v := verdict.New("q", noon())
	v.AddError("s", nil)
	if len(v.Findings) != 0 {
		t.Errorf("no error became a finding: %v", v.Findings)
	}
}

func TestCitingLeavesTheOriginal(t *testing.T) {
	one, two := digest.Of(digest.SHA256, []byte("1")), digest.Of(digest.SHA256, []byte("2"))
	a := verdict.Find(verdict.Tampered, "s", "m").Citing(one)
	b, c := a.Citing(two), a.Citing(one)
	if len(a.Evidence) != 1 || b.Evidence[1] != two || c.Evidence[1] != one {
		t.Errorf("findings share evidence: %v %v %v", a.Evidence, b.Evidence, c.Evidence)
	}
}

func TestNotAcceptedErrorSaysWhat(t *testing.T) {
	v := verdict.New("release lantern v0.1.0", noon())
	v.Counts.Required = 2
	v.Add(verdict.Find(verdict.Missing, "a", "not in the place"), verdict.Find(verdict.Extra, "b", "not listed"))
	want := "REFUSED release lantern v0.1.0: 1 file missing: a; 1 file not listed: b: MISSING a: not in the place (and 1 more)"
	if got := v.Err().Error(); got != want {
		t.Errorf("error %q, want %q", got, want)
	}
}

// filled is a verdict in which every field says something.
func filled() *verdict.Verdict {
	d := digest.Of(digest.SHA256, []byte("x"))
	v := verdict.New("release lantern v0.1.0 at file:///r", noon())
	v.Scope = verdict.Scope{Checks: []string{"files"}, Left: []string{"sha512"}}
	v.Counts = verdict.Counts{Verified: 1, Required: 2}
	v.Add(verdict.Find(verdict.Tampered, "bin/lantern", "changed").Differ("sha256:aa", "sha256:bb").Citing(d))
	v.Note("judged at %s", "noon")
	v.Proofs = []verdict.Proof{{
		Subject: "bin/lantern", Statement: "blob", Role: "release", Identity: "release@example.test",
		Issuer: "https://issuer.example.test", SignedAt: noon().Truncate(time.Second), LogIndex: 7, Bundle: d,
	}}
	v.Inputs = []verdict.Input{{Name: "files", Place: "file:///r"}, {Name: "manifest", Digest: d}}
	v.Policy, v.TrustRoot = d, d
	return v
}

func TestJSONForm(t *testing.T) {
	got, err := json.MarshalIndent(filled(), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/verdict.json"
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(bytes.TrimSpace(want), got) {
		t.Errorf("the JSON form of a verdict changed; others read it. Got:\n%s\nwant %s:\n%s", got, golden, want)
	}
}

func TestJSONFormOfNothing(t *testing.T) {
	got, err := json.Marshal(verdict.New("q", noon()))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), `"findings":[]`) || strings.Contains(string(got), "policy") {
		t.Errorf("no findings must be [], no policy must be left out: %s", got)
	}
}

// TestNamesAreCut: a message shows the beginning and the end of a name that is
// longer than anybody reads, and all of any other.
func TestNamesAreCut(t *testing.T) {
	for _, row := range []struct{ name, want string }{
		{strings.Repeat("a", 200), strings.Repeat("a", 200)},
		{strings.Repeat("a/", 10_000) + "end", strings.Repeat("a/", 75) + "…" + "/" + strings.Repeat("a/", 23) + "end"},
		{strings.Repeat("ä", 10_000), strings.Repeat("ä", 75) + "…" + strings.Repeat("ä", 25)},
		{"x" + strings.Repeat("ä", 10_000), "x" + strings.Repeat("ä", 74) + "…" + strings.Repeat("ä", 25)},
	} {
		if got := verdict.Refuse(verdict.Path, "place", "the name %s is refused", row.name).Finding.Message; got != "the name "+row.want+" is refused" {
			t.Errorf("%.300s", got)
		}
	}
}

// TestHeadlineNamesKinds: files and images are named as what they are, and a mixture
// as neither.
func TestHeadlineNamesKinds(t *testing.T) {
	for want, subjects := range map[string][]string{
		"2 files not listed: a, b":            {"a", "b"},
		"1 image not listed: oci/a:v1":        {"oci/a:v1"},
		"2 objects not listed: a, oci/a:v1":   {"a", "oci/a:v1"},
		"2 images not listed: oci/a, oci/b:v": {"oci/a", "oci/b:v"},
	} {
		v := verdict.New("q", noon())
		for _, s := range subjects {
			v.Add(verdict.Find(verdict.Extra, s, "m"))
		}
		if got := v.Headline(); got != "REFUSED q: "+want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
