package kubernetes_test

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

// TestTodayImages changes one fact of the images a row.
func TestTodayImages(t *testing.T) {
	w := theWorld(t)
	const proxy = 3
	for _, c := range []struct {
		name   string
		change func(q *question, i *kubernetes.Image) error
		want   string
	}{
		{"as they were made", func(*question, *kubernetes.Image) error { return nil }, ""},
		{"an image is gone", func(q *question, _ *kubernetes.Image) error {
			q.release.Images = slices.Delete(q.release.Images, proxy, proxy+1)
			return nil
		}, "MISSING oci/kube-proxy, MISSING oci/kube-proxy-amd64, MISSING oci/kube-proxy-arm64, MISSING oci/kube-proxy-ppc64le, MISSING oci/kube-proxy-s390x"},
		{"a platform is gone", func(q *question, i *kubernetes.Image) error {
			delete(i.Platforms, "linux/s390x")
			i.Reindex()
			return i.Resign(q.w.signer, kubernetes.Trust)
		}, "MISSING oci/kube-proxy-s390x, PLATFORM oci/kube-proxy"},
		{"a platform too much", func(q *question, i *kubernetes.Image) error {
			i.Platforms["linux/riscv64"] = i.Platforms["linux/amd64"]
			i.Reindex()
			return i.Resign(q.w.signer, kubernetes.Trust)
		}, "PLATFORM oci/kube-proxy"},
		{"the image moved to a genuine one of another name", func(q *question, i *kubernetes.Image) error {
			i.Index = q.release.Images[proxy+1].Index
			i.Platforms = q.release.Images[proxy+1].Platforms
			return nil
		}, all("UNSIGNED")},
		{"genuine signatures under another name", func(q *question, i *kubernetes.Image) error {
			return otherName(q, i, q.release.Images[proxy+1])
		}, all("NOT_BOUND")},
		{"the tag of one platform moved", func(q *question, _ *kubernetes.Image) error {
			other := q.release.Images[proxy+1].Platforms["linux/amd64"]
			q.images = moved(t, q, "kube-proxy-amd64", other)
			return nil
		}, "TAG_MOVED oci/kube-proxy-amd64"},
		{"nobody signed the index", func(_ *question, i *kubernetes.Image) error {
			i.Index.Signatures = nil
			return nil
		}, "UNSIGNED oci/kube-proxy"},
		{"nobody signed one platform", func(_ *question, i *kubernetes.Image) error {
			delete(i.Platforms["linux/arm64"].Signatures, "kube-proxy")
			return nil
		}, "UNSIGNED oci/kube-proxy/linux/arm64"},
		{"nobody signed one platform by itself", func(_ *question, i *kubernetes.Image) error {
			delete(i.Platforms["linux/arm64"].Signatures, "kube-proxy-arm64")
			return nil
		}, "UNSIGNED oci/kube-proxy-arm64"},
		{"the staging account alone", func(q *question, i *kubernetes.Image) error { return i.Resign(q.w.signer, kubernetes.Staging) }, all("IDENTITY_ROLE")},
		{"the account of the promoter alone", func(q *question, i *kubernetes.Image) error { return i.Resign(q.w.signer, kubernetes.Promoter) }, all("IDENTITY")},
		{"a stranger beside the right account", func(q *question, i *kubernetes.Image) error {
			return i.Resign(q.w.signer, "stranger@example.test", kubernetes.Trust)
		}, ""},
		{"no registry answers", func(q *question, _ *kubernetes.Image) error {
			r, err := registry.OpenRemote("127.0.0.1:1", http.DefaultTransport)
			q.images = r
			return err
		}, "down"},
	} {
		t.Run(c.name, func(t *testing.T) {
			v := w.ask(t, func(q *question) {
				if err := c.change(q, q.release.Images[proxy]); err != nil {
					t.Fatal(err)
				}
			})
			if c.want == "down" {
				if v.Outcome() != verdict.Unavailable {
					t.Errorf("%s: %s", v.Outcome(), said(v))
				}
				return
			}
			if got := said(v); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
			if (v.Outcome() == verdict.Accepted) != (c.want == "") {
				t.Errorf("%s", v.Outcome())
			}
		})
	}
}

// all are the findings of one code about every manifest of kube-proxy.
func all(code string) string {
	var list []string
	for _, name := range []string{
		"kube-proxy", "kube-proxy-amd64", "kube-proxy-arm64", "kube-proxy-ppc64le", "kube-proxy-s390x",
		"kube-proxy/linux/amd64", "kube-proxy/linux/arm64", "kube-proxy/linux/ppc64le", "kube-proxy/linux/s390x",
	} {
		list = append(list, code+" oci/"+name)
	}
	return strings.Join(list, ", ")
}

// otherName publishes the index of another image, with its signature, under
// the name of this one.
func otherName(_ *question, i, other *kubernetes.Image) error {
	i.Platforms, i.Index = other.Platforms, other.Index
	for _, m := range append(platformsOf(i), i.Index) {
		for repository, list := range m.Signatures {
			m.Signatures[strings.Replace(repository, other.Name, i.Name, 1)] = list
		}
	}
	return nil
}

func platformsOf(i *kubernetes.Image) (list []*kubernetes.Manifest) {
	for _, m := range i.Platforms {
		list = append(list, m)
	}
	return list
}

// moved is the registry of the release with one tag that names something else.
func moved(t testing.TB, q *question, repository string, to *kubernetes.Manifest) registry.Source {
	m := push(t, q.release)
	if err := m.Tag(t.Context(), repository, q.release.Version.String(), to.Descriptor); err != nil {
		t.Fatal(err)
	}
	return m
}

// layersRead is a registry that counts how often a layer was asked for.
type layersRead struct {
	*kubernetes.Memory
	layers map[digest.Digest]bool
	mu     sync.Mutex // owns n
	n      int
}

func (l *layersRead) Fetch(ctx context.Context, repository string, d registry.Descriptor) (io.ReadCloser, error) {
	l.mu.Lock()
	if l.layers[d.Digest] {
		l.n++
	}
	l.mu.Unlock()
	return l.Memory.Fetch(ctx, repository, d)
}

// TestTodayLayersLast: how large layers are says a manifest, so none is read
// before it is signed and what the SBOM describes.
func TestTodayLayersLast(t *testing.T) {
	w := theWorld(t)
	for name, c := range map[string]struct {
		change func(*question)
		reads  bool
		want   verdict.Outcome
	}{
		"signed": {func(*question) {}, true, verdict.Accepted},
		"unsigned": {func(q *question) {
			for _, i := range q.release.Images {
				for _, m := range append(platformsOf(i), i.Index) {
					m.Signatures = nil
				}
			}
		}, false, verdict.Refused},
		"signed, and the SBOM is unsigned": {func(q *question) { delete(q.release.Files, k8slayout.ReleaseSBOM+".sig") }, false, verdict.Refused},
	} {
		t.Run(name, func(t *testing.T) {
			read := &layersRead{layers: map[digest.Digest]bool{}}
			v := w.ask(t, func(q *question) {
				q.Options.Scope.Only = policy.Images
				c.change(q)
				read.Memory = push(t, q.release)
				for _, i := range q.release.Images {
					for _, m := range i.Platforms {
						read.layers[digest.Of(digest.SHA256, m.Blobs[1])] = true
					}
				}
				q.images = read
			})
			if v.Outcome() != c.want || (read.n > 0) != c.reads {
				t.Errorf("%s, %d layers read: %s", v.Outcome(), read.n, said(v))
			}
		})
	}
}
