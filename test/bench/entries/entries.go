// Package entries makes logs of very many entries, as tiles in a directory, and measures
// what it takes to follow one from its beginning.
//
// Each entry has the form that the log of the lab gives it, a certificate of the lab's
// authority and a digest of its own. Of the certificates there are few, and a signature is
// that of another entry: who follows a log does not verify it. All have the issuer of the
// identities that are watched, which costs most; one entry in the middle is by one of them.
package entries

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/tlog"
	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tiles"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline/watch"
	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/lab"
)

// certificates is how many different ones the entries have, and distinct how many entries
// differ: those after them are the same again, so that their tiles take no space.
const certificates, distinct = 128, 4096 * tiles.Width

const rootName, policyName = "trusted_root.json", "policy.yaml"

// published is where a Rekor v2 log has its checkpoint and tiles, below its address.
var published = filepath.Join("api", "v2")

// Make writes a log of n entries to a directory, with trust root and policy.
func Make(ctx context.Context, dir string, n int) (err error) {
	at, err := os.MkdirTemp("", "waybill-bench-entries")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(at)) }()
	l, err := lab.Start(ctx, lab.Options{Dir: at})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	forms := make([]form, certificates+1) // the last is by an identity of the policy
	for i := range forms {
		role := lab.RoleVerifier
		if i == certificates {
			role = lab.RoleRelease
		}
		if forms[i], err = newForm(ctx, l, role, fmt.Sprint("content ", i)); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, published), 0o755); err != nil {
		return err
	}
	root, err := write(filepath.Join(dir, published), n, func(i int) []byte {
		if i == n/2 {
			return forms[certificates].entry(i)
		}
		return forms[i%certificates].entry(i % distinct)
	})
	if err != nil {
		return err
	}
	checkpoint, err := l.Checkpoint(uint64(n), root)
	issuer, subject := l.Identity(lab.RoleRelease)
	return errors.Join(err,
		os.WriteFile(filepath.Join(dir, published, "checkpoint"), []byte(checkpoint), 0o600),
		os.WriteFile(filepath.Join(dir, rootName), l.TrustedRoot, 0o600),
		os.WriteFile(filepath.Join(dir, policyName), fmt.Appendf(nil, policyForm, issuer, subject), 0o600))
}

const policyForm = `apiVersion: waybill/v1
kind: Policy
name: watched
roles:
  release: [{issuer: %[1]q, subject: %[2]q, type: email}]
builders:
- {id: "https://example.test/builder", level: 1, signers: [{issuer: %[1]q, subject: "builder@example.test", type: email}]}
source: {repository: "git+https://example.test/source"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`

// form is an entry without its digest.
type form struct{ before, after []byte }

func newForm(ctx context.Context, l *lab.Lab, role, text string) (form, error) {
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return form{}, err
	}
	_, err = sign.Bundle(&sign.PlainData{Data: []byte(text)}, pair, sign.BundleOptions{
		Context:                    ctx,
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: l.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: l.Token(role)},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: l.Rekor, Version: 2})},
	})
	if err != nil {
		return form{}, err
	}
	logged := l.Logged()
	before, after, is := strings.Cut(logged[len(logged)-1], text64(text))
	if !is {
		return form{}, fmt.Errorf("the entry has no digest of what was signed: %s", logged[len(logged)-1])
	}
	return form{[]byte(before), []byte(after)}, nil
}

func text64(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

func (f form) entry(i int) []byte {
	return bytes.Join([][]byte{f.before, []byte(text64(fmt.Sprint("entry ", i))), f.after}, nil)
}

// write writes the tiles of n entries, and returns the root of their tree.
func write(dir string, n int, entry func(int) []byte) ([]byte, error) {
	var hashes [][]byte
	var bundle []byte
	for i := 0; i < n; i++ {
		before, planted := i-distinct, n/2/tiles.Width
		if tile := i / tiles.Width; before >= 0 && i%tiles.Width == 0 && i+tiles.Width <= n && tile != planted && before/tiles.Width != planted {
			hashes = append(hashes, hashes[before:before+tiles.Width]...)
			if err := os.MkdirAll(filepath.Dir(tilePath(dir, -1, tile, tiles.Width)), 0o755); err != nil {
				return nil, err
			}
			if err := os.Link(tilePath(dir, -1, before/tiles.Width, tiles.Width), tilePath(dir, -1, tile, tiles.Width)); err != nil {
				return nil, err
			}
			i += tiles.Width - 1
			continue
		}
		body := entry(i)
		bundle = append(binary.BigEndian.AppendUint16(bundle, uint16(len(body))), body...) //nolint:gosec // an entry is small
		hashes = append(hashes, rfc6962.DefaultHasher.HashLeaf(body))
		if len(hashes)%tiles.Width == 0 || i == n-1 {
			if err := writeTile(dir, -1, i/tiles.Width, i%tiles.Width+1, bundle); err != nil {
				return nil, err
			}
			bundle = bundle[:0]
		}
	}
	root := rootOf(hashes)
	for level := 0; len(hashes) > 0; level++ {
		var above [][]byte
		for i := 0; i < len(hashes); i += tiles.Width {
			part := hashes[i:min(i+tiles.Width, len(hashes))]
			if err := writeTile(dir, level, i/tiles.Width, len(part), bytes.Join(part, nil)); err != nil {
				return nil, err
			}
			if len(part) == tiles.Width {
				above = append(above, rootOf(part))
			}
		}
		hashes = above
	}
	return root, nil
}

func tilePath(dir string, level, n, width int) string {
	path := tlog.Tile{H: 8, L: level, N: int64(n), W: width}.Path()
	return filepath.Join(dir, filepath.FromSlash(strings.NewReplacer("tile/8/data/", "tile/entries/", "tile/8/", "tile/").Replace(path)))
}

func writeTile(dir string, level, n, width int, raw []byte) error {
	path := tilePath(dir, level, n, width)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, raw, 0o600)
}

// rootOf is the hash of the tree with these leaves.
func rootOf(hashes [][]byte) []byte {
	if len(hashes) == 1 {
		return hashes[0]
	}
	k := 1
	for 2*k < len(hashes) {
		k *= 2
	}
	return rfc6962.DefaultHasher.HashChildren(rootOf(hashes[:k]), rootOf(hashes[k:]))
}

// Follow follows the log of n entries that was made in dir from its beginning, and says on
// w what that took. It finds the one entry that nothing explains.
func Follow(ctx context.Context, w io.Writer, dir string, n int) (err error) {
	text, err := os.ReadFile(filepath.Join(dir, policyName))
	if err != nil {
		return err
	}
	p, err := policy.Parse(text, nil)
	if err != nil {
		return err
	}
	text, err = os.ReadFile(filepath.Join(dir, rootName))
	if err != nil {
		return err
	}
	root, err := trust.Parse(text)
	if err != nil {
		return err
	}
	v, err := verify.New(root)
	if err != nil {
		return err
	}
	state, err := os.MkdirTemp("", "waybill-bench-watch")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(state)) }()
	c := watch.Config{Gate: gate.Under(profile.Profile{Policy: p, TrustRoot: root}, v, gate.Waivers{}, nil), Logs: []string{dir}, State: state}
	return bench.Measure(w, func() error {
		found := c.Once(ctx, time.Now()).Findings
		if len(found) != 1 || found[0].Code != "LOG_UNEXPLAINED" || !strings.HasSuffix(found[0].Subject, fmt.Sprint("/", n/2)) {
			return fmt.Errorf("want entry %d alone, got %+v", n/2, found)
		}
		return nil
	})
}

// Hash reads the entries of the log, hashes each, and does nothing else.
func Hash(ctx context.Context, w io.Writer, dir string, n int) error {
	at, err := store.Open(filepath.Join(dir, published), nil)
	if err != nil {
		return err
	}
	log := tiles.Log(func(ctx context.Context, path string) ([]byte, error) {
		return store.Read(ctx, at, path, tiles.MaxTile)
	})
	return bench.Measure(w, func() error {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(runtime.GOMAXPROCS(0))
		for i := 0; i < n; i += tiles.Width {
			group.Go(func() error {
				bodies, err := log.Entries(ctx, int64(i/tiles.Width), min(tiles.Width, n-i))
				for _, b := range bodies {
					_ = tlog.RecordHash(b)
				}
				return err
			})
		}
		return group.Wait()
	})
}
