package sbom

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// comparePlaced checks that the artifacts which a document says were put into an image
// are at the stated paths with all stated checksums.
func comparePlaced(ctx context.Context, a sbomcheck.Artifact, c ImageContent) (all []verdict.Finding, err error) {
	at := map[string]map[string]sbomcheck.Placed{} // by platform and path
	for _, put := range sbomcheck.Put(a.Document) {
		if put.Path == "" {
			all = append(all, put.CheckFile(a, spdx.File{})...)
			continue
		}
		if at[put.Platform] == nil {
			at[put.Platform] = map[string]sbomcheck.Placed{}
		}
		at[put.Platform][strings.TrimPrefix(put.Path, "/")] = put
	}
	for _, p := range c.Platforms {
		put := at[p.Platform]
		if len(put) == 0 {
			continue
		}
		files, doubt, known, err := p.files(ctx, c.Layers, put)
		if err != nil {
			return nil, err
		}
		for _, name := range slices.Sorted(maps.Keys(put)) {
			if doubt[name] != "" {
				all = append(all, verdict.Find(verdict.Conflict, a.Name, "the SBOM places %.200q at %.200q for %s, but because of %.200q in a layer, container runtimes disagree about the file there",
					put[name].Name, put[name].Path, p.Platform, doubt[name]))
			} else if file, found := files[name]; found || known {
				all = append(all, put[name].CheckFile(a, file)...)
			}
		}
	}
	return all, nil
}

// files hashes the files at some paths as a container runtime finds them: after
// following links, each in the topmost layer that has it. Only those layers are
// read again. doubt has the paths at which runtimes find different files, with
// the name that causes it. known is false if a layer is unavailable, which the
// document states: then a missing file may exist.
func (p ImagePlatform) files(ctx context.Context, cache *Layers, paths map[string]sbomcheck.Placed) (found map[string]spdx.File, doubt map[string]string, known bool, err error) {
	known = true
	var layers tree
	var readable []Layer
	for _, l := range p.Layers {
		if l.Open == nil {
			known = false
			continue
		}
		facts, err := cache.factsOf(ctx, l)
		if err != nil {
			return nil, nil, false, err
		}
		layers, readable = append(layers, facts), append(readable, l)
	}
	leads, left, doubt, doubts := map[string]string{}, map[string]bool{}, map[string]string{}, layers.doubts()
	for name := range paths {
		if to, err := layers.resolve(name); err == nil { // otherwise nothing is found there
			leads[name], left[to] = to, true
		}
	}
	for name, to := range leads {
		from := layers.topmostLayer(to)
		if to != name { // and each layer may affect where the links lead
			from = 0
		}
		for _, of := range doubts[min(from, len(doubts)):] {
			doubt[name] = cmp.Or(doubt[name], of)
		}
	}
	at := map[string]spdx.File{}
	for i, facts := range slices.Backward(layers) {
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
		if err := filesIn(ctx, readable[i], here, at); err != nil {
			return nil, nil, false, err
		}
	}
	found = map[string]spdx.File{}
	for name, to := range leads {
		if file, there := at[to]; there {
			found[name] = file
		}
	}
	return found, doubt, known, nil
}
