package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cloud.google.com/go/storage"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

var _ store.Prober = (*Bucket)(nil)

// permission is the one that writing needs. Deleting is never needed: released
// objects do not change.
const permission = "storage.objects.create"

// MayWrite implements [store.Prober]: it asks the bucket for our permissions.
func (b *Bucket) MayWrite(ctx context.Context) error {
	if b.at.Emulated {
		return store.ErrNotAsked // an emulator has no permissions
	}
	bucket, err := b.open(ctx)
	if err != nil {
		return b.unavailable("asking for permission", err)
	}
	var client *storage.Client
	if !bucket.As(&client) {
		return store.ErrNotAsked
	}
	granted, err := client.Bucket(b.at.Name).IAM().TestPermissions(ctx, []string{permission})
	if err != nil {
		return b.unavailable("asking for permission", flat(err))
	}
	if !slices.Contains(granted, permission) {
		return fmt.Errorf("writing at %q needs the permission %s: %w", b.URI(), permission, fs.ErrPermission)
	}
	return nil
}

// ProbeWrite implements [store.Prober]. A bucket that keeps old versions or
// deleted objects keeps the probe, too.
func (b *Bucket) ProbeWrite(ctx context.Context) error {
	if err := b.MayWrite(ctx); errors.Is(err, fs.ErrPermission) {
		return err
	}
	name, body := store.ProbeName(), []byte("waybill doctor was here\n")
	if err := b.Put(ctx, name, int64(len(body)), bytes.NewReader(body), store.PutOptions{IfAbsent: true}); err != nil {
		return err
	}
	bucket, err := b.open(ctx)
	if err == nil {
		err = bucket.Delete(ctx, b.at.Prefix+name)
	}
	if err != nil {
		return b.unavailable("removing the probe "+name, errors.Join(flat(err), errors.New("remove the object by hand")))
	}
	return nil
}
