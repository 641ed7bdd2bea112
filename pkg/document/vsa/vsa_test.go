package vsa_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// valid is a summary in which every field says something.
func valid() string {
	sum := digest.Of(digest.SHA256, []byte("policy")).Hex()
	return `{"verifier":{"id":"https://verifier.example","version":{"v":"1"}},"timeVerified":"2026-03-01T12:00:00Z","resourceUri":"https://example.test/lantern",` +
		`"policy":{"uri":"https://example.test/policy","digest":{"sha256":"` + sum + `"}},"inputAttestations":[{"uri":"x","digest":{"sha256":"` + sum + `"}}],` +
		`"verificationResult":"PASSED","verifiedLevels":["SLSA_BUILD_LEVEL_3","SLSA_SOURCE_LEVEL_2","BCID_L1"],"dependencyLevels":{"SLSA_BUILD_LEVEL_1":5},"slsaVersion":"1.2"}`
}

func statement(t testing.TB, predicate string) intoto.Statement {
	t.Helper()
	s, err := intoto.ParseOpen(fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"x":"1"}}],"predicateType":"%s","predicate":%s}`, vsa.PredicateType, predicate))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParse(t *testing.T) {
	s, err := vsa.Parse(statement(t, valid()))
	if err != nil {
		t.Fatal(err)
	}
	if s.Verifier.ID != "https://verifier.example" || s.Result != vsa.Passed || s.SLSAVersion != "1.2" || len(s.Inputs) != 1 || s.Dependencies["SLSA_BUILD_LEVEL_1"] != 5 {
		t.Errorf("read as %+v", s)
	}
	for track, want := range map[string]int{vsa.TrackBuild: 3, vsa.TrackSource: 2} {
		if n, ok := s.Level(track); n != want || !ok {
			t.Errorf("%s level %d %t, want %d", track, n, ok, want)
		}
	}
	if _, ok := s.Level("BUILD_ENVIRONMENT"); ok {
		t.Error("a track that is not there has a level")
	}
}

func TestParseForms(t *testing.T) {
	rows := []struct {
		name     string
		old, new string
		code     verdict.Code // empty when accepted
	}{
		{"an unknown field", `"slsaVersion"`, `"https://example.test/x":1,"slsaVersion"`, ""},
		{"a time that is none", `"2026-03-01T12:00:00Z"`, `"0001-01-01T00:00:00Z"`, verdict.StatementParse},
		{"no time", `"timeVerified":"2026-03-01T12:00:00Z",`, ``, ""},
		{"no inputs", `"inputAttestations"`, `"x"`, ""},
		{"a policy without digest", `,"digest":{"sha256":"`, `,"annotations":{"sha256":"`, ""},
		{"a level not evaluated", `SLSA_SOURCE_LEVEL_2`, `SLSA_SOURCE_LEVEL_UNEVALUATED`, ""},
		{"a property", `BCID_L1`, `SLSA_SOURCE_TWO_PARTY_REVIEWED`, ""},
		{"a longer track", `BCID_L1`, `SLSA_BUILD_ENVIRONMENT_LEVEL_1`, ""},
		{"no levels", `["SLSA_BUILD_LEVEL_3","SLSA_SOURCE_LEVEL_2","BCID_L1"]`, `[]`, ""},
		{"failed", `"PASSED","verifiedLevels":["SLSA_BUILD_LEVEL_3","SLSA_SOURCE_LEVEL_2","BCID_L1"]`, `"FAILED","verifiedLevels":["FAILED"]`, ""},
		{"no dependencies", `{"SLSA_BUILD_LEVEL_1":5}`, `{}`, ""},

		{"no verifier", `https://verifier.example`, ``, verdict.StatementParse},
		{"no resource", `"resourceUri":"https://example.test/lantern"`, `"resourceUri":""`, verdict.StatementParse},
		{"no policy", `"policy"`, `"x"`, verdict.StatementParse},
		{"a policy that is null", `"policy":{`, `"policy":null,"x":{`, verdict.StatementParse},
		{"a policy with a digest that is none", `,"digest":{"sha256":"`, `,"digest":{"sha256":"x`, verdict.StatementParse},
		{"a policy without address", `"uri":"https://example.test/policy"`, `"name":"p"`, verdict.StatementParse},
		{"a result in lower case", `"PASSED"`, `"passed"`, verdict.StatementParse},
		{"no result", `"verificationResult":"PASSED",`, ``, verdict.StatementParse},
		{"a field in another case", `"slsaVersion"`, `"VerificationResult":"FAILED","slsaVersion"`, verdict.StatementParse},
		{"two levels of one track", `BCID_L1`, `SLSA_BUILD_LEVEL_1`, verdict.StatementParse},
		{"the same level twice", `BCID_L1`, `SLSA_BUILD_LEVEL_3`, verdict.StatementParse},
		{"a level and no evaluation", `BCID_L1`, `SLSA_BUILD_LEVEL_UNEVALUATED`, verdict.StatementParse},
		{"levels that are not there", `"verifiedLevels"`, `"x"`, verdict.StatementParse},
		{"passed and failed", `BCID_L1`, `FAILED`, verdict.StatementParse},
		{"failed with levels", `"PASSED"`, `"FAILED"`, verdict.StatementParse},
		{"an input without digest", `"inputAttestations":[{`, `"inputAttestations":[{"uri":"y"},{`, verdict.StatementParse},
		{"fewer dependencies than none", `:5`, `:-1`, verdict.StatementParse},
		{"dependencies at a level of no form", `{"SLSA_BUILD_LEVEL_1":5}`, `{"SLSA_BUILD_LEVEL_01":5}`, verdict.StatementParse},
		{"a time of no form", `2026-03-01T12:00:00Z`, `yesterday`, verdict.StatementParse},
		{"a version of no form", `"1.2"`, `"v1.2"`, verdict.StatementParse},
		{"too many levels", `"BCID_L1"`, `"a"` + strings.Repeat(`,"a"`, vsa.MaxLevels), verdict.Limit},
		{"too many inputs", `"inputAttestations":[`, `"inputAttestations":[` + strings.Repeat(`{},`, vsa.MaxInputs), verdict.Limit},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			changed := strings.Replace(valid(), r.old, r.new, 1)
			if changed == valid() {
				t.Fatalf("%q is not in the valid summary", r.old)
			}
			s, err := vsa.Parse(statement(t, changed))
			switch {
			case r.code == "" && err != nil:
				t.Error(err)
			case r.code != "" && (err == nil || verdict.FindingOf("", err).Code != r.code || s.Result != ""):
				t.Errorf("%v, want %s", err, r.code)
			}
		})
	}
}

func TestParseLevel(t *testing.T) {
	for text, ok := range map[string]bool{
		"SLSA_BUILD_LEVEL_0": true, "SLSA_BUILD_LEVEL_3": true, "SLSA_SOURCE_LEVEL_UNEVALUATED": true, "FAILED": true,
		"SLSA_BUILD_REPRODUCED": true, "BCID_L1": true, "ORG_SOURCE_REVIEWED": true, "my-level": true,
		"": false, "SLSA_": false, "SLSA": false, "SLSA_BUILD": false, "SLSA_BUILD_LEVEL": false, "SLSA_BUILD_LEVEL_": false,
		"SLSA_BUILD_LEVEL_03": false, "SLSA_BUILD_LEVEL_-1": false, "slsa_build_level_3": false, "Slsa_BUILD_LEVEL_3": false,
		"SLSA_BUILD_LEVEL_3 ": false, " SLSA_BUILD_LEVEL_3": false, "failed": false, "two words": false, "ſLSA_BUILD_LEVEL_3": false,
		"SLSA_BUILD_LEVEL_3_LEVEL_4": false, "SLSA_LEVEL_3": false,
		strings.Repeat("x", 200): true, strings.Repeat("x", 201): false,
	} {
		if _, err := vsa.ParseLevel(text); (err == nil) != ok {
			t.Errorf("%q: %v, want ok %t", text, err, ok)
		}
	}
}

func TestAnswer(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	question := func() vsa.Question {
		return vsa.Question{
			VerifierID: "https://verifier.example", ResourceURI: "https://example.test/lantern",
			PolicyURI: "https://example.test/policy", Policy: digest.Of(digest.SHA256, []byte("policy")),
			Levels: map[string]int{vsa.TrackBuild: 3}, Now: at.Add(time.Hour), MaxAge: time.Hour,
		}
	}
	rows := []struct {
		name   string
		change func(*vsa.Question)
		code   verdict.Code // empty when answered
	}{
		{"as it is", func(*vsa.Question) {}, ""},
		{"a lower level", func(q *vsa.Question) { q.Levels = map[string]int{vsa.TrackBuild: 2} }, ""},
		{"a higher level", func(q *vsa.Question) { q.Levels = map[string]int{vsa.TrackBuild: 4} }, "VSA_LEVEL"},
		{"another track", func(q *vsa.Question) { q.Levels["OTHER"] = 1 }, "VSA_LEVEL"},
		{"another track, at level 0", func(q *vsa.Question) { q.Levels["OTHER"] = 0 }, "VSA_LEVEL"},
		{"another verifier", func(q *vsa.Question) { q.VerifierID += "/" }, verdict.VSAVerifier},
		{"another resource", func(q *vsa.Question) { q.ResourceURI += "2" }, "VSA_RESOURCE"},
		{"another policy", func(q *vsa.Question) { q.PolicyURI += "2" }, "VSA_POLICY"},
		{"another text of the policy", func(q *vsa.Question) { q.Policy = digest.Of(digest.SHA256, nil) }, "VSA_POLICY"},
		{"too old", func(q *vsa.Question) { q.MaxAge = time.Hour - 1 }, verdict.VSAStale},
		{"at the moment of the verification", func(q *vsa.Question) { q.Now = at }, ""},
		{"from the future", func(q *vsa.Question) { q.Now = at.Add(-1) }, verdict.VSAStale},
		{"no levels asked", func(q *vsa.Question) { q.Levels = nil }, verdict.Usage},
		{"no policy asked", func(q *vsa.Question) { q.Policy = digest.Digest{} }, verdict.Usage},
		{"no age asked", func(q *vsa.Question) { q.MaxAge = 0 }, verdict.Usage},
	}
	for _, r := range rows {
		s, err := vsa.Parse(statement(t, valid()))
		if err != nil {
			t.Fatal(err)
		}
		q := question()
		r.change(&q)
		err = s.Answer(q)
		if (err == nil) != (r.code == "") || err != nil && verdict.FindingOf("", err).Code != r.code {
			t.Errorf("%s: %v, want %s", r.name, err, r.code)
		}
	}
	for name, row := range map[string]struct {
		digest string // of the policy
		change func(*vsa.Question)
		code   verdict.Code
	}{
		"at a commit":                 {`{"gitCommit":"` + strings.Repeat("a", 40) + `"}`, func(*vsa.Question) {}, ""},
		"at a commit, with a level":   {`{"gitCommit":"` + strings.Repeat("a", 40) + `"}`, func(q *vsa.Question) { q.Levels = map[string]int{vsa.TrackBuild: 3} }, ""},
		"at a commit, below a level":  {`{"gitCommit":"` + strings.Repeat("a", 40) + `"}`, func(q *vsa.Question) { q.Levels = map[string]int{vsa.TrackBuild: 4} }, "VSA_LEVEL"},
		"at a commit, too old":        {`{"gitCommit":"` + strings.Repeat("a", 40) + `"}`, func(q *vsa.Question) { q.MaxAge = time.Minute }, verdict.VSAStale},
		"at a commit, of the future":  {`{"gitCommit":"` + strings.Repeat("a", 40) + `"}`, func(q *vsa.Question) { q.Now = at.Add(-1) }, verdict.VSAStale},
		"at a branch":                 {`{"gitCommit":"main"}`, func(*vsa.Question) {}, "VSA_POLICY"},
		"at no commit":                {`{"sha256":"` + strings.Repeat("a", 64) + `"}`, func(*vsa.Question) {}, "VSA_POLICY"},
		"at a commit and pinned, too": {`{"gitCommit":"` + strings.Repeat("a", 40) + `"}`, func(q *vsa.Question) { q.Policy = digest.Of(digest.SHA256, nil) }, verdict.Usage},
	} {
		old := `{"sha256":"` + digest.Of(digest.SHA256, []byte("policy")).Hex() + `"}`
		if !strings.Contains(valid(), old) {
			t.Fatal("the summary names another policy")
		}
		s, err := vsa.Parse(statement(t, strings.Replace(valid(), old, row.digest, 1)))
		if err != nil {
			t.Fatal(err)
		}
		q := question()
		q.AnyCommit, q.Policy, q.Levels, q.MaxAge = true, digest.Digest{}, nil, 0
		row.change(&q)
		if err := s.Answer(q); (err == nil) != (row.code == "") || err != nil && verdict.FindingOf("", err).Code != row.code {
			t.Errorf("%s: %v, want %s", name, err, row.code)
		}
	}
	for why, change := range map[string][2]string{
		"failed":              {`"PASSED","verifiedLevels":["SLSA_BUILD_LEVEL_3","SLSA_SOURCE_LEVEL_2","BCID_L1"]`, `"FAILED","verifiedLevels":[]`},
		"no time":             {`"timeVerified":"2026-03-01T12:00:00Z",`, ``},
		"no digest of policy": {`,"digest":{"sha256":"`, `,"annotations":{"sha256":"`},
	} {
		s, err := vsa.Parse(statement(t, strings.Replace(valid(), change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Answer(question()); err == nil {
			t.Errorf("%s: answered", why)
		}
	}
	if err := (vsa.Summary{}).Answer(question()); err == nil {
		t.Error("the zero summary answers")
	}
}

// A summary that Google signed for a machine image.
func TestCorpusSummary(t *testing.T) {
	dir := os.Getenv("WAYBILL_CORPORA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "corpora")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "slsa", "bundles", "vsa", "gce", "v1", "gke-gce-pre.bcid-vsa.jsonl"))
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("the corpora are not here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := intoto.ParseEnvelope(bytes.TrimSuffix(raw, []byte("\n")))
	if err != nil {
		t.Fatal(err)
	}
	st, err := envelope.Statement()
	if err != nil {
		t.Fatal(err)
	}
	s, err := vsa.Parse(st)
	if err != nil {
		t.Fatal(err)
	}
	if want := []vsa.Level{"BCID_L1", "SLSA_BUILD_LEVEL_2"}; !slices.Equal(s.Levels, want) || s.Verifier.ID != "https://bcid.corp.google.com/verifier/bcid_package_enforcer/v0.1" {
		t.Errorf("read as %+v", s)
	}
	if got := st.Resources()[0].Digest["gce_image_id"]; got != "8970095005306000053" || !st.Subjects()[0].Digests.IsZero() {
		t.Errorf("subject %v", st.Resources()[0])
	}
}

func FuzzVSA(f *testing.F) {
	f.Add([]byte(valid()))
	f.Add([]byte(strings.Replace(valid(), "PASSED", "FAILED", 1)))
	f.Fuzz(func(t *testing.T, predicate []byte) {
		if len(predicate) == 0 || predicate[0] != '{' || !json.Valid(predicate) {
			return
		}
		st, err := intoto.ParseOpen(fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"x":"1"}}],"predicateType":"%s","predicate":%s}`, vsa.PredicateType, predicate))
		if err != nil {
			return
		}
		s, err := vsa.Parse(st)
		if err != nil {
			return
		}
		tracks := map[string]int{}
		for _, l := range s.Levels {
			if again, err := vsa.ParseLevel(string(l)); err != nil || again != l {
				t.Fatalf("level %q: %v", l, err)
			}
			if l.Track() != "" {
				tracks[l.Track()]++
			}
			if n, ok := s.Level(l.Track()); ok && (n < 0 || s.Result != vsa.Passed) {
				t.Fatalf("level %d of a summary that is %s", n, s.Result)
			}
		}
		for track, n := range tracks {
			if n > 1 {
				t.Fatalf("%d levels on track %s", n, track)
			}
		}
	})
}
