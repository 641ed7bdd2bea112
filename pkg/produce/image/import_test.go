package image_test

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var both = []string{"linux/amd64", "linux/arm64"}

// packed is a directory as a tar archive, with the changes that are given:
// nil takes a file out.
func packed(t testing.TB, dir string, changes map[string][]byte) []byte {
	t.Helper()
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		files[filepath.ToSlash(rel)], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for n, body := range changes {
		if files[n] = body; body == nil {
			delete(files, n)
		}
	}
	return tarOf(t, files)
}

func tarOf(t testing.TB, files map[string][]byte) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, n := range slices.Sorted(maps.Keys(files)) {
		body := files[n]
		if err := w.WriteHeader(&tar.Header{Name: n, Mode: 0o644, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func imported(t *testing.T, raw []byte, platforms ...string) (*image.Built, error) {
	t.Helper()
	return image.Import(t.Context(), bytes.NewReader(raw), int64(len(raw)), platforms)
}

// laidOut is a layout whose one entry is the image of spec, as others lay it
// out: our own annotations are gone.
func laidOut(t *testing.T, b *image.Built) string {
	t.Helper()
	dir := t.TempDir()
	l, err := registry.OpenLayout(dir)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Write(t.Context(), l, "lantern"); err != nil {
		t.Fatal(err)
	}
	index, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": []any{
		map[string]any{"mediaType": b.Descriptor.MediaType, "digest": b.Descriptor.Digest, "size": b.Descriptor.Size},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), index, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestImportKeepsWhatIsOCI: what comes out are the bytes that went in.
func TestImportKeepsWhatIsOCI(t *testing.T) {
	b := build(t, spec())
	got, err := imported(t, packed(t, laidOut(t, b), nil), both...)
	if err != nil {
		t.Fatal(err)
	}
	if got.Descriptor.Digest != b.Descriptor.Digest || !bytes.Equal(got.Raw, b.Raw) || len(got.Children) != 2 {
		t.Errorf("the index is now %s", got.Raw)
	}
	for i, c := range got.Children {
		if was := b.Children[i]; c.Digest != was.Digest || c.Platform != was.Platform || !bytes.Equal(c.Raw, was.Raw) || !bytes.Equal(c.ConfigRaw, was.ConfigRaw) {
			t.Errorf("child %d: %+v", i, c)
		}
	}
	write(t, t.TempDir(), got)
}

// docker is an image of Docker's types, which its registry would serve.
func docker(t testing.TB, p v1.Platform) v1.Image {
	t.Helper()
	raw := archive(t, at("of "+p.Architecture))
	l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil })
	if err != nil {
		t.Fatal(err)
	}
	img, err := mutate.AppendLayers(empty.Image, l)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// TestImportMakesDockerOCI: of Docker's forms come OCI images of the very same
// configurations and layers, and the same ones each time.
func TestImportMakesDockerOCI(t *testing.T) {
	amd := docker(t, v1.Platform{OS: "linux", Architecture: "amd64"})
	arm := docker(t, v1.Platform{OS: "linux", Architecture: "arm64", Variant: "v8"})

	list := mutate.IndexMediaType(empty.Index, types.DockerManifestList)
	list = mutate.AppendManifests(list, mutate.IndexAddendum{Add: arm}, mutate.IndexAddendum{Add: amd})
	nested, flat, saved := t.TempDir(), t.TempDir(), filepath.Join(t.TempDir(), "saved.tar")
	top, err := layout.Write(nested, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := top.AppendIndex(list); err != nil {
		t.Fatal(err)
	}
	beside, err := layout.Write(flat, empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	for _, img := range []v1.Image{arm, amd} {
		if err := beside.AppendImage(img); err != nil {
			t.Fatal(err)
		}
	}
	tags := map[name.Tag]v1.Image{}
	for tag, img := range map[string]v1.Image{"amd64": amd, "arm64": arm} {
		parsed, err := name.NewTag("registry.example.test/lantern:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		tags[parsed] = img
	}
	if err := tarball.MultiWriteToFile(saved, tags); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	var first *image.Built
	for _, archive := range [][]byte{packed(t, nested, nil), packed(t, flat, nil), raw} {
		got, err := imported(t, archive, both...)
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = got
		}
		if got.Descriptor.Digest != first.Descriptor.Digest || got.Children[1].Digest != first.Children[1].Digest {
			t.Errorf("another image: %s", got.Raw)
		}
		node := write(t, t.TempDir(), got)
		if strings.Contains(string(got.Raw), "docker") || node.Part("linux/arm64") == nil {
			t.Errorf("index: %s", got.Raw)
		}
		for i, img := range []v1.Image{amd, arm} {
			config, err := img.RawConfigFile()
			if err != nil || !bytes.Equal(config, got.Children[i].ConfigRaw) {
				t.Errorf("configuration: %s, %v", got.Children[i].ConfigRaw, err)
			}
			if headers, _ := unpack(t, got.Children[i].Layers[0]); len(headers) != 1 || strings.Contains(string(got.Children[i].Raw), "docker") {
				t.Errorf("child: %s", got.Children[i].Raw)
			}
		}
	}
	if got, err := imported(t, raw, "linux/arm64"); err == nil {
		t.Errorf("an image too many: %s", got.Raw)
	}
}

// TestImportSavedPlainly: what docker save writes holds layers without
// compression, and one layer of two images as a link.
func TestImportSavedPlainly(t *testing.T) {
	got, err := imported(t, savedPlainly(t), "linux/amd64")
	if err != nil {
		t.Fatal(err)
	}
	if l := got.Children[0].Layers; len(l) != 2 || l[1].Descriptor.MediaType != string(types.OCIUncompressedLayer) || l[1].DiffID != l[1].Descriptor.Digest {
		t.Errorf("layers: %+v", l)
	}
	write(t, t.TempDir(), got)
}

func savedPlainly(t testing.TB) []byte {
	t.Helper()
	layer := archive(t, at("file"))
	config, err := json.Marshal(v1.ConfigFile{OS: "linux", Architecture: "amd64", RootFS: v1.RootFS{Type: "layers", DiffIDs: []v1.Hash{
		{Algorithm: "sha256", Hex: digest.Of(digest.SHA256, layer).Hex()}, {Algorithm: "sha256", Hex: digest.Of(digest.SHA256, layer).Hex()},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	named := digest.Of(digest.SHA256, config).Hex() + ".json"
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range []struct {
		tar.Header
		body []byte
	}{
		{tar.Header{Name: "a/layer.tar"}, layer}, {tar.Header{Name: "b/layer.tar", Typeflag: tar.TypeSymlink, Linkname: "../a/layer.tar"}, nil},
		{tar.Header{Name: named}, config},
		{tar.Header{Name: "manifest.json"}, []byte(`[{"Config":"` + named + `","RepoTags":null,"Layers":["a/layer.tar","b/layer.tar"]}]`)},
	} {
		e.Size, e.Mode = int64(len(e.body)), 0o644
		if err := w.WriteHeader(&e.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write(e.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestImportRefuses: each row differs in one fact from what is imported.
func TestImportRefuses(t *testing.T) {
	b := build(t, spec())
	dir := laidOut(t, b)
	blob := func(d digest.Digest) string { return "blobs/sha256/" + d.Hex() }
	index := func(entries ...map[string]any) map[string][]byte {
		raw, err := json.Marshal(map[string]any{"schemaVersion": 2, "manifests": entries})
		if err != nil {
			t.Fatal(err)
		}
		return map[string][]byte{"index.json": raw}
	}
	entry := func(c image.Child) map[string]any {
		return map[string]any{"mediaType": registry.MediaTypeManifest, "digest": c.Digest, "size": len(c.Raw)}
	}
	with := func(m map[string]any, key string, v any) map[string]any { m[key] = v; return m }
	amd, arm := b.Children[0], b.Children[1]
	// other is the image for arm64 with a word of its manifest changed.
	other := func(was, is string) map[string][]byte {
		c := arm
		c.Raw = []byte(strings.Replace(string(arm.Raw), was, is, 1))
		c.Digest = digest.Of(digest.SHA256, c.Raw)
		changes := index(entry(amd), entry(c))
		changes[blob(c.Digest)] = c.Raw
		return changes
	}
	layer := amd.Layers[0].Descriptor.Digest
	for what, row := range map[string]struct {
		code      verdict.Code
		changes   map[string][]byte
		platforms []string
	}{
		"the twin":                   {"", nil, both},
		"a platform too few":         {verdict.Platform, nil, []string{"linux/amd64", "linux/arm64", "linux/s390x"}},
		"a platform too many":        {verdict.Platform, nil, both[:1]},
		"no platform":                {verdict.Platform, nil, nil},
		"another layer":              {verdict.Tampered, map[string][]byte{blob(layer): []byte("poison")}, both},
		"another configuration":      {verdict.Tampered, map[string][]byte{blob(digest.Of(digest.SHA256, arm.ConfigRaw)): []byte("{}")}, both},
		"another manifest":           {verdict.Tampered, map[string][]byte{blob(arm.Digest): amd.Raw}, both},
		"another index":              {verdict.Tampered, map[string][]byte{blob(b.Descriptor.Digest): []byte("{}")}, both},
		"no layer":                   {verdict.Missing, map[string][]byte{blob(layer): nil}, both},
		"no manifest":                {verdict.Missing, map[string][]byte{blob(arm.Digest): nil}, both},
		"nothing":                    {verdict.FileType, map[string][]byte{"index.json": nil}, both},
		"no document":                {verdict.FileType, map[string][]byte{"index.json": []byte("[]")}, both},
		"a document of two readings": {verdict.FileType, map[string][]byte{"index.json": []byte(`{"manifests":[],"manifests":[]}`)}, both},
		"an endless document":        {verdict.Limit, map[string][]byte{"index.json": bytes.Repeat([]byte(" "), 5<<20)}, both},
		"one by one, the twin":       {"", index(entry(amd), entry(arm)), both},
		"one twice":                  {verdict.Platform, index(entry(amd), entry(arm), entry(amd)), both},
		"a size that is not so":      {verdict.Tampered, index(entry(amd), with(entry(arm), "size", 7)), both},
		"a platform that is not so":  {verdict.Platform, index(entry(amd), with(entry(arm), "platform", map[string]string{"os": "linux", "architecture": "s390x"})), both},
		"statements of a builder":    {verdict.Platform, index(entry(amd), entry(arm), with(entry(arm), "platform", map[string]string{"os": "unknown", "architecture": "unknown"})), both},
		"an artifact":                {verdict.Platform, index(entry(amd), with(entry(arm), "artifactType", "application/example")), both},
		"the twin of what follows":   {"", other(`"annotations":{`, `"annotations":{"other":"",`), both},
		"not to run":                 {verdict.FileType, other(string(types.OCIConfigJSON), "application/example+json"), both},
		"of another schema":          {verdict.FileType, other(`"schemaVersion":2`, `"schemaVersion":1`), both},
		"of another image":           {verdict.FileType, other(`"annotations":{`, `"subject":{"mediaType":"","size":0,"digest":"`+amd.Digest.String()+`"},"annotations":{`), both},
		"an index and an image":      {verdict.FileType, other(`"annotations":{`, `"manifests":[],"annotations":{`), both},
		"a digest of nothing":        {verdict.FileType, index(entry(amd), with(entry(arm), "digest", "sha256:abc")), both},
	} {
		raw := packed(t, dir, row.changes)
		_, err := imported(t, raw, row.platforms...)
		if row.code == "" {
			if err != nil {
				t.Errorf("%s: %v", what, err)
			}
			continue
		}
		t.Log(what, "→", err)
		refusedAs(t, err, row.code)
	}
}

// TestImportRefusesArchives: an archive has one reading, and ends where it
// says.
func TestImportRefusesArchives(t *testing.T) {
	b := build(t, spec())
	whole := packed(t, laidOut(t, b), nil)
	for what, row := range map[string]struct {
		code verdict.Code
		raw  []byte
	}{
		"no archive":        {verdict.ArchiveParse, []byte(strings.Repeat("x", 2048))},
		"cut short":         {verdict.ArchiveParse, whole[:len(whole)/3]},
		"a name twice":      {verdict.ArchiveTwice, archive(t, at("index.json"), at("./index.json"))},
		"a name and a link": {verdict.ArchiveTwice, archive(t, at("index.json"), at("index.json", same("other")))},
		"a name upwards":    {verdict.Path, archive(t, at("../index.json"))},
		"a device":          {verdict.FileType, archive(t, at("index.json", as(tar.TypeChar)))},
		"a link to itself":  {verdict.FileType, archive(t, at("index.json", leadsTo("index.json")))},
		"a link upwards":    {verdict.Path, archive(t, at("manifest.json", leadsTo("../../etc/passwd")))},
		"nothing":           {verdict.FileType, archive(t)},
		"not what is saved": {verdict.FileType, tarOf(t, map[string][]byte{"manifest.json": []byte("{}")})},
		"nothing saved":     {verdict.Platform, tarOf(t, map[string][]byte{"manifest.json": []byte("[]")})},
		"saved elsewhere":   {verdict.Path, tarOf(t, map[string][]byte{"manifest.json": []byte(`[{"Config":"../c.json"}]`)})},
		"saved without":     {verdict.Missing, tarOf(t, map[string][]byte{"manifest.json": []byte(`[{"Config":"c.json"}]`)})},
		"saved otherwise": {verdict.Tampered, tarOf(t, map[string][]byte{
			"manifest.json": []byte(`[{"Config":"` + strings.Repeat("0", 64) + `.json"}]`), strings.Repeat("0", 64) + ".json": []byte("{}"),
		})},
	} {
		_, err := imported(t, row.raw, both...)
		t.Log(what, "→", err)
		refusedAs(t, err, row.code)
	}
}

// TestImportRefusesLayers: a layer elsewhere, or other than its image says.
func TestImportRefusesLayers(t *testing.T) {
	p := v1.Platform{OS: "linux", Architecture: "amd64"}
	plain := archive(t, at("file"))
	l := static.NewLayer(plain, types.OCIUncompressedLayer)
	for what, row := range map[string]struct {
		code verdict.Code
		add  []mutate.Addendum
	}{
		"the twin":      {"", []mutate.Addendum{{Layer: l}}},
		"foreign":       {verdict.FileType, []mutate.Addendum{{Layer: static.NewLayer(plain, types.DockerForeignLayer)}}},
		"elsewhere":     {verdict.FileType, []mutate.Addendum{{Layer: l, URLs: []string{"https://elsewhere.example.test/"}}}},
		"other content": {verdict.Tampered, []mutate.Addendum{{Layer: layerOf{l, v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}}}},
		"none":          {verdict.FileType, nil},
		"no gzip":       {verdict.FileType, []mutate.Addendum{{Layer: static.NewLayer(plain, types.OCILayer)}}},
	} {
		dir := t.TempDir()
		top, err := layout.Write(dir, empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		if err := top.AppendImage(baseOf(t, row.add...)[p.String()]); err != nil {
			t.Fatal(err)
		}
		_, err = imported(t, packed(t, dir, nil), p.String())
		if row.code == "" && err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if row.code != "" {
			refusedAs(t, err, row.code)
		}
	}
}

// TestFromLayout: a layout is a base as a registry is.
func TestFromLayout(t *testing.T) {
	below := build(t, spec())
	dir := laidOut(t, below)
	s := spec()
	var err error
	if s.Base, err = image.FromLayout(t.Context(), os.DirFS(dir), below.Descriptor.Digest); err != nil {
		t.Fatal(err)
	}
	fromIndex := build(t, s)
	if len(fromIndex.Children[0].Layers) != 2 {
		t.Errorf("layers: %+v", fromIndex.Children[0].Layers)
	}
	write(t, t.TempDir(), fromIndex)
	single, err := image.FromLayout(t.Context(), os.DirFS(dir), below.Children[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := image.Unpack(context.Background(), single, "linux/amd64", filepath.Join(t.TempDir(), "root")); err != nil {
		t.Error(err)
	}
	_, err = image.Unpack(t.Context(), single, "linux/arm64", t.TempDir())
	refused(t, err, verdict.Platform, "is for another platform")
	_, err = s.Base.Image(t.Context(), "linux/s390x")
	refused(t, err, verdict.Platform, "got 0; it has")
	_, err = image.FromLayout(t.Context(), os.DirFS(dir), digest.Of(digest.SHA256, nil))
	refused(t, err, verdict.Missing, "the layout or archive lacks it")
	_, err = image.FromLayout(t.Context(), os.DirFS(dir), digest.Of(digest.SHA256, below.Children[0].ConfigRaw))
	refused(t, err, verdict.FileType, "is not an image")
}
