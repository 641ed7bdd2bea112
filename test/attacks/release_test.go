package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
)

// Names of the small project's release.
const (
	binary      = "bin/linux/amd64/lantern"
	otherBinary = "bin/linux/arm64/lantern"
	compiled    = "provenance/compile-linux-amd64.sigstore.json"
	alsoBuilt   = "provenance/compile-linux-arm64.sigstore.json"
	imageName   = "oci/lantern"
	repository  = "lantern"
)

// attacked is a sealed release that somebody has got hold of: the workspace's
// files and its images, as they would be published.
type attacked struct {
	*world
	dir    string
	images *registry.Layout
	flags  []string // with which every command is asked
	moved  string   // the version that it is offered as; empty for its own
}

func (w *world) attacked(t testing.TB) *attacked {
	t.Helper()
	dir := w.copyOf(t)
	return &attacked{world: w, dir: dir, images: must[*registry.Layout](t)(registry.OpenLayout(filepath.Join(dir, "images")))}
}

func (r *attacked) path(name string) string {
	return filepath.Join(r.dir, "files", filepath.FromSlash(name))
}

func (r *attacked) read(t testing.TB, name string) []byte {
	t.Helper()
	return must[[]byte](t)(os.ReadFile(r.path(name)))
}

func (r *attacked) write(t testing.TB, name string, body []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(r.path(name), body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (r *attacked) remove(t testing.TB, name string) {
	t.Helper()
	if err := os.Remove(r.path(name)); err != nil {
		t.Fatal(err)
	}
}

// flip changes one bit of a file.
func (r *attacked) flip(t testing.TB, name string) {
	t.Helper()
	body := r.read(t, name)
	body[len(body)/2] ^= 1
	r.write(t, name, body)
}

func (r *attacked) swap(t testing.TB, a, b string) {
	t.Helper()
	was := r.read(t, a)
	r.write(t, a, r.read(t, b))
	r.write(t, b, was)
}

// statement is what a bundle among the files says.
func (r *attacked) statement(t testing.TB, name string) intoto.Statement {
	t.Helper()
	return must[verify.Evidence](t)(r.verifier.Attestation(r.read(t, name))).Statement()
}

// sign has a role sign a statement over again.
func (r *attacked) sign(t testing.TB, role string, payload []byte) []byte {
	t.Helper()
	return must[[]byte](t)(r.Sign(t.Context(), role, payload))
}

// reattest has a role sign edited provenance in place of the genuine one.
func (r *attacked) reattest(t testing.TB, role, name string, edit func(*provenance.Provenance)) {
	t.Helper()
	said := must[provenance.Provenance](t)(provenance.Parse(r.statement(t, name)))
	edit(&said)
	st := must[intoto.Statement](t)(provenance.Encode(said.Subjects, said.Predicate))
	r.write(t, name, r.sign(t, role, st.Raw()))
}

func (r *attacked) manifest(t testing.TB) manifest.Manifest {
	t.Helper()
	return must[manifest.Manifest](t)(manifest.ReadManifest(r.statement(t, releasemanifest.Name), func(name string) ([]byte, error) {
		return r.read(t, name), nil
	}))
}

// reseal has the release role sign an edited manifest.
func (r *attacked) reseal(t testing.TB, edit func(*manifest.Manifest)) {
	t.Helper()
	m := r.manifest(t)
	m.Artifacts = slices.Clone(m.Artifacts)
	edit(&m)
	st := must[intoto.Statement](t)(m.Statement())
	r.write(t, releasemanifest.Name, r.sign(t, lab.RoleRelease, st.Raw()))
}

// resealJSON does so with the bare statement, in words that the product's own
// types do not have.
func (r *attacked) resealJSON(t testing.TB, edit func(predicate map[string]any)) {
	t.Helper()
	var st map[string]any
	decoder := json.NewDecoder(bytes.NewReader(r.statement(t, releasemanifest.Name).Raw()))
	decoder.UseNumber()
	if err := decoder.Decode(&st); err != nil {
		t.Fatal(err)
	}
	edit(st["predicate"].(map[string]any))
	r.write(t, releasemanifest.Name, r.sign(t, lab.RoleRelease, must[[]byte](t)(json.Marshal(st))))
}

// relist lists a file as it is now, in the checksum files and in the list of
// SBOMs too: who can sign a manifest can sign those.
func (r *attacked) relist(t testing.TB, m *manifest.Manifest, names ...string) {
	t.Helper()
	sboms := false
	for _, name := range names {
		body := r.read(t, name)
		a := entry(t, m, name)
		was := a.Digests
		a.Digests, a.Size = digest.SetOf(body), int64(len(body))
		if !was.SHA256.IsZero() && a.Class != plan.Sums && a.Class != plan.Signature {
			r.resum(t, m, plan.SHA256Sums, was.SHA256.Hex()+"  "+name+"\n", a.Digests.SHA256.Hex()+"  "+name+"\n")
			r.resum(t, m, plan.SHA512Sums, was.SHA512.Hex()+"  "+name+"\n", a.Digests.SHA512.Hex()+"  "+name+"\n")
		}
		sboms = sboms || a.Class == plan.SBOM
	}
	if _, listed := m.Find(sbomlist.Name); sboms && listed {
		r.relistSBOMs(t, m)
	}
}

// relistSBOMs signs the list of the SBOMs in a manifest again.
func (r *attacked) relistSBOMs(t testing.TB, m *manifest.Manifest) {
	t.Helper()
	r.write(t, sbomlist.Name, r.sign(t, lab.RoleRelease, must[intoto.Statement](t)(m.SBOMList()).Raw()))
	r.relist(t, m, sbomlist.Name)
}

// resum changes a line of a checksum file, signs it again and lists both.
func (r *attacked) resum(t testing.TB, m *manifest.Manifest, sums, was, is string) {
	t.Helper()
	r.write(t, sums, bytes.Replace(r.read(t, sums), []byte(was), []byte(is), 1))
	r.write(t, plan.BundleName(sums), encode(t, r.author(t, lab.RoleRelease).sign(t, blobOf(r.read(t, sums)))))
	r.relist(t, m, sums, plan.BundleName(sums))
}

// entry is the place of an artifact in a manifest.
func entry(t testing.TB, m *manifest.Manifest, name string) *manifest.Artifact {
	t.Helper()
	i := slices.IndexFunc(m.Artifacts, func(a manifest.Artifact) bool { return a.Name == name })
	if i < 0 {
		t.Fatalf("%s is not in the manifest", name)
	}
	return &m.Artifacts[i]
}

// edit replaces text in a file of the workspace that is not published.
func (r *attacked) edit(t testing.TB, name, old, with string) {
	t.Helper()
	path := filepath.Join(r.dir, name)
	body := string(must[[]byte](t)(os.ReadFile(path)))
	if !strings.Contains(body, old) {
		t.Fatalf("%q is not in %s", old, name)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(body, old, with, 1)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// blob is the file of a blob in the image layout.
func (r *attacked) blob(d digest.Digest) string {
	return filepath.Join(r.dir, "images", "blobs", d.Algorithm().String(), d.Hex())
}

// journal is where a run says how it ended, refused ones too.
const journal = "journal.jsonl"

// bytesOf reads every file of the workspace, to see whether something changed.
func bytesOf(t testing.TB, dir string) map[string]digest.Digest {
	t.Helper()
	found := map[string]digest.Digest{}
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || name == journal {
			return err
		}
		body, err := os.ReadFile(filepath.Join(dir, name))
		found[name] = digest.Of(digest.SHA256, body)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// graph reads the release's image.
func (r *attacked) graph(t testing.TB) *registry.Node {
	t.Helper()
	d := must[registry.Descriptor](t)(r.images.Resolve(context.Background(), repository, r.version.String()))
	return must[*registry.Node](t)(registry.Graph(context.Background(), r.images, repository, d))
}
