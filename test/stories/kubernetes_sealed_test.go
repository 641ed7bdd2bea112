package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
	"github.com/waybill-release/waybill/test/scene"
)

// ship is a sealed release of Kubernetes in a lab.
type ship struct{ *scene.Scene }

func (s ship) verify(t *testing.T, more ...string) scene.Result {
	t.Helper()
	return s.Run(t.Context(), append([]string{"k8s-verify-release", upstream, "--profile", "profile.yaml"}, more...)...)
}

// object is the address of an object of the release.
func (s ship) object(name string) string {
	return s.Lab.Bucket + "/release/kubernetes/" + upstream + "/" + name
}

// read fetches what lies at an address.
func (s ship) read(t *testing.T, name string) []byte {
	t.Helper()
	resp, err := http.Get(s.object(name))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("%s: %s, %v", name, resp.Status, err)
	}
	return body
}

// put replaces an object, or removes it where there are no bytes, and returns
// what makes it as it was.
func (s ship) put(t *testing.T, name string, body []byte) func() {
	t.Helper()
	before := s.read(t, name)
	request(t, http.MethodPut, s.object(name), body)
	return func() { request(t, http.MethodPut, s.object(name), before) }
}

// add writes an object that is not there.
func (s ship) add(t *testing.T, name string, body []byte) func() {
	t.Helper()
	request(t, http.MethodPut, s.object(name), body)
	return func() { request(t, http.MethodDelete, s.object(name), nil) }
}

// images is the registry of the release.
func (s ship) images(t *testing.T) *registry.Remote {
	t.Helper()
	images, err := registry.OpenRemote(s.Lab.Registry+"/release/kubernetes", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	return images
}

// tag lets a tag of a repository name what another of it names.
func (s ship) tag(t *testing.T, repository, tag string, to registry.Descriptor) {
	t.Helper()
	if err := s.images(t).Tag(t.Context(), repository, tag, to); err != nil {
		t.Fatal(err)
	}
}

func (s ship) resolve(t *testing.T, repository, tag string) registry.Descriptor {
	t.Helper()
	d, err := s.images(t).Resolve(t.Context(), repository, tag)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func (s ship) untag(t *testing.T, repository, reference string) {
	t.Helper()
	request(t, http.MethodDelete, "http://"+s.Lab.Registry+"/v2/release/kubernetes/"+repository+"/manifests/"+reference, nil)
}

// sign signs a statement as an account, with none of the product's checks.
func (s ship) sign(t *testing.T, as string, statement []byte) []byte {
	t.Helper()
	signed, err := s.Sign(t.Context(), as, statement)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// summary is what a verifier says of one file.
func (s ship) summary(name string, sum digest.Digest) []byte {
	raw, err := json.Marshal(fields{
		"_type": intoto.TypeV1, "predicateType": "https://slsa.dev/verification_summary/v1",
		"subject": []fields{{"name": name, "digest": fields{"sha256": sum.Hex()}}},
		"predicate": fields{
			"verifier": fields{"id": "https://verifier.example.test"}, "timeVerified": "2026-11-20T00:00:00Z",
			"resourceUri": "https://dl.k8s.io/release/" + upstream + "/" + name, "policy": fields{"uri": "https://policy.example.test"},
			"verificationResult": "PASSED", "verifiedLevels": []string{"SLSA_BUILD_LEVEL_3"},
		},
	})
	if err != nil {
		panic(err)
	}
	return raw
}

// TestLongKubernetesSealed: a release with the names of Kubernetes, published with
// Waybill, is complete by the policy that is shipped for it, and is refused for
// each thing that is wrong with it.
func TestLongKubernetesSealed(t *testing.T) {
	s := ship{&scene.Scene{Options: scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir()}, Lab: lab.New(t)}}
	v, err := version.Parse(upstream)
	if err != nil {
		t.Fatal(err)
	}
	if err := (kubernetes.Sealed{Lab: s.Lab, Version: v, Dir: s.Dir}).Publish(t.Context()); err != nil {
		t.Fatal(err)
	}
	want(t, s.verify(t), 0, "nothing extra", "missing=0 extra=0", "140 × file signature", "54 × image signature", "builder@kubernetes.example.test")
	for _, a := range seaborne() {
		t.Run(a.name, func(t *testing.T) {
			undo := a.do(t, s)
			r := s.verify(t)
			undo()
			want(t, r, a.code, a.said...)
		})
	}
	want(t, s.verify(t), 0, "nothing extra") // each attack taken back, it is what it was
	t.Run("under another version", func(t *testing.T) { renamed(t, s) })
	t.Run("by a channel", func(t *testing.T) { channelled(t, s) })
	t.Run("two names that are one", func(t *testing.T) { folded(t, s) })
	t.Run("in part", func(t *testing.T) { partly(t, s) })
	t.Run("broken off", func(t *testing.T) { broken(t, s) })
	t.Run("a mirror", func(t *testing.T) { mirrored(t, s) })
	t.Run("a web server", func(t *testing.T) { served(t, s) })
	t.Run("a bucket of somebody's", func(t *testing.T) { guarded(t, s) })
}

// boarding is one thing that happens to the release, and what is said of it.
type boarding struct {
	name string
	do   func(*testing.T, ship) (undo func())
	code int
	said []string
}

const (
	shipped   = "bin/linux/amd64/kubectl"
	apiserver = "kube-apiserver"
	scheduler = "kube-scheduler"
)

func seaborne() []boarding {
	const late = "late.sigstore.json"
	put := func(name string, body []byte) func(*testing.T, ship) func() {
		return func(t *testing.T, s ship) func() { return s.put(t, name, body) }
	}
	return []boarding{
		{"a file too few", put("bin/linux/s390x/kubelet", nil), 1, []string{"MISSING", "bin/linux/s390x/kubelet", "missing=1 extra=0"}},
		{"a file too much", func(t *testing.T, s ship) func() { return s.add(t, "bin/linux/amd64/kubectl-again", []byte("x")) }, 1, []string{"EXTRA", "missing=0 extra=1"}},
		{"other bytes", put(shipped, []byte("x")), 1, []string{"1 file altered: " + shipped + "\n"}}, // and nothing that was made of it
		{"two names exchanged", exchanged, 1, []string{"NAME_SWAP", shipped, "bin/linux/arm64/kubectl"}},
		{"a tag that moved", func(t *testing.T, s ship) func() {
			before := s.resolve(t, apiserver, upstream)
			s.tag(t, apiserver, upstream, s.resolve(t, apiserver+"-arm64", upstream))
			return func() { s.tag(t, apiserver, upstream, before) }
		}, 1, []string{"TAG_MOVED", apiserver}},
		{"a tag too much", func(t *testing.T, s ship) func() {
			s.tag(t, apiserver, upstream+"-fips", s.resolve(t, apiserver, upstream))
			return func() { s.untag(t, apiserver, upstream+"-fips") }
		}, 1, []string{"EXTRA", upstream + "-fips"}},
		{"a platform too few", withoutPlatform, 1, []string{"TAG_MOVED", "oci/" + scheduler}},
		{"a platform that is gone", platformGone, 1, []string{"MISSING", "oci/" + scheduler}},
		{"withdrawn", recalled, 1, []string{"WITHDRAWN", "it panics", "v1.31.3"}},
		{"a sidecar that lies", put(shipped+".sha256", []byte(strings.Repeat("0", 64)+"\n")), 1, []string{"TAMPERED", shipped + ".sha256"}},
		{"a sidecar that lies and is listed", func(t *testing.T, s ship) func() {
			lie := []byte(strings.Repeat("0", 64) + "  kubectl\n")
			return listed(t, s, shipped+".sha256", lie)
		}, 1, []string{"MANIFEST_PARSE", "the checksum is not that of " + shipped}},
		{"a signature of another file", func(t *testing.T, s ship) func() {
			return s.put(t, shipped+".sigstore.json", s.read(t, "bin/linux/amd64/kubelet.sigstore.json"))
		}, 1, []string{"NAME_SWAP", shipped + ".sigstore.json"}},
		{"a signature of another file that is listed", func(t *testing.T, s ship) func() {
			return listed(t, s, shipped+".sigstore.json", s.read(t, "bin/linux/amd64/kubelet.sigstore.json"))
		}, 1, []string{"NOT_BOUND", shipped + "\n", shipped + ".sigstore.json: the bundle signs other bytes"}},
		{"no SBOM", put(shipped+".spdx.json", nil), 1, []string{"1 file missing: " + shipped + ".spdx.json; 1 file without an SBOM: " + shipped + "\n", "→ restore the evidence from the sealed release"}},
		{"no provenance", put("provenance/compile-darwin-amd64.sigstore.json", nil), 1, []string{
			"1 file missing: ", "2 files without provenance", "and 1 more finding\n", "LEVEL ", "no step describes", "kubernetes-client-darwin-amd64.tar.gz",
		}},
		{"no manifest", put(releasemanifest.Name, nil), 1, []string{"EVIDENCE_MISSING", "→ check version, profile and address"}},
		{"a manifest by the builder", resigned(kubernetes.Builder), 1, []string{"IDENTITY_ROLE"}},
		{"a manifest by today's staging account", resigned(kubernetes.Staging), 1, []string{"IDENTITY"}},
		{"a manifest that leaves a file out", func(t *testing.T, s ship) func() {
			return s.put(t, releasemanifest.Name, s.sign(t, kubernetes.Trust, shortened(t, s)))
		}, 1, []string{"PLAN_MISSING", "EXTRA", shipped}},
		{"a summary that came late", func(t *testing.T, s ship) func() {
			return s.add(t, late, s.sign(t, kubernetes.Verifier, s.summary(shipped, digest.Of(digest.SHA256, s.read(t, shipped)))))
		}, 0, []string{"nothing extra"}},
		{"a summary by somebody else", func(t *testing.T, s ship) func() {
			return s.add(t, late, s.sign(t, kubernetes.Staging, s.summary(shipped, digest.Of(digest.SHA256, s.read(t, shipped)))))
		}, 1, []string{"EXTRA", late}},
		{"a summary of other bytes", func(t *testing.T, s ship) func() {
			return s.add(t, late, s.sign(t, kubernetes.Verifier, s.summary(shipped, digest.Of(digest.SHA256, []byte("x")))))
		}, 1, []string{"EXTRA", late}},
	}
}

func exchanged(t *testing.T, s ship) func() {
	const other = "bin/linux/arm64/kubectl"
	a, b := s.read(t, shipped), s.read(t, other)
	first, second := s.put(t, shipped, b), s.put(t, other, a)
	return func() { first(); second() }
}

// manifest is a manifest of the registry.
func (s ship) manifest(t *testing.T, repository string, d registry.Descriptor) []byte {
	t.Helper()
	body, err := s.images(t).Fetch(t.Context(), repository, d)
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (s ship) push(t *testing.T, repository, mediaType string, raw []byte) registry.Descriptor {
	t.Helper()
	d := registry.Descriptor{MediaType: mediaType, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := s.images(t).PushManifest(t.Context(), repository, d, raw); err != nil {
		t.Fatal(err)
	}
	return d
}

// withoutPlatform publishes an index that lacks a platform, under the tag.
func withoutPlatform(t *testing.T, s ship) func() {
	before := s.resolve(t, scheduler, upstream)
	var index fields
	if err := json.Unmarshal(s.manifest(t, scheduler, before), &index); err != nil {
		t.Fatal(err)
	}
	children := index["manifests"].([]any)
	index["manifests"] = children[:len(children)-1]
	raw, err := json.Marshal(index)
	if err != nil {
		t.Fatal(err)
	}
	s.tag(t, scheduler, upstream, s.push(t, scheduler, before.MediaType, raw))
	return func() { s.tag(t, scheduler, upstream, before) }
}

// platformGone removes what the index names for one platform.
func platformGone(t *testing.T, s ship) func() {
	gone := s.resolve(t, scheduler+"-s390x", upstream)
	raw := s.manifest(t, scheduler, gone)
	s.untag(t, scheduler, gone.Digest.String())
	return func() { s.push(t, scheduler, gone.MediaType, raw) }
}

// recalled has the release identity withdraw what is public.
func recalled(t *testing.T, s ship) func() {
	before := s.read(t, releasemanifest.Name)
	want(t, s.Run(t.Context(), "waybill", "seal", upstream, "--withdraw", "--at", "release", "--reason", "it panics", "--use", "v1.31.3",
		"--profile", "profile.yaml", "--identity-token", "release=release.token", "--confirm"), 0)
	return func() { request(t, http.MethodPut, s.object(releasemanifest.Name), before) }
}

// resigned has somebody else sign the very same manifest.
func resigned(as string) func(*testing.T, ship) func() {
	return func(t *testing.T, s ship) func() {
		return s.put(t, releasemanifest.Name, s.sign(t, as, payload(t, s.read(t, releasemanifest.Name))))
	}
}

// edited is the manifest with its two lists changed, and signed by nobody yet.
func edited(t *testing.T, s ship, change func(entries []any) []any) []byte {
	t.Helper()
	var m fields
	if err := json.Unmarshal(payload(t, s.read(t, releasemanifest.Name)), &m); err != nil {
		t.Fatal(err)
	}
	predicate := m["predicate"].(map[string]any)
	m["subject"], predicate["artifacts"] = change(m["subject"].([]any)), change(predicate["artifacts"].([]any))
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// shortened is the manifest without one file and what belongs to it.
func shortened(t *testing.T, s ship) []byte {
	return edited(t, s, func(entries []any) (kept []any) {
		for _, e := range entries {
			if name := fmt.Sprint(e.(map[string]any)["name"]); !strings.HasPrefix(name, shipped+".") && name != shipped {
				kept = append(kept, e)
			}
		}
		return kept
	})
}

// listed replaces a file, and has the release identity list it as it is then.
func listed(t *testing.T, s ship, name string, body []byte) func() {
	t.Helper()
	first, second := s.put(t, name, body), s.put(t, releasemanifest.Name, s.sign(t, kubernetes.Trust, relisted(t, s, name, body)))
	return func() { first(); second() }
}

// relisted is the manifest with other bytes under a name.
func relisted(t *testing.T, s ship, name string, body []byte) []byte {
	return edited(t, s, func(entries []any) []any {
		for _, e := range entries {
			switch e := e.(map[string]any); {
			case e["name"] != name:
			case e["digest"] != nil:
				e["digest"] = digest.SetOf(body).Map()
			default:
				e["size"] = len(body)
			}
		}
		return entries
	})
}

// renamed: a manifest speaks of its own version, wherever it is found.
func renamed(t *testing.T, s ship) {
	elsewhere := strings.Replace(s.object(releasemanifest.Name), upstream, "v1.31.1", 1)
	request(t, http.MethodPut, elsewhere, s.read(t, releasemanifest.Name))
	want(t, s.Run(t.Context(), "k8s-verify-release", "v1.31.1", "--profile", "profile.yaml"), 1, "VERSION", "want v1.31.1", "got  "+upstream)
}

// channelled: a marker says which release a channel stands for, if it can.
func channelled(t *testing.T, s ship) {
	at := func(channel string) scene.Result {
		request(t, http.MethodPut, s.Lab.Bucket+"/release/"+channel+".txt", []byte(upstream+"\n"))
		return s.Run(t.Context(), "k8s-verify-release", channel, "--profile", "profile.yaml")
	}
	want(t, at("stable-1.31"), 0, "in part", "rollback not checked")
	want(t, at("stable-1.30"), 1, "VERSION", "→ name a version")
	want(t, at("beta"), 1, "VERSION")
}

// folded: two names that are one on some systems are downloaded on none.
func folded(t *testing.T, s ship) {
	twice := edited(t, s, func(entries []any) []any {
		for _, e := range entries {
			if e := e.(map[string]any); e["name"] == "release.yaml" {
				twin := maps.Clone(e)
				twin["name"] = "Release.yaml"
				return append(entries, twin)
			}
		}
		return entries
	})
	undo := s.put(t, releasemanifest.Name, s.sign(t, kubernetes.Trust, twice))
	r, kept := s.verify(t), s.verify(t, "--download", "folded")
	undo()
	want(t, r, 1, "PLAN_EXTRA", "Release.yaml")
	want(t, kept, 1, "PATH", `the name differs only in case from "Release.yaml"`)
	if there, _ := filepath.Glob(s.Path("folded")); len(there) > 0 {
		t.Errorf("there is %q", there)
	}
}

// partly asks for what one machine needs.
func partly(t *testing.T, s ship) {
	want(t, s.verify(t, "--platform", "linux/arm64", "--only", "files", "--download", "arm"), 0, "in part", "Downloaded to")
	for _, name := range []string{shipped, "bin/linux/arm64/kubectl"} {
		there, _ := filepath.Glob(s.Path("arm", name))
		if (len(there) == 1) != strings.Contains(name, "arm64") {
			t.Errorf("%s: %v", name, there)
		}
	}
	r := s.verify(t, "--print-sums", "--only", "files")
	want(t, r, 0)
	if !strings.Contains(r.Stdout, digest.Of(digest.SHA256, s.read(t, shipped)).Hex()+"  "+shipped+"\n") || bytes.Count([]byte(r.Stdout), []byte("\n")) < 700 {
		t.Errorf("the sums:\n%.400s", r.Stdout)
	}
}
