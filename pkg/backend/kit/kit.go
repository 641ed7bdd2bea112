// Package kit reads and writes kits. A kit is one file that holds a release for a
// network without internet: a tar of an OCI image layout, with the files of the
// release below files/, and below trust/ the policy, profile and trust root of its
// maker. It may be compressed, as zstd frames that are read at any offset. Nothing
// is unpacked to disk.
//
// The place RELEASE.kit/files/ has the files, and the layout RELEASE.kit the images:
// they are as trustworthy as any place, and the gate judges them like any other.
// [Check] refuses what such a judgement does not see.
//
// Other projects should not import this package: it changes without notice.
package kit

import (
	"context"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Parts of a kit, besides the blobs of the layout. [Suffix] ends the name of each.
const (
	Suffix     = ".kit"
	Files      = "files/"
	Trust      = "trust/"
	LayoutName = "oci-layout"
	LayoutText = `{"imageLayoutVersion":"1.0.0"}`
	IndexName  = "index.json"
)

// Check refuses a file that is no kit, another version of the layout, and content
// that is no file of the release and that no image names. It reports whether the
// kit has a profile.
func Check(ctx context.Context, path string) (carries bool, err error) {
	defer func() {
		if f := verdict.FindingOf(path, err); err != nil && f.Code == verdict.ArchiveParse {
			f.Fix = "copy the kit again, and compare its digest with that of the file that its maker has"
			err = &verdict.Error{Finding: f, Cause: err}
		}
	}()
	file, err := store.OpenNamed(path)
	if err != nil {
		return false, err
	}
	if _ = file.Close(); !strings.HasSuffix(path, Suffix) {
		return false, verdict.Refuse(verdict.Usage, path, "the name of a kit ends in %s", Suffix)
	}
	layout, err := registry.OpenLayout(path)
	if err != nil {
		return false, err
	}
	all, err := store.Open(path, nil)
	if err != nil {
		return false, err
	}
	objects, err := all.List(ctx)
	if err != nil {
		return false, err
	}
	if raw, err := store.Read(ctx, all, LayoutName, 1<<10); err != nil || strings.TrimSpace(string(raw)) != LayoutText {
		return false, verdict.Refuse(verdict.ArchiveParse, path, "%s: want %s, got %.100q", LayoutName, LayoutText, raw)
	}
	due := map[string]bool{LayoutName: true, IndexName: true}
	listed, err := layout.Listed(ctx)
	for _, d := range listed {
		var graph *registry.Node
		graph, err = registry.Graph(ctx, layout, "", d)
		if err == nil && !graph.Subject.Digest.IsZero() { // of evidence, the gate reads only what it needs
			_, err = registry.VerifyBlobs(ctx, layout, "", graph)
		}
		if err != nil {
			break
		}
		_ = graph.Walk(func(n *registry.Node) error { // the visitor returns no error
			for _, b := range append(n.Blobs(), n.Descriptor) {
				due["blobs/"+strings.ReplaceAll(b.Digest.String(), ":", "/")] = true
			}
			return nil
		})
	}
	for _, o := range objects {
		if err == nil && !due[o.Name] && !strings.HasPrefix(o.Name, Files) && !strings.HasPrefix(o.Name, Trust) {
			err = verdict.Refuse(verdict.Extra, o.Name, "it is no file of the release, and no image names it")
		}
		carries = carries || o.Name == Trust+"profile.yaml"
	}
	return carries, verdict.InFile(path, err)
}
