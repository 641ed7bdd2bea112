package image_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// at is an entry of a layer: a file with itself as its content, or whatever
// change makes of it.
func at(name string, change ...func(*tar.Header)) tar.Header {
	h := tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(name)), ModTime: commitTime}
	if strings.HasSuffix(name, "/") {
		h.Typeflag, h.Size, h.Mode = tar.TypeDir, 0, 0o755
	}
	for _, c := range change {
		c(&h)
	}
	return h
}

func leadsTo(target string) func(*tar.Header) {
	return func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, target, 0 }
}

func same(target string) func(*tar.Header) {
	return func(h *tar.Header) { h.Typeflag, h.Linkname, h.Size = tar.TypeLink, target, 0 }
}

func as(kind byte) func(*tar.Header) {
	return func(h *tar.Header) { h.Typeflag, h.Size = kind, 0 }
}

func withMode(mode int64) func(*tar.Header) { return func(h *tar.Header) { h.Mode = mode } }

func archive(t testing.TB, entries ...tar.Header) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, h := range entries {
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// layers is a base of these layers for linux/amd64.
func layers(t *testing.T, of ...[]tar.Header) images {
	t.Helper()
	var adds []mutate.Addendum
	for _, entries := range of {
		raw := archive(t, entries...)
		l, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(raw)), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			t.Fatal(err)
		}
		adds = append(adds, mutate.Addendum{Layer: l})
	}
	return baseOf(t, adds...)
}

func baseOf(t *testing.T, adds ...mutate.Addendum) images {
	t.Helper()
	img, err := mutate.Append(empty.Image, adds...)
	if err != nil {
		t.Fatal(err)
	}
	config, err := img.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	config = config.DeepCopy()
	config.OS, config.Architecture = "linux", "amd64"
	config.Config.Env = []string{"PATH=/go/bin:/usr/bin", "GOPATH=/go"}
	if img, err = mutate.ConfigFile(img, config); err != nil {
		t.Fatal(err)
	}
	return images{"linux/amd64": img}
}

// shown lists a directory: mode, name, and where links lead or what files
// hold if it is not their name.
func shown(t *testing.T, dir string) (lines []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		line := info.Mode().String() + " " + name
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(path)
			if err != nil {
				return err
			}
			line += " -> " + target
		case info.Mode().IsRegular():
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			if string(raw) != name {
				line += " = " + string(raw)
			}
		}
		lines = append(lines, line)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return lines
}

func TestUnpack(t *testing.T) {
	for name, row := range map[string]struct {
		layers [][]tar.Header
		want   []string
	}{
		"files, directories, links": {
			[][]tar.Header{{at("./"), at("./bin/"), at("/bin/sh", withMode(0o755)), at("bin/ash", leadsTo("sh")), at("bin/dash", same("bin/sh"))}},
			[]string{"drwxr-xr-x bin", "Lrwxrwxrwx bin/ash -> sh", "-rwxr-xr-x bin/dash = /bin/sh", "-rwxr-xr-x bin/sh = /bin/sh"},
		},
		"directories that no entry makes": {[][]tar.Header{{at("a/b/c")}}, []string{"drwxr-xr-x a", "drwxr-xr-x a/b", "-rw-r--r-- a/b/c"}},
		"later layers win": {
			[][]tar.Header{{at("file", withMode(0o600)), at("dir/"), at("dir/kept"), at("gone/"), at("gone/x")}, {at("file", withMode(0o444)), at("dir/", withMode(0o700)), at("gone")}},
			[]string{"drwx------ dir", "-rw-r--r-- dir/kept", "-r--r--r-- file", "-rw-r--r-- gone"},
		},
		"a whiteout hides what was there, not what comes with it": {
			[][]tar.Header{{at("a"), at("b/c"), at("b/d")}, {at(".wh.a"), at("b/d", withMode(0o600)), at("b/.wh.c"), at("b/.wh.d"), at("b/.wh.never")}},
			[]string{"drwxr-xr-x b", "-rw------- b/d"},
		},
		"an opaque directory hides all that was there": {
			[][]tar.Header{{at("a/old"), at("a/b/old"), at("a/c/old")}, {at("a/new"), at("a/b/new"), at("a/.wh..wh..opq"), at("a/last")}},
			[]string{"drwxr-xr-x a", "drwxr-xr-x a/b", "-rw-r--r-- a/b/new", "-rw-r--r-- a/last", "-rw-r--r-- a/new"},
		},
		"what layers were invented for means nothing": {
			[][]tar.Header{{at(".wh..wh.aufs"), at(".wh..wh.plnk/"), at(".wh..wh.plnk/1.2"), at("a")}}, []string{"-rw-r--r-- a"},
		},
		"links on the way are followed within the image": {
			[][]tar.Header{
				{at("usr/bin/"), at("bin", leadsTo("/usr/bin")), at("up", leadsTo("../../../../usr"))},
				{at("bin/sh"), at("up/lib"), at("bin/ash", same("bin/sh"))},
			},
			[]string{
				"Lrwxrwxrwx bin -> /usr/bin", "Lrwxrwxrwx up -> ../../../../usr", "drwxr-xr-x usr", "drwxr-xr-x usr/bin",
				"-rw-r--r-- usr/bin/ash = bin/sh", "-rw-r--r-- usr/bin/sh = bin/sh", "-rw-r--r-- usr/lib = up/lib",
			},
		},
		"a link that is replaced leads nowhere any more": {
			[][]tar.Header{{at("a", leadsTo("b")), at("b/"), at("a/one")}, {at("a/"), at("a/two")}},
			[]string{"drwxr-xr-x a", "-rw-r--r-- a/two", "drwxr-xr-x b", "-rw-r--r-- b/one = a/one"},
		},
		"a file is written over, never through": {
			[][]tar.Header{{at("a"), at("b", same("a")), at("c", leadsTo("a"))}, {at("b"), at("c")}},
			[]string{"-rw-r--r-- a", "-rw-r--r-- b", "-rw-r--r-- c"},
		},
		"devices, pipes and rights of others are dropped": {
			[][]tar.Header{{at("null", as(tar.TypeChar)), at("sda", as(tar.TypeBlock)), at("pipe", as(tar.TypeFifo)), at("su", withMode(0o6755)), at("tmp/", withMode(0o1777)), at("closed/", withMode(0)), at("closed/in", withMode(0))}},
			[]string{"drwx------ closed", "-r-------- closed/in", "-rwxr-xr-x su", "drwxrwxrwx tmp"},
		},
		"nothing": {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "root")
			got, err := image.Unpack(t.Context(), layers(t, row.layers...), "linux/amd64", dir)
			if err != nil {
				t.Fatal(err)
			}
			if lines := shown(t, dir); !slices.Equal(lines, row.want) {
				t.Errorf("got %q\nwant %q", lines, row.want)
			}
			if !slices.Contains(got.Env, "GOPATH=/go") || got.Digest.IsZero() || (got.Dropped == 3) != strings.HasPrefix(name, "devices") {
				t.Errorf("image: %+v", got)
			}
		})
	}
}

// TestUnpackStaysInside: whatever an image says, nothing outside the directory
// is read, written or removed.
func TestUnpackStaysInside(t *testing.T) {
	for name, row := range map[string]struct {
		code   verdict.Code
		layers [][]tar.Header
	}{
		"a name that leads upwards":          {verdict.Path, [][]tar.Header{{at("../outside")}}},
		"a name that comes back":             {verdict.Path, [][]tar.Header{{at("a/../../outside")}}},
		"a hard link that leads upwards":     {verdict.Path, [][]tar.Header{{at("a", same("../outside"))}}},
		"a hard link to nothing":             {verdict.Path, [][]tar.Header{{at("a", same("/outside"))}}},
		"a hard link to itself":              {verdict.Path, [][]tar.Header{{at("a"), at("a", same("a"))}}},
		"a hard link to a directory":         {verdict.Path, [][]tar.Header{{at("d/"), at("a", same("d"))}}},
		"links in a circle":                  {verdict.Path, [][]tar.Header{{at("a", leadsTo("b")), at("b", leadsTo("a")), at("a/in")}}},
		"a file below a file":                {verdict.Path, [][]tar.Header{{at("a"), at("a/in")}}},
		"a whiteout of the directory":        {verdict.Path, [][]tar.Header{{at("a/"), at("a/.wh..")}}},
		"a whiteout of the one above":        {verdict.Path, [][]tar.Header{{at("a/"), at("a/.wh...")}}},
		"a whiteout of nothing":              {verdict.Path, [][]tar.Header{{at(".wh.")}}},
		"an entry of a type that is unheard": {verdict.FileType, [][]tar.Header{{at("a", as('Z'))}}},
		// These are harmless, because the directory is their top.
		"a link to the outside, written through": {"", [][]tar.Header{{at("a", leadsTo("../outside"))}, {at("a")}}},
		"a link upwards, followed":               {"", [][]tar.Header{{at("a", leadsTo("..")), at("a/outside/in")}}},
		"a link to the top, hidden":              {"", [][]tar.Header{{at("a", leadsTo("../outside"))}, {at("a/.wh.file")}}},
		"a link to the outside, made opaque":     {"", [][]tar.Header{{at("a", leadsTo("../outside"))}, {at("a/.wh..wh..opq")}}},
		"a link to the outside, replaced":        {"", [][]tar.Header{{at("a", leadsTo("../outside"))}, {at("a/")}}},
	} {
		t.Run(name, func(t *testing.T) {
			top := t.TempDir()
			outside := filepath.Join(top, "outside")
			if err := os.MkdirAll(outside, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(outside, "file"), []byte("ours"), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := image.Unpack(t.Context(), layers(t, row.layers...), "linux/amd64", filepath.Join(top, "root"))
			if row.code == "" && err != nil {
				t.Error(err)
			}
			if row.code != "" {
				refused(t, err, row.code, "")
			}
			if got := shown(t, outside); !slices.Equal(got, []string{"-rw------- file = ours"}) {
				t.Errorf("outside: %q", got)
			}
		})
	}
}

// TestUnpackLayers: each kind of layer that can be copied can be unpacked, and
// bytes are held against both digests.
func TestUnpackLayers(t *testing.T) {
	raw := archive(t, at("file"))
	var zipped, zstded bytes.Buffer
	zip := gzip.NewWriter(&zipped)
	_, err := zip.Write(raw)
	if err != nil || zip.Close() != nil {
		t.Fatal(err)
	}
	zst, err := zstd.NewWriter(&zstded)
	if err != nil {
		t.Fatal(err)
	}
	if _, err = zst.Write(raw); err != nil || zst.Close() != nil {
		t.Fatal(err)
	}
	plain := static.NewLayer(raw, types.OCIUncompressedLayer)
	right, err := plain.DiffID()
	if err != nil {
		t.Fatal(err)
	}
	wrong := v1.Hash{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}
	for name, row := range map[string]struct {
		body   []byte
		kind   types.MediaType
		diffID v1.Hash
		code   verdict.Code
	}{
		"gzip":        {zipped.Bytes(), types.OCILayer, right, ""},
		"docker":      {zipped.Bytes(), types.DockerLayer, right, ""},
		"zstd":        {zstded.Bytes(), types.OCILayerZStd, right, ""},
		"plain":       {raw, types.OCIUncompressedLayer, right, ""},
		"other bytes": {zipped.Bytes(), types.OCILayer, wrong, verdict.Tampered},
		"no gzip":     {raw, types.OCILayer, right, verdict.FileType},
		"no zstd":     {raw, types.OCILayerZStd, right, verdict.FileType},
		"cut gzip":    {zipped.Bytes()[:zipped.Len()/2], types.OCILayer, right, verdict.FileType},
		"no archive":  {[]byte(strings.Repeat("x", 1024)), types.OCIUncompressedLayer, right, verdict.FileType},
		"elsewhere":   {zipped.Bytes(), types.OCIRestrictedLayer, right, verdict.FileType},
	} {
		b := baseOf(t, mutate.Addendum{Layer: layerOf{static.NewLayer(row.body, row.kind), row.diffID}})
		dir := filepath.Join(t.TempDir(), "root")
		if _, err := image.Unpack(t.Context(), b, "linux/amd64", dir); row.code != "" {
			t.Log(name, err)
			refusedAs(t, err, row.code)
		} else if err != nil || !slices.Equal(shown(t, dir), []string{"-rw-r--r-- file"}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	far := baseOf(t, mutate.Addendum{Layer: static.NewLayer(zipped.Bytes(), types.OCILayer), URLs: []string{"https://elsewhere.example.test/layer"}})
	_, err = image.Unpack(t.Context(), far, "linux/amd64", t.TempDir())
	refused(t, err, verdict.FileType, "external addresses")
	full := t.TempDir()
	if err := os.WriteFile(filepath.Join(full, "ours"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = image.Unpack(t.Context(), layers(t), "linux/amd64", full)
	refused(t, err, verdict.Usage, "is not empty")
}

// refusedAs wants an error of any kind that has the code.
func refusedAs(t *testing.T, err error, code verdict.Code) {
	t.Helper()
	if err == nil || verdict.FindingOf("", err).Code != code {
		t.Errorf("want %s, got %v", code, err)
	}
}

// layerOf is a layer that calls its content something else.
type layerOf struct {
	v1.Layer
	diffID v1.Hash
}

// DiffID implements [v1.Layer].
func (l layerOf) DiffID() (v1.Hash, error) { return l.diffID, nil }
