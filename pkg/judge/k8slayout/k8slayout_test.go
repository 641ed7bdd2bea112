package k8slayout_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func at(t testing.TB, s string) version.Version {
	t.Helper()
	v, err := version.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

const kubectl, kubelet, client = "bin/linux/amd64/kubectl", "bin/linux/amd64/kubelet", "kubernetes-client-linux-amd64.tar.gz"

// small is a release of three files, and those who speak of it.
type small struct {
	have           map[string][]byte
	sums           map[string][]byte // what SHA256SUMS is written over
	subjects       map[string][]byte
	listed, at     []string
	forgetSidecars bool
}

func newSmall() *small {
	files := func() map[string][]byte {
		return map[string][]byte{kubectl: []byte("kubectl"), kubelet: []byte("kubelet"), client: []byte("client")}
	}
	return &small{have: files(), sums: files(), subjects: files()}
}

func (s *small) compare(t testing.TB) []verdict.Finding {
	t.Helper()
	v := at(t, "v1.31.2")
	var lines strings.Builder
	for name, body := range s.sums {
		lines.WriteString(digest.SetOf(body).SHA256.Hex() + "  " + name + "\n")
	}
	sums, err := k8slayout.ParseSums(k8slayout.SHA256Sums, []byte(lines.String()), v)
	if err != nil {
		t.Fatal(err)
	}
	var subjects []intoto.Subject
	for name, body := range s.subjects {
		subjects = append(subjects, intoto.Subject{Name: "gs://bucket/release/v1.31.2/" + name, Digests: digest.SetOf(body)})
	}
	statement, err := intoto.New("https://slsa.dev/provenance/v0.2", subjects, map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	provenance, err := k8slayout.ReadProvenance(k8slayout.Provenance, statement, v)
	if err != nil {
		t.Fatal(err)
	}
	set, err := k8slayout.Of(sums, provenance)
	if err != nil {
		t.Fatal(err)
	}
	var items []census.Item
	for name, body := range s.have {
		items = append(items, census.Item{Name: name, Digests: digest.SetOf(body), Size: int64(len(body))})
		if !strings.Contains(name, ".sha") && !strings.HasSuffix(name, ".sig") && name != "stranger" {
			for suffix, sum := range map[string]digest.Digest{".sha256": digest.SetOf(body).SHA256, ".sha512": digest.SetOf(body).SHA512} {
				if _, own := s.have[name+suffix]; !own && !s.forgetSidecars {
					items = append(items, census.Item{Name: name + suffix, Digests: digest.SetOf([]byte(sum.Hex()))})
				}
			}
		}
	}
	return set.Compare(items)
}

// TestCompare changes one fact a row.
func TestCompare(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*small)
		want   string // code and subject of all findings
	}{
		{"as it was made", func(*small) {}, ""},
		{"a file is gone", func(s *small) { delete(s.have, kubelet) }, "MISSING " + kubelet},
		{"a stranger's file", func(s *small) { s.have["stranger"] = nil }, "EXTRA stranger"},
		{"a signature of nothing", func(s *small) { s.have["stranger.sig"] = nil }, "EXTRA stranger.sig"},
		{"a signature of a file", func(s *small) { s.have[kubectl+".sig"] = nil }, ""},
		{"a sidecar of a sidecar", func(s *small) { s.have[kubectl+".sha256.sha256"] = nil }, "EXTRA " + kubectl + ".sha256.sha256"},
		{"a document of the layout", func(s *small) { s.have["announcement.html"] = nil; s.forgetSidecars = true }, "MISSING " + kubectl + ".sha256 MISSING " + kubectl + ".sha512 MISSING " + kubelet + ".sha256 MISSING " + kubelet + ".sha512 MISSING " + client + ".sha256 MISSING " + client + ".sha512"},
		{"other bytes", func(s *small) { s.have[kubectl] = []byte("Kubectl") }, "TAMPERED " + kubectl},
		{"bytes of another file", func(s *small) { s.have[kubectl], s.have[kubelet] = s.have[kubelet], s.have[kubectl] }, "NAME_SWAP " + kubectl + " NAME_SWAP " + kubelet},
		{"a sidecar that lies", func(s *small) { s.have[kubectl+".sha512"] = []byte(strings.Repeat("0", 128)) }, "EVIDENCE_CONFLICT " + kubectl + ".sha512"},
		{"a sidecar in another form", func(s *small) {
			s.have[kubectl+".sha256"] = []byte(digest.SetOf(s.have[kubectl]).SHA256.Hex() + "  " + kubectl + "\n")
		}, ""},
		{"sums that lie", func(s *small) { s.sums[kubectl] = []byte("Kubectl") }, "EVIDENCE_CONFLICT " + kubectl},
		{"provenance that lies", func(s *small) { s.subjects[kubectl] = []byte("Kubectl") }, "EVIDENCE_CONFLICT " + kubectl},
		{"sums changed with the bytes", func(s *small) { s.sums[kubectl], s.have[kubectl] = []byte("Kubectl"), []byte("Kubectl") }, "EVIDENCE_CONFLICT " + kubectl},
		{"sums that omit a file", func(s *small) { delete(s.sums, kubectl) }, "EVIDENCE_CONFLICT " + kubectl},
		{"provenance that omits a file", func(s *small) { delete(s.subjects, client) }, "EVIDENCE_CONFLICT " + client},
		{"a file that only the sums know", func(s *small) {
			s.sums["bin/linux/amd64/kube.docker_tag"] = nil
			s.have["bin/linux/amd64/kube.docker_tag"] = nil
		}, ""},
		{"a stranger's file that the sums name", func(s *small) { s.sums["bin/linux/amd64/x"], s.have["bin/linux/amd64/x"] = nil, nil }, "EVIDENCE_CONFLICT bin/linux/amd64/x"},
		{"nothing is there", func(s *small) { s.have = nil }, "MISSING " + kubectl + " MISSING " + kubelet + " MISSING " + client},
		{"everything changed at once, which nobody sees here", func(s *small) {
			s.sums[kubectl], s.have[kubectl], s.subjects[kubectl] = []byte("K"), []byte("K"), []byte("K")
		}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSmall()
			c.change(s)
			var got []string
			for _, f := range s.compare(t) {
				got = append(got, string(f.Code)+" "+f.Subject)
				if f.Message == "" || f.Fix == "" {
					t.Errorf("%s says nothing", f.Subject)
				}
			}
			if strings.Join(got, " ") != c.want {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

// TestSums reads the sums of before and of today.
func TestSums(t *testing.T) {
	sum := digest.SetOf(nil).SHA256.Hex()
	for _, c := range []struct {
		name, line string
		want       verdict.Code // of the refusal
	}{
		{"relative", sum + "  bin/linux/amd64/kubectl", ""},
		{"binary mode", sum + " *bin/linux/amd64/kubectl\n", ""},
		{"below the build", sum + "  /workspace/src/k8s.io/kubernetes/_output-v1.31.2/gcs-stage/v1.31.2/bin/linux/amd64/kubectl", ""},
		{"below another build", sum + "  /workspace/src/k8s.io/kubernetes/_output-v1.31.1/gcs-stage/v1.31.1/bin/linux/amd64/kubectl", verdict.Version},
		{"absolute elsewhere", sum + "  /etc/passwd", verdict.Version},
		{"out of the release", sum + "  ../kubectl", verdict.Path},
		{"out of it later", sum + "  /w/gcs-stage/v1.31.2/../../kubectl", verdict.Path},
		{"two digests for one name", sum + "  bin/linux/amd64/kubectl\n" + digest.SetOf([]byte("x")).SHA256.Hex() + "  bin/linux/amd64/kubectl", verdict.Conflict},
		{"one name twice", sum + "  bin/linux/amd64/kubectl\n" + sum + "  bin/linux/amd64/kubectl", ""},
		{"upper case", strings.ToUpper(sum) + "  bin/linux/amd64/kubectl", verdict.Conflict},
		{"another algorithm", sum + sum + "  bin/linux/amd64/kubectl", verdict.Conflict},
		{"a page", "<html>", verdict.Conflict},
	} {
		w, err := k8slayout.ParseSums(k8slayout.SHA256Sums, []byte(c.line), at(t, "v1.31.2"))
		expect(t, c.name, err, c.want)
		if err == nil && w.Len() != 1 {
			t.Errorf("%s: %d names", c.name, w.Len())
		}
	}
	empty, err := k8slayout.ParseSums(k8slayout.SHA256Sums, nil, at(t, "v1.31.2"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = k8slayout.Of(empty)
	expect(t, "sums of nothing", err, verdict.EvidenceMissing)
	_, err = k8slayout.Of()
	expect(t, "no witness", err, verdict.EvidenceMissing)
}

// TestProvenance reads whose subjects they are.
func TestProvenance(t *testing.T) {
	for name, want := range map[string]verdict.Code{
		"gs://b/release/v1.31.2/kubernetes.tar.gz":                                "",
		"gs://b/stage/v1.31.1-15+abc/v1.31.2/gcs-stage/v1.31.2/kubernetes.tar.gz": "",
		"gs://b/release/v1.31.1/kubernetes.tar.gz":                                verdict.Version,
		"gs://b/stage/v1.31.1-15+abc/v1.31.1/gcs-stage/v1.31.1/kubernetes.tar.gz": verdict.Version,
		"gs://b/release/v1.31.2/../v1.31.1/kubernetes.tar.gz":                     verdict.Path,
		"gs://b/release/v1.31.2/bin//kubernetes.tar.gz":                           verdict.Path,
		"gs://b/elsewhere/kubernetes.tar.gz":                                      verdict.Path,
		"kubernetes.tar.gz":                                                       verdict.Path,
		"gs://b":                                                                  verdict.Path,
		"gs://b/stage/v1.31.1-15+abc/src.tar.gz":                                  verdict.EvidenceMissing, // says nothing of what is published
		"gs://b/stage/v1.31.1-15+abc/amd64/release-images/amd64/kube-proxy.tar":   verdict.EvidenceMissing,
	} {
		s, err := intoto.New("https://slsa.dev/provenance/v0.2", []intoto.Subject{{Name: name, Digests: digest.SetOf(nil)}}, map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		w, err := k8slayout.ReadProvenance(k8slayout.Provenance, s, at(t, "v1.31.2"))
		if err == nil {
			_, err = k8slayout.Of(w)
		}
		expect(t, name, err, want)
	}
}

// TestSBOM reads what the SBOM of a release describes.
func TestSBOM(t *testing.T) {
	const image, here = "registry.k8s.io/kube-proxy-amd64:v1.31.2", "https://sbom.k8s.io/v1.31.2/release"
	for _, c := range []struct {
		name, file, image, id, at string
		want                      verdict.Code
		images                    int
	}{
		{"a file and an image", "./" + kubectl, image, "Image", here, "", 1},
		{"an image by its identifier", "./" + kubectl, "kube-proxy.tar", "Package-registry.k8s.io-kube-proxy-amd64-v1.31.2", here, "", 1},
		{"an index, which has no platform", "./" + kubectl, "registry.k8s.io/kube-proxy:v1.31.2", "Image", here, "", 0},
		{"a layer", "./" + kubectl, "sha256:0123", "Package-registry.k8s.io-kube-proxy-amd64-v1.31.2-sha256-0123", here, "", 0},
		{"an image of another version", "./" + kubectl, "registry.k8s.io/kube-proxy-amd64:v1.31.1", "Image", here, verdict.Version, 0},
		{"an identifier of another version", "./" + kubectl, "kube-proxy.tar", "Package-registry.k8s.io-kube-proxy-amd64-v1.20.0", here, verdict.Version, 0},
		{"a document of another version", "./" + kubectl, "x", "Image", "https://sbom.k8s.io/v1.20.0/release", verdict.Version, 0},
		{"a document of the source", "./" + kubectl, "x", "Image", "https://sbom.k8s.io/v1.31.2/source", verdict.Version, 0},
		{"a document elsewhere with an image of the version", "./" + kubectl, image, "Image", "https://example.test/release", "", 1},
		{"a document elsewhere that says no version", "./" + kubectl, "x", "Image", "https://example.test/release", verdict.Version, 0},
		{"a file outside", "./bin/../../kubectl", image, "Image", here, verdict.Path, 0},
	} {
		raw, err := spdx.EncodeTagValue(spdx.Draft{
			Name: "release", Namespace: c.at, Created: time.Unix(0, 0), Tool: "test",
			Packages:      []spdx.Package{{ID: "SPDXRef-" + c.id, Name: c.image}},
			Files:         []spdx.File{{ID: "SPDXRef-File", Name: c.file, SHA1: strings.Repeat("0", 40), Digests: digest.SetOf([]byte("x"))}},
			Relationships: []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-File"}, {From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-" + c.id}},
		})
		if err != nil {
			t.Fatal(err)
		}
		doc, err := spdx.ParseTagValue(raw)
		if err != nil {
			t.Fatal(err)
		}
		w, err := k8slayout.ReadSBOM(k8slayout.ReleaseSBOM, doc, at(t, "v1.31.2"))
		expect(t, c.name, err, c.want)
		if err != nil {
			continue
		}
		if set, err := k8slayout.Of(w); err != nil || len(set.Images()) != c.images {
			t.Errorf("%s: images %v, %v", c.name, set.Images(), err)
		}
	}
}

// TestBuilt reads what the SBOM gives for an image and for the files beside it.
// A digest that it does not give is never the right one.
func TestBuilt(t *testing.T) {
	const id = "SPDXRef-Package-registry.k8s.io-kube-proxy-amd64-v1.31.2"
	archive, one, two := digest.SetOf([]byte("archive")), digest.SetOf([]byte("1")), digest.SetOf([]byte("2"))
	layer := func(set digest.Set) spdx.Package {
		return spdx.Package{ID: id + "-sha256-" + set.SHA256.Hex(), Name: set.SHA256.String(), Digests: set}
	}
	program := spdx.Package{ID: id + "-program", Name: "kube-proxy", Digests: archive} // in the image, and no layer of it
	raw, err := spdx.EncodeTagValue(spdx.Draft{
		Name: "release", Namespace: "https://sbom.k8s.io/v1.31.2/release", Created: time.Unix(0, 0), Tool: "test",
		External: []spdx.External{{ID: "DocumentRef-source", Namespace: "https://sbom.k8s.io/v1.31.2/source", SHA256: one.SHA256}},
		Packages: []spdx.Package{{ID: id, Name: "kube-proxy.tar", Digests: archive}, layer(one), layer(two), program},
		Files:    []spdx.File{{ID: "SPDXRef-File", Name: "./" + kubectl, SHA1: strings.Repeat("0", 40), Digests: two}},
		Relationships: []spdx.Relationship{
			{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-File"}, {From: spdx.DocumentID, Type: spdx.Describes, To: id},
			{From: id, Type: spdx.Contains, To: program.ID}, {From: id, Type: spdx.Contains, To: layer(two).ID}, {From: id, Type: spdx.Contains, To: layer(one).ID}, {From: id, Type: spdx.Contains, To: layer(one).ID},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := spdx.ParseTagValue(raw)
	if err != nil {
		t.Fatal(err)
	}
	w, err := k8slayout.ReadSBOM(k8slayout.ReleaseSBOM, doc, at(t, "v1.31.2"))
	if err != nil {
		t.Fatal(err)
	}
	image := k8slayout.Image{Name: "kube-proxy", Platform: "linux/amd64"}
	built := w.Built(image)
	if want := k8slayout.Distinct([]digest.Digest{one.SHA256, two.SHA256}); !built.Archive.Equal(archive) || !slices.Equal(built.Layers, want) || w.Images() != 1 {
		t.Errorf("%+v", built)
	}
	if other := w.Built(k8slayout.Image{Name: "kube-proxy", Platform: "linux/arm64"}); len(other.Layers) > 0 || !other.Archive.IsZero() {
		t.Errorf("another platform: %+v", other)
	}
	mix := 0
	for name, set := range map[string]digest.Set{kubectl: two, image.Archive(): archive, k8slayout.SourceSBOM: one, kubelet: {}, "bin/linux/arm64/kube-proxy.tar": {}, "kube-proxy.tar": {}} {
		if gives, same := w.Gives(name, set); gives != !set.IsZero() || gives && !same {
			t.Errorf("%s: gives %t, the same %t", name, gives, same)
		}
		if gives, same := w.Gives(name, digest.SetOf([]byte("x"))); gives && same {
			t.Errorf("%s: other bytes are the same", name)
		}
		if mixed := (digest.Set{SHA256: set.SHA256, SHA512: digest.SetOf([]byte("x")).SHA512}); !w.Bytes(name).SHA512.IsZero() {
			mix++
			if gives, same := w.Gives(name, mixed); !gives || same {
				t.Errorf("%s: another SHA-512 is the same", name)
			}
		}
		if gives, _ := w.Gives(name, digest.Set{}); gives {
			t.Errorf("%s: nothing was computed, and it gives that", name)
		}
	}
	if mix == 0 {
		t.Error("the witness gives no SHA-512")
	}
	if !w.Tagged("bin/linux/amd64/kube-proxy.docker_tag") || w.Tagged("bin/linux/arm64/kube-proxy.docker_tag") || w.Tagged(image.Archive()) {
		t.Error("another file says the tag")
	}
}

// TestOneDigest: where one digest was computed, what gives the other alone is
// not held against it, and a lie about the one is.
func TestOneDigest(t *testing.T) {
	set512, err := k8slayout.ParseSums(k8slayout.SHA512Sums, []byte(digest.SetOf([]byte("other")).SHA512.Hex()+"  "+kubectl), at(t, "v1.31.2"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := k8slayout.Of(set512)
	if err != nil {
		t.Fatal(err)
	}
	items := []census.Item{{Name: kubectl, Digests: digest.SetOf([]byte("kubectl"))}, {Name: kubectl + ".sha256"}, {Name: kubectl + ".sha512"}}
	if got := set.Compare(items); len(got) != 1 || got[0].Code != verdict.Tampered {
		t.Errorf("both digests: %+v", got)
	}
	items[0].Digests.SHA512 = digest.Digest{}
	if got := set.Compare(items); len(got) != 0 {
		t.Errorf("one digest: %+v", got)
	}
}

// TestRealProvenance reads what Kubernetes published in 2021: of 461 subjects,
// 435 lie in the release, and 26 are image archives and the source.
func TestRealProvenance(t *testing.T) {
	path := filepath.Join("..", "..", "..", "..", "shared", "corpora", "kubernetes", "v1.23.0-alpha.4-provenance.json")
	raw, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the corpora are not here")
	}
	if err != nil {
		t.Fatal(err)
	}
	statement, err := intoto.ParseOpen(raw)
	if err != nil {
		t.Fatal(err)
	}
	w, err := k8slayout.ReadProvenance(k8slayout.Provenance, statement, at(t, "v1.23.0-alpha.4"))
	if err != nil {
		t.Fatal(err)
	}
	if n := len(statement.Subjects()); n != 461 || w.Len() != 435 {
		t.Errorf("%d subjects, of which %d lie in the release", n, w.Len())
	}
	set, err := k8slayout.Of(w)
	if err != nil || set.Independent() {
		t.Fatal(err, "provenance alone is not independent of the build")
	}
	items, owner, shared := realPlace(statement)
	if findings := set.Compare(items); len(findings) != 0 {
		t.Fatalf("the release as it was: %d findings, first %+v", len(findings), findings[0])
	}
	// 77 names share bytes with another name: where two names have the same
	// bytes nothing can be swapped, and where they do not, it is seen.
	if shared != 77 {
		t.Errorf("%d names share bytes with another", shared)
	}
	a, b := owner["bin/linux/amd64/kubectl"], owner["bin/linux/arm64/kubectl"]
	items[a].Digests, items[b].Digests = items[b].Digests, items[a].Digests
	findings := set.Compare(items)
	if len(findings) != 2 || findings[0].Code != verdict.NameSwap || findings[1].Code != verdict.NameSwap {
		t.Errorf("two architectures swapped: %+v", findings)
	}
	_, err = k8slayout.ReadProvenance(k8slayout.Provenance, statement, at(t, "v1.23.0-alpha.3"))
	expect(t, "the provenance of another version", err, verdict.Version)
	kinds := map[plan.Class]int{}
	for _, name := range set.Names() {
		kinds[k8slayout.KindOf(name).Class]++
	}
	if kinds[plan.Sums] != 2 || kinds[plan.Archive] != 33 || kinds[plan.Other] != 22 || kinds[plan.Binary] != 68 {
		t.Errorf("kinds: %v", kinds)
	}
}

// realPlace is a place that holds exactly the subjects, where each name stands
// in it, and how many subjects have bytes that another name has.
func realPlace(s intoto.Statement) (items []census.Item, at map[string]int, shared int) {
	at, seen := map[string]int{}, map[digest.Digest]bool{}
	for _, subject := range s.Subjects() {
		if seen[subject.Digests.SHA256] {
			shared++
		}
		seen[subject.Digests.SHA256] = true
		if _, name, ok := strings.Cut(subject.Name, "/gcs-stage/v1.23.0-alpha.4/"); ok {
			at[name] = len(items)
			items = append(items, census.Item{Name: name, Digests: subject.Digests})
		}
	}
	return items, at, shared
}

func expect(t *testing.T, name string, err error, want verdict.Code) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("%s: %v", name, err)
	case want != "" && err == nil:
		t.Errorf("%s: accepted, want %s", name, want)
	case want != "" && verdict.FindingOf("", err).Code != want:
		t.Errorf("%s: %v, want %s", name, err, want)
	}
}
