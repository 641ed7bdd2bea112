// Package inspect says what a piece of evidence or configuration says, for a
// person who wants to look inside: a Sigstore bundle, an envelope, a
// statement, a link or layout, a certificate, a manifest, an SBOM, a trust root,
// a policy.
//
//	d, err := inspect.Describe(raw)
//	err = inspect.Write(os.Stdout, inspect.Text, d)
//
// A [Document] is parsed, and nobody has been believed: anybody can write a
// bundle that names anybody. Every output says so first. What something is
// follows from its content, never from the name of its file; what cannot be
// read without doubt is refused as it would be when it is verified. Who signed
// is told, and never a reason to refuse.
package inspect

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// MaxSize bounds what is looked at.
const MaxSize = spdx.MaxSize

// Kind is what a document is.
type Kind string

// The kinds that are recognised.
const (
	Bundle        Kind = "sigstore bundle"
	Envelope      Kind = "DSSE envelope"
	Statement     Kind = "in-toto statement"
	Link          Kind = "in-toto link"
	Layout        Kind = "in-toto layout"
	Predicate     Kind = "predicate"
	Certificate   Kind = "certificate"
	PublicKey     Kind = "public key"
	LogEntry      Kind = "log entry"
	Timestamp     Kind = "timestamp"
	SBOM          Kind = "SPDX document"
	TrustRoot     Kind = "trusted root"
	SigningConfig Kind = "signing config"
	Policy        Kind = "policy"
	Profile       Kind = "profile"
	Release       Kind = "release.yaml"
	Lock          Kind = "release.lock.yaml"
	KnownDefects  Kind = "known defects"
	Verdict       Kind = "verdict"
	Collection    Kind = "collection"
	Image         Kind = "image"
	Unreadable    Kind = "unreadable"
)

// Field is one thing that a document says. A name may appear several times.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Document is what was read, with the documents inside it.
type Document struct {
	Kind   Kind          `json:"kind"`
	Digest digest.Digest `json:"digest,omitzero"` // of the bytes that were read
	Fields []Field       `json:"fields,omitempty"`
	Parts  []Document    `json:"parts,omitempty"`

	claim provenance.Claim
}

// say adds a field, unless there is nothing to say.
func (d *Document) say(name, value string) {
	if value != "" {
		d.Fields = append(d.Fields, Field{name, value})
	}
}

// HasProvenance reports whether there is provenance in d for [Document.Lint] to
// look at.
func (d Document) HasProvenance() bool {
	return !d.claim.IsZero() || slices.ContainsFunc(d.Parts, Document.HasProvenance)
}

// Lint names everything in the provenance inside d that its own content
// contradicts. It is empty where there is no provenance.
func (d Document) Lint() []provenance.Note {
	var notes []provenance.Note
	if !d.claim.IsZero() {
		notes = provenance.Lint(d.claim)
	}
	for _, part := range d.Parts {
		notes = append(notes, part.Lint()...)
	}
	return notes
}

// Describe recognises what raw is and says what it says.
func Describe(raw []byte) (Document, error) {
	if len(raw) > MaxSize {
		return Document{}, verdict.Refuse(verdict.Limit, "document", "%d bytes, the limit is %d", len(raw), MaxSize)
	}
	read, err := reader(raw)
	if err != nil {
		return Document{}, err
	}
	d, err := read(raw)
	if err != nil {
		return Document{}, err
	}
	d.Digest = digest.Of(digest.SHA256, raw)
	return d, nil
}

// kindLine is the line by which our own configuration says what it is.
var kindLine = regexp.MustCompile(`(?m)^kind: *["']?([A-Za-z]+)["']? *(?:#.*)?\r?$`)

// reader recognises the form by its first bytes.
func reader(raw []byte) (func([]byte) (Document, error), error) {
	text := bytes.TrimLeft(raw, " \t\r\n")
	switch {
	case bytes.HasPrefix(text, []byte("-----BEGIN ")):
		return fromPEM, nil
	case bytes.HasPrefix(text, []byte("{")):
		return jsonReader(text)
	case bytes.HasPrefix(raw, []byte{0x30, 0x81}), bytes.HasPrefix(raw, []byte{0x30, 0x82}): // a long sequence
		return fromDER, nil
	case isEncodedPEM(text):
		return fromEncodedPEM, nil
	}
	if line := kindLine.FindSubmatch(raw); line != nil {
		if read, ok := configs()[string(line[1])]; ok {
			return read, nil
		}
	}
	return nil, unknown("neither JSON, PEM nor a configuration that names its kind")
}

func unknown(why string) error {
	return verdict.Refuse(verdict.Usage, "document",
		"%s; want a bundle, envelope, statement, link, layout, certificate, SBOM, trusted root, policy, profile or release.yaml", why)
}

// jsonReader recognises JSON by the keys at the top. Only recognition is
// lenient: each reader reads the bytes again, strictly.
func jsonReader(text []byte) (func([]byte) (Document, error), error) {
	var top map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&top); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "document", err)
	}
	if rest := bytes.TrimLeft(text[decoder.InputOffset():], " \t\r\n"); bytes.HasPrefix(rest, []byte("{")) {
		return fromLines, nil
	}
	for _, form := range forms() {
		if _, ok := top[form.key]; ok {
			return form.read, nil
		}
	}
	return nil, unknown("JSON of a form that is not known")
}

// form recognises one kind of JSON by a key that no other kind has.
type form struct {
	key  string
	read func([]byte) (Document, error)
}

func forms() []form {
	return []form{
		{"verificationMaterial", fromBundle}, {"dsseEnvelope", fromBundle}, {"messageSignature", fromBundle},
		{"payloadType", fromEnvelope}, {"signed", fromLink}, {"predicateType", fromStatement}, {"_type", fromStatement},
		{"spdxVersion", fromSPDX}, {"SPDXID", fromSPDX},
		{"certificateAuthorities", fromTrustRoot}, {"tlogs", fromTrustRoot}, {"ctlogs", fromTrustRoot}, {"timestampAuthorities", fromTrustRoot},
		{"caUrls", flat(SigningConfig)}, {"rekorTlogUrls", flat(SigningConfig)},
		{"attestations", fromCollection}, {"provenance_summary", fromCloudBuild}, {"image_summary", fromCloudBuild},
		{"findings", flat(Verdict)},
	}
}
