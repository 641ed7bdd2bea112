package seal

import (
	"bytes"
	"context"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
)

// writeManifest writes a signed manifest, after the pages of its list, if it has any.
// Pages are named by their digest: leftover pages of an interrupted run are
// in no manifest, so they are never promoted.
func writeManifest(ctx context.Context, req Request, m manifest.Manifest, bundle []byte) error {
	to := req.Workspace.Writer()
	_, err := m.Seal(func(p manifest.Page, raw []byte) error {
		return to.Put(ctx, p.Name, p.Size, bytes.NewReader(raw), store.PutOptions{MediaType: manifest.PageMedia})
	})
	if err != nil {
		return err
	}
	return to.Put(ctx, releasemanifest.Name, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{})
}

// openPages opens the pages of a manifest that was signed before.
func openPages(ctx context.Context, req Request) manifest.Opener {
	return func(name string) ([]byte, error) {
		return store.Read(ctx, req.Workspace.Files(), name, manifest.MaxPage)
	}
}
