package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var commitTime = time.Date(2024, 5, 1, 12, 0, 0, 999, time.FixedZone("elsewhere", 7200))

func file(path, content string, mode fs.FileMode) image.File {
	return image.File{Path: path, Size: int64(len(content)), Mode: mode, Open: func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}}
}

func spec() image.Spec {
	return image.Spec{
		Base: image.Scratch(), Entrypoint: []string{"/usr/local/bin/lantern"}, Created: commitTime,
		Annotations: map[string]string{"org.opencontainers.image.version": "v0.1.0"},
		Platforms: []image.Platform{
			{OS: "linux", Arch: "arm64", Files: []image.File{file("/usr/local/bin/lantern", "arm64", 0o755), file("/etc/lantern", "conf", 0o600)}},
			{OS: "linux", Arch: "amd64", Files: []image.File{file("/usr/local/bin/lantern", "amd64", 0o700), file("/etc/lantern", "conf", 0o644)}},
		},
	}
}

func build(t *testing.T, s image.Spec) *image.Built {
	t.Helper()
	b, err := image.Build(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// base is an image of two layers for one platform, of Docker's types.
func base(t *testing.T, p v1.Platform) v1.Image {
	t.Helper()
	layer := func(content string, m types.MediaType) v1.Layer { return static.NewLayer([]byte(content), m) }
	img, err := mutate.AppendLayers(empty.Image, layer("first", types.DockerLayer), layer("of "+p.String(), types.OCILayer))
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Variant = p.OS, p.Architecture, p.Variant
	config.Author, config.Container = "somebody", "a1b2"
	config.Config = v1.Config{
		User: "65532", Env: []string{"PATH=/usr/bin"}, Cmd: []string{"/bin/sh"}, Hostname: "a1b2",
		Labels: map[string]string{"title": "base", "kept": "yes"},
	}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return img
}

// images is a base made of parts.
type images map[string]v1.Image

func (m images) Image(_ context.Context, platform string) (v1.Image, error) { return m[platform], nil }

func on(t *testing.T, s image.Spec, p v1.Platform) image.Spec {
	t.Helper()
	s.Platforms = slices.DeleteFunc(slices.Clone(s.Platforms), func(q image.Platform) bool { return q.Arch != p.Architecture })
	s.Base = images{p.OS + "/" + p.Architecture: base(t, p)}
	return s
}

func config(t *testing.T, c image.Child) v1.ConfigFile {
	t.Helper()
	var out v1.ConfigFile
	if err := json.Unmarshal(c.ConfigRaw, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// unpack reads a layer and returns its entries in order.
func unpack(t *testing.T, l image.Layer) (headers []tar.Header, contents map[string]string) {
	t.Helper()
	body, err := l.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	raw, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	if !digest.Of(digest.SHA256, plain).Equal(l.DiffID) {
		t.Error("the diff id is not that of the layer without compression")
	}
	contents = map[string]string{}
	for r := tar.NewReader(bytes.NewReader(plain)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return headers, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		headers, contents[h.Name] = append(headers, *h), string(content)
	}
}

func TestBuildLayer(t *testing.T) {
	b := build(t, spec())
	if len(b.Children) != 2 || b.Children[0].Platform != "linux/amd64" || len(b.Children[0].Layers) != 1 {
		t.Fatalf("children: %+v", b.Children)
	}
	headers, contents := unpack(t, b.Children[0].Layers[0])
	want := []struct {
		name string
		mode int64
	}{
		{"etc/", 0o755}, {"etc/lantern", 0o644}, {"usr/", 0o755}, {"usr/local/", 0o755},
		{"usr/local/bin/", 0o755}, {"usr/local/bin/lantern", 0o755},
	}
	if len(headers) != len(want) {
		t.Fatalf("entries: %+v", headers)
	}
	for i, h := range headers {
		if h.Name != want[i].name || h.Mode != want[i].mode || h.Uid+h.Gid != 0 || h.Uname+h.Gname != "" ||
			!h.ModTime.Equal(commitTime.Truncate(time.Second)) {
			t.Errorf("entry %d: %+v", i, h)
		}
	}
	if contents["usr/local/bin/lantern"] != "amd64" || contents["etc/lantern"] != "conf" {
		t.Errorf("contents: %v", contents)
	}
}

func TestBuildDocuments(t *testing.T) {
	b := build(t, spec())
	if b.Descriptor.Digest != digest.Of(digest.SHA256, b.Raw) || b.Descriptor.Size != int64(len(b.Raw)) {
		t.Error("the descriptor is not that of the index")
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(b.Raw))
	if err != nil {
		t.Fatal(err)
	}
	annotations := map[string]string{"org.opencontainers.image.version": "v0.1.0", "org.opencontainers.image.created": "2024-05-01T10:00:00Z"}
	equalMaps(t, index.Annotations, annotations)
	for i, c := range b.Children {
		d := index.Manifests[i]
		if d.Digest.String() != c.Digest.String() || d.Platform.String() != c.Platform || d.MediaType != types.OCIManifestSchema1 {
			t.Errorf("child %d: %+v", i, d)
		}
		m, err := v1.ParseManifest(bytes.NewReader(c.Raw))
		if err != nil {
			t.Fatal(err)
		}
		equalMaps(t, m.Annotations, annotations)
		if m.Config.Digest.String() != digest.Of(digest.SHA256, c.ConfigRaw).String() || m.MediaType != types.OCIManifestSchema1 {
			t.Errorf("manifest of child %d: %+v", i, m)
		}
		got := config(t, c)
		if got.OS+"/"+got.Architecture != c.Platform || got.Config.Entrypoint[0] != "/usr/local/bin/lantern" ||
			!got.Created.Equal(commitTime.Truncate(time.Second)) || len(got.History) != 1 ||
			got.RootFS.DiffIDs[0].String() != c.Layers[0].DiffID.String() {
			t.Errorf("configuration of child %d: %+v", i, got)
		}
	}
}

func equalMaps(t *testing.T, got, want map[string]string) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for k, v := range want {
		if got[k] != v {
			t.Errorf("%s is %q, want %q", k, got[k], v)
		}
	}
}

// TestBuildIsReproducible: what does not matter does not matter, and what does
// changes the digest.
func TestBuildIsReproducible(t *testing.T) {
	first := build(t, spec()).Descriptor.Digest
	for name, row := range map[string]struct {
		change func(*image.Spec)
		same   bool
	}{
		"nothing":            {func(*image.Spec) {}, true},
		"order of platforms": {func(s *image.Spec) { slices.Reverse(s.Platforms) }, true},
		"order of files":     {func(s *image.Spec) { slices.Reverse(s.Platforms[0].Files) }, true},
		"time zone":          {func(s *image.Spec) { s.Created = s.Created.UTC() }, true},
		"fraction of second": {func(s *image.Spec) { s.Created = s.Created.Add(time.Millisecond) }, true},
		"mode of the group":  {func(s *image.Spec) { s.Platforms[0].Files[0].Mode = 0o775 }, true},
		"time":               {func(s *image.Spec) { s.Created = s.Created.Add(time.Second) }, false},
		"executable":         {func(s *image.Spec) { s.Platforms[0].Files[0].Mode = 0o644 }, false},
		"content":            {func(s *image.Spec) { s.Platforms[0].Files[0] = file("/usr/local/bin/lantern", "other", 0o755) }, false},
		"annotation":         {func(s *image.Spec) { s.Annotations["a"] = "b" }, false},
	} {
		s := spec()
		row.change(&s)
		if got := build(t, s).Descriptor.Digest; (got == first) != row.same {
			t.Errorf("%s: the digest stays %v, want %v", name, got == first, row.same)
		}
	}
}

func TestBuildOnBase(t *testing.T) {
	b := build(t, on(t, spec(), v1.Platform{OS: "linux", Architecture: "amd64"}))
	c := b.Children[0]
	if len(c.Layers) != 3 || c.Layers[0].Descriptor.MediaType != string(types.OCILayer) {
		t.Fatalf("layers: %+v", c.Layers)
	}
	body, err := c.Layers[0].Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	if raw, err := io.ReadAll(body); err != nil || string(raw) != "first" {
		t.Errorf("the base's layer is now %q, %v", raw, err)
	}
	got := config(t, c)
	if got.Config.User != "65532" || got.Config.Env[0] != "PATH=/usr/bin" || got.Config.Cmd != nil || got.Config.Hostname != "" ||
		got.Author+got.Container != "" || len(got.RootFS.DiffIDs) != 3 || len(got.History) != 3 {
		t.Errorf("configuration: %+v", got)
	}
	equalMaps(t, got.Config.Labels, map[string]string{"title": "base", "kept": "yes"})
}

// TestBuildPlatform: a base says itself for which platform it is.
func TestBuildPlatform(t *testing.T) {
	for _, row := range []struct {
		asked, os, arch, variant string
		ok                       bool
	}{
		{"linux/amd64", "linux", "amd64", "", true},
		{"linux/amd64", "linux", "amd64", "v1", true},
		{"linux/arm64", "linux", "arm64", "v8", true},
		{"linux/amd64", "linux", "amd64", "v3", false},
		{"linux/arm64", "linux", "arm64", "v9", false},
		{"linux/amd64", "linux", "arm64", "", false},
		{"linux/amd64", "windows", "amd64", "", false},
		{"linux/amd64", "", "", "", false},
	} {
		s := on(t, spec(), v1.Platform{OS: "linux", Architecture: strings.TrimPrefix(row.asked, "linux/")})
		s.Base = images{row.asked: base(t, v1.Platform{OS: row.os, Architecture: row.arch, Variant: row.variant})}
		b, err := image.Build(t.Context(), s)
		if !row.ok {
			refused(t, err, verdict.Platform, "is for another platform")
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		// The default variant is left unsaid, so the names agree.
		if index, _ := v1.ParseIndexManifest(bytes.NewReader(b.Raw)); index.Manifests[0].Platform.String() != row.asked {
			t.Errorf("the index says %s, want %s", index.Manifests[0].Platform, row.asked)
		}
	}
}

func TestBuildRefusesBases(t *testing.T) {
	p := v1.Platform{OS: "linux", Architecture: "amd64"}
	foreign, err := mutate.AppendLayers(base(t, p), static.NewLayer([]byte("x"), types.DockerForeignLayer))
	if err != nil {
		t.Fatal(err)
	}
	short, err := mutate.ConfigFile(base(t, p), &v1.ConfigFile{OS: "linux", Architecture: "amd64"})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		code   verdict.Code
		reason string
		image  v1.Image
	}{
		{verdict.FileType, "cannot be copied", foreign},
		{verdict.Platform, "2 layers and 0", short},
		{verdict.Tampered, "digest is", lying{base(t, p)}},
	} {
		s := on(t, spec(), p)
		s.Base = images{"linux/amd64": row.image}
		_, err := image.Build(t.Context(), s)
		refused(t, err, row.code, row.reason)
	}
}

// lying serves another configuration than its manifest names.
type lying struct{ v1.Image }

func (l lying) RawConfigFile() ([]byte, error) {
	raw, err := l.Image.RawConfigFile()
	return append(raw, ' '), err
}

func TestBuildRefusesSpecs(t *testing.T) {
	for reason, row := range map[string]struct {
		code   verdict.Code
		change func(*image.Spec)
	}{
		"a base and":                 {verdict.Usage, func(s *image.Spec) { s.Base = nil }},
		"an entrypoint":              {verdict.Usage, func(s *image.Spec) { s.Entrypoint = nil }},
		"time of the commit":         {verdict.Usage, func(s *image.Spec) { s.Created = time.Time{} }},
		"cannot be set by callers":   {verdict.Usage, func(s *image.Spec) { s.Annotations[image.AnnotationCreated] = "now" }},
		"without files":              {verdict.Usage, func(s *image.Spec) { s.Platforms[0].Files = nil }},
		"without platforms":          {verdict.Platform, func(s *image.Spec) { s.Platforms = nil }},
		"want distinct platforms":    {verdict.Platform, func(s *image.Spec) { s.Platforms[1].Arch = "arm64" }},
		"os and architecture":        {verdict.Platform, func(s *image.Spec) { s.Platforms[1].Arch = "arm/v7" }},
		"absolute and clean":         {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Path = "bin/lantern" }},
		"not absolute":               {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Path = "/bin/../lantern" }},
		"two files":                  {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Path = "/etc/lantern" }},
		`"/etc/lantern" is a`:        {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Path = "/etc/lantern/x" }},
		"hide files of the base":     {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Path = "/etc/.wh.passwd" }},
		"unprintable characters":     {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Path = "/etc/\x1b[2J" }},
		"no content":                 {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Open = nil }},
		"size or mode":               {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Mode = 0 }},
		"not a regular file":         {verdict.Path, func(s *image.Spec) { s.Platforms[0].Files[0].Mode = fs.ModeSymlink | 0o777 }},
		"the expected 4 bytes":       {verdict.Tampered, func(s *image.Spec) { s.Platforms[0].Files[0].Size = 4 }},
		"does not have the expected": {verdict.Tampered, func(s *image.Spec) { s.Platforms[0].Files[0].Size = 6 }},
	} {
		s := spec()
		row.change(&s)
		_, err := image.Build(t.Context(), s)
		refused(t, err, row.code, reason)
	}
}

// TestBuildBelievesReaders: a reader that verifies what it delivers stops the
// build when the bytes are others.
func TestBuildBelievesReaders(t *testing.T) {
	s := spec()
	want := digest.Of(digest.SHA256, []byte("arm64"))
	s.Platforms[0].Files[0].Open = func() (io.ReadCloser, error) {
		return io.NopCloser(digest.NewVerifyingReader(strings.NewReader("ARM64"), want, 5)), nil
	}
	var mismatch *digest.MismatchError
	if _, err := image.Build(t.Context(), s); !errors.As(err, &mismatch) {
		t.Errorf("want a mismatch, got %v", err)
	}
}

func refused(t *testing.T, err error, code verdict.Code, reason string) {
	t.Helper()
	var e *verdict.Error
	if !errors.As(err, &e) {
		t.Errorf("want a refusal because of %q, got %v", reason, err)
		return
	}
	if e.Finding.Code != code || !strings.Contains(err.Error(), reason) {
		t.Errorf("want %s because of %q, got %v", code, reason, err)
	}
}
