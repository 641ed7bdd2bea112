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
	"github.com/waybill-release/waybill/pkg/profile"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/verify"
)

// Signatures verifies the manifest and the signature of every file of the tree
// made in dir, on all processors, and hashes none of the files: what signing
// each file costs those who verify. It returns how many signatures there were.
func Signatures(ctx context.Context, dir string) (int, error) {
	p, err := profile.Load(Profile(dir), profile.Reader{Now: time.Now()})
	if err != nil {
		return 0, err
	}
	v, err := verify.New(p.TrustRoot)
	if err != nil {
		return 0, err
	}
	raw, err := os.ReadFile(filepath.Join(Released(dir), releasemanifest.Name))
	if err != nil {
		return 0, err
	}
	e, err := v.Attestation(raw)
	if err != nil {
		return 0, err
	}
	m, err := release.ParseManifest(e.Statement())
	if err != nil {
		return 0, err
	}
	n := 0
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, a := range m.Files() {
		if a.Signature == "" {
			continue
		}
		n++
		group.Go(func() error {
			raw, err := os.ReadFile(filepath.Join(Released(dir), a.Signature))
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
