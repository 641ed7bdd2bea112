package attacks

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// gate decides about an attacked release as it lies there.
func (r *attacked) gate(t testing.TB, edits ...func(*gate.Request)) *verdict.Verdict {
	t.Helper()
	req := gate.Request{
		Version: r.version, Files: must[store.Place](t)(store.Open(filepath.Join(r.dir, "files"), nil)), Images: r.images,
		Verifier: r.verifier, Policy: r.profile.Policy, Now: time.Now(),
	}
	req.Canon.Files, req.Canon.Images = r.profile.Canonical(r.version)
	for _, edit := range edits {
		edit(&req)
	}
	return gate.Release(t.Context(), req)
}
