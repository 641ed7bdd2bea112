package seal

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// elf is the head of a program for Linux.
func elf(machine byte) string {
	head := make([]byte, 64)
	copy(head, "\x7fELF\x02\x01\x01")
	head[18] = machine
	return string(head)
}

const (
	ofAMD64 = 62
	ofARM64 = 183
)

func tarOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	packed := gzip.NewWriter(&out)
	w := tar.NewWriter(packed)
	for i, body := range files {
		if err := w.WriteHeader(&tar.Header{Name: string(rune('a' + i)), Mode: 0o755, Size: int64(len(body))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := packed.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zipOf(t *testing.T, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for i, body := range files {
		f, err := w.Create(string(rune('a' + i)))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(body)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestArchives: an archive must hold something, and a program of its platform
// if it holds programs.
func TestArchives(t *testing.T) {
	whole := tarOf(t, "text", elf(ofAMD64))
	for name, c := range map[string]struct {
		file string
		body []byte
		want verdict.Code
	}{
		"of its platform":          {"a.tar.gz", whole, ""},
		"of another":               {"a.tar.gz", tarOf(t, "text", elf(ofARM64)), verdict.Platform},
		"of both":                  {"a.tar.gz", tarOf(t, elf(ofARM64), elf(ofAMD64)), ""},
		"of texts":                 {"a.tar.gz", tarOf(t, "text"), ""},
		"of nothing":               {"a.tar.gz", tarOf(t), verdict.SealMissing},
		"zip of its platform":      {"a.zip", zipOf(t, elf(ofAMD64)), ""},
		"zip of another":           {"a.zip", zipOf(t, elf(ofARM64)), verdict.Platform},
		"zip of nothing":           {"a.zip", zipOf(t), verdict.SealMissing},
		"no bytes":                 {"a.tar.gz", nil, verdict.StatementParse},
		"no bytes of another kind": {"a.deb", nil, verdict.StatementParse},
		"cut off":                  {"a.tar.gz", whole[:len(whole)-20], verdict.StatementParse},
		"a text":                   {"a.tgz", []byte("text"), verdict.StatementParse},
		"of another kind":          {"a.deb", []byte("!<arch>\ndebian-binary"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, err := version.Parse("v1.0.0")
			if err != nil {
				t.Fatal(err)
			}
			w, err := workspace.Create(t.TempDir(), workspace.Identity{Name: "x", Version: v, Plan: digest.Of(digest.SHA256, nil), Invocation: "x"})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.Writer().Put(t.Context(), c.file, int64(len(c.body)), strings.NewReader(string(c.body)), store.PutOptions{}); err != nil {
				t.Fatal(err)
			}
			p := plan.Plan{Artifacts: []plan.Artifact{{Name: c.file, Class: plan.Archive, Platform: "linux/amd64"}}}
			findings, err := carriedFiles{Request: Request{Plan: p, Workspace: w}}.archives(t.Context())
			var got verdict.Code
			if len(findings) > 0 {
				got = findings[0].Code
			}
			if err != nil || got != c.want || got != "" && findings[0].Subject != c.file {
				t.Errorf("%v, %+v, want %q", err, findings, c.want)
			}
		})
	}
}
