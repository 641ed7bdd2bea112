package main

import (
	"crypto/x509"
	_ "embed"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/test/lab"
)

//go:embed README.md
var readme string

// copyOf is a genuine bundle that may be changed.
func (s *maker) copyOf(name string) *bundlepb.Bundle {
	return proto.Clone(s.genuine[name]).(*bundlepb.Bundle)
}

func (v vector) byKey() bool {
	return v.from == keyBlob || v.from == keyBlobByOther || v.from == keyAttestation
}

func (v vector) isBlob() bool {
	return strings.HasPrefix(v.from, blob) || strings.HasPrefix(v.from, "certificate")
}

// twin is the genuine vector that the change was made to.
func (v vector) twin() string {
	switch {
	case strings.HasPrefix(v.from, "certificate"):
		return forgeries()[0].name
	case strings.HasPrefix(v.from, "statement"):
		return attestation
	}
	for _, g := range genuine() {
		if g.from == v.from {
			return g.name
		}
	}
	return ""
}

// dir is the name in the layout of the conformance suite.
func (v vector) dir() string {
	if v.code != "" {
		return v.name + "_fail"
	}
	return v.name
}

// write makes one vector, judges it and writes its directory.
func (s *maker) write(out string, v vector) error {
	b := s.copyOf(v.from)
	if v.change != nil {
		v.change(s, b)
	}
	raw, err := protojson.Marshal(b)
	if err != nil {
		return err
	}
	if v.text != nil {
		raw = []byte(v.text(string(raw)))
	}
	if err := s.check(v, raw); err != nil {
		return err
	}
	issuer, subject := s.lab.Identity(lab.RoleRelease)
	files := map[string][]byte{
		"bundle.sigstore.json": raw, "artifact": []byte(artifact), "trusted_root.json": s.lab.TrustedRoot,
		"expect": []byte(v.expect()), "identity": []byte(subject + "\n"), "issuer": []byte(issuer + "\n"),
	}
	if v.byKey() {
		delete(files, "identity")
		delete(files, "issuer")
		files["key.pub"] = s.key
	}
	dir := filepath.Join(out, v.dir())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, body := range files {
		if err := os.WriteFile(filepath.Join(dir, name), body, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// expect is the header of a vector.
func (v vector) expect() string {
	answer := "pass"
	if v.code != "" {
		answer = "refuse " + string(v.code)
	}
	text := fmt.Sprintf("expect: %s\nwhy: %s\n", answer, v.why)
	if v.code != "" {
		text += "twin: " + v.twin() + "\n"
	}
	return text
}

// check demands that the vector is answered as its header says.
func (s *maker) check(v vector, raw []byte) error {
	err := s.judge(v, raw)
	if v.code == "" {
		return err
	}
	if err == nil {
		return fmt.Errorf("accepted, want %s", v.code)
	}
	if got := verdict.FindingOf("", err).Code; got != v.code {
		return fmt.Errorf("refused as %s, want %s: %w", got, v.code, err)
	}
	return nil
}

// prover is a verifier of keyless signatures or of those of one key.
type prover interface {
	Attestation(raw []byte) (verify.Evidence, error)
	Blob(raw []byte, artifact digest.Set) (verify.Evidence, error)
}

func (s *maker) prover(v vector) (prover, error) {
	root, err := trust.Parse(s.lab.TrustedRoot)
	if err != nil {
		return nil, err
	}
	keyless, err := verify.New(root)
	if err != nil || !v.byKey() {
		return keyless, err
	}
	block, _ := pem.Decode(s.key)
	if block == nil {
		return nil, errors.New("the key is not PEM")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, err
	}
	return keyless.Key(public)
}

func (s *maker) judge(v vector, raw []byte) error {
	p, err := s.prover(v)
	if err != nil {
		return err
	}
	set := digest.SetOf([]byte(artifact))
	var e verify.Evidence
	if v.isBlob() {
		e, err = p.Blob(raw, set)
	} else {
		e, err = p.Attestation(raw)
	}
	issuer, subject := s.lab.Identity(lab.RoleRelease)
	switch {
	case err != nil:
		return err
	case !e.Covers(artifactName, set):
		return verdict.Refuse(verdict.NotBound, "bundle", "it is of another artifact")
	case !v.byKey() && (e.Identity().Subject != subject || e.Identity().Issuer != issuer):
		return verdict.Refuse(verdict.Identity, "bundle", "signed by %s", e.Identity())
	}
	return nil
}

// writeReadme writes the explanation and the list of all vectors.
func writeReadme(out string, all []vector) error {
	var list strings.Builder
	list.WriteString(readme)
	for _, v := range all {
		header := strings.Split(v.expect(), "\n")[0]
		fmt.Fprintf(&list, "| `%s` | %s | %s |\n", v.dir(), strings.TrimPrefix(header, "expect: "), v.why)
	}
	return os.WriteFile(filepath.Join(out, "README.md"), []byte(list.String()), 0o644)
}
