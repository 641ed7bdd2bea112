// Package sbom makes what waybill-bench describes with waybill and with its
// peers: Go programs, a Go source tree, images of three distributions, and a
// large document; and it knows what is true of them. What Go programs are made
// of they say themselves, read with the standard library.
//
// Everything is made and counted in processes of their own: the peak memory of
// a child starts at what its parent had.
package sbom

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Thing is something to describe, with what is true of it.
type Thing struct {
	What, Path, Scheme string
	Bytes              int64
	Truth              map[string]bool `json:"-"`
}

// Options say what there is to describe.
type Options struct {
	Dir      string // where it is made
	Programs string // directory of Go programs, at most twelve of which are taken
	Source   string // a Go source tree
	Packages int    // of the large document
}

// installed is how many packages of a distribution an image has.
const installed = 400

// most is how many programs are described.
const most = 12

// Make makes everything.
func Make(o Options) error {
	programs, err := collect(o, filepath.Join(o.Dir, "programs"))
	if err != nil {
		return err
	}
	source, err := sourceOf(o.Source)
	if err != nil {
		return err
	}
	things := []Thing{programs, source}
	for _, d := range distributions() {
		image, err := d.image(filepath.Join(o.Dir, d.name), programs)
		if err != nil {
			return err
		}
		things = append(things, image)
	}
	large := Thing{What: "document", Path: filepath.Join(o.Dir, "large.spdx.json")}
	if err := os.WriteFile(large.Path, document(o.Packages), 0o644); err != nil {
		return err
	}
	for i, t := range append(things, large) {
		if err := os.WriteFile(filepath.Join(o.Dir, fmt.Sprintf("truth-%d.json", i)), encode(t.Truth), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(o.Dir, "things.json"), encode(append(things, large)), 0o644)
}

// Made are the things that were made in a directory, without their truth.
func Made(dir string) (things []Thing, err error) {
	raw, err := os.ReadFile(filepath.Join(dir, "things.json"))
	if err != nil {
		return nil, err
	}
	return things, json.Unmarshal(raw, &things)
}

// collect copies the programs to be described into one directory. What they
// are made of they say themselves.
func collect(o Options, dir string) (Thing, error) {
	t := Thing{Path: dir, Scheme: "dir", Truth: map[string]bool{}}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return t, err
	}
	found, err := filepath.Glob(filepath.Join(o.Programs, "*"))
	if err != nil {
		return t, err
	}
	n := 0
	for _, path := range found {
		info, err := buildinfo.ReadFile(path)
		if err != nil || n == most {
			continue
		}
		n++
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			if strings.HasPrefix(m.Path, ".") {
				continue // a directory, which nobody else can know by name
			}
			t.Truth[plain("pkg:golang/"+m.Path+"@"+m.Version)] = true
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return t, err
		}
		t.Bytes += int64(len(raw))
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), raw, 0o755); err != nil {
			return t, err
		}
	}
	t.What = fmt.Sprintf("%d Go programs", n)
	return t, nil
}

// sourceOf is a source tree. What it needs the go command says.
func sourceOf(dir string) (Thing, error) {
	t := Thing{What: "a Go source tree", Path: dir, Scheme: "dir", Truth: map[string]bool{}}
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err != nil {
		return t, err
	}
	edit := exec.Command("go", "mod", "edit", "-json")
	edit.Dir = dir
	raw, err := edit.Output()
	if err != nil {
		return t, err
	}
	var mod struct {
		Require []struct{ Path, Version string }
	}
	if err := json.Unmarshal(raw, &mod); err != nil {
		return t, err
	}
	for _, r := range mod.Require {
		t.Truth[plain("pkg:golang/"+r.Path+"@"+r.Version)] = true
	}
	return t, nil
}

// distribution is how a distribution writes down what is installed.
type distribution struct {
	name, what string
	files      func(put func(purl string)) map[string][]byte
}

func distributions() []distribution {
	return []distribution{
		{"dpkg", "an image with packages of dpkg", func(put func(string)) map[string][]byte {
			var status strings.Builder
			for i := range installed {
				status.WriteString(deb(i))
				put(fmt.Sprintf("pkg:deb/debian/part%d@1.%d-1", i, i))
			}
			return map[string][]byte{
				"etc/os-release": []byte("ID=debian\nVERSION_ID=\"12\"\n"), "var/lib/dpkg/status": []byte(status.String()),
			}
		}},
		{"distroless", "an image with packages in status.d", func(put func(string)) map[string][]byte {
			files := map[string][]byte{"etc/os-release": []byte("ID=debian\nVERSION_ID=\"12\"\n")}
			for i := range installed / 20 {
				files[fmt.Sprintf("var/lib/dpkg/status.d/part%d", i)] = []byte(deb(i))
				put(fmt.Sprintf("pkg:deb/debian/part%d@1.%d-1", i, i))
			}
			return files
		}},
		{"apk", "an image with packages of apk", func(put func(string)) map[string][]byte {
			var db strings.Builder
			for i := range installed {
				fmt.Fprintf(&db, "P:part%d\nV:1.%d-r0\nA:x86_64\nL:MIT\no:part%d\nT:a part\n\n", i, i, i)
				put(fmt.Sprintf("pkg:apk/alpine/part%d@1.%d-r0", i, i))
			}
			return map[string][]byte{
				"etc/os-release": []byte("ID=alpine\nVERSION_ID=3.20.0\n"), "lib/apk/db/installed": []byte(db.String()),
			}
		}},
	}
}

func deb(i int) string {
	return fmt.Sprintf("Package: part%d\nStatus: install ok installed\nArchitecture: amd64\nMaintainer: Lantern <lantern@example.org>\nVersion: 1.%d-1\nDescription: a part\n\n", i, i)
}

// image writes an OCI layout of two layers: the distribution without files,
// and the programs.
func (d distribution) image(dir string, programs Thing) (Thing, error) {
	t := Thing{What: d.what + " and the programs", Path: dir, Scheme: "oci-dir", Truth: map[string]bool{}}
	system := d.files(func(purl string) { t.Truth[purl] = true })
	for purl := range programs.Truth {
		t.Truth[purl] = true
	}
	files := map[string][]byte{}
	found, err := filepath.Glob(filepath.Join(programs.Path, "*"))
	if err != nil {
		return t, err
	}
	for _, path := range found {
		if files["usr/local/bin/"+filepath.Base(path)], err = os.ReadFile(path); err != nil {
			return t, err
		}
	}
	l := layout{dir: dir}
	return t, l.write(system, files)
}

type layout struct{ dir string }

type descriptor struct {
	MediaType string `json:"mediaType"`
	Digest    string `json:"digest"`
	Size      int    `json:"size"`
}

func (l layout) put(mediaType string, raw []byte) (descriptor, error) {
	sum := sha256.Sum256(raw)
	name := hex.EncodeToString(sum[:])
	return descriptor{mediaType, "sha256:" + name, len(raw)}, os.WriteFile(filepath.Join(l.dir, "blobs", "sha256", name), raw, 0o644)
}

func (l layout) write(layers ...map[string][]byte) error {
	if err := os.MkdirAll(filepath.Join(l.dir, "blobs", "sha256"), 0o755); err != nil {
		return err
	}
	var diffs []string
	var list []descriptor
	for _, files := range layers {
		plain, err := pack(files)
		if err != nil {
			return err
		}
		sum := sha256.Sum256(plain)
		diffs = append(diffs, "sha256:"+hex.EncodeToString(sum[:]))
		d, err := l.put("application/vnd.oci.image.layer.v1.tar+gzip", squeeze(plain))
		if err != nil {
			return err
		}
		list = append(list, d)
	}
	config, err := l.put("application/vnd.oci.image.config.v1+json", encode(map[string]any{
		"os": "linux", "architecture": "amd64", "config": map[string]any{}, "rootfs": map[string]any{"type": "layers", "diff_ids": diffs},
	}))
	if err != nil {
		return err
	}
	manifest, err := l.put("application/vnd.oci.image.manifest.v1+json", encode(map[string]any{
		"schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json", "config": config, "layers": list,
	}))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(l.dir, "oci-layout"), []byte(`{"imageLayoutVersion":"1.0.0"}`), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(l.dir, "index.json"), encode(map[string]any{"schemaVersion": 2, "manifests": []descriptor{manifest}}), 0o644)
}

func encode(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic("sbom: " + err.Error())
	}
	return raw
}

func pack(files map[string][]byte) ([]byte, error) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	for name, raw := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o755, Size: int64(len(raw))}); err != nil {
			return nil, err
		}
		if _, err := w.Write(raw); err != nil {
			return nil, err
		}
	}
	err := w.Close()
	return buf.Bytes(), err
}

func squeeze(plain []byte) []byte {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestSpeed)
	if err != nil {
		panic("sbom: " + err.Error())
	}
	_, _ = io.Copy(w, bytes.NewReader(plain)) // a buffer takes everything
	_ = w.Close()
	return buf.Bytes()
}
