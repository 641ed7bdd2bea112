package sbom

import (
	"context"
	"crypto/sha1" // required by SPDX 2.3; never relied on
	"encoding/hex"
	"fmt"
	"io"
	"maps"
	"path"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// filesOf hashes the named files of an image on every platform, as they are
// with all layers applied. A hard link is returned without digests.
func filesOf(ctx context.Context, c ImageContent, names map[string]bool) (all []spdx.File, err error) {
	for _, p := range c.Platforms {
		found := map[string]spdx.File{}
		for _, l := range p.Layers {
			if err := filesIn(ctx, l, names, found); err != nil {
				return nil, err
			}
		}
		for _, f := range found {
			all = append(all, f)
		}
	}
	return all, nil
}

func filesIn(ctx context.Context, l Layer, names map[string]bool, found map[string]spdx.File) error {
	body, err := l.Open(ctx)
	if err != nil {
		return fmt.Errorf("reading layer %s: %w", l.Digest, err)
	}
	defer body.Close()
	fresh, gone, dirs := map[string]spdx.File{}, []string{}, map[string]bool{}
	for name := range names {
		above(name, func(dir string) bool { dirs[dir] = true; return true })
	}
	// Faults inside of a layer were recorded by its examination.
	src := &remembering{r: body}
	_ = unpack.Layer(src, io.Discard, func(e unpack.Entry, body io.Reader) error {
		dir, base := path.Split(e.Name)
		switch {
		case base == opaque:
			gone = append(gone, dir)
		case strings.HasPrefix(base, whiteout):
			gone = append(gone, dir+strings.TrimPrefix(base, whiteout))
		case e.Kind != unpack.Directory && dirs[e.Name]: // a file in place of a directory
			delete(fresh, e.Name)
			gone = append(gone, e.Name)
		case !names[e.Name]:
		case e.Kind == unpack.File:
			weak := sha1.New()
			set, _, err := digest.Sum(io.TeeReader(body, weak))
			fresh[e.Name] = spdx.File{Name: "./" + e.Name, SHA1: hex.EncodeToString(weak.Sum(nil)), Digests: set}
			return err
		case e.Kind == unpack.HardLink:
			fresh[e.Name] = spdx.File{Name: "./" + e.Name}
		default:
			delete(fresh, e.Name)
			gone = append(gone, e.Name)
		}
		return nil
	})
	if src.err != nil {
		return fmt.Errorf("reading layer %s: %w", l.Digest, src.err)
	}
	for name := range found {
		for _, g := range gone {
			if name == strings.TrimSuffix(g, "/") || strings.HasPrefix(name, strings.TrimSuffix(g, "/")+"/") {
				delete(found, name)
			}
		}
	}
	maps.Copy(found, fresh)
	return nil
}
