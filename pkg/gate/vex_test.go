package gate

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/judge/policy"
)

// unlistable holds VEX documents up to a number, and lists nothing.
type unlistable int

func (unlistable) URI() string { return "https://example.test/" }

func (unlistable) List(context.Context) ([]store.Object, error) { return nil, store.ErrNotListable }

func (n unlistable) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	if i := openvex.Number(name); i < 1 || i > int(n) {
		return nil, 0, store.ErrNotFound
	}
	return io.NopCloser(strings.NewReader("x")), 1, nil
}

// TestVEXUnlisted: a place that lists nothing is asked for VEX documents until
// there are no more, and not at all if the policy allows none.
func TestVEXUnlisted(t *testing.T) {
	raw, err := os.ReadFile("../judge/policy/testdata/valid.yaml")
	if err != nil {
		t.Fatal(err)
	}
	none, err := policy.Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw = bytes.Replace(raw, []byte("roles:\n"), []byte("roles:\n  vex: [{issuer: https://issuer.example, subject: vex@example.test, type: email}]\n"), 1)
	raw = append(raw, "\nlate: [{predicate: https://openvex.dev/ns, role: vex, stages: [release]}]\n"...)
	allows, err := policy.Parse(raw, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		has, asked int
		by         policy.Policy
	}{{40, 0, none}, {0, 16, allows}, {15, 16, allows}, {16, 32, allows}, {40, 48, allows}, {1 << 30, maxLate, allows}} {
		s := &sealed{Request: Request{Files: unlistable(row.has), Policy: row.by, Stage: policy.Published}}
		var f facts
		objects, _ := s.list(t.Context(), &f)
		if len(objects) != row.asked || row.asked > 0 && !slices.Contains(objects, store.Object{Name: openvex.Name(row.asked)}) {
			t.Errorf("%d documents: %d are asked for, want %d", row.has, len(objects), row.asked)
		}
	}
}
