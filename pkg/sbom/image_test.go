package sbom_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// layerOf is an image layer of files: name, content, name, content…
func layerOf(t *testing.T, pairs ...string) v1.Layer {
	t.Helper()
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for i := 0; i < len(pairs); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: pairs[i], Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(pairs[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, pairs[i+1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return layerWith(t, buf.Bytes())
}

// layerWith is a layer with these bytes, which need not be a whole archive.
func layerWith(t *testing.T, raw []byte) v1.Layer {
	t.Helper()
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	img, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	img, err = mutate.ConfigFile(img, &v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: rootOf(t, img), Config: v1.Config{Labels: map[string]string{
		"org.opencontainers.image.base.name":   "registry.example.org/static",
		"org.opencontainers.image.base.digest": digest.Of(digest.SHA256, []byte("base")).String(),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

func rootOf(t *testing.T, img v1.Image) v1.RootFS {
	t.Helper()
	c, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return c.RootFS
}

// inLayout writes the image into a layout and reads it back.
func inLayout(t *testing.T, img v1.Image) (fs.FS, sbom.ImageContent) {
	t.Helper()
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err == nil {
		err = p.AppendImage(img)
	}
	if err != nil {
		t.Fatal(err)
	}
	content, err := sbom.LayoutImage(t.Context(), os.DirFS(dir), "")
	if err != nil {
		t.Fatal(err)
	}
	return os.DirFS(dir), content
}

const (
	dpkgOne = "Package: wick\nStatus: install ok installed\nVersion: 1.0\nArchitecture: amd64\n\n"
	dpkgTwo = "Package: oil\nStatus: install ok installed\nVersion: 2.0-1\nArchitecture: amd64\n\n"
	release = "ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME=\"Debian 12\"\n"
)

// TestImageContents: packages and programs are found with the layer that
// brought them, and what a later layer takes away is gone.
func TestImageContents(t *testing.T) {
	bin := string(program(t))
	img := imageOf(t,
		layerOf(t, "etc/os-release", release, "var/lib/dpkg/status", dpkgOne, "usr/share/doc/wick/copyright",
			"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\nFiles: *\nLicense: Expat\n",
			"old/lantern", bin, "opt/app/package-lock.json", "{}"),
		layerOf(t, "var/lib/dpkg/status", dpkgOne+dpkgTwo, "var/lib/dpkg/status.d/base", "Package: base-files\nVersion: 12.4\nArchitecture: amd64\n",
			"old/.wh.lantern", "", "usr/local/bin/lantern", bin),
		layerOf(t, "lib/apk/db/installed", "P:musl\nV:1.2.5-r0\nA:x86_64\nL:MIT\n"),
	)
	_, content := inLayout(t, img)
	doc := made(t, "oci/lantern", content.Index.SHA256, func() ([]byte, error) {
		return encoded(sbom.Image(t.Context(), input(), "oci/lantern", content))
	})
	layer := func(i int) string { return find(t, doc, content.Platforms[0].Layers[i].Digest.String()).ID }
	for name, row := range map[string]struct {
		layer   int
		purl    string
		licence string
	}{
		"wick":       {0, "pkg:deb/debian/wick@1.0?arch=amd64&distro=debian-12", "MIT"},
		"oil":        {1, "pkg:deb/debian/oil@2.0-1?arch=amd64&distro=debian-12", ""},
		"base-files": {1, "pkg:deb/debian/base-files@12.4?arch=amd64&distro=debian-12", ""},
		"musl":       {2, "pkg:apk/debian/musl@1.2.5-r0?arch=x86_64&distro=debian-12", "MIT"},
	} {
		p := find(t, doc, name)
		if p.PURL != row.purl || p.Licence != row.licence || !related(doc, layer(row.layer), spdx.Contains, p.ID) {
			t.Errorf("%s: %+v", name, p)
		}
	}
	if files := doc.Files(); len(files) != 1 || files[0].Name != "./usr/local/bin/lantern" || !related(doc, layer(1), spdx.Contains, files[0].ID) ||
		!files[0].Digests.SHA256.Equal(digest.Of(digest.SHA256, []byte(bin))) || !files[0].Digests.SHA512.Equal(digest.Of(digest.SHA512, []byte(bin))) {
		t.Errorf("programs: %+v", files)
	}
	if base := find(t, doc, "registry.example.org/static"); !related(doc, find(t, doc, "oci/lantern/linux/amd64").ID, spdx.DescendantOf, base.ID) {
		t.Error("the base image is not named")
	}
	if u := doc.Unknown(); len(u) != 2 || u[0] != "seen, not catalogued: npm: opt/app/package-lock.json" || !strings.HasPrefix(u[1], "unknown: which module") {
		t.Errorf("unknown: %q", u)
	}
	for _, profile := range sbomcheck.Profiles() {
		for _, lack := range sbomcheck.Lacks(doc, profile) {
			if !strings.Contains(lack, "SBOM author: ") && !strings.HasPrefix(lack, "SHA-512: ") { // the input names no supplier, and one digest
				t.Errorf("%s: %s", profile, lack)
			}
		}
	}
	if doc.Packages(); find(t, doc, "debian").Purpose != spdx.OperatingSystem {
		t.Error("the distribution is not named")
	}
}

// TestProgramsOfOneLayer: each of several programs in a layer has its own sums, also if
// the layer is cut off behind the last one.
func TestProgramsOfOneLayer(t *testing.T) {
	bin := program(t)
	want := map[string]digest.Set{}
	var parts []string
	for i := range 5 {
		name, raw := fmt.Sprintf("usr/bin/lantern%d", i), append(bytes.Clone(bin), strings.Repeat("x", i)...)
		want["./"+name] = digest.SetOf(raw)
		parts = append(parts, name, string(raw))
	}
	whole, err := layerOf(t, append(parts, "etc/end", "end")...).Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := io.ReadAll(whole)
	if err != nil {
		t.Fatal(err)
	}
	for what, layer := range map[string][]byte{"whole": raw, "cut off": raw[:bytes.LastIndex(raw, []byte("end"))]} {
		_, content := inLayout(t, imageOf(t, layerWith(t, layer)))
		doc := made(t, "oci/lantern", content.Index.SHA256, func() ([]byte, error) {
			return encoded(sbom.Image(t.Context(), input(), "oci/lantern", content))
		})
		if cut := slices.ContainsFunc(doc.Unknown(), func(u string) bool { return strings.HasPrefix(u, "not examined: layer ") }); cut != (what == "cut off") {
			t.Errorf("%s: %q", what, doc.Unknown())
		}
		files := doc.Files()
		if len(files) != len(want) {
			t.Errorf("%s: %d programs, want %d", what, len(files), len(want))
		}
		for _, f := range files {
			if f.Digests != want[f.Name] || f.SHA1 == "" {
				t.Errorf("%s: %s: %+v, want %v", what, f.Name, f, want[f.Name])
			}
		}
	}
}

// TestSavedImage: the image that Docker saves is known by its configuration,
// which is the one that the registry serves.
func TestSavedImage(t *testing.T) {
	img := imageOf(t, layerOf(t, "etc/os-release", release, "var/lib/dpkg/status", dpkgOne))
	_, served := inLayout(t, img)
	path := t.TempDir() + "/image.tar"
	ref, err := name.NewTag("registry.example.org/lantern:v0.1.0")
	if err == nil {
		err = tarball.WriteToFile(path, ref, img)
	}
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	doc := made(t, "lantern.tar", digest.Of(digest.SHA256, raw), func() ([]byte, error) {
		return encoded(sbom.Describe(t.Context(), input(), "lantern.tar", content(raw), nil))
	})
	if !strings.Contains(find(t, doc, "lantern.tar/linux/amd64").Comment, served.Platforms[0].Config.String()) {
		t.Error("the configuration is not named")
	}
	find(t, doc, "wick")
	held, err := sbom.Check(t.Context(), sbom.Question{Document: doc, Content: &sbom.Content{ReaderAt: bytes.NewReader(raw), Size: int64(len(raw))}})
	if err != nil || len(held.Findings) != 0 {
		t.Errorf("%v %v", held.Findings, err)
	}
}

// TestImageLies: a configuration with other layers than those that are served.
func TestImageLies(t *testing.T) {
	_, content := inLayout(t, imageOf(t, layerOf(t, "a", "1"), layerOf(t, "b", "2")))
	layers := content.Platforms[0].Layers
	layers[0].DiffID, layers[1].DiffID = layers[1].DiffID, layers[0].DiffID
	_, err := sbom.Image(t.Context(), input(), "oci/a", content)
	refused(t, err, verdict.Conflict, "does not match the image's configuration")
}

// TestNoImage: what a registry or layout holds that is no image, or has a
// configuration that can not be read, is refused as such and is no bug of ours.
func TestNoImage(t *testing.T) {
	const image, chart = "application/vnd.oci.image.config.v1+json", "application/vnd.cncf.helm.config.v1+json"
	good := `{"os":"linux","architecture":"amd64","rootfs":{"type":"layers","diff_ids":[]}}`
	for _, row := range []struct{ name, kind, config, want string }{
		{"an image", image, good, ""},
		{"a chart", chart, good, "not an image"},
		{"no JSON", image, "hello", "reading JSON"},
	} {
		dir := t.TempDir()
		put := func(raw string) string {
			sum := digest.Of(digest.SHA256, []byte(raw))
			if err := os.WriteFile(dir+"/blobs/sha256/"+sum.Hex(), []byte(raw), 0o600); err != nil {
				t.Fatal(err)
			}
			return fmt.Sprintf(`"digest":%q,"size":%d`, sum, len(raw))
		}
		if err := os.MkdirAll(dir+"/blobs/sha256", 0o700); err != nil {
			t.Fatal(err)
		}
		const kind = `"mediaType":"application/vnd.oci.image.manifest.v1+json"`
		manifest := put(fmt.Sprintf(`{"schemaVersion":2,%s,"config":{"mediaType":%q,%s},"layers":[]}`, kind, row.kind, put(row.config)))
		if err := os.WriteFile(dir+"/index.json", fmt.Appendf(nil, `{"schemaVersion":2,"manifests":[{%s,%s}]}`, kind, manifest), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := sbom.LayoutImage(t.Context(), os.DirFS(dir), "")
		if row.want == "" {
			if err != nil {
				t.Errorf("%s: %v", row.name, err)
			}
			continue
		}
		refused(t, err, verdict.FileType, row.want)
	}
}

// TestBrokenLayer: what is wrong inside of a layer is stated, and the rest is
// described.
func TestBrokenLayer(t *testing.T) {
	bad := layerOf(t, "var/lib/dpkg/status", "Package: \x00\nrubbish\n", "usr/lib/os-release", release)
	_, content := inLayout(t, imageOf(t, bad))
	m, err := sbom.Image(t.Context(), input(), "oci/a", content)
	if err != nil || len(m.Incomplete) != 1 || !strings.Contains(m.Incomplete[0], "var/lib/dpkg/status") {
		t.Errorf("%q %v", m.Incomplete, err)
	}
}

// TestImageByName: who names an image that a layout does not hold is told which
// it holds, and one that holds none says that.
func TestImageByName(t *testing.T) {
	dir := t.TempDir()
	p, err := layout.Write(dir, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	_, err = sbom.LayoutImage(t.Context(), os.DirFS(dir), "")
	refused(t, err, verdict.Missing, "the layout contains no image")
	err = p.AppendImage(imageOf(t, layerOf(t, "a", "1")), layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "lantern:v0.1.0"}))
	if err != nil {
		t.Fatal(err)
	}
	_, err = sbom.LayoutImage(t.Context(), os.DirFS(dir), "lantern:v0.2.0")
	refused(t, err, verdict.Missing, "lantern:v0.1.0")
	if _, err := sbom.LayoutImage(t.Context(), os.DirFS(dir), "lantern:v0.1.0"); err != nil {
		t.Error(err)
	}
}

// TestImageURL: a package URL has the name by which an image is known, never
// that of the directory or file in which it lies; what nobody names has none.
func TestImageURL(t *testing.T) {
	img := imageOf(t, layerOf(t, "etc/os-release", release))
	sum, err := img.Digest()
	if err != nil {
		t.Fatal(err)
	}
	version := "@sha256%3A" + sum.Hex
	const ref, containerd = "org.opencontainers.image.ref.name", "io.containerd.image.name"
	for _, row := range []struct {
		name        string
		annotations map[string]string
		want        string
	}{
		{"nothing", nil, ""},
		{"a tag alone", map[string]string{ref: "v0.1.0"}, ""},
		{"a tag, and the name", map[string]string{ref: "v0.1.0", containerd: "example.test/out/lantern:v0.1.0"}, "lantern"},
		{"a reference", map[string]string{ref: "example.test:5000/out/lantern:v0.1.0"}, "lantern"},
		{"a reference without tag", map[string]string{ref: "out/lantern"}, "lantern"},
		{"a short reference", map[string]string{ref: "lantern:v0.1.0"}, "lantern"},
		{"a pinned reference", map[string]string{ref: "lantern@" + sum.String()}, "lantern"},
		{"no reference", map[string]string{ref: "out/../:x?y=z"}, ""},
	} {
		dir := t.TempDir() + "/scratch"
		p, err := layout.Write(dir, empty.Index)
		if err == nil {
			err = p.AppendImage(img, layout.WithAnnotations(row.annotations))
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := sbom.LayoutImage(t.Context(), os.DirFS(dir), "")
		if err != nil {
			t.Fatal(err)
		}
		m, err := sbom.Image(t.Context(), input(), "scratch", content)
		if err != nil {
			t.Fatal(err)
		}
		wantIndex, wantImage := "", ""
		if row.want != "" {
			wantIndex = "pkg:oci/" + row.want + version
			wantImage = wantIndex + "?arch=amd64&os=linux"
		}
		if index, image := m.Draft.Packages[0].PURL, m.Draft.Packages[1].PURL; index != wantIndex || image != wantImage {
			t.Errorf("%s: %q and %q", row.name, index, image)
		}
		if sum := sbomcheck.Claimed(parsed(t, m, nil)); !sum.Equal(content.Index.SHA256) {
			t.Errorf("%s: the document is about %s", row.name, sum)
		}
	}
}

// TestImageURLLies: a package URL of other bytes or of another platform than its
// package is refused, of an image and of what it was built on.
func TestImageURLLies(t *testing.T) {
	_, content := inLayout(t, imageOf(t, layerOf(t, "etc/os-release", release)))
	content.Repository = "example.test/lantern"
	swap := func(old, other string) func(string) string {
		return func(purl string) string { return strings.Replace(purl, old, other, 1) }
	}
	otherSum := func(purl string) string {
		at := strings.Index(purl, "%3A") + len("%3A")
		return purl[:at] + strings.Repeat("0", 64) + purl[at+64:]
	}
	const index, image, below = "lantern", "lantern/linux/amd64", "registry.example.org/static"
	for _, row := range []struct {
		name, of string
		change   func(string) string
		lies     bool
	}{
		{"as it is", index, swap("", ""), false},
		{"an index of other bytes", index, otherSum, true},
		{"an image of other bytes", image, otherSum, true},
		{"a base of other bytes", below, otherSum, true},
		{"another architecture", image, swap("arch=amd64", "arch=arm64"), true},
		{"another system", image, swap("os=linux", "os=windows"), true},
		{"no digest", image, swap("@sha256", "@v1"), true},
		{"no platform", image, swap("?arch=amd64&os=linux", ""), false},
	} {
		m, err := sbom.Image(t.Context(), input(), "lantern", content)
		if err != nil {
			t.Fatal(err)
		}
		p := packageOf(&m.Draft, row.of)
		p.PURL = row.change(p.PURL)
		doc := parsed(t, m, nil)
		held, err := sbom.Check(t.Context(), sbom.Question{Document: doc, Image: &content})
		if err != nil {
			t.Fatal(err)
		}
		alone := sbom.Validate([]string{"d"}, []string{string(doc.Raw())}, "spdx", time.Unix(1<<40, 0)).Findings
		for _, findings := range [][]verdict.Finding{held.Findings, alone} {
			if len(findings) > 0 != row.lies || row.lies && findings[0].Code != verdict.Conflict {
				t.Errorf("%s: %v", row.name, findings)
			}
		}
	}
}
