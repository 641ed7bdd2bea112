package promote_test

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
)

// TestImagesOtherRules: what was brought under another policy, or without a
// record, is decided about again; nothing of it is taken over.
func TestImagesOtherRules(t *testing.T) {
	m := twoPlatforms(t, 1)
	path := filepath.Join(t.TempDir(), "journal")
	for _, c := range []struct {
		rules string
		want  promote.State
	}{{"a policy", promote.Done}, {"a policy", promote.Present}, {"another policy", promote.Done}} {
		j, err := journal.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		m.Ledger = promote.OpenLedger(j, c.rules, time.Now)
		if s := m.apply().Items[0].State; s != c.want {
			t.Errorf("under %s: %s, want %s", c.rules, s, c.want)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// What the journal has no proof of is no promotion that a verdict can rest on.
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Contains(raw, []byte(`"proof":{`)) {
		t.Fatalf("%v: %s", err, raw)
	}
	if err := os.WriteFile(path, bytes.ReplaceAll(raw, []byte(`"proof":{`), []byte(`"prove":{`)), 0o600); err != nil {
		t.Fatal(err)
	}
	j, err := journal.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	m.Ledger = promote.OpenLedger(j, "another policy", time.Now)
	if s := m.apply().Items[0].State; s != promote.Done {
		t.Errorf("without a proof: %s", s)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
}
