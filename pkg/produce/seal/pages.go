package seal

import (
	"bytes"
	"context"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
)

// write writes a manifest that was signed, after the pages of its list, if it
// needs any. A page is named by its bytes: those that no manifest binds, left
// by a run that was interrupted, are promoted by none.
func write(ctx context.Context, req Request, m manifest.Manifest, bundle []byte) error {
	to := req.Workspace.Writer()
	_, err := m.Seal(func(p manifest.Page, raw []byte) error {
		return to.Put(ctx, p.Name, p.Size, bytes.NewReader(raw), store.PutOptions{MediaType: manifest.PageMedia})
	})
	if err != nil {
		return err
	}
	return to.Put(ctx, releasemanifest.Name, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{})
}

// page opens the pages of a manifest that was signed before.
func page(ctx context.Context, req Request) manifest.Opener {
	return func(name string) ([]byte, error) {
		return store.Read(ctx, req.Workspace.Files(), name, manifest.MaxPage)
	}
}
