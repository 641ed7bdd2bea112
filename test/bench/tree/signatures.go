package tree

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
)

// opened is a tree with what its verifier needs.
type opened struct {
	dir      string
	policy   policy.Policy
	verifier *verify.Verifier
	manifest manifest.Manifest
}

// open reads and verifies the manifest of the tree made in dir.
func open(dir string) (opened, error) {
	p, err := profile.Load(Profile(dir), profile.Reader{Now: time.Now()})
	if err != nil {
		return opened{}, err
	}
	o := opened{dir: dir, policy: p.Policy}
	if o.verifier, err = verify.New(p.TrustRoot); err != nil {
		return opened{}, err
	}
	e, err := o.attestation(releasemanifest.Name)
	if err != nil {
		return opened{}, err
	}
	o.manifest, err = manifest.ReadManifest(e.Statement(), o.read)
	return o, err
}

func (o opened) read(name string) ([]byte, error) {
	return os.ReadFile(filepath.Join(Released(o.dir), name))
}

func (o opened) attestation(name string) (verify.Evidence, error) {
	raw, err := o.read(name)
	if err != nil {
		return verify.Evidence{}, err
	}
	return o.verifier.Attestation(raw)
}

// Signatures verifies the manifest and the signature of every file of the tree
// made in dir, on all processors, and hashes none of the files: what signing
// each file costs those who verify. It returns how many signatures there were.
func Signatures(ctx context.Context, dir string) (int, error) {
	made, err := open(dir)
	if err != nil {
		return 0, err
	}
	v, m := made.verifier, made.manifest
	n := 0
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, a := range m.Files() {
		if a.Signature == "" {
			continue
		}
		n++
		group.Go(func() error {
			raw, err := made.read(a.Signature)
			if err != nil {
				return err
			}
			if _, err := v.Blob(raw, a.Digests); err != nil {
				return fmt.Errorf("%s: %w", a.Name, err)
			}
			return nil
		})
	}
	return n, group.Wait()
}
