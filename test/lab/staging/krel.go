package staging

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// krelBucket is the place whose addresses krel's provenance has.
const krelBucket = "gs://kubernetes-release-gcb/stage/"

// krelServer are the platforms that have the whole of Kubernetes.
func krelServer() []string {
	return []string{"linux/amd64", "linux/arm64", "linux/ppc64le", "linux/s390x"}
}

// KrelImages are the images of a release, each for every server platform.
func KrelImages() []string {
	return []string{"conformance", "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler", "kubectl"}
}

// stage is a staging directory that is being filled.
type stage struct {
	Files
	version string
}

// path is where a file of the release lies in it.
func (s stage) path(name string) string { return s.version + "/gcs-stage/" + s.version + "/" + name }

// Krel is what krel stages of one version of Kubernetes below the directory of
// the build: the files of the release with their sidecars and sums, image
// archives, the source, and the provenance of all, which nobody signed. The
// programs at the mistaken names are of linux/amd64, whatever these say.
func Krel(version, commit string, mistaken ...string) Files {
	s := stage{Files{}, version}
	s.programs()
	for _, name := range mistaken {
		s.Files[s.path(name)] = Program("linux/amd64", name)
	}
	s.archives()
	s.Files[s.path("kubernetes-source.spdx")] = []byte(tagValue("source", version, ""))
	s.Files[s.path("kubernetes-release.spdx")] = []byte(tagValue("release", version, s.listed()))
	s.checksums()
	for _, platform := range krelServer() {
		arch := strings.TrimPrefix(platform, "linux/")
		for _, bin := range []string{"conformance-" + arch, "kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler"} {
			s.Files[version+"/release-images/"+arch+"/"+bin+".tar"] = []byte("image " + bin + " " + arch)
		}
	}
	s.Files["src.tar.gz"] = []byte("the source")
	s.Files["provenance.json"] = KrelProvenance(s.Files, version, commit)
	return s.Files
}

func (s stage) programs() {
	control := []string{"kube-apiserver", "kube-controller-manager", "kube-proxy", "kube-scheduler"}
	host := []string{"kubectl", "kubectl-convert", "kubeadm", "kubelet"}
	put := func(platform, ending string, names ...string) {
		for _, bin := range names {
			s.Files[s.path("bin/"+platform+"/"+bin+ending)] = Program(platform, bin)
		}
	}
	for _, platform := range krelServer() {
		put(platform, "", append(slices.Concat(control, host), "apiextensions-apiserver", "kube-aggregator", "kube-log-runner", "mounter")...)
		for _, bin := range control {
			s.Files[s.path("bin/"+platform+"/"+bin+".tar")] = []byte("image " + bin + " " + platform[6:])
			s.Files[s.path("bin/"+platform+"/"+bin+".docker_tag")] = []byte(s.version)
		}
	}
	put("windows/amd64", ".exe", append(host, "kube-proxy")...)
	for _, platform := range []string{"linux/386", "linux/arm", "darwin/amd64", "darwin/arm64"} {
		put(platform, "", "kubectl", "kubectl-convert")
	}
	for _, platform := range []string{"windows/386", "windows/arm64"} {
		put(platform, ".exe", "kubectl", "kubectl-convert")
	}
}

func (s stage) archives() {
	node := append(krelServer(), "windows/amd64")
	client := append(slices.Clone(node), "linux/386", "linux/arm", "darwin/amd64", "darwin/arm64", "windows/386", "windows/arm64")
	for kind, platforms := range map[string][]string{"client": client, "node": node, "server": krelServer(), "test": krelServer()} {
		for _, platform := range platforms {
			name := "kubernetes-" + kind + "-" + strings.ReplaceAll(platform, "/", "-") + ".tar.gz"
			s.Files[s.path(name)] = Archive(name, Files{"kubernetes/" + kind + "/bin/kubectl": Program(platform, name)})
		}
	}
	for _, name := range []string{"kubernetes.tar.gz", "kubernetes-src.tar.gz", "kubernetes-manifests.tar.gz", "kubernetes-test-portable.tar.gz"} {
		s.Files[s.path(name)] = Archive(name, Files{"kubernetes/version": []byte(name)})
	}
}

// checksums writes the sums over all files, and the sidecars of all of these.
func (s stage) checksums() {
	names := s.Names()
	s.Files[s.path("SHA256SUMS")] = s.sums(names, s.path(""), false)
	s.Files[s.path("SHA512SUMS")] = s.sums(names, s.path(""), true)
	for _, name := range s.Names() {
		s.Files[name+".sha256"] = []byte(hexOf(s.Files[name], false))
		s.Files[name+".sha512"] = []byte(hexOf(s.Files[name], true))
	}
}

// listed is what the SBOM of the release says of its archives and programs.
func (s stage) listed() string {
	var out strings.Builder
	for i, name := range s.Names() {
		short, set := strings.TrimPrefix(name, s.path("")), digest.SetOf(s.Files[name])
		switch {
		case strings.HasSuffix(short, ".tar.gz"):
			fmt.Fprintf(&out, "\n##### Package: %s\n\nPackageName: %s\nSPDXID: SPDXRef-Package-%d\nPackageDownloadLocation: NONE\nFilesAnalyzed: false\n"+
				"PackageChecksum: SHA256: %s\nPackageChecksum: SHA512: %s\nPackageLicenseConcluded: NOASSERTION\nPackageLicenseDeclared: NOASSERTION\nPackageCopyrightText: NOASSERTION\n"+
				"Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package-%d\n", short, short, i, set.SHA256.Hex(), set.SHA512.Hex(), i)
		case strings.HasPrefix(short, "bin/"):
			fmt.Fprintf(&out, "\nFileName: ./%s\nSPDXID: SPDXRef-File-%d\nFileChecksum: SHA1: %040x\nFileChecksum: SHA256: %s\nFileChecksum: SHA512: %s\n"+
				"LicenseConcluded: NOASSERTION\nLicenseInfoInFile: NOASSERTION\nFileCopyrightText: NOASSERTION\n"+
				"Relationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-File-%d\n", short, i, i, set.SHA256.Hex(), set.SHA512.Hex(), i)
		}
	}
	return out.String()
}

func tagValue(kind, version, body string) string {
	head := fmt.Sprintf("SPDXVersion: SPDX-2.3\nDataLicense: CC0-1.0\nSPDXID: SPDXRef-DOCUMENT\nDocumentName: kubernetes-%s-%s\n"+
		"DocumentNamespace: https://sbom.example.test/%s/%s\nCreator: Organization: Kubernetes Release Engineering\nCreator: Tool: example-1.0\nCreated: 2026-01-02T03:04:05Z\n",
		kind, version, version, kind)
	if body == "" {
		body = "\nPackageName: kubernetes\nSPDXID: SPDXRef-Package-kubernetes\nPackageDownloadLocation: NONE\nFilesAnalyzed: false\n" +
			"PackageLicenseConcluded: NOASSERTION\nPackageLicenseDeclared: NOASSERTION\nPackageCopyrightText: NOASSERTION\nRelationship: SPDXRef-DOCUMENT DESCRIBES SPDXRef-Package-kubernetes\n"
	}
	return head + body
}

// KrelProvenance is the statement that krel writes over everything it staged.
func KrelProvenance(files Files, version, commit string) []byte {
	var subjects []object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != "provenance.json" {
			subjects = append(subjects, object{"name": krelBucket + version + "-rc/" + name, "digest": object{"sha256": hexOf(files[name], false)}})
		}
	}
	source := object{"uri": "git+https://github.com/kubernetes/kubernetes", "digest": object{"sha1": commit}}
	return encode(object{
		"_type": "https://in-toto.io/Statement/v0.1", "predicateType": "https://slsa.dev/provenance/v0.2", "subject": subjects,
		"predicate": object{
			"builder": object{"id": "https://git.k8s.io/release/docs/krel"}, "buildType": "https://cloudbuild.googleapis.com/CloudBuildYaml@v1",
			"invocation": object{
				"configSource": object{"entryPoint": "https://git.k8s.io/release/gcb/stage/cloudbuild.yaml"},
				"parameters":   object{"type": "official", "branch": "release-1.33", "build-version": version},
			},
			"metadata":  object{"buildInvocationID": "8f2c", "completeness": object{"parameters": true, "environment": false, "materials": true}, "reproducible": false},
			"materials": []object{source},
		},
	})
}
