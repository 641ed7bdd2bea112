package tuf_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/testing/faketuf"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// served answers from memory.
type served map[string][]byte

func (s served) RoundTrip(req *http.Request) (*http.Response, error) {
	raw, ok := s[strings.TrimPrefix(req.URL.Path, "/")]
	status := http.StatusOK
	if !ok {
		status = http.StatusNotFound
	}
	return &http.Response{StatusCode: status, Body: io.NopCloser(bytes.NewReader(raw)), Request: req}, nil
}

// Whatever is served in place of one file: no panic, a finding with a code, and
// nothing that nobody signed is believed.
func FuzzRefresh(f *testing.F) {
	r := faketuf.NewFrom(f, now, "fuzz") // the same in every worker
	r.Delegate("other", []string{"*.json"}, false, nil)
	r.Publish(map[string][]byte{tuf.TrustedRootFile: []byte("a root")})
	first := r.File("1.root.json")
	r.Rotate("timestamp")
	r.Publish(nil)
	names := []string{"2.root.json", "timestamp.json", "3.snapshot.json", "3.targets.json"}
	for i, name := range names {
		f.Add(uint8(i), r.File(name))
	}
	honest := r.Files()
	f.Fuzz(func(t *testing.T, which uint8, raw []byte) {
		files := maps.Clone(honest)
		files[names[int(which)%len(names)]] = raw
		got, err := tuf.Refresh(t.Context(), tuf.Config{URL: "http://127.0.0.1", Root: first, Now: now, Transport: served(files)})
		if err == nil && string(got.TrustedRoot()) != "a root" {
			t.Errorf("believed %q", got.TrustedRoot())
		}
		if o := verdict.OutcomeOf(err); err != nil && o != verdict.Refused && o != verdict.Unavailable {
			t.Errorf("%s: %v", o, err)
		}
	})
}
