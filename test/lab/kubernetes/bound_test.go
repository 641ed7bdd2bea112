package kubernetes_test

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

const kubeadm, proxyTar, tagOf = "bin/linux/amd64/kubeadm", "bin/linux/amd64/kube-proxy.tar", "bin/linux/amd64/kube-proxy.docker_tag"

// older is a release of before, genuine in every part, that the same accounts
// signed.
var older = sync.OnceValues(func() (*kubernetes.Release, error) {
	v, err := version.Parse("v1.20.0")
	if err != nil {
		return nil, err
	}
	r := kubernetes.Make(v)
	for _, name := range []string{kubectl, proxyTar, k8slayout.ReleaseSBOM, k8slayout.SourceSBOM, "kubernetes-src.tar.gz"} {
		if err := r.SignFile(opened.world.signer, kubernetes.Staging, name); err != nil {
			return nil, err
		}
	}
	for _, i := range r.Images {
		if err := i.Resign(opened.world.signer, kubernetes.Trust); err != nil {
			return nil, err
		}
	}
	return r, nil
})

// take puts a genuine file of the release of before in the place of this one's,
// with its signature, and has everything that nobody signed agree.
func take(t testing.TB, q *question, names ...string) {
	t.Helper()
	old, err := older()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		for _, suffix := range []string{"", ".sig", ".cert"} {
			q.release.Files[name+suffix] = old.Files[name+suffix]
		}
	}
	agree(q)
}

// agree has every document that nobody signed say what lies in the place.
func agree(q *question) {
	sboms := map[string][]byte{k8slayout.ReleaseSBOM: q.release.Files[k8slayout.ReleaseSBOM], k8slayout.SourceSBOM: q.release.Files[k8slayout.SourceSBOM]}
	q.release.Document()
	maps.Copy(q.release.Files, sboms)
	q.release.Sums()
	q.release.Sidecars()
}

// TestTodayBound: a signature covers bytes, under any name and of any version.
// Only what the signed SBOM binds to its name and this version is accepted.
// Every row but the first of its kind differs from the release as it was made
// in one fact.
func TestTodayBound(t *testing.T) {
	w := theWorld(t)
	tagged := func(t *testing.T, q *question) {
		old, err := older()
		if err != nil {
			t.Fatal(err)
		}
		q.images = retagged(t, q, old)
	}
	for _, c := range []struct {
		name   string
		change func(t *testing.T, q *question)
		want   string
	}{
		{"as it was made", func(*testing.T, *question) {}, ""},
		{"a genuine archive of an image of another version", func(t *testing.T, q *question) { take(t, q, proxyTar) }, "TAMPERED " + proxyTar},
		{"a genuine program of another version", func(t *testing.T, q *question) { take(t, q, kubectl) }, "EVIDENCE_CONFLICT " + kubectl},
		{"the genuine SBOM of another version", func(t *testing.T, q *question) { take(t, q, k8slayout.ReleaseSBOM) }, "VERSION kubernetes-release.spdx"},
		{"the genuine SBOM of the source of another version", func(t *testing.T, q *question) { take(t, q, k8slayout.SourceSBOM) }, "TAMPERED kubernetes-source.spdx"},
		{"the whole of another version, its SBOM too", func(t *testing.T, q *question) {
			old, err := older()
			if err != nil {
				t.Fatal(err)
			}
			q.release.Files = maps.Clone(old.Files)
		}, "VERSION kubernetes-release.spdx"},
		{"the SBOM is gone", func(_ *testing.T, q *question) { delete(q.release.Files, k8slayout.ReleaseSBOM) }, "MISSING kubernetes-release.spdx"},
		{"the SBOM is unsigned", func(_ *testing.T, q *question) { delete(q.release.Files, k8slayout.ReleaseSBOM+".sig") }, "UNSIGNED kubernetes-release.spdx"},
		{"the SBOM is a stranger's", func(t *testing.T, q *question) { resign(t, q, "stranger@example.test") }, "IDENTITY kubernetes-release.spdx"},
		{"the SBOM is of the account for images", func(t *testing.T, q *question) { resign(t, q, kubernetes.Trust) }, "IDENTITY_ROLE kubernetes-release.spdx"},
		{"a signed file that the SBOM leaves out", func(_ *testing.T, q *question) {
			q.release.Archiveless = true
			redocument(q)
		}, "20 VERSION_UNBOUND"},
		{"the SBOM gives no layers, and the archives", func(_ *testing.T, q *question) {
			q.release.Layerless = true
			redocument(q)
		}, "4 VERSION_UNBOUND"},
		{"the SBOM gives neither layers nor archives", func(_ *testing.T, q *question) {
			q.release.Layerless, q.release.Archiveless = true, true
			redocument(q)
			q.Options.Scope.Only = policy.Images
		}, "24 VERSION_UNBOUND"},
		{"the SBOM names no image, and nobody asks about one", func(_ *testing.T, q *question) {
			images := q.release.Images
			q.release.Images, q.release.Layerless = nil, false
			redocument(q)
			q.release.Images, q.Options.Scope.Only = images, policy.Files
			maps.DeleteFunc(q.release.Files, func(name string, _ []byte) bool {
				return strings.HasPrefix(name, "bin/") && (strings.Contains(name, ".tar") || strings.Contains(name, k8slayout.TagSuffix))
			})
			q.release.Sums()
			q.release.Sidecars()
			q.List = k8slayout.List{}
		}, ""},
		{"the SBOM names no image", func(_ *testing.T, q *question) {
			images := q.release.Images
			q.release.Images = nil
			redocument(q)
			q.release.Images, q.Options.Scope.Only = images, policy.Images
		}, "EVIDENCE_MISSING kubernetes-release.spdx"},
		{"all images of another version, by layers", tagged, "24 VERSION"},
		{"all images of another version, by archives", func(t *testing.T, q *question) {
			q.release.Layerless = true
			redocument(q)
			tagged(t, q)
			q.Options.Scope.Only = policy.Images
		}, "20 VERSION, 4 VERSION_UNBOUND"},
		{"all images of another version, and no archive here", func(t *testing.T, q *question) {
			tagged(t, q)
			q.Options.Scope.Only = policy.Images
			maps.DeleteFunc(q.release.Files, func(name string, _ []byte) bool { return strings.HasSuffix(name, ".tar") })
		}, "24 VERSION"},
		{"the SBOM refers to that of the source by SHA-1, as bom has it", func(_ *testing.T, q *question) { bySHA1(q) }, ""},
		{"the same, and that of the source is of another version", func(t *testing.T, q *question) {
			bySHA1(q)
			take(t, q, k8slayout.SourceSBOM)
		}, "VERSION kubernetes-source.spdx"},
		{"an unsigned tag that says something else", func(_ *testing.T, q *question) {
			q.release.Files[tagOf] = []byte("v1.20.0")
			agree(q)
		}, "TAMPERED " + tagOf},
		{"an unsigned tag that ends with its line", func(_ *testing.T, q *question) {
			q.release.Files[tagOf] = []byte("v1.31.2\n")
			agree(q)
		}, ""},
		{"an unsigned file that calls itself the tag of an image", func(_ *testing.T, q *question) {
			q.release.Files["bin/linux/amd64/more.docker_tag"] = []byte("v1.31.2")
			agree(q)
		}, "VERSION_UNBOUND bin/linux/amd64/more.docker_tag"},
		{"a platform that unsigned documents alone name", func(_ *testing.T, q *question) {
			q.release.Files["bin/linux/riscv64/kube-proxy.docker_tag"] = []byte("v1.31.2")
			agree(q)
			q.Options.Scope.Platform = "linux/riscv64"
		}, "USAGE --platform"},
		{"a platform that no image is of, and images alone are asked", func(_ *testing.T, q *question) {
			q.Options.Scope.Platform, q.Options.Scope.Only = "windows/amd64", policy.Images
		}, "USAGE --platform"},
		{"a platform that no image is of, and files alone are asked", func(_ *testing.T, q *question) {
			q.Options.Scope.Platform, q.Options.Scope.Only = "windows/amd64", policy.Files
		}, ""},
		{"a file without an end that the SBOM gives no bytes for", func(_ *testing.T, q *question) {
			q.release.Files["bin/linux/amd64/more.docker_tag"] = make([]byte, 65<<20)
			agree(q)
		}, "TAMPERED bin/linux/amd64/more.docker_tag"},
		{"one platform of another version", func(t *testing.T, q *question) {
			old, err := older()
			if err != nil {
				t.Fatal(err)
			}
			i := q.release.Images[3]
			i.Platforms["linux/arm64"] = old.Images[3].Platforms["linux/arm64"]
			i.Reindex()
			if err := i.Resign(q.w.signer, kubernetes.Trust); err != nil {
				t.Fatal(err)
			}
		}, "VERSION oci/kube-proxy/linux/arm64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := w.ask(t, func(q *question) { c.change(t, q) })
			got := said(v)
			if len(v.Findings) > 2 {
				got = counted(v)
			}
			if got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if (v.Outcome() == verdict.Accepted) != (c.want == "") || v.Outcome() == verdict.Accepted && len(v.Proofs) == 0 {
				t.Errorf("%s with %d proofs", v.Outcome(), len(v.Proofs))
			}
		})
	}
}

// counted are the codes of the findings, each with how often it was found.
func counted(v *verdict.Verdict) string {
	by := map[verdict.Code]int{}
	for _, f := range v.Findings {
		by[f.Code]++
	}
	var words []string
	for code, n := range by {
		words = append(words, fmt.Sprintf("%d %s", n, code))
	}
	slices.SortFunc(words, func(a, b string) int { return len(a) - len(b) })
	return strings.Join(words, ", ")
}

// codes are those of the findings, sorted.
func codes(v *verdict.Verdict) string {
	var all []string
	for _, f := range v.Findings {
		all = append(all, string(f.Code))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// redocument writes the SBOM anew, signed as it should be, and all that follows.
func redocument(q *question) {
	images := map[string][]byte{}
	for name, body := range q.release.Files {
		if strings.HasSuffix(name, ".tar") {
			images[name] = body
		}
	}
	q.release.Document()
	maps.Copy(q.release.Files, images)
	sign(q, k8slayout.ReleaseSBOM, k8slayout.SourceSBOM)
}

// bySHA1 has the SBOM refer to that of the source by a digest that proves
// nothing.
func bySHA1(q *question) {
	sbom := string(q.release.Files[k8slayout.ReleaseSBOM])
	if !reference.MatchString(sbom) {
		panic("no reference in the SBOM")
	}
	q.release.Files[k8slayout.ReleaseSBOM] = []byte(reference.ReplaceAllString(sbom, "${1}SHA1: "+strings.Repeat("0", 40)))
	agree(q)
	sign(q, k8slayout.ReleaseSBOM)
}

var reference = regexp.MustCompile(`(ExternalDocumentRef: .*)SHA256: ?[0-9a-f]{64}`)

func resign(t testing.TB, q *question, account string) {
	t.Helper()
	if err := q.release.SignFile(q.w.signer, account, k8slayout.ReleaseSBOM); err != nil {
		t.Fatal(err)
	}
}

// retagged is a registry in which the images of another release, with their
// signatures, stand under the tags of this one.
func retagged(t testing.TB, q *question, other *kubernetes.Release) registry.Source {
	t.Helper()
	m := push(t, other)
	for _, i := range other.Images {
		tags := map[string]*kubernetes.Manifest{i.Name: i.Index}
		for platform, one := range i.Platforms {
			tags[k8slayout.Image{Name: i.Name, Platform: platform}.Alone()] = one
		}
		for repository, of := range tags {
			if err := m.Tag(t.Context(), repository, q.release.Version.String(), of.Descriptor); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

// TestTodayGivenBound asks about one file at hand, held against a mirror that
// has what an attacker needs: the signature beside the name, and documents that
// nobody signed and that agree.
func TestTodayGivenBound(t *testing.T) {
	w := theWorld(t)
	old := func() *kubernetes.Release {
		r, err := older()
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	none := func(*question) {}
	bare := func(q *question) { // the least with which such a file was once accepted
		for name := range q.release.Files {
			if name != k8slayout.SHA256Sums && !strings.HasPrefix(name, kubectl+".") {
				delete(q.release.Files, name)
			}
		}
	}
	for _, c := range []struct {
		name, as string
		body     []byte
		mirror   func(*question)
		want     verdict.Code
	}{
		{"the file", "kubectl", w.release.Files[kubectl], none, ""},
		{"the file under its path", kubectl, w.release.Files[kubectl], none, ""},
		{"the SBOM", k8slayout.ReleaseSBOM, w.release.Files[k8slayout.ReleaseSBOM], none, ""},
		{"the archive of an image", "kube-proxy.tar", w.release.Files[proxyTar], none, ""},
		{"the file, and the mirror has what is signed alone", "kubectl", w.release.Files[kubectl], func(q *question) {
			maps.DeleteFunc(q.release.Files, func(name string, _ []byte) bool {
				return !strings.HasPrefix(name, kubectl+".") && !strings.HasPrefix(name, k8slayout.ReleaseSBOM)
			})
		}, ""},
		{"the file, and the mirror has no SBOM", "kubectl", w.release.Files[kubectl], bare, verdict.Missing},
		{"a genuine file of another version", "kubectl", old().Files[kubectl], func(q *question) { take(t, q, kubectl) }, verdict.Tampered},
		{"a genuine file of another version, and no SBOM", "kubectl", old().Files[kubectl], func(q *question) { take(t, q, kubectl); bare(q) }, verdict.Missing},
		{"a genuine file of another version, and an SBOM that was rewritten", "kubectl", old().Files[kubectl], func(q *question) {
			take(t, q, kubectl)
			q.release.Document()
		}, verdict.SignatureBad},
		{"a genuine file of another version, and the SBOM of that one", "kubectl", old().Files[kubectl], func(q *question) { take(t, q, kubectl, k8slayout.ReleaseSBOM) }, verdict.Version},
		{"a program as another", "kubeadm", w.release.Files[kubectl], func(q *question) {
			for _, suffix := range []string{"", ".sig", ".cert"} {
				q.release.Files[kubeadm+suffix] = q.release.Files[kubectl+suffix]
			}
			agree(q)
		}, verdict.NameSwap},
		{"another program for another platform", "kubectl", w.release.Files[kubelet], func(q *question) {
			for _, suffix := range []string{"", ".sig", ".cert"} {
				q.release.Files[kubectl+suffix] = q.release.Files[kubelet+suffix]
			}
			agree(q)
		}, verdict.NameSwap},
		{"the program for another platform under this one's path", kubectl, w.release.Files["bin/linux/arm64/kubectl"], none, verdict.NameSwap},
		{"the program for another platform", "kubectl", w.release.Files["bin/linux/arm64/kubectl"], func(q *question) { q.Options.Scope.Platform = "linux/amd64" }, verdict.Platform},
		{"a file that the SBOM leaves out", "kube-proxy.tar", w.release.Files[proxyTar], func(q *question) {
			q.release.Archiveless = true
			redocument(q)
		}, verdict.VersionUnbound},
		{"a file that nobody signs", "kube-proxy.docker_tag", w.release.Files["bin/linux/amd64/kube-proxy.docker_tag"], none, verdict.Unsigned},
		{"a stranger's file", "kubectl2", []byte("x"), none, verdict.Extra},
		{"a file, where images alone are asked", "kubectl", w.release.Files[kubectl], func(q *question) { q.Options.Scope.Only = policy.Images }, verdict.Usage},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), filepath.FromSlash(c.as))
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, bytes.Clone(c.body), 0o600); err != nil {
				t.Fatal(err)
			}
			v := w.ask(t, func(q *question) {
				q.Options.Scope.Given = []string{path}
				c.mirror(q)
			})
			if got := codes(v); got != string(c.want) {
				t.Errorf("%s, want %s: %s", got, c.want, said(v))
			}
			told := slices.ContainsFunc(v.Sentences, func(s string) bool { return strings.Contains(s, " is ") && !strings.Contains(s, "INSECURE LAB") })
			if (v.Outcome() == verdict.Accepted) != (c.want == "") || told != (c.want == "") {
				t.Errorf("%s, and it is said what the file is: %t", v.Outcome(), told)
			}
		})
	}
}

// TestTodayNoSuchVersion: of a version that there is not nothing is accepted,
// whatever part of it is asked about.
func TestTodayNoSuchVersion(t *testing.T) {
	w := theWorld(t)
	n := 0
	for _, only := range []string{"", policy.Files, policy.Images} {
		for _, platform := range []string{"", "linux/amd64", "darwin/arm64", "linux/riscv64"} {
			for what, change := range map[string]func(*question){
				"nothing there":                     func(q *question) { q.release.Files = map[string][]byte{}; q.release.Images = nil },
				"the files of a genuine release":    func(*question) {},
				"a genuine release, with no images": func(q *question) { q.release.Images = nil },
			} {
				n++
				v := w.ask(t, func(q *question) {
					q.Options.Scope.Only, q.Options.Scope.Platform = only, platform
					v, err := version.Parse("v1.99.0")
					if err != nil {
						t.Fatal(err)
					}
					q.Version, q.List = v, k8slayout.List{}
					change(q)
				})
				if v.Outcome() == verdict.Accepted || v.Counts.Verified > 1 {
					t.Errorf("%s, only %q, platform %q: %s, %s: %s", what, only, platform, v.Outcome(), v.Counts, said(v))
				}
			}
		}
	}
	t.Logf("%d questions", n)
}
