package vsa_test

import (
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// A summary counts only as the answer to a question: which verifier, which
// resource, which level, how old.
func ExampleSummary_Answer() {
	policy := digest.Of(digest.SHA256, []byte("the policy"))
	s, err := intoto.New(vsa.PredicateType, []intoto.Subject{{Name: "hello", Digests: digest.SetOf([]byte("hello"))}}, map[string]any{
		"verifier": map[string]string{"id": "https://example.test/verifier"}, "timeVerified": "2026-03-01T12:00:00Z",
		"resourceUri": "https://dl.example.test/hello", "policy": map[string]any{"uri": "https://example.test/policy", "digest": map[string]string{"sha256": policy.Hex()}},
		"verificationResult": "PASSED", "verifiedLevels": []string{"SLSA_BUILD_LEVEL_2"}, "slsaVersion": "1.1",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	summary, err := vsa.Parse(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	q := vsa.Question{
		VerifierID: "https://example.test/verifier", ResourceURI: "https://dl.example.test/hello",
		PolicyURI: "https://example.test/policy", Policy: policy, Levels: map[string]int{vsa.TrackBuild: 2},
		Now: time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC), MaxAge: 7 * 24 * time.Hour,
	}
	fmt.Println("level 2:", summary.Answer(q))
	q.Levels = map[string]int{vsa.TrackBuild: 3}
	fmt.Println("level 3 is refused:", summary.Answer(q) != nil)
	// Output:
	// level 2: <nil>
	// level 3 is refused: true
}
