package waiver_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func TestKnownDefectsExplain(t *testing.T) {
	rows := []struct {
		name   string
		change func(*scene)
		known  bool
	}{
		{"as it is", func(*scene) {}, true},
		{"a range that ends later", func(s *scene) { s.defect.Versions = knowndefects.Versions{From: "v0.1.0", Until: "v0.1.1"} }, true},
		{"a range that ends here", func(s *scene) { s.defect.Versions = knowndefects.Versions{From: "v0.0.1", Until: "v0.1.0"} }, false},
		{"a range that begins later", func(s *scene) { s.defect.Versions = knowndefects.Versions{From: "v0.1.1", Until: "v0.2.0"} }, false},
		{"a range that a candidate ends", func(s *scene) { s.defect.Versions = knowndefects.Versions{From: "v0.0.1", Until: "v0.1.0-rc.1"} }, false},
		{"another version", func(s *scene) { s.defect.Versions.List = []string{"v0.1.1"} }, false},
		{"no versions", func(s *scene) { s.defect.Versions = knowndefects.Versions{} }, false},
		{"no release is judged", func(s *scene) { s.c.Version = version.Version{} }, false},
		{"another artifact", func(s *scene) { s.defect.Artifacts = []string{"bin/linux/arm64/lantern"} }, false},
		{"another code", func(s *scene) { s.defect.Code = verdict.Unsigned }, false},
		{"these bytes", func(s *scene) { s.defect.Digests = []digest.Digest{digest.Of(digest.SHA256, []byte("lantern"))} }, true},
		{"other bytes", func(s *scene) { s.defect.Digests = []digest.Digest{digest.Of(digest.SHA256, []byte("other"))} }, false},
		{"an expired list", func(s *scene) { s.list.Expires = noon() }, true},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t, verdict.NoSBOM)
			s.v.Warn(verdict.Find(verdict.NoSBOM, name, "m"))
			r.change(s)
			s.c.Lists = []waiver.List{waiver.SignedList(s.list)}
			v := s.apply()
			if v.Outcome() != verdict.Refused || len(v.Waived) > 0 {
				t.Errorf("explained, and so excused: %s", v.Headline())
			}
			if got := v.Findings[0].Known != nil; got != r.known || (v.Warnings[0].Known != nil) != r.known {
				t.Errorf("known %t, want %t", got, r.known)
			}
		})
	}
}

func TestAcceptedDefects(t *testing.T) {
	rows := []struct {
		name   string
		change func(*scene)
		want   verdict.Outcome
		note   string
	}{
		{"accepted by its name", func(*scene) {}, verdict.Accepted, ""},
		{"not accepted", func(s *scene) { s.c.Accept = nil }, verdict.Refused, ""},
		{"another is accepted", func(s *scene) { s.c.Accept = []string{"early"} }, verdict.Malformed, ""},
		{"the name of nothing", func(s *scene) { s.c.Accept = []string{""} }, verdict.Malformed, ""},
		{"another artifact", func(s *scene) { s.defect.Artifacts = []string{"oci/lantern"} }, verdict.Refused, "explains no finding of this verdict"},
		{"expired this second", func(s *scene) { s.list.Expires = noon() }, verdict.Refused, "the list expired at"},
		{"not issued yet", func(s *scene) { s.list.Issued = noon().Add(time.Second) }, verdict.Refused, "not valid before"},
		{"never set aside", func(s *scene) {
			s.defect.Code, s.v.Findings[0].Code = verdict.SignatureBad, verdict.SignatureBad
		}, verdict.Refused, "SIG_INVALID cannot be waived"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t, verdict.NoSBOM)
			s.c.Accept = []string{"late"}
			r.change(s)
			s.c.Lists = []waiver.List{waiver.SignedList(s.list)}
			v := s.apply()
			if v.Outcome() != r.want || !strings.Contains(notes(v), r.note) {
				t.Errorf("%s, notes %q, want %s and %q", v.Headline(), v.Sentences, r.want, r.note)
			}
			if r.want != verdict.Accepted {
				return
			}
			w := v.Waived[0]
			if w.Kind != verdict.ByDefect || w.ID != "late" || w.By != "policy@example.test" || w.Finding.Known == nil || v.Complete() {
				t.Errorf("%+v", w)
			}
		})
	}
}

// asWritten is a list as people write it.
const asWritten = `apiVersion: waybill/v1
kind: KnownDefects
name: lantern
sequence: %d
issued: "2026-02-01T00:00:00Z"
expires: "2026-09-01T00:00:00Z"
defects:
- id: late
  versions: {list: [v0.1.0]}
  artifacts: [bin/linux/amd64/lantern]
  code: NO_SBOM
  explanation: %s
  source: https://issues.example.test/7
withdrawals:
- {version: v0.1.0, artifact: oci/lantern, reason: it leaks, source: "https://issues.example.test/9", since: "2026-02-01T00:00:00Z"}
`

func written(t *testing.T, read func([]byte) (waiver.List, error), number int, explanation string) waiver.List {
	t.Helper()
	l, err := read(fmt.Appendf(nil, asWritten, number, explanation))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestWhoStandsForAList: the same list, by nobody and as part of the program.
func TestWhoStandsForAList(t *testing.T) {
	unsigned := newScene(t, verdict.NoSBOM)
	unsigned.c.Lists, unsigned.c.Accept = []waiver.List{written(t, waiver.UnsignedList, 3, "late")}, []string{"late"}
	v := unsigned.apply()
	if v.Outcome() != verdict.Refused || len(v.Waived) > 0 || v.Findings[0].Known == nil || !strings.Contains(notes(v), "the list is unsigned") {
		t.Errorf("unsigned: %s, notes %q", v.Headline(), v.Sentences)
	}
	carried := newScene(t, verdict.NoSBOM)
	carried.c.Lists, carried.c.Accept = []waiver.List{written(t, waiver.CarriedList, 3, "late")}, []string{"late"}
	v = carried.apply()
	if v.Findings[0].Code != verdict.Withdrawn || len(v.Waived) != 1 || v.Waived[0].By != "carried by this program" {
		t.Errorf("carried: %s, %+v", v.Headline(), v.Waived)
	}
	for _, read := range []func([]byte) (waiver.List, error){waiver.UnsignedList, waiver.CarriedList} {
		if l, err := read([]byte("defects: []")); err == nil || l.Name() != "" {
			t.Errorf("an empty list is read: %v", l)
		}
	}
}

func TestOnlyAHigherNumberReplaces(t *testing.T) {
	three, four := written(t, waiver.CarriedList, 3, "three"), written(t, waiver.CarriedList, 4, "four")
	forked, stranger := written(t, waiver.CarriedList, 4, "something else"), written(t, waiver.UnsignedList, 9, "stranger")
	rows := []struct {
		name  string
		lists []waiver.List
		says  string
		stale bool
	}{
		{"the lower first", []waiver.List{three, four}, "four", false},
		{"the higher first", []waiver.List{four, three}, "four", false},
		{"the same twice", []waiver.List{four, four}, "four", false},
		{"two of one number", []waiver.List{four, forked}, "four", true},
		{"a higher one that nobody signed", []waiver.List{stranger, three}, "three", false},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t, verdict.NoSBOM)
			s.c.Lists = r.lists
			v := s.apply()
			if got := v.Findings[0].Known.Explanation; got != r.says {
				t.Errorf("explained by %q, want %q", got, r.says)
			}
			if stale := slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == verdict.PolicyStale }); stale != r.stale {
				t.Errorf("%s, want stale %t", v.Headline(), r.stale)
			}
		})
	}
}

func TestWithdrawals(t *testing.T) {
	lantern, other := digest.Of(digest.SHA256, []byte("lantern")), digest.Of(digest.SHA256, []byte("other"))
	rows := []struct {
		name    string
		gone    knowndefects.Withdrawal
		release string
		subject string // withdrawn; empty for none
	}{
		{"the release", knowndefects.Withdrawal{Version: "v0.1.0"}, "v0.1.0", "v0.1.0"},
		{"another release", knowndefects.Withdrawal{Version: "v0.1.1"}, "v0.1.0", ""},
		{"since this second", knowndefects.Withdrawal{Version: "v0.1.0", Since: noon()}, "v0.1.0", "v0.1.0"},
		{"from the next second on", knowndefects.Withdrawal{Version: "v0.1.0", Since: noon().Add(time.Second)}, "v0.1.0", ""},
		{"an artifact", knowndefects.Withdrawal{Version: "v0.1.0", Artifact: name}, "v0.1.0", name},
		{"an artifact that it has not", knowndefects.Withdrawal{Version: "v0.1.0", Artifact: "bin/lamp"}, "v0.1.0", ""},
		{"an artifact of these bytes", knowndefects.Withdrawal{Version: "v0.1.0", Artifact: name, Digest: lantern}, "v0.1.0", name},
		{"an artifact of other bytes", knowndefects.Withdrawal{Version: "v0.1.0", Artifact: name, Digest: other}, "v0.1.0", ""},
		{"these bytes", knowndefects.Withdrawal{Version: "v0.1.0", Digest: lantern}, "v0.1.0", name},
		{"these bytes in another release", knowndefects.Withdrawal{Version: "v0.1.1", Digest: lantern}, "v0.1.0", ""},
		{"these bytes, of no release", knowndefects.Withdrawal{Version: "v0.1.1", Digest: lantern}, "", name},
		{"other bytes, of no release", knowndefects.Withdrawal{Version: "v0.1.1", Digest: other}, "", ""},
		{"a release, asked of no release", knowndefects.Withdrawal{Version: "v0.1.0"}, "", ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t)
			s.v.Counts.Verified = 2
			r.gone.Reason, r.gone.Source = "it leaks", "https://issues.example.test/9"
			if r.gone.Since.IsZero() {
				r.gone.Since = noon().AddDate(0, -1, 0)
			}
			if s.c.Version = (version.Version{}); r.release != "" {
				s.c.Version = must(t, r.release)
			}
			s.list.Defects, s.list.Withdrawals, s.list.Expires = nil, []knowndefects.Withdrawal{r.gone}, noon() // expired
			s.c.Lists = []waiver.List{waiver.SignedList(s.list)}
			v := s.apply()
			if r.subject == "" {
				if v.Outcome() != verdict.Accepted {
					t.Errorf("%s", v.Headline())
				}
				return
			}
			if v.Outcome() != verdict.Refused || v.Findings[0].Code != verdict.Withdrawn || v.Findings[0].Subject != r.subject || v.Findings[0].Known == nil {
				t.Errorf("%+v, want WITHDRAWN of %s", v.Findings, r.subject)
			}
		})
	}
}

// TestPolicyDemandsAList: one that asks for number 2 gets that or a later one,
// from somebody who stands for it, and not expired.
func TestPolicyDemandsAList(t *testing.T) {
	rows := []struct {
		name   string
		change func(*scene)
		want   verdict.Code
	}{
		{"the number that is asked", func(*scene) {}, ""},
		{"a later one", func(s *scene) { s.list.Sequence = 3 }, ""},
		{"an earlier one", func(s *scene) { s.list.Sequence = 1 }, verdict.PolicyStale},
		{"an expired one", func(s *scene) { s.list.Expires = noon() }, verdict.PolicyExpired},
		{"none", func(s *scene) { s.list.Name = "" }, verdict.PolicyStale},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t)
			s.v.Counts.Verified = 2
			s.c.Policy = demanding(t)
			r.change(s)
			if s.list.Name != "" {
				s.c.Lists = []waiver.List{waiver.SignedList(s.list)}
			}
			v := s.apply()
			if r.want == "" && v.Outcome() != verdict.Accepted || r.want != "" && (len(v.Findings) != 1 || v.Findings[0].Code != r.want) {
				t.Errorf("%s, want %q", v.Headline(), r.want)
			}
		})
	}
	s := newScene(t)
	s.c.Policy, s.c.Lists = demanding(t), []waiver.List{written(t, waiver.UnsignedList, 3, "late")}
	if v := s.apply(); len(v.Findings) != 1 || v.Findings[0].Code != verdict.PolicyStale {
		t.Errorf("an unsigned list will do: %s", v.Headline())
	}
}

func demanding(t *testing.T) policy.Policy {
	t.Helper()
	p, err := policy.Parse(append(example(t), "\ndefects: {atLeast: 2}\n"...), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestStateAt: who remembers a decision learns that a list was replaced, that it
// expired, and that a withdrawal began.
func TestStateAt(t *testing.T) {
	three, four := written(t, waiver.CarriedList, 3, "three"), written(t, waiver.CarriedList, 4, "four")
	began, expires := time.Date(2026, 2, 1, 0, 0, 0, 0, time.UTC), time.Date(2026, 9, 1, 0, 0, 0, 0, time.UTC)
	states := map[string]bool{}
	for _, at := range []time.Time{began.Add(-time.Second), began, expires} {
		states[three.StateAt(at)] = true
	}
	states[four.StateAt(began)] = true
	states[written(t, waiver.UnsignedList, 3, "three").StateAt(began)] = true
	if len(states) != 5 {
		t.Errorf("%d states, want 5: %v", len(states), states)
	}
	if three.StateAt(began) != three.StateAt(expires.Add(-time.Second)) {
		t.Error("nothing happened, and the state is another")
	}
}
