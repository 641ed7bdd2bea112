package gate

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// twoImages is a release of two images in two repositories. The second one has
// a tag more.
func twoImages(t *testing.T) gathered {
	t.Helper()
	v, err := version.Parse("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	layout, err := registry.OpenLayout(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := gathered{release: &sealed{
		Request: Request{Images: layout, Policy: validBut(t)}, manifest: signedManifest{Manifest: manifest.Manifest{Version: v}},
	}}
	for repo, tags := range map[string][]string{"lantern": {"v1.2.3"}, "torch": {"v1.2.3", "v1.2.3-debug"}} {
		image := manifest.Artifact{Artifact: plan.Artifact{Name: "oci/" + repo, Class: plan.Image, Repository: repo, Tags: tags}}
		image.Digests = digest.SetOf([]byte(emptyIndex))
		d.release.manifest.Artifacts = append(d.release.manifest.Artifacts, image)
		for _, tag := range tags {
			putTag(t, layout, repo, tag)
		}
	}
	return d
}

const emptyIndex = `{"schemaVersion":2,"mediaType":"application/vnd.oci.image.index.v1+json","manifests":[]}`

func putTag(t *testing.T, l *registry.Layout, repo, tag string) {
	t.Helper()
	d := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, []byte(emptyIndex)), Size: int64(len(emptyIndex))}
	if err := l.PushManifest(t.Context(), repo, d, []byte(emptyIndex)); err != nil {
		t.Fatal(err)
	}
	if err := l.Tag(t.Context(), repo, tag, d); err != nil {
		t.Fatal(err)
	}
}

// TestTagsOfTwoRepositories: a tag that the manifest lists in one repository is
// not listed in another.
func TestTagsOfTwoRepositories(t *testing.T) {
	for _, row := range []struct{ name, repo, tag, extra string }{
		{"as listed", "", "", ""},
		{"a tag that only the other one has", "lantern", "v1.2.3-debug", "oci/lantern:v1.2.3-debug"},
		{"the same tag where it is listed", "torch", "v1.2.3-debug", ""},
		{"a tag that neither has", "torch", "v1.2.3-more", "oci/torch:v1.2.3-more"},
	} {
		d := twoImages(t)
		if row.repo != "" {
			putTag(t, d.release.Images.(*registry.Layout), row.repo, row.tag)
		}
		found := checkTags(t.Context(), d).differences
		if row.extra == "" && len(found) > 0 || row.extra != "" && (len(found) != 1 || found[0].Code != verdict.Extra || found[0].Subject != row.extra) {
			t.Errorf("%s: %v, want EXTRA of %q", row.name, found, row.extra)
		}
	}
}

// TestPlatformsOfAnIndex: an index has the platforms that the manifest lists,
// each with its bytes, and no others.
func TestPlatformsOfAnIndex(t *testing.T) {
	const amd64, arm64 = "linux/amd64", "linux/arm64"
	bytesOf := func(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }
	type children [][2]string // platform and bytes
	index := manifest.Artifact{Artifact: plan.Artifact{Name: "oci/lantern", Class: plan.Image}}
	d := &sealed{}
	for _, platform := range []string{amd64, arm64} {
		child := manifest.Artifact{Artifact: plan.Artifact{Name: index.Name + "/" + platform, Class: plan.ImageChild, Of: index.Name, Platform: platform}}
		child.Digests.SHA256 = bytesOf(platform)
		d.manifest.Artifacts = append(d.manifest.Artifacts, child)
	}
	for name, row := range map[string]struct {
		has  children
		code verdict.Code
	}{
		"both":                 {children{{amd64, amd64}, {arm64, arm64}}, ""},
		"both, in other order": {children{{arm64, arm64}, {amd64, amd64}}, ""},
		"one less":             {children{{amd64, amd64}}, verdict.Platform},
		"none":                 {nil, verdict.Platform},
		"one more":             {children{{amd64, amd64}, {arm64, arm64}, {"linux/s390x", "more"}}, verdict.Platform},
		"one twice":            {children{{amd64, amd64}, {amd64, amd64}, {arm64, arm64}}, verdict.Platform},
		"exchanged":            {children{{amd64, arm64}, {arm64, amd64}}, verdict.Platform},
		"another's bytes":      {children{{amd64, amd64}, {arm64, "other"}}, verdict.Platform},
	} {
		node := &registry.Node{}
		for _, c := range row.has {
			node.Children = append(node.Children, &registry.Node{Descriptor: registry.Descriptor{Platform: c[0], Digest: bytesOf(c[1])}})
		}
		err := d.manifest.checkChildren(index, node)
		if (err == nil) != (row.code == "") || err != nil && verdict.FindingOf("", err).Code != row.code {
			t.Errorf("%s: %v, want %q", name, err, row.code)
		}
	}
}
