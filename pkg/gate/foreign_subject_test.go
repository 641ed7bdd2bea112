package gate

import (
	"context"
	"io"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// strange is a place that refuses everything, and names something else.
type strange struct{}

func (strange) URI() string                                  { return "file:///strange/" }
func (strange) List(context.Context) ([]store.Object, error) { return nil, nil }
func (strange) Open(context.Context, string) (io.ReadCloser, int64, error) {
	return nil, 0, verdict.Refuse(verdict.Limit, "something else", "it is too large")
}

// TestUnreadManifestIsNotCounted: a manifest that could not be read is not counted
// as verified, whatever the finding calls what is wrong.
func TestUnreadManifestIsNotCounted(t *testing.T) {
	v, err := verify.New(trust.Embedded())
	if err != nil {
		t.Fatal(err)
	}
	got := Decide(t.Context(), Request{Files: strange{}, Verifier: v, Now: time.Unix(1, 0)}).Verdict
	if got.Counts.Required != 1 || got.Counts.Verified != 0 || got.Outcome() != verdict.Refused {
		t.Errorf("%s %s: %v", got.Outcome(), got.Counts, got.Findings)
	}
}
