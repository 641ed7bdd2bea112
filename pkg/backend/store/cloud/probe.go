package cloud

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"cloud.google.com/go/storage"
	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var _ store.Prober = (*Bucket)(nil)

// permission is the one that writing needs. Deleting is never needed: released
// objects do not change.
const permission = "storage.objects.create"

// MayWrite implements [store.Prober]: it asks the bucket for our permissions. A
// service that has no such question is sent a write under a condition that
// cannot hold.
func (b *Bucket) MayWrite(ctx context.Context) error {
	bucket, err := b.open(ctx)
	if err != nil {
		return b.unavailable("asking for permission", err)
	}
	var client *storage.Client
	if b.at.Emulated || !bucket.As(&client) {
		return b.checkConditions(ctx, bucket)
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

// checkConditions checks that the service refuses a write over a version that
// does not exist: a service that ignores conditions would overwrite what was
// released. It writes nothing, unless the service is of that kind; then what was
// written is removed.
func (b *Bucket) checkConditions(ctx context.Context, bucket *blob.Bucket) error {
	probe := store.ProbeName()
	write := func(opts *blob.WriterOptions) error {
		return b.send(ctx, bucket, probe, b.source(bytes.NewReader(nil), 0), opts)
	}
	err := write(&blob.WriterOptions{BufferSize: 1, BeforeWrite: over{held: &blob.Attributes{ETag: `"0"`}, generation: 1}.makeConditional})
	var named interface{ ErrorCode() string } // Amazon's name of an error
	name, code := "", gcerrors.Code(err)
	if errors.As(err, &named) {
		name = named.ErrorCode()
	}
	switch {
	case err == nil:
		return b.checkAbsence(ctx, bucket, probe, write)
	case code == gcerrors.FailedPrecondition, name == "NoSuchKey":
		return nil
	case code == gcerrors.PermissionDenied, slices.Contains([]string{"SignatureDoesNotMatch", "InvalidAccessKeyId", "ExpiredToken"}, name):
		return fmt.Errorf("writing at %q: %w: %w", b.URI(), flat(err), fs.ErrPermission)
	case name == "NotImplemented":
		return store.ErrNotAsked // by this condition, which few writes need
	}
	return b.unavailable("asking for permission", flat(err))
}

// checkAbsence checks the other condition of a service that ignored one: it may
// know that alone. The probe is there, and is removed.
func (b *Bucket) checkAbsence(ctx context.Context, bucket *blob.Bucket, probe string, write func(*blob.WriterOptions) error) error {
	switch there, err := bucket.Exists(ctx, b.at.Prefix+probe); {
	case err != nil:
		return b.unavailable("reading the probe "+probe, flat(err))
	case !there:
		return b.unavailable("writing the probe "+probe, errors.New("the service said that it was written, and does not have it"))
	}
	err := write(&blob.WriterOptions{BufferSize: 1, IfNotExist: true})
	removed := bucket.Delete(ctx, b.at.Prefix+probe)
	switch {
	case removed != nil:
		return b.unavailable("removing the probe "+probe, errors.Join(flat(removed), errors.New("remove the object by hand")))
	case err == nil:
		return verdict.Refuse(verdict.NotWritable, b.URI(), "the service ignores the conditions of writes (If-None-Match, or ifGenerationMatch): two releases could overwrite each other").
			Advise("use a service that supports conditional writes, such as a newer version of this one; what was written for this check was removed")
	case gcerrors.Code(err) != gcerrors.FailedPrecondition: // it says nothing about conditions
		return b.unavailable("asking for permission", flat(err))
	}
	return nil
}

// ProbeWrite implements [store.Prober]. A bucket that keeps old versions or
// deleted objects keeps the probe, too.
func (b *Bucket) ProbeWrite(ctx context.Context) error {
	var lacking *verdict.Error
	if err := b.MayWrite(ctx); errors.Is(err, fs.ErrPermission) || errors.As(err, &lacking) {
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
