package sign

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/test/lab"
)

// Minted are images that are signed.
type Minted struct {
	Digests         []string // of the indexes
	Issuer, Subject string   // who signed
}

// MintImages makes images of two platforms in a lab's registry, with every
// manifest signed by the product, and leaves the lab's directory ("lab") and
// the trust root in a directory. They are all tagged v1.0.0.
func MintImages(ctx context.Context, dir string, n int, name func(int) string) (m Minted, err error) {
	at, err := openWorld(ctx, dir, 0, 0)
	if err != nil {
		return Minted{}, err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	if err := at.pushImages(ctx, n, name); err != nil {
		return Minted{}, err
	}
	j, err := journal.Open(filepath.Join(dir, "signatures.jsonl"))
	if err != nil {
		return Minted{}, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	rt := transport.New(transport.Config{})
	signer, err := signer(dir, j, rt)
	if err != nil {
		return Minted{}, err
	}
	remote, err := registry.OpenRemote(at.Registry, rt)
	if err != nil {
		return Minted{}, err
	}
	for i := range n {
		d, err := remote.Resolve(ctx, name(i), tag)
		if err != nil {
			return Minted{}, err
		}
		m.Digests = append(m.Digests, d.Digest.String())
	}
	m.Issuer, m.Subject = at.Identity(lab.RoleRelease)
	return m, images(ctx, remote, signer, n, name)
}
