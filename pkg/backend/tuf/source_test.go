package tuf_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// A cache that lost its source does not turn to the public-good instance.
func TestLostSource(t *testing.T) {
	r := faketuf.New(t, now)
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("a root")})
	c := config(t, r)
	if s, err := tuf.Remembered(c.Cache); err != nil || s.URL != tuf.PublicGoodURL {
		t.Errorf("the twin, a cache that is empty: %q, %v", s.URL, err)
	}
	if _, err := tuf.Init(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for name, lose := range map[string]func() error{
		"removed": func() error { return os.Remove(filepath.Join(c.Cache, "source.json")) },
		"emptied": func() error { return os.WriteFile(filepath.Join(c.Cache, "source.json"), []byte("{}"), 0o600) },
	} {
		if s, err := tuf.Remembered(c.Cache); err != nil || s.URL != r.URL {
			t.Errorf("%s: the twin: %q, %v", name, s.URL, err)
		}
		if err := lose(); err != nil {
			t.Fatal(err)
		}
		_, err := tuf.Remembered(c.Cache)
		if f := verdict.FindingOf("", err); f.Code != verdict.ConfigParse || !strings.Contains(err.Error(), "trust init") {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := tuf.Init(t.Context(), c); err != nil {
			t.Errorf("%s: it cannot be mended: %v", name, err)
		}
	}
}
