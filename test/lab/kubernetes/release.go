// Package kubernetes makes a synthetic release of Kubernetes, and publishes it
// in a lab as Kubernetes publishes its releases today: no manifest, provenance
// that nobody signed, a .sig and a .cert beside each file, hash sidecars, sums,
// an SBOM in the form of lines, and signatures of images under tags.
//
// Synthetic: the names are those of real releases of v1.31 and later, the bytes
// are a line of text that says so, and whoever signs is a lab's, under the
// names that Kubernetes' accounts have.
//
//	r := kubernetes.Make(v)
//	err := r.Sign(ctx, kubernetes.Signer{Lab: l})
//	err = r.Publish(ctx, l)          // bucket and registry of the lab
//	err = kubernetes.WriteProfile(l, dir)
//	// k8s-verify-release v1.31.2 --profile dir/profile.yaml
//
// Everything between Make and Publish is there to be changed by whoever wants
// to attack it: files are a map, and the documents are written by methods of
// their own.
package kubernetes

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// The platforms of a release.
var (
	serverPlatforms = []string{"linux/amd64", "linux/arm64", "linux/ppc64le", "linux/s390x"}
	clientPlatforms = append([]string{"linux/386", "linux/arm", "darwin/amd64", "darwin/arm64", "windows/386", "windows/amd64", "windows/arm64"}, serverPlatforms...)
	testPlatforms   = append([]string{"darwin/amd64", "darwin/arm64", "windows/amd64", "windows/arm64"}, serverPlatforms...)
)

// The programs of a release.
var (
	clientPrograms = []string{"kubectl", "kubectl-convert"}
	nodePrograms   = []string{"kube-log-runner", "kube-proxy", "kubeadm", "kubelet"}
	serverPrograms = []string{
		"apiextensions-apiserver", "kube-aggregator", "kube-apiserver", "kube-controller-manager", "kube-log-runner",
		"kube-proxy", "kube-scheduler", "kubeadm", "kubelet", "mounter",
	}
	wrapped = []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl"}
	images  = append([]string{"conformance"}, wrapped...)
)

// Release is a release being made. Files holds everything by its name below
// the place, and Images what the registry serves.
type Release struct {
	Version version.Version
	Files   map[string][]byte
	Images  []*Image
	// Artifacts are files that the registry serves.
	Artifacts []*Image
	// Layerless and Archiveless leave of the images' layers and archives nothing
	// in the SBOM.
	Layerless, Archiveless bool
}

// Make makes a release with all of its documents. Nothing is signed yet.
func Make(v version.Version) *Release {
	r := &Release{Version: v, Files: map[string][]byte{}}
	for _, name := range names() {
		r.Files[name] = r.text(name)
	}
	for _, platform := range serverPlatforms {
		for _, program := range wrapped {
			r.Files["bin/"+platform+"/"+program+".docker_tag"] = []byte(v.String())
		}
	}
	for _, name := range images {
		i := newImage(v, name)
		r.Images = append(r.Images, i)
		for platform := range i.Platforms {
			if archive := (k8slayout.Image{Name: name, Platform: platform}).Archive(); r.Files[archive] != nil {
				r.Files[archive] = i.Archive(platform)
			}
		}
	}
	r.Document()
	return r
}

func (r *Release) text(name string) []byte {
	return fmt.Appendf(nil, "SYNTHETIC %s of Kubernetes %s: no program, made for tests\n", name, r.Version)
}

// Document writes the SBOMs, the sums, the sidecars and the provenance anew,
// over what is there now.
func (r *Release) Document() {
	r.Files[k8slayout.SourceSBOM] = r.sourceSBOM()
	r.Files[k8slayout.ReleaseSBOM] = r.releaseSBOM()
	r.Sums()
	r.Sidecars()
	r.Files[k8slayout.Provenance] = r.provenance()
	r.Files["release-notes.json"] = []byte("{}")
	r.Files["announcement.html"] = r.text("announcement")
}

// names are the files that builds make, but tags of images and documents.
func names() []string {
	all := []string{"kubernetes.tar.gz", "kubernetes-src.tar.gz", "kubernetes-manifests.tar.gz", "kubernetes-test-portable.tar.gz"}
	for kind, platforms := range map[string][]string{
		"client": clientPlatforms, "node": append([]string{"windows/amd64"}, serverPlatforms...), "server": serverPlatforms, "test": testPlatforms,
	} {
		for _, p := range platforms {
			all = append(all, "kubernetes-"+kind+"-"+strings.ReplaceAll(p, "/", "-")+".tar.gz")
		}
	}
	for _, p := range clientPlatforms {
		programs := clientPrograms
		if p == "windows/amd64" {
			programs = slices.Concat(programs, nodePrograms)
		}
		if slices.Contains(serverPlatforms, p) {
			programs = slices.Concat(programs, serverPrograms)
		}
		for _, program := range programs {
			if strings.HasPrefix(p, "windows/") {
				program += ".exe"
			}
			all = append(all, "bin/"+p+"/"+program)
		}
	}
	for _, p := range serverPlatforms {
		for _, program := range wrapped {
			all = append(all, "bin/"+p+"/"+program+".tar")
		}
	}
	return all
}

// Names are all files, sorted.
func (r *Release) Names() []string { return slices.Sorted(maps.Keys(r.Files)) }

// Sums writes SHA256SUMS and SHA512SUMS over what is there, and their sidecars.
func (r *Release) Sums() {
	var short, long strings.Builder
	for _, name := range r.Names() {
		if k := k8slayout.KindOf(name); k.Summed && name != k8slayout.SHA256Sums && name != k8slayout.SHA512Sums {
			set := digest.SetOf(r.Files[name])
			fmt.Fprintf(&short, "%s  %s\n", set.SHA256.Hex(), name)
			fmt.Fprintf(&long, "%s  %s\n", set.SHA512.Hex(), name)
		}
	}
	r.Files[k8slayout.SHA256Sums], r.Files[k8slayout.SHA512Sums] = []byte(strings.TrimSuffix(short.String(), "\n")), []byte(strings.TrimSuffix(long.String(), "\n"))
	r.Sidecar(k8slayout.SHA256Sums)
	r.Sidecar(k8slayout.SHA512Sums)
}

// Sidecars writes the two sidecars of each file that has some.
func (r *Release) Sidecars() {
	for _, name := range r.Names() {
		if k8slayout.KindOf(name).Summed {
			r.Sidecar(name)
		}
	}
}

// Sidecar writes the two sidecars of one file.
func (r *Release) Sidecar(name string) {
	set := digest.SetOf(r.Files[name])
	r.Files[name+".sha256"], r.Files[name+".sha512"] = []byte(set.SHA256.Hex()), []byte(set.SHA512.Hex())
}

// Clone is a copy whose files and images can be changed.
func (r *Release) Clone() *Release {
	c := &Release{Version: r.Version, Files: maps.Clone(r.Files)}
	for _, i := range r.Images {
		c.Images = append(c.Images, i.clone())
	}
	for _, i := range r.Artifacts {
		c.Artifacts = append(c.Artifacts, i.clone())
	}
	return c
}
