package vsa_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// judged is a verdict that accepts two artifacts at level 2.
func judged() verdict.Verdict {
	v := verdict.New("release lantern v0.1.0", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	v.Counts = verdict.Counts{Verified: 2, Required: 2}
	v.Policy = digest.Of(digest.SHA256, []byte("policy"))
	v.Least = &verdict.Least{Track: "build", Level: 2, Artifacts: 2}
	for _, text := range []string{"b", "a", "b"} {
		v.Proofs = append(v.Proofs, verdict.Proof{Subject: text, Statement: "https://slsa.dev/provenance/v1", Bundle: digest.Of(digest.SHA256, []byte(text))})
	}
	return *v
}

func claim() vsa.Claim {
	return vsa.Claim{
		Verifier: vsa.Verifier{ID: "https://verifier.example", Version: map[string]string{"waybill": "v1.0.0"}},
		Resource: "https://dl.example.test/lantern/v0.1.0/", Policy: "https://example.test/policy", Artifacts: 2,
		Subjects: []intoto.Subject{{Name: "b", Digests: digest.SetOf([]byte("b"))}, {Name: "a", Digests: digest.SetOf([]byte("a"))}},
	}
}

// TestNew: a summary says what the verdict found, and answers who asks for it.
func TestNew(t *testing.T) {
	v := judged()
	v.Waived = []verdict.Waiver{{Finding: verdict.Find(verdict.NoSBOM, "a", "none"), Kind: verdict.ByException, ID: "E-1", By: "officer@example.test", Reason: "known"}}
	s, err := vsa.New(v, claim())
	if err != nil {
		t.Fatal(err)
	}
	said, err := vsa.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	q := vsa.Question{
		VerifierID: "https://verifier.example", ResourceURI: "https://dl.example.test/lantern/v0.1.0/", PolicyURI: "https://example.test/policy",
		Policy: v.Policy, Levels: map[string]int{vsa.TrackBuild: 2}, Now: v.Time.Add(time.Hour), MaxAge: 24 * time.Hour,
	}
	if err := said.Answer(q); err != nil {
		t.Error(err)
	}
	if q.Levels = map[string]int{vsa.TrackBuild: 3}; said.Answer(q) == nil {
		t.Error("it answers for a level that was not worked out")
	}
	if len(said.Inputs) != 2 || !said.Verified.Equal(v.Time) || said.Verifier.Version["waybill"] != "v1.0.0" || !strings.Contains(string(s.Raw()), `"id":"E-1"`) {
		t.Errorf("says %s", s.Raw())
	}
	if subjects := s.Subjects(); subjects[0].Name != "a" || !s.Names("b", digest.SetOf([]byte("b"))) {
		t.Errorf("of %v", subjects)
	}
}

// TestNewUnderFeatures: what was judged while something of the policy did not
// count says so, and is no yes for whoever pinned the policy.
func TestNewUnderFeatures(t *testing.T) {
	for mode, counts := range map[string]bool{"require": true, "warn": false, "off": false} {
		v := judged()
		v.AddFeatures(verdict.Feature{Name: "waybill/RequireProvenance", State: "TurningOn", Number: 3, Mode: mode})
		s, err := vsa.New(v, claim())
		if err != nil {
			t.Fatal(err)
		}
		said, err := vsa.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		err = said.Answer(vsa.Question{
			VerifierID: "https://verifier.example", ResourceURI: "https://dl.example.test/lantern/v0.1.0/", PolicyURI: "https://example.test/policy",
			Policy: v.Policy, Levels: map[string]int{vsa.TrackBuild: 2}, Now: v.Time.Add(time.Hour), MaxAge: 24 * time.Hour,
		})
		if (err == nil) != counts || !counts && verdict.FindingOf("", err).Code != "VSA_POLICY" {
			t.Errorf("%s: %v", mode, err)
		}
		for _, words := range []string{`"name":"waybill/RequireProvenance"`, `"state":"TurningOn"`, v.Policy.String()} {
			if !strings.Contains(string(said.Policy.Annotations), words) {
				t.Errorf("%s: it does not say %s: %s", mode, words, said.Policy.Annotations)
			}
		}
	}
}

// TestNewClaimsNoMore: a level is claimed only if it was worked out of
// everything.
func TestNewClaimsNoMore(t *testing.T) {
	for what, row := range map[string]struct {
		least *verdict.Least
		want  vsa.Level
	}{
		"worked out":         {&verdict.Least{Level: 2, Artifacts: 2}, "SLSA_BUILD_LEVEL_2"},
		"none reached":       {&verdict.Least{Level: 0, Artifacts: 2}, "SLSA_BUILD_LEVEL_0"},
		"of one of the two":  {&verdict.Least{Level: 2, Artifacts: 1}, "SLSA_BUILD_LEVEL_UNEVALUATED"},
		"not worked out":     {nil, "SLSA_BUILD_LEVEL_UNEVALUATED"},
		"less than no level": {&verdict.Least{Level: -1, Artifacts: 2}, "SLSA_BUILD_LEVEL_UNEVALUATED"},
	} {
		v := judged()
		v.Least = row.least
		s, err := vsa.New(v, claim())
		if err != nil {
			t.Fatal(err)
		}
		if said, err := vsa.Parse(s); err != nil || !slices.Equal(said.Levels, []vsa.Level{row.want}) {
			t.Errorf("%s: %v, %v, want %s", what, said.Levels, err, row.want)
		}
	}
}

// TestNewReproduced: it says that everything was built again only if a counted
// rebuild covers every artifact.
func TestNewReproduced(t *testing.T) {
	for what, row := range map[string]struct {
		rebuilt []string
		waived  string
		want    bool
	}{
		"every artifact":                  {[]string{"a", "b"}, "", true},
		"by two rebuilders":               {[]string{"a", "b", "a", "b"}, "", true},
		"another finding was waived":      {[]string{"a", "b"}, "a", true},
		"not one of them":                 {[]string{"a"}, "", false},
		"one of them by two":              {[]string{"a", "a"}, "", false},
		"a part of one, but not another":  {[]string{"a", "a/linux/amd64"}, "", false},
		"waived of what has no other one": {[]string{"a", "b"}, "c", false},
		"none":                            {nil, "", false},
	} {
		v := judged()
		for _, name := range row.rebuilt {
			v.Proofs = append(v.Proofs, verdict.Proof{Subject: name, Statement: rebuildrecord.PredicateType, Bundle: digest.Of(digest.SHA256, []byte(name))})
		}
		if row.waived != "" {
			v.Waived = []verdict.Waiver{{Finding: verdict.Find(verdict.Threshold, row.waived, "too few"), Kind: verdict.ByException, ID: "E-1", By: "officer@example.test", Reason: "known"}}
		}
		s, err := vsa.New(v, claim())
		if err != nil {
			t.Fatal(err)
		}
		if said, err := vsa.Parse(s); err != nil || slices.Contains(said.Levels, "SLSA_BUILD_REPRODUCED") != row.want {
			t.Errorf("%s: %v, %v, want it: %t", what, said.Levels, err, row.want)
		}
	}
}

// TestNewRefuses: nobody vouches for what he did not accept, or for his word.
func TestNewRefuses(t *testing.T) {
	for what, row := range map[string]struct {
		change func(*verdict.Verdict, *vsa.Claim)
		code   verdict.Code
	}{
		"nothing proven":     {func(v *verdict.Verdict, _ *vsa.Claim) { v.Counts.Verified = 0 }, "NOT_ACCEPTED"},
		"refused":            {func(v *verdict.Verdict, _ *vsa.Claim) { v.Add(verdict.Find(verdict.Missing, "a", "gone")) }, "NOT_ACCEPTED"},
		"unavailable":        {func(v *verdict.Verdict, _ *vsa.Claim) { v.Add(verdict.Find(verdict.PlaceDown, "a", "away")) }, "NOT_ACCEPTED"},
		"a summary":          {func(v *verdict.Verdict, _ *vsa.Claim) { v.Proofs[1].Statement = vsa.PredicateType }, verdict.VSAVerifier},
		"no policy":          {func(v *verdict.Verdict, _ *vsa.Claim) { v.Policy = digest.Digest{} }, verdict.StatementParse},
		"no address of it":   {func(_ *verdict.Verdict, c *vsa.Claim) { c.Policy = "" }, verdict.StatementParse},
		"no verifier":        {func(_ *verdict.Verdict, c *vsa.Claim) { c.Verifier.ID = "" }, verdict.StatementParse},
		"no resource":        {func(_ *verdict.Verdict, c *vsa.Claim) { c.Resource = "" }, verdict.StatementParse},
		"no subject":         {func(_ *verdict.Verdict, c *vsa.Claim) { c.Subjects = nil }, verdict.StatementParse},
		"of no artifacts":    {func(_ *verdict.Verdict, c *vsa.Claim) { c.Artifacts = 0 }, verdict.StatementParse},
		"too many subjects":  {func(_ *verdict.Verdict, c *vsa.Claim) { c.Subjects = make([]intoto.Subject, vsa.MaxSubjects+1) }, verdict.StatementParse},
		"one subject, twice": {func(_ *verdict.Verdict, c *vsa.Claim) { c.Subjects[1] = c.Subjects[0] }, verdict.StatementParse},
	} {
		v, c := judged(), claim()
		row.change(&v, &c)
		s, err := vsa.New(v, c)
		if err == nil || !s.IsZero() || row.code != "NOT_ACCEPTED" && verdict.FindingOf("", err).Code != row.code {
			t.Errorf("%s: %v, want %s", what, err, row.code)
		}
	}
}

// TestSource: a summary of a source revision states level 1 of what its verdict
// accepted, and nothing of another commit.
func TestSource(t *testing.T) {
	commit := strings.Repeat("a", 40)
	for what, row := range map[string]struct {
		change func(*verdict.Verdict)
		wrong  bool
	}{
		"accepted":                 {func(*verdict.Verdict) {}, false},
		"of level 3":               {func(v *verdict.Verdict) { v.Levels[0].Level = 3 }, false},
		"of level 0":               {func(v *verdict.Verdict) { v.Levels[0].Level = 0 }, true},
		"of another commit":        {func(v *verdict.Verdict) { v.Levels[0].Subject = strings.Repeat("b", 40) }, true},
		"of the Build track alone": {func(v *verdict.Verdict) { v.Levels[0].Track = "build" }, true},
		"refused":                  {func(v *verdict.Verdict) { v.Add(verdict.Find(verdict.SourceRef, "a", "elsewhere")) }, true},
	} {
		v := judged()
		v.Levels = []verdict.Levels{{Subject: commit, Track: "source", Level: 1}}
		row.change(&v)
		s, err := claim().Source(v, commit, "refs/tags/v1.0.0")
		if (err != nil) != row.wrong || row.wrong && !s.IsZero() {
			t.Errorf("%s: %v", what, err)
		}
		if err != nil {
			continue
		}
		said, err := vsa.Parse(s)
		if level, _ := said.Level(vsa.TrackSource); err != nil || level != 1 || len(said.Inputs) > 0 || s.Resources()[0].Digest["gitCommit"] != commit || !strings.Contains(string(s.Raw()), `{"sourceRefs":["refs/tags/v1.0.0"]}`) {
			t.Errorf("%s: %v: %s", what, err, s.Raw())
		}
	}
}

// TestGist: the same said again is known, and what is another is not.
func TestGist(t *testing.T) {
	gist := func(change func(*verdict.Verdict, *vsa.Claim)) digest.Digest {
		v, c := judged(), claim()
		change(&v, &c)
		s, err := vsa.New(v, c)
		if err != nil {
			t.Fatal(err)
		}
		d, err := vsa.Gist(s)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	first := gist(func(*verdict.Verdict, *vsa.Claim) {})
	for what, change := range map[string]func(*verdict.Verdict, *vsa.Claim){
		"later":          func(v *verdict.Verdict, _ *vsa.Claim) { v.Time = v.Time.Add(time.Hour) },
		"more evidence":  func(v *verdict.Verdict, _ *vsa.Claim) { v.Proofs = v.Proofs[:1] },
		"a new program":  func(_ *verdict.Verdict, c *vsa.Claim) { c.Verifier.Version = map[string]string{"waybill": "v2.0.0"} },
		"in other order": func(_ *verdict.Verdict, c *vsa.Claim) { slices.Reverse(c.Subjects) },
	} {
		if !gist(change).Equal(first) {
			t.Errorf("%s: taken for something else", what)
		}
	}
	for what, change := range map[string]func(*verdict.Verdict, *vsa.Claim){
		"another policy":   func(v *verdict.Verdict, _ *vsa.Claim) { v.Policy = digest.Of(digest.SHA256, []byte("lax")) },
		"another level":    func(v *verdict.Verdict, _ *vsa.Claim) { v.Least.Level = 1 },
		"another verifier": func(_ *verdict.Verdict, c *vsa.Claim) { c.Verifier.ID += "x" },
		"another resource": func(_ *verdict.Verdict, c *vsa.Claim) { c.Resource += "x" },
		"another subject":  func(_ *verdict.Verdict, c *vsa.Claim) { c.Subjects[0].Name = "c" },
		"other bytes":      func(_ *verdict.Verdict, c *vsa.Claim) { c.Subjects[0].Digests = digest.SetOf([]byte("c")) },
		"something waived": func(v *verdict.Verdict, _ *vsa.Claim) {
			v.Waived = []verdict.Waiver{{Finding: verdict.Find(verdict.NoSBOM, "a", "none"), Kind: verdict.ByException, ID: "E-1", By: "o", Reason: "r"}}
		},
	} {
		if gist(change).Equal(first) {
			t.Errorf("%s: taken for the same", what)
		}
	}
}

// TestNoSummaryOfTheUnsigned: a summary is signed, and would stand for what
// nothing signed speaks for.
func TestNoSummaryOfTheUnsigned(t *testing.T) {
	for _, basis := range []verdict.Basis{verdict.InsecureUnsigned, verdict.Checked} {
		v := judged()
		v.Basis, v.Proofs = basis, nil
		if v.Err() != nil {
			t.Fatalf("%q does not accept: %v", basis, v.Err())
		}
		if _, err := vsa.New(v, claim()); verdict.FindingOf("", err).Code != verdict.NoProof {
			t.Errorf("%q: %v", basis, err)
		}
	}
}
