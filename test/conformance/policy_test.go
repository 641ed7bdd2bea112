package main

import (
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// policyCase is one row of the corpus of policy questions.
type policyCase struct {
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	Artifacts []struct {
		Digest string `json:"digest"`
	} `json:"artifacts"`
	Given  given  `json:"given"`
	Want   string `json:"want"`
	Reason string `json:"reason"`
}

// given is what the caller of a verifier asks for.
type given struct {
	ProvenancePath, AttestationPath, BuilderID           string
	SourceURI, SourceBranch, SourceTag, SourceVersionTag string
	SubjectDigests, VerifiedLevels                       []string
	VerifierID, ResourceURI, PublicKeyPath, PublicKeyID  string
}

// reason is why a request is refused, in one word.
type reason string

const (
	badSignature  reason = "signature"
	otherArtifact reason = "artifact"
	otherSource   reason = "source"
	otherBranch   reason = "branch"
	otherTag      reason = "tag"
	noTag         reason = "ref"
	otherBuilder  reason = "builder"
	otherSummary  reason = "summary"
	// Only these are reasons of ours alone.
	noKey    reason = "no key"
	noLog    reason = "no log"
	noPolicy reason = "no policy"
)

// documented is how the corpus calls what we call in one word.
var documented = map[string]reason{
	"source used to generate the binary does not match provenance": otherSource,
	"branch used to generate the binary does not match provenance": otherBranch,
	"tag used to generate the binary does not match provenance":    otherTag,
	"invalid ref":                 noTag,
	"untrusted reusable workflow": otherBuilder,
	"no valid signature":          badSignature,
}

// kinds are the ways in which we are stricter than the corpus documents.
// There is no way in which we may be laxer.
var kinds = map[reason]string{
	noKey:    "the envelope is signed by keys that the request does not give; without a key nothing is verified",
	noLog:    "a bare envelope of a key has neither a log entry nor a signed time; the verifier asks for one of each",
	noPolicy: "the summary names its policy by an address alone and the request pins none; a question must pin the policy by digest",
}

// stricter lists every request that we refuse although the corpus accepts it.
var stricter = map[string][]reason{
	"image: oci valid with tag":            {noKey},
	"image: multiple provenance 2nd valid": {noKey},
	"image: versioned tag match minor":     {noKey},
	"image: versioned tag match major":     {noKey},
	"vsa: success: gke":                    {noLog, noPolicy},
}

// TestSLSAPolicies answers each request of the corpus as documented and for
// the documented reason, or more strictly, as listed above.
func TestSLSAPolicies(t *testing.T) {
	dir := material(t, "slsa")
	judge := newJudge(t, dir)
	agree, laxer, by, seen := 0, 0, map[reason]int{}, map[string]bool{}
	cases := policyCases(t, dir)
	for _, c := range cases {
		got, name := judge.reasons(t, c), c.Kind+": "+c.Name
		t.Logf("%-4s %s %v", c.Want, name, got)
		switch {
		case c.Want == "fail" && slices.Contains(got, documented[c.Reason]), c.Want == "pass" && len(got) == 0:
			agree++
		case len(got) == 0:
			laxer++
			t.Errorf("%s: accepted, documented is %q", name, c.Reason)
		case c.Want == "fail":
			t.Errorf("%s: refused for %v, documented is %q", name, got, c.Reason)
		case !slices.Equal(got, stricter[name]):
			t.Errorf("%s: refused for %v, which is not in the table of differences", name, got)
		default:
			seen[name] = true
			for _, r := range got {
				by[r]++
			}
		}
		if c.Want == "pass" && len(c.Artifacts) == 1 {
			c.Artifacts[0].Digest = other(c.Artifacts[0].Digest)
			if !slices.Contains(judge.reasons(t, c), otherArtifact) {
				t.Errorf("%s: accepted for another artifact", name)
			}
		}
	}
	t.Logf("%d of %d agree, %d stricter, %d laxer", agree, len(cases), len(seen), laxer)
	for _, kind := range slices.Sorted(maps.Keys(by)) {
		t.Logf("stricter: %d times %q: %s", by[kind], kind, kinds[kind])
	}
	if len(seen) != len(stricter) || agree+len(seen) != len(cases) || len(kinds) > 5 {
		t.Errorf("%d agree and %d of %d listed differences were seen", agree, len(seen), len(stricter))
	}
}

func policyCases(t *testing.T, dir string) []policyCase {
	t.Helper()
	body, err := os.ReadFile(filepath.Join(dir, "policy-cases.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var cases []policyCase
	for _, line := range strings.Split(strings.TrimSpace(string(body)), "\n") {
		var c policyCase
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		if c.Want != "pass" && (c.Want != "fail" || documented[c.Reason] == "") {
			t.Fatalf("a row of another form: %s", line)
		}
		cases = append(cases, c)
	}
	if len(cases) != 58 {
		t.Fatalf("%d cases, the corpus has 58", len(cases))
	}
	return cases
}
