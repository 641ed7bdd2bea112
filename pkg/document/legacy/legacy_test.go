package legacy_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sigstore/cosign/v2/pkg/oci"
	"github.com/sigstore/cosign/v2/pkg/oci/static"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The files in testdata are of one laboratory, whose keys are lost. What they
// prove is judged in the test module; here they are read.
func fixture(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func artifact(t testing.TB) digest.Digest {
	t.Helper()
	return digest.Of(digest.SHA256, fixture(t, "artifact"))
}

func annotations(t testing.TB) map[string]string {
	t.Helper()
	var a map[string]string
	if err := json.Unmarshal(fixture(t, "annotations.json"), &a); err != nil {
		t.Fatal(err)
	}
	return a
}

// whole demands that what was parsed can be written, the same way twice.
func whole(t testing.TB, m legacy.Material) {
	t.Helper()
	first, err := m.Bundle()
	if err != nil {
		t.Fatalf("parsed, but cannot be written: %v", err)
	}
	second, err := m.Bundle()
	if err != nil || !bytes.Equal(first, second) || !json.Valid(first) {
		t.Fatalf("written as %q, then as %q (%v)", first, second, err)
	}
	if m.IsZero() || m.Name().IsZero() || m.Signed().IsZero() {
		t.Fatal("parsed, but nameless")
	}
}

func TestForms(t *testing.T) {
	files := func(t *testing.T) (legacy.Material, error) {
		return legacy.ParseFiles(legacy.Certificate, artifact(t), fixture(t, "artifact.sig"), fixture(t, "artifact.cert"))
	}
	for _, c := range []struct {
		name   string
		parse  func(t *testing.T) (legacy.Material, error)
		logged bool
	}{
		{"files", files, false},
		{"files with a log entry", func(t *testing.T) (legacy.Material, error) {
			m, err := files(t)
			if err != nil {
				return m, err
			}
			_, e, err := legacy.ParseAnswer(fixture(t, "answer.json"))
			if err != nil {
				return m, err
			}
			return m.With(e)
		}, true},
		{"bundle", func(t *testing.T) (legacy.Material, error) {
			return legacy.ParseBundle(legacy.Certificate, artifact(t), fixture(t, "bundle.json"))
		}, true},
		{"attestation", func(t *testing.T) (legacy.Material, error) {
			return legacy.ParseAttestation(legacy.Certificate, layer(t, fixture(t, "envelope.json"), annotations(t)))
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, err := c.parse(t)
			if err != nil {
				t.Fatal(err)
			}
			whole(t, m)
			raw, err := m.Bundle()
			if err != nil {
				t.Fatal(err)
			}
			said, err := verify.Read(raw)
			if err != nil {
				t.Fatal(err)
			}
			if m.Logged() != c.logged || (len(said.Entries) == 1) != c.logged || said.IsAttestation() != m.IsAttestation() || len(said.Certificates) != 1 {
				t.Errorf("logged %t, the bundle says %+v", m.Logged(), said)
			}
		})
	}
}

// layer is one of a tag.
func layer(t testing.TB, payload []byte, annotations map[string]string) oci.Signature {
	t.Helper()
	l, err := static.NewSignature(payload, annotations[static.SignatureAnnotationKey], static.WithAnnotations(annotations))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestEntryName is the name by which the log itself knows the entry.
func TestEntryName(t *testing.T) {
	m, err := legacy.ParseFiles(legacy.Certificate, artifact(t), fixture(t, "artifact.sig"), fixture(t, "artifact.cert"))
	if err != nil {
		t.Fatal(err)
	}
	name, _, err := legacy.ParseAnswer(fixture(t, "answer.json"))
	if err != nil || !strings.HasSuffix(name, m.EntryName()) || len(m.EntryName()) != 64 {
		t.Errorf("the log calls it %s, we %s (%v)", name, m.EntryName(), err)
	}
}

// TestMangled refuses every form cut short anywhere, and never panics.
func TestMangled(t *testing.T) {
	for name, parse := range map[string]func([]byte) error{
		"bundle.json": func(b []byte) error {
			_, err := legacy.ParseBundle(legacy.Certificate, artifact(t), b)
			return err
		},
		"answer.json": func(b []byte) error {
			_, _, err := legacy.ParseAnswer(b)
			return err
		},
		"payload.json": func(b []byte) error {
			_, err := legacy.ParsePayload(b)
			return err
		},
		"envelope.json": func(b []byte) error {
			_, err := legacy.ParseAttestation(legacy.Certificate, layer(t, b, annotations(t)))
			return err
		},
	} {
		raw := bytes.TrimSpace(fixture(t, name))
		for i := range raw {
			if err := parse(raw[:i]); err == nil || verdict.FindingOf("", err).Code == verdict.InternalBug {
				t.Errorf("%s cut at %d: %v", name, i, err)
			}
			bumped := bytes.Clone(raw)
			bumped[i]++
			if err := parse(bumped); err != nil && verdict.FindingOf("", err).Code == verdict.InternalBug {
				t.Errorf("%s bumped at %d: %v", name, i, err)
			}
		}
		if err := parse(raw); err != nil {
			t.Errorf("%s as it is: %v", name, err)
		}
	}
}

func TestLimits(t *testing.T) {
	long := bytes.Repeat([]byte("A"), legacy.MaxCertificate+4)
	for name, c := range map[string]struct{ signature, certificate []byte }{
		"a long signature":   {long, fixture(t, "artifact.cert")},
		"a long certificate": {fixture(t, "artifact.sig"), long},
	} {
		_, err := legacy.ParseFiles(legacy.Certificate, artifact(t), c.signature, c.certificate)
		if verdict.FindingOf("", err).Code != verdict.Limit {
			t.Errorf("%s: %v", name, err)
		}
	}
}
