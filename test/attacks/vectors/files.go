package main

import (
	_ "embed" // the page
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/waybill-release/waybill/pkg/document/provenance"
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

// twin is the vector that passes, and from which this one differs by its
// change.
func (v question) twin() string {
	switch {
	case v.beside != "":
		return v.beside
	case v.code != "" && strings.HasPrefix(v.from, "certificate"):
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

// rows are the rows of the table of attacks that the vector is of.
var rows = regexp.MustCompile(`^[A-F][0-9]{2}`)

// dir is the name in the layout of the conformance suite, with the row of the
// table of attacks in front.
func (v vector) dir() string {
	name := v.name
	if row := rows.FindString(v.why); row != "" {
		name = row + "-" + name
	}
	if v.code != "" {
		name += "_fail"
	}
	return name
}

// write makes one vector, writes its directory and judges it there.
func (s *maker) write(out string, v question) error {
	b := s.copyOf(v.from)
	if v.change != nil {
		v.change(s, b)
	}
	trusted, err := s.trustedRoot(v, b)
	if err != nil {
		return err
	}
	raw, err := protojson.Marshal(b)
	if err != nil {
		return err
	}
	if v.text != nil {
		raw = []byte(v.text(string(raw)))
	}
	issuer, subject := s.lab.Identity(lab.RoleRelease)
	files := map[string][]byte{
		"bundle.sigstore.json": raw, "artifact": []byte(artifact), "trusted_root.json": trusted, "kind": []byte(v.kind() + "\n"),
		"expect": []byte(v.expect()), "identity": []byte(subject + "\n"), "issuer": []byte(issuer + "\n"),
	}
	if v.byKey() {
		delete(files, "identity")
		delete(files, "issuer")
		files["key.pub"] = s.key
	}
	dir := filepath.Join(out, v.dir())
	for i, word := range v.ask {
		if v.ask[i] == "--certificate-identity-regexp" {
			delete(files, "identity")
		}
		if i > 0 && v.ask[i-1] == "--revoked" {
			files[word] = []byte(s.revocations(word))
		}
	}
	if len(v.ask) > 0 {
		files["ask"] = []byte(strings.Join(v.ask, "\n") + "\n")
	}
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

// trustedRoot is the lab's, as the vector changes it.
func (s *maker) trustedRoot(v question, b *bundlepb.Bundle) ([]byte, error) {
	if v.root == nil {
		return s.lab.TrustedRoot, nil
	}
	var root map[string]any
	if err := json.Unmarshal(s.lab.TrustedRoot, &root); err != nil {
		return nil, err
	}
	v.root(s, b, root)
	return json.Marshal(root)
}

// kind is what is asked for: a signature of the artifact, or an attestation of
// a type.
func (v vector) kind() string {
	switch {
	case v.isBlob():
		return "blob"
	case strings.HasPrefix(v.from, "provenance"):
		return provenance.PredicateType
	}
	return predicateType
}

// expect is the header of a vector.
func (v question) expect() string {
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

// writeReadme writes the explanation and the list of all vectors.
func writeReadme(out string, all []question) error {
	var list strings.Builder
	list.WriteString(readme)
	for _, v := range all {
		header := strings.Split(v.expect(), "\n")[0]
		fmt.Fprintf(&list, "| `%s` | %s | %s |\n", v.dir(), strings.TrimPrefix(header, "expect: "), v.why)
	}
	return os.WriteFile(filepath.Join(out, "README.md"), []byte(list.String()), 0o644)
}
