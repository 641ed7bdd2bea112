package sbom

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/sbom/crosscheck"
	"github.com/waybill-release/waybill/pkg/spdx"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// putIn demands that the artifacts that a document says were put into an image
// are there, where it says, with every checksum that it gives.
func putIn(ctx context.Context, a crosscheck.Artifact, c ImageContent) (all []verdict.Finding, err error) {
	at := map[string]map[string]crosscheck.Placed{} // by platform and path
	for _, put := range crosscheck.Put(a.Document) {
		if put.Path == "" {
			all = append(all, put.Bears(a, spdx.File{})...)
			continue
		}
		if at[put.Platform] == nil {
			at[put.Platform] = map[string]crosscheck.Placed{}
		}
		at[put.Platform][inRoot(put.Path)] = put
	}
	for _, p := range c.Platforms {
		put := at[p.Platform]
		if len(put) == 0 {
			continue
		}
		files, known, err := p.files(ctx, c.Layers, put)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(put)) {
			if file, found := files[name]; found || known {
				all = append(all, put[name].Bears(a, file)...)
			}
		}
	}
	return all, nil
}

func inRoot(path string) string { return strings.TrimPrefix(path, "/") }

// files hashes the files of some names, each in the layer that has it last. Only
// those layers are read once more. known is false if a layer is not at hand,
// which the document says: then a file may be there that is not found.
func (p ImagePlatform) files(ctx context.Context, cache *Layers, names map[string]crosscheck.Placed) (found map[string]spdx.File, known bool, err error) {
	found, known = map[string]spdx.File{}, true
	left := map[string]bool{}
	for name := range names {
		left[name] = true
	}
	for i := len(p.Layers) - 1; i >= 0 && len(left) > 0; i-- {
		l := p.Layers[i]
		if l.Open == nil {
			known = false
			continue
		}
		facts, err := cache.of(ctx, l)
		if err != nil {
			return nil, false, err
		}
		here := map[string]bool{}
		for name := range left {
			if facts.holds(name) {
				here[name] = true
			}
			if facts.holds(name) || facts.removes(name) {
				delete(left, name)
			}
		}
		if len(here) == 0 {
			continue
		}
		if err := filesIn(ctx, l, here, found); err != nil {
			return nil, false, err
		}
	}
	return found, known, nil
}
