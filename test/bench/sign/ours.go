package sign

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	product "github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Child signs with the product's signer, as the product does: everything is
// hashed, every signature is kept in a journal before the log has it, every
// bundle is verified, and brought to the disk or to the registry whole.
func Child(ctx context.Context, req Request) (err error) {
	path := filepath.Join(req.Dir, "signatures.jsonl")
	j, err := journal.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	rt := transport.New(transport.Config{})
	signer, err := signer(req.Dir, j, rt)
	if err != nil {
		return err
	}
	if req.What == Images {
		remote, err := registry.OpenRemote(req.Registry, rt)
		if err != nil {
			return err
		}
		return images(ctx, remote, signer, req.N, imageName)
	}
	return files(ctx, req, signer)
}

func signer(dir string, j *journal.Journal, rt *transport.Transport) (*product.Signer, error) {
	read := func(name string) []byte {
		raw, _ := os.ReadFile(filepath.Join(dir, name)) // what is missing does not parse
		return raw
	}
	rules, err := policy.Parse(read(policyName), nil)
	if err != nil {
		return nil, err
	}
	root, err := trust.Parse(read(rootName))
	if err != nil {
		return nil, err
	}
	v, err := verify.NewWith(root, rules.Verification())
	if err != nil {
		return nil, err
	}
	services, err := product.ParseServices(read(configName), time.Now())
	if err != nil {
		return nil, err
	}
	kept, err := product.Keep(j)
	if err != nil {
		return nil, err
	}
	return product.New(product.Config{
		Role: policy.Release, Policy: rules, Verifier: v, Services: services, Transport: rt, Clock: time.Now,
		Token: token.File(filepath.Join(dir, tokenName)).Token, Work: product.Work{Kept: kept, Patience: time.Minute},
	})
}

// files signs files, each by itself or all in one statement.
func files(ctx context.Context, req Request, signer *product.Signer) error {
	names, sums := make([]string, req.N), make([]digest.Set, req.N)
	for i := range names {
		names[i] = fileName(i)
		f, err := os.Open(filepath.Join(req.Dir, filesDir, names[i]))
		if err != nil {
			return err
		}
		sums[i], _, err = digest.Sum(f)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	}
	out, err := store.OpenWriter(filepath.Join(req.Dir, bundlesDir))
	if err != nil {
		return err
	}
	put := func(name string, bundle []byte) error {
		return out.Put(ctx, name+bundleExt, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{})
	}
	if req.What == Statement {
		s, err := statement(names, sums)
		if err != nil {
			return err
		}
		bundle, _, err := signer.Statement(ctx, s)
		if err != nil {
			return err
		}
		return put(statementName, bundle)
	}
	orders := make([]product.Order, len(sums))
	for i, s := range sums {
		orders[i].Bytes = s
	}
	return signer.Each(ctx, orders, func(i int, bundle []byte, _ verify.Evidence) error { return put(names[i], bundle) })
}

// manifest is one of an image: its index, or a platform.
type manifest struct {
	repo string
	registry.Descriptor
}

// images signs every manifest of every image, and attaches what was signed.
func images(ctx context.Context, remote *registry.Remote, signer *product.Signer, n int, name func(int) string) error {
	perImage := make([][]manifest, n)
	look, within := errgroup.WithContext(ctx)
	look.SetLimit(abreast)
	for i := range n {
		look.Go(func() error {
			found, err := parts(within, remote, name(i))
			for _, d := range found {
				perImage[i] = append(perImage[i], manifest{name(i), d})
			}
			return err
		})
	}
	if err := look.Wait(); err != nil {
		return err
	}
	var all []manifest
	var orders []product.Order
	for _, list := range perImage {
		for _, m := range list {
			s, err := intoto.New(intoto.CosignSignature, []intoto.Subject{{Digests: digest.Set{SHA256: m.Digest}}}, struct{}{})
			if err != nil {
				return err
			}
			all, orders = append(all, m), append(orders, product.Order{Statement: s})
		}
	}
	push, within := errgroup.WithContext(ctx)
	push.SetLimit(abreast)
	err := signer.Each(ctx, orders, func(i int, bundle []byte, _ verify.Evidence) error {
		push.Go(func() error { return attach(within, remote, all[i], bundle) })
		return nil
	})
	return errors.Join(err, push.Wait())
}

// abreast is how many images are looked at, or signatures attached, at a time.
const abreast = 16

func attach(ctx context.Context, remote *registry.Remote, m manifest, bundle []byte) error {
	d, raw, blobs := registry.BundleManifest(m.Descriptor, bundle, intoto.CosignSignature)
	for _, b := range blobs {
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }
		if err := remote.PushBlob(ctx, m.repo, b.Descriptor, open); err != nil {
			return err
		}
	}
	return remote.PushManifest(ctx, m.repo, d, raw)
}
