package kubernetes

import (
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// written is when the documents say that they were written.
var written = time.Date(2024, 10, 22, 20, 0, 0, 0, time.UTC)

// bucket is where the provenance says that the release is: Kubernetes' own.
const bucket = "gs://767373bbdcb8270361b96548387bf2a9ad0d48758c35/"

func (r *Release) draft(name string) spdx.Draft {
	return spdx.Draft{
		Name: "SYNTHETIC Kubernetes " + name + " " + r.Version.String(), Namespace: "https://sbom.k8s.io/" + r.Version.String() + "/" + name,
		Created: written, Tool: "waybill-lab",
	}
}

func (r *Release) sourceSBOM() []byte {
	d := r.draft("source")
	d.Packages = []spdx.Package{{ID: "SPDXRef-Package-kubernetes", Name: "kubernetes", Version: r.Version.String()}}
	d.Relationships = []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-Package-kubernetes"}}
	return encode(d)
}

// releaseSBOM describes the programs, the archives and the archives of images,
// as krel has them described.
func (r *Release) releaseSBOM() []byte {
	d := r.draft("release")
	source := "DocumentRef-kubernetes-" + r.Version.String()
	d.External = []spdx.External{{
		ID: source, Namespace: "https://sbom.k8s.io/" + r.Version.String() + "/source", SHA256: digest.Of(digest.SHA256, r.Files[k8slayout.SourceSBOM]),
	}}
	describe := func(id string) {
		d.Relationships = append(d.Relationships, spdx.Relationship{From: spdx.DocumentID, Type: spdx.Describes, To: id},
			spdx.Relationship{From: id, Type: spdx.GeneratedFrom, To: source + ":SPDXRef-Package-kubernetes"})
	}
	for _, name := range r.Names() {
		if c := k8slayout.KindOf(name).Class; c != plan.Binary && c != plan.Archive {
			continue
		}
		old := sha1.Sum(r.Files[name]) //nolint:gosec // SPDX requires it
		id := "SPDXRef-File-" + strings.NewReplacer("/", "-", "_", "-").Replace(name)
		d.Files = append(d.Files, spdx.File{ID: id, Name: "./" + name, SHA1: hex.EncodeToString(old[:]), Digests: digest.SetOf(r.Files[name])})
		describe(id)
	}
	for _, i := range r.Images {
		for _, platform := range serverPlatforms {
			r.describeImage(&d, i, platform)
			describe(imageID(i, platform, r.Version))
		}
	}
	return []byte(strings.ReplaceAll(string(encode(d)), "FileName: ./", "FileName: "))
}

// imageID is the identifier of an image's package: bom makes it of the reference,
// which stands nowhere else.
func imageID(i *Image, platform string, v version.Version) string {
	return "SPDXRef-Package-registry.k8s.io-" + k8slayout.Image{Name: i.Name, Platform: platform}.Alone() + "-" + v.String()
}

// describeImage describes the archive of one image, and the layers in it.
func (r *Release) describeImage(d *spdx.Draft, i *Image, platform string) {
	id, m := imageID(i, platform, r.Version), i.Platforms[platform]
	p := spdx.Package{ID: id, Name: i.Name + ".tar", Purpose: spdx.Container}
	if !r.Archiveless {
		p.Digests = digest.SetOf(i.Archive(platform))
	}
	d.Packages = append(d.Packages, p)
	if r.Layerless || m == nil {
		return
	}
	for _, layer := range m.Blobs[1:] {
		sum := digest.SetOf(layer)
		inside := id + "-sha256-" + sum.SHA256.Hex()
		d.Packages = append(d.Packages, spdx.Package{ID: inside, Name: sum.SHA256.String(), Digests: sum})
		d.Relationships = append(d.Relationships, spdx.Relationship{From: id, Type: spdx.Contains, To: inside})
	}
}

func encode(d spdx.Draft) []byte {
	raw, err := spdx.EncodeTagValue(d)
	if err != nil {
		panic("kubernetes: " + err.Error()) // the draft is ours
	}
	return raw
}

// provenance is a statement as krel writes it: its subjects are what the SBOM
// describes, below the bucket.
func (r *Release) provenance() []byte {
	commit := strings.Repeat("5", 40) // of no repository
	raw, err := json.Marshal(map[string]any{
		"_type": "https://in-toto.io/Statement/v0.1", "predicateType": "https://slsa.dev/provenance/v0.2", "subject": r.Subjects(),
		"predicate": map[string]any{
			"builder": map[string]any{"id": "https://git.k8s.io/release/docs/krel"}, "buildType": "https://cloudbuild.googleapis.com/CloudBuildYaml@v1",
			"invocation": map[string]any{
				"configSource": map[string]any{"entryPoint": "https://git.k8s.io/release/gcb/stage/cloudbuild.yaml"},
				"parameters":   map[string]string{"type": "official", "branch": fmt.Sprintf("release-%d.%d", r.Version.Major(), r.Version.Minor()), "build-version": r.buildVersion(commit)},
			},
			"metadata": map[string]any{
				"buildInvocationID": "synthetic", "buildStartedOn": written, "buildFinishedOn": written.Add(time.Hour),
				"completeness": map[string]bool{"parameters": true, "environment": false, "materials": true}, "reproducible": false,
			},
			"materials": []any{map[string]any{"uri": "git+https://github.com/kubernetes/kubernetes", "digest": map[string]string{"sha1": commit}}},
		},
	})
	if err != nil {
		panic("kubernetes: " + err.Error()) // the value is ours
	}
	return raw
}

// buildVersion is what krel calls the build: the version before, and the commit.
func (r *Release) buildVersion(commit string) string {
	return fmt.Sprintf("v%d.%d.%d-12+%s", r.Version.Major(), r.Version.Minor(), max(0, r.Version.Patch()-1), commit[:14])
}
