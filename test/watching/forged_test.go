package watching

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/lab"
)

// unpacked is what the test reads of a bundle.
type unpacked struct {
	Material struct {
		Certificate struct {
			Raw string `json:"rawBytes"`
		} `json:"certificate"`
	} `json:"verificationMaterial"`
	Signed struct {
		Signature string `json:"signature"`
	} `json:"messageSignature"`
}

// journalOf is a journal with one signature over text, which it has from a bundle.
func journalOf(t *testing.T, text string, bundle []byte) string {
	t.Helper()
	var b unpacked
	if err := json.Unmarshal(bundle, &b); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf(`{"journal":"waybill","version":1}
{"time":"2026-01-01T00:00:00Z","act":"signed","subject":"release blob sha256:%x","detail":{"certificate":%q,"signature":%q}}
`, sha256.Sum256([]byte(text)), b.Material.Certificate.Raw, b.Signed.Signature)
}

// digestOf is the digest of text as a bundle has it.
func digestOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// TestForgedFiles: a file explains an entry only if an identity of the policy signed what
// the entry is about. Each file differs in one fact from one that explains it.
func TestForgedFiles(t *testing.T) {
	other := newWorld(t)
	for name, c := range map[string]struct {
		file      func(t *testing.T, w *world, own []byte) string
		journal   bool
		explained bool
	}{
		"its bundle":                  {file: func(_ *testing.T, _ *world, own []byte) string { return string(own) }, explained: true},
		"a bundle over the same text": {file: func(t *testing.T, w *world, _ []byte) string { return string(w.sign(t, lab.RoleRelease, "planted")) }, explained: true},
		"the same by a stranger":      {file: func(t *testing.T, w *world, _ []byte) string { return string(w.sign(t, lab.RoleVerifier, "planted")) }},
		"the same by other authorities": {file: func(t *testing.T, _ *world, _ []byte) string {
			return string(other.sign(t, lab.RoleRelease, "planted"))
		}},
		"another bundle with its digest": {file: func(t *testing.T, w *world, _ []byte) string {
			return strings.Replace(string(w.sign(t, lab.RoleRelease, "first")), digestOf("first"), digestOf("planted"), 1)
		}},
		"its bundle without the log entry": {file: func(t *testing.T, _ *world, own []byte) string {
			var all map[string]any
			if err := json.Unmarshal(own, &all); err != nil {
				t.Fatal(err)
			}
			delete(all["verificationMaterial"].(map[string]any), "tlogEntries")
			raw, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}},
		"its bundle without the time": {file: func(t *testing.T, _ *world, own []byte) string {
			var all map[string]any
			if err := json.Unmarshal(own, &all); err != nil {
				t.Fatal(err)
			}
			delete(all["verificationMaterial"].(map[string]any), "timestampVerificationData")
			raw, err := json.Marshal(all)
			if err != nil {
				t.Fatal(err)
			}
			return string(raw)
		}},
		"a journal with its signature": {file: func(t *testing.T, _ *world, own []byte) string { return journalOf(t, "planted", own) }, journal: true, explained: true},
		"a journal with another signature": {file: func(t *testing.T, w *world, _ []byte) string {
			return journalOf(t, "planted", w.sign(t, lab.RoleRelease, "first"))
		}, journal: true},
		"a journal with one by a stranger": {file: func(t *testing.T, w *world, _ []byte) string {
			return journalOf(t, "planted", w.sign(t, lab.RoleVerifier, "planted"))
		}, journal: true},
		"a journal with other authorities'": {file: func(t *testing.T, _ *world, _ []byte) string {
			return journalOf(t, "planted", other.sign(t, lab.RoleRelease, "planted"))
		}, journal: true},
		"a journal without a signature": {file: func(t *testing.T, _ *world, _ []byte) string { return journalOf(t, "planted", []byte("{}")) }, journal: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.release(t, "first", "first")
			w.From = 0
			own := w.sign(t, lab.RoleRelease, "planted")
			w.pass(t, "LOG_UNEXPLAINED")
			path := "forged.sigstore.json"
			if c.journal {
				path = "signatures.jsonl"
			}
			if err := os.WriteFile(filepath.Join(w.Explained.Dirs[0], path), []byte(c.file(t, w, own)), 0o600); err != nil {
				t.Fatal(err)
			}
			if c.explained {
				w.pass(t)
				return
			}
			w.pass(t, "LOG_UNEXPLAINED")
		})
	}
}

// TestManyOpenEntries: what is remembered of a log is bounded. While too many entries have
// no explanation, no others are read; one bundle explains all of them here.
func TestManyOpenEntries(t *testing.T) {
	w := newWorld(t)
	w.From = 0
	w.sign(t, lab.RoleVerifier, "of no interest")
	w.pass(t)
	files, err := filepath.Glob(filepath.Join(w.State, "*.cursor.json"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	cursor := func() (c struct {
		Log, Checkpoint, Grown string
		Next                   int64
		Open                   []map[string]string
	}) {
		raw, err := os.ReadFile(files[0])
		if err == nil {
			err = json.Unmarshal(raw, &c)
		}
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	full := cursor()
	for i := range 10_000 {
		full.Open = append(full.Open, map[string]string{"name": fmt.Sprintf("%s/%d", full.Log, i), "content": fmt.Sprintf("%x", sha256.Sum256([]byte("many"))), "signer": "ours"})
	}
	raw, err := json.Marshal(map[string]any{"log": full.Log, "checkpoint": full.Checkpoint, "grown": full.Grown, "next": full.Next, "open": full.Open})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], raw, 0o600); err != nil {
		t.Fatal(err)
	}
	w.sign(t, lab.RoleVerifier, "later")
	v := w.Once(t.Context(), w.now)
	if n := len(v.Findings); n != 10_001 || v.Findings[n-1].Code != "LIMIT" {
		t.Errorf("%d findings, the last %+v", n, v.Findings[n-1])
	}
	if at := cursor(); at.Next != full.Next || len(at.Open) != 10_000 {
		t.Errorf("it read to %d with %d open", at.Next, len(at.Open))
	}
	w.release(t, "many", "many")
	w.pass(t)
	if at := cursor(); at.Next != full.Next+2 || len(at.Open) != 0 {
		t.Errorf("it read to %d with %d open", at.Next, len(at.Open))
	}
}
