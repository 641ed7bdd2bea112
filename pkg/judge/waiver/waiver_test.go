package waiver_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func noon() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) }

const (
	name        = "bin/linux/amd64/lantern"
	destination = "https://dl.example.test/lantern/v0.1.0/"
)

// scene is a release of two artifacts; one of them has a finding.
type scene struct {
	v      *verdict.Verdict
	c      waiver.Case
	list   knowndefects.Predicate
	defect *knowndefects.Defect
}

func newScene(t *testing.T, codes ...verdict.Code) *scene {
	t.Helper()
	p, err := policy.Parse(example(t), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &scene{v: verdict.New("release lantern v0.1.0", noon())}
	s.v.Counts = verdict.Counts{Verified: 1, Required: 2}
	s.v.Proofs = []verdict.Proof{{Subject: "another", Bundle: digest.SetOf([]byte("its bundle")).SHA256}}
	for _, c := range codes {
		s.v.Findings = append(s.v.Findings, verdict.Find(c, name, "m"))
	}
	s.c = waiver.Case{Policy: p, Version: must(t, "v0.1.0"), Subjects: []waiver.Subject{
		{Name: name, Digests: digest.SetOf([]byte("lantern")), Destination: destination},
		{Name: "oci/lantern", Digests: digest.SetOf([]byte("image")), Destination: "registry.example.test/lantern"},
	}}
	s.list = knowndefects.Predicate{
		Name: "lantern", Sequence: 2, Issued: noon().AddDate(0, -1, 0), Expires: noon().AddDate(0, 1, 0),
		Defects: []knowndefects.Defect{{
			ID: "late", Versions: knowndefects.Versions{List: []string{"v0.1.0"}}, Artifacts: []string{name}, Code: verdict.NoSBOM,
			Explanation: "it came late", Source: "https://issues.example.test/7",
		}},
	}
	s.defect = &s.list.Defects[0]
	return s
}

// example is a policy; which one is nothing to a waiver but its digest.
func example(t testing.TB) []byte {
	t.Helper()
	raw, err := os.ReadFile("../../../policies/example-release.yaml")
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func must(t *testing.T, text string) version.Version {
	t.Helper()
	v, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// exception covers NO_SBOM of the artifact, but for what is changed.
func (s *scene) exception(change func(*exception.Exception)) waiver.Exception {
	x := exception.Exception{
		Artifact: intoto.Subject{Name: name, Digests: digest.SetOf([]byte("lantern"))},
		Predicate: exception.Predicate{
			Code: verdict.NoSBOM, Reason: "the scanner was down", Destination: destination, Policy: s.c.Policy.Digest(),
			Issued: noon().Add(-time.Hour), Expires: noon().Add(time.Hour),
		},
	}
	if change != nil {
		change(&x)
	}
	return waiver.Signed(x, "bundle")
}

// accept has the list signed and its defect accepted.
func (s *scene) accept() {
	s.c.Lists, s.c.Accept = []waiver.List{waiver.SignedList(s.list)}, []string{s.defect.ID}
}

func (s *scene) apply() *verdict.Verdict {
	waiver.Apply(s.v, s.c)
	return s.v
}

// notes are the notes of a verdict as one text.
func notes(v *verdict.Verdict) string { return strings.Join(append(v.Sentences, v.Notes...), "\n") }

func TestException(t *testing.T) {
	other := digest.Of(digest.SHA256, []byte("other"))
	rows := []struct {
		name   string
		change func(*exception.Exception)
		why    string // in the note; empty where it is used
	}{
		{"as it must be", nil, ""},
		{"sha256 alone", func(x *exception.Exception) { x.Artifact.Digests.SHA512 = digest.Digest{} }, ""},
		{"issued this second", func(x *exception.Exception) { x.Issued = noon() }, ""},
		{"another code", func(x *exception.Exception) { x.Code = verdict.Unsigned }, "the verdict has no finding UNSIGNED of " + name},
		{"another artifact", func(x *exception.Exception) { x.Artifact.Name = "oci/lantern" }, "the verdict has no finding NO_SBOM of oci/lantern"},
		{"other bytes", func(x *exception.Exception) { x.Artifact.Digests = digest.SetOf([]byte("other")) }, "the exception is for other bytes: " + other.String()},
		{"the sha256 of other bytes", func(x *exception.Exception) { x.Artifact.Digests.SHA256 = other }, "the exception is for other bytes"},
		{"the sha512 of other bytes", func(x *exception.Exception) { x.Artifact.Digests.SHA512 = digest.Of(digest.SHA512, []byte("other")) }, "the exception is for other bytes"},
		{"no bytes", func(x *exception.Exception) { x.Artifact.Digests = digest.Set{} }, "the exception is for other bytes"},
		{"another destination", func(x *exception.Exception) { x.Destination = "https://dl.example.test/lantern/" }, `the exception is for the destination "https://dl.example.test/lantern/", not "`},
		{"another policy", func(x *exception.Exception) { x.Policy = other }, "the exception is for the policy " + other.String()},
		{"no policy", func(x *exception.Exception) { x.Policy = digest.Digest{} }, "the exception is for the policy"},
		{"not issued yet", func(x *exception.Exception) { x.Issued = noon().Add(time.Second) }, "the exception is not valid before 2026-03-01T12:00:01Z"},
		{"expired this second", func(x *exception.Exception) { x.Expires = noon() }, "the exception expired at 2026-03-01T12:00:00Z"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			s := newScene(t, verdict.NoSBOM)
			s.c.Exceptions = []waiver.Exception{s.exception(r.change)}
			v := s.apply()
			if r.why == "" {
				if v.Outcome() != verdict.Accepted || v.Complete() || len(v.Waived) != 1 || len(v.Sentences) > 0 || len(v.Proofs) != 2 {
					t.Errorf("%s, complete %t, %d waived, notes %q", v.Headline(), v.Complete(), len(v.Waived), v.Notes)
				}
				return
			}
			if v.Outcome() != verdict.Refused || len(v.Waived) > 0 || !strings.Contains(notes(v), r.why) {
				t.Errorf("%s, notes %q, want %q", v.Headline(), v.Notes, r.why)
			}
		})
	}
}

func TestExceptionIsForOneFinding(t *testing.T) {
	s := newScene(t, verdict.NoSBOM, verdict.Unsigned)
	s.c.Exceptions = []waiver.Exception{s.exception(nil)}
	if v := s.apply(); v.Outcome() != verdict.Refused || len(v.Waived) != 1 || v.Counts.Excepted != 0 {
		t.Errorf("%s, %s", v.Headline(), v.Counts)
	}
	zero := newScene(t, verdict.NoSBOM)
	zero.c.Exceptions = []waiver.Exception{{}}
	if v := zero.apply(); v.Outcome() != verdict.Refused || !strings.Contains(notes(v), "the exception is unsigned") {
		t.Errorf("the zero exception: %s, %q", v.Headline(), v.Notes)
	}
	nowhere := newScene(t, verdict.NoSBOM)
	nowhere.c.Subjects[0].Destination = ""
	nowhere.c.Exceptions = []waiver.Exception{nowhere.exception(func(x *exception.Exception) { x.Destination = "" })}
	if v := nowhere.apply(); v.Outcome() != verdict.Refused {
		t.Errorf("no destination is every destination: %s", v.Headline())
	}
	elsewhere := newScene(t, verdict.NoSBOM)
	elsewhere.c.Subjects = elsewhere.c.Subjects[1:]
	elsewhere.c.Exceptions = []waiver.Exception{elsewhere.exception(nil)}
	if v := elsewhere.apply(); v.Outcome() != verdict.Refused || !strings.Contains(notes(v), "not about an artifact") {
		t.Errorf("an artifact that is none of the release: %s, %q", v.Headline(), v.Notes)
	}
}

// TestSameExceptionsSameVerdict: the order in which they come changes nothing.
func TestSameExceptionsSameVerdict(t *testing.T) {
	var ids []string
	for range 2 {
		s := newScene(t, verdict.NoSBOM)
		a := waiver.Signed(exceptionOf(s), "a")
		b := waiver.Signed(exceptionOf(s), "b")
		s.c.Exceptions = []waiver.Exception{a, b}
		if len(ids) == 1 {
			s.c.Exceptions = []waiver.Exception{b, a}
		}
		ids = append(ids, s.apply().Waived[0].ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("%q", ids)
	}
}

func exceptionOf(s *scene) (x exception.Exception) {
	s.exception(func(made *exception.Exception) { x = *made })
	return x
}

// BenchmarkApply brings a release of a thousand artifacts, all of them with a
// finding and an exception for it, before a list of a hundred defects.
func BenchmarkApply(b *testing.B) {
	v := verdict.New("q", noon())
	p, err := policy.Parse(example(b), nil)
	if err != nil {
		b.Fatal(err)
	}
	c := waiver.Case{Policy: p}
	list := knowndefects.Predicate{Name: "l", Sequence: 1, Issued: noon(), Expires: noon().AddDate(0, 1, 0)}
	for i := range 1000 {
		a := waiver.Subject{Name: fmt.Sprint("bin/", i), Digests: digest.SetOf(fmt.Append(nil, i)), Destination: destination}
		c.Subjects = append(c.Subjects, a)
		v.Add(verdict.Find(verdict.NoSBOM, a.Name, "m"))
		c.Exceptions = append(c.Exceptions, waiver.Signed(exception.Exception{
			Artifact: intoto.Subject{Name: a.Name, Digests: a.Digests},
			Predicate: exception.Predicate{
				Code: verdict.NoSBOM, Reason: "r", Destination: destination, Policy: c.Policy.Digest(), Issued: noon(), Expires: noon().Add(time.Hour),
			},
		}, a.Name))
		if i < 100 {
			list.Defects = append(list.Defects, knowndefects.Defect{ID: fmt.Sprint(i), Artifacts: []string{a.Name}, Code: verdict.NoSBOM})
		}
	}
	c.Lists = []waiver.List{waiver.SignedList(list)}
	for b.Loop() {
		judged := *v
		judged.Findings = slices.Clone(v.Findings)
		waiver.Apply(&judged, c)
		if judged.Counts.Excepted != 1000 {
			b.Fatal(judged.Headline())
		}
	}
}
