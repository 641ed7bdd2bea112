package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab/bucket"
	labregistry "github.com/waybill-release/waybill/test/lab/registry"
	"github.com/waybill-release/waybill/test/scene"
)

// staged is an image as it is staged: all that must be there once its tag is.
type staged struct {
	name      string
	digest    digest.Digest
	manifests []digest.Digest                   // of the image, and all that refers to it
	blobs     []digest.Digest                   // of all of these
	refer     map[digest.Digest][]digest.Digest // by the manifest that they are about
}

// read remembers what is staged.
func (m *Made) read(ctx context.Context) error {
	at := filepath.Join(m.Staged, "files")
	err := fs.WalkDir(os.DirFS(at), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		m.files[name], err = os.ReadFile(filepath.Join(at, name))
		return err
	})
	if err != nil {
		return err
	}
	from, err := registry.OpenRemote(m.Lab.Registry+"/staging/lantern", http.DefaultTransport)
	if err != nil {
		return err
	}
	image, err := readStaged(ctx, from, "lantern")
	if err != nil {
		return err
	}
	m.images = append(m.images, image)
	for service, url := range map[string]string{
		"bucket": m.Lab.Bucket, "registry": m.Lab.Registry, "fulcio": m.Lab.Fulcio, "tsa": m.Lab.TSA, "rekor": m.Lab.Rekor,
		"release bucket": destBucket, "release registry": destRegistry,
	} {
		host, _, _ := strings.Cut(strings.TrimPrefix(url, "http://"), "/")
		m.names[host] = service
	}
	for i, list := range [][]digest.Digest{image.manifests, image.blobs} {
		for k, d := range list { // the order is that of the image, and of what refers to it
			m.names[d.Hex()] = fmt.Sprintf("%s-%d-%d", image.name, i, k)
		}
	}
	return nil
}

func readStaged(ctx context.Context, from *registry.Remote, name string) (s staged, err error) {
	root, err := from.Resolve(ctx, name, scene.Version)
	if err != nil {
		return s, err
	}
	s = staged{name: name, digest: root.Digest, refer: map[digest.Digest][]digest.Digest{}}
	add := func(d registry.Descriptor) (*registry.Node, error) {
		node, err := registry.Graph(ctx, from, name, d)
		if err != nil {
			return nil, err
		}
		return node, node.Walk(func(n *registry.Node) error {
			s.manifests = append(s.manifests, n.Descriptor.Digest)
			for _, b := range n.Blobs() {
				s.blobs = append(s.blobs, b.Digest)
			}
			return nil
		})
	}
	image, err := add(root)
	if err != nil {
		return s, err
	}
	return s, image.Walk(func(n *registry.Node) error {
		list, err := from.Referrers(ctx, name, n.Descriptor.Digest)
		if err != nil {
			return err
		}
		for _, d := range list {
			s.refer[n.Descriptor.Digest] = append(s.refer[n.Descriptor.Digest], d.Digest)
			if _, err := add(d); err != nil {
				return err
			}
		}
		return nil
	})
}

// enter gives a world the services of the lab, and empty places.
func (m *Made) enter(w *World) error {
	m.Lab.Shrink(m.logged)
	for host, h := range m.Lab.Handlers() {
		w.Hosts[host] = h
	}
	b, err := bucket.New(filepath.Join(w.dir, "bucket"))
	if err != nil {
		return err
	}
	r, err := labregistry.New(filepath.Join(w.dir, "registry"))
	if err != nil {
		return err
	}
	w.Hosts[destBucket], w.Hosts[destRegistry], w.Names = b, r, m.names
	return errors.Join(b.Make("release"), b.Make("staging"), b.Make("leases"), b.Make("results"))
}

// look reads from a host past the network; nil if it is not there.
func (w *World) look(host, path string) []byte {
	if rec := w.ask(http.MethodGet, host, path, ""); rec.Code == http.StatusOK {
		return rec.Body.Bytes()
	}
	return nil
}

// file is a file of the release in a bucket; nil if it is not there.
func (w *World) file(bucket, name string) []byte {
	return w.look(destBucket, "/"+bucket+"/lantern/"+scene.Version+"/"+name)
}

// sound checks what users see of the release: each file is the staged one, an image has
// all that belongs to it once its tag is there, and so has the release once its manifest
// is.
func (m *Made) sound(w *World, bucket string) error {
	for _, image := range m.images {
		if err := image.sound(w, destRegistry, bucket+"/lantern/"+image.name); err != nil {
			return err
		}
	}
	whole := w.file(bucket, releasemanifest.Name) != nil
	for name, want := range m.files {
		got := w.file(bucket, name)
		if got != nil && !bytes.Equal(got, want) {
			return fmt.Errorf("%s has other bytes than were staged", name)
		}
		if whole && got == nil {
			return fmt.Errorf("the manifest is there, and %s is not", name)
		}
	}
	if whole && !m.images[0].tagged(w, destRegistry, bucket+"/lantern/lantern") {
		return errors.New("the manifest is there, and the tag of the image is not")
	}
	return nil
}

func (s staged) tagged(w *World, host, repository string) bool {
	return w.look(host, "/v2/"+repository+"/manifests/"+scene.Version) != nil
}

// sound checks an image whose tag is there.
func (s staged) sound(w *World, host, repository string) error {
	at := "/v2/" + repository
	raw := w.look(host, at+"/manifests/"+scene.Version)
	if raw == nil {
		return nil
	}
	if got := digest.Of(digest.SHA256, raw); !got.Equal(s.digest) {
		return fmt.Errorf("the tag of %s names %s, want %s", repository, got, s.digest)
	}
	if w.whole[at] {
		return nil
	}
	for _, d := range s.manifests {
		if w.look(host, at+"/manifests/"+d.String()) == nil {
			return fmt.Errorf("the tag of %s is there, and its manifest %s is not", repository, d)
		}
	}
	for _, d := range s.blobs {
		if raw := w.look(host, at+"/blobs/"+d.String()); !digest.Of(digest.SHA256, raw).Equal(d) {
			return fmt.Errorf("the tag of %s is there, and its blob %s is not", repository, d)
		}
	}
	for of, list := range s.refer {
		there := w.look(host, at+"/referrers/"+of.String())
		for _, d := range list {
			if !bytes.Contains(there, []byte(d.String())) {
				return fmt.Errorf("the tag of %s is there, and %s does not refer to %s", repository, d, of)
			}
		}
	}
	w.whole[at] = true
	return nil
}
