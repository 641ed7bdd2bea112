package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
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

// thing is something to describe, with what is true of it.
type thing struct {
	What, Path, Scheme string
	Truth              map[string]bool
}

// debs is how many packages of a distribution the image has.
const debs = 400

// prepared has everything made by a process of its own: the peak memory of a
// child starts at what its parent had.
func prepared(ctx context.Context, o options) (things []thing, err error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	maker := exec.CommandContext(ctx, self, "-prepare", "-waybill", o.waybill, "-programs", o.programs, "-source", o.source, "-dir", o.dir)
	maker.Stderr = os.Stderr
	if err := maker.Run(); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(o.dir, "things.json"))
	if err != nil {
		return nil, err
	}
	return things, json.Unmarshal(raw, &things)
}

func prepare(o options) error {
	programs, err := collect(o, filepath.Join(o.dir, "programs"))
	if err != nil {
		return err
	}
	image, err := layoutOf(filepath.Join(o.dir, "image"), programs)
	if err != nil {
		return err
	}
	for purl := range programs.Truth {
		image.Truth[purl] = true
	}
	source, err := sourceOf(o.source)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(o.dir, "things.json"), encode([]thing{programs, source, image}), 0o644)
}

// collect copies the programs to be described into one directory. What they
// are made of they say themselves.
func collect(o options, dir string) (thing, error) {
	t := thing{What: "Go programs", Path: dir, Scheme: "dir", Truth: map[string]bool{}}
	root, err := exec.Command("go", "env", "GOTOOLDIR").Output()
	if err != nil {
		return t, err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return t, err
	}
	patterns := []string{filepath.Join(strings.TrimSpace(string(root)), "*"), o.waybill}
	if o.programs != "" {
		patterns = append(patterns, filepath.Join(o.programs, "*"))
	}
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return t, err
		}
		for _, path := range found {
			info, err := buildinfo.ReadFile(path)
			if err != nil {
				continue
			}
			for _, m := range info.Deps {
				if m.Replace != nil {
					m = m.Replace
				}
				t.Truth[plain("pkg:golang/"+m.Path+"@"+m.Version)] = true
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				return t, err
			}
			if err := os.WriteFile(filepath.Join(dir, filepath.Base(path)), raw, 0o755); err != nil {
				return t, err
			}
		}
	}
	return t, nil
}

// sourceOf is a source tree. What it needs the go command says.
func sourceOf(dir string) (thing, error) {
	t := thing{What: "a Go source tree", Path: dir, Scheme: "dir", Truth: map[string]bool{}}
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

// layoutOf writes an OCI layout of two layers: a distribution without files,
// and the programs.
func layoutOf(dir string, programs thing) (thing, error) {
	t := thing{What: "an image", Path: dir, Scheme: "oci-dir", Truth: map[string]bool{}}
	var status strings.Builder
	for i := range debs {
		fmt.Fprintf(&status, "Package: part%d\nStatus: install ok installed\nArchitecture: amd64\nMaintainer: Lantern <lantern@example.org>\nVersion: 1.%d-1\n\n", i, i)
		t.Truth[fmt.Sprintf("pkg:deb/debian/part%d@1.%d-1", i, i)] = true
	}
	system := map[string][]byte{
		"etc/os-release": []byte("ID=debian\nVERSION_ID=\"12\"\n"), "var/lib/dpkg/status": []byte(status.String()),
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
	return buf.Bytes(), w.Close()
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
