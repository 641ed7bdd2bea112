package serve

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// copier is a signer that keeps what it is to sign.
type copier struct{ said intoto.Statement }

func (c *copier) Statement(_ context.Context, s intoto.Statement) ([]byte, verify.Evidence, error) {
	c.said = s
	return s.Raw(), verify.Evidence{}, nil
}

// TestSummaryIsOfManifests: a summary speaks of the manifests of the image, and
// not of the lists that the decision rests on besides.
func TestSummaryIsOfManifests(t *testing.T) {
	const image, to = "staging.example.test/lantern@sha256:00", "prod.example.test/lantern"
	of := func(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }
	v := verdict.New("image "+image, time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	v.Policy, v.Counts = of("policy"), verdict.Counts{Required: 2, Verified: 2}
	v.Proofs = []verdict.Proof{{Subject: image, Bundle: of("bundle")}}
	v.Inputs = []verdict.Input{
		{Name: "lantern@index", Place: image, Digest: of("index")}, {Name: "lantern@child", Place: image, Digest: of("child")},
		{Name: "known defects lantern number 1, by nobody", Digest: of("a list")},
	}
	signer := &copier{}
	s := Summaries{Signer: signer, Verifier: vsa.Verifier{ID: "https://verifier.example.test"}, Policy: "https://policy.example.test"}
	if _, err := s.sign(t.Context(), summary{asked: asked{Question: api.Question{Image: image, To: to}}, made: made{verdict: v}}); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, subject := range signer.said.Subjects() {
		got = append(got, subject.Name)
	}
	want := []string{to + "@" + of("child").String(), to + "@" + of("index").String()}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("it speaks of %q, want %q", got, want)
	}
}
