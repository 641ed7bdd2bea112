// Package inspect shows people what is in a piece of evidence or
// configuration: a Sigstore bundle, an envelope, a
// statement, a link or layout, a certificate, a manifest, an SBOM, a trust root,
// a policy.
//
//	d, err := inspect.Describe(raw)
//	err = inspect.Write(os.Stdout, inspect.Text, d)
//
// A [Document] is parsed and not verified: anyone can write a bundle that names
// any signer. Every output says so first. Only the proof that a log contradicted
// itself can be verified: see [Document.Check]. The kind of a document follows from
// its content, never from its file name. An ambiguous document is refused, as
// in verification. The signer is shown and never a reason to refuse.
//
// Other projects should not import this package: it changes without notice.
package inspect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strconv"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// MaxSize is the largest document, in bytes.
const MaxSize = spdx.MaxSize

// Kind is the kind of a document.
type Kind string

// The known kinds.
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
	CycloneDX     Kind = "CycloneDX document"
	TrustRoot     Kind = "trusted root"
	SigningConfig Kind = "signing config"
	Policy        Kind = "policy"
	Profile       Kind = "profile"
	Release       Kind = "release.yaml"
	Lock          Kind = "release.lock.yaml"
	KnownDefects  Kind = "known defects"
	Declaration   Kind = "declaration"
	Verdict       Kind = "verdict"
	Collection    Kind = "collection"
	Contradiction Kind = "log contradiction"
	Image         Kind = "image"
	Unreadable    Kind = "unreadable"
)

// Field is one fact from a document. A name may occur several times.
type Field struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Document is a parsed document, with the documents inside it.
type Document struct {
	Kind   Kind          `json:"kind"`
	Digest digest.Digest `json:"digest,omitzero"` // of the document's bytes
	Fields []Field       `json:"fields,omitempty"`
	Parts  []Document    `json:"parts,omitempty"`

	claim    provenance.Claim
	proof    watched.Contradiction
	verified bool // a contradiction, by the keys of the log
}

// say adds a field, unless the value is empty.
func (d *Document) say(name, value string) {
	if value != "" {
		d.Fields = append(d.Fields, Field{name, value})
	}
}

// Check verifies the proof that a log contradicted itself, and refuses other documents.
func (d *Document) Check(v *verify.Verifier) (err error) {
	if d.Kind != Contradiction {
		return verdict.Refuse(verdict.Usage, "document", "it is a %s; only the proof that a log contradicted itself is verified here", d.Kind)
	}
	err = d.proof.Check(v)
	d.verified = err == nil
	return err
}

// HasProvenance reports whether d contains provenance, which [Document.Lint]
// checks.
func (d Document) HasProvenance() bool {
	return !d.claim.IsZero() || slices.ContainsFunc(d.Parts, Document.HasProvenance)
}

// Lint lists contradictions in the provenance inside d. It is empty without
// provenance.
func (d Document) Lint() (notes []provenance.Note) {
	if !d.claim.IsZero() {
		notes = provenance.Lint(d.claim)
	}
	for _, part := range d.Parts {
		notes = append(notes, part.Lint()...)
	}
	return notes
}

// Describe recognises the kind of a document and lists what it contains.
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

// kindLine matches the line that names the kind of our own configuration.
var kindLine = pattern.Lazy(`(?m)^kind: *["']?([A-Za-z]+)["']? *(?:#.*)?\r?$`)

// spdxVersion matches the tag that every SPDX document in tag-value has.
var spdxVersion = pattern.Lazy(`(?m)^SPDXVersion:`)

// reader recognises the encoding by the first bytes.
func reader(raw []byte) (func([]byte) (Document, error), error) {
	text := bytes.TrimLeft(raw, " \t\r\n")
	switch {
	case bytes.HasPrefix(text, []byte("-----BEGIN ")):
		return fromPEM, nil
	case bytes.HasPrefix(text, []byte("{")):
		return jsonReader(text)
	case bytes.HasPrefix(raw, []byte{0x30, 0x81}), bytes.HasPrefix(raw, []byte{0x30, 0x82}): // DER, a long sequence
		return fromDER, nil
	case bytes.HasPrefix(text, []byte("LS0tLS1CRUdJTi")): // "-----BEGIN" in base64, the legacy form of a certificate file
		return fromEncodedPEM, nil
	}
	if line := kindLine().FindSubmatch(raw); line != nil {
		if read, ok := configs()[string(line[1])]; ok {
			return read, nil
		}
	}
	if err := format.Of(raw).Refuse(); err != nil {
		return nil, err
	}
	if spdxVersion().Match(raw) {
		return fromSPDX, nil
	}
	return nil, unknown("unknown document: neither JSON, PEM nor a configuration with a kind")
}

func unknown(why string) error {
	return verdict.Refuse(verdict.Usage, "document",
		"%s; want a bundle, envelope, statement, link, layout, certificate, SBOM, trusted root, policy, profile or release.yaml", why)
}

// jsonReader recognises JSON documents by their top-level keys. Only this
// recognition is lenient: each reader parses the bytes again, strictly.
func jsonReader(text []byte) (func([]byte) (Document, error), error) {
	var top map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(&top); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "document", err)
	}
	f := format.Of(text)
	if err := f.Refuse(); err != nil && !f.Print {
		return nil, err
	}
	if f.IsList() {
		return fromList, nil
	}
	for _, form := range forms() {
		if _, ok := top[form.key]; ok {
			return form.read, nil
		}
	}
	return nil, unknown("unknown JSON document")
}

// form recognises one kind of JSON document by a key that only this kind has.
type form struct {
	key  string
	read func([]byte) (Document, error)
}

func forms() []form {
	return []form{
		{"verificationMaterial", fromBundle}, {"dsseEnvelope", fromBundle}, {"messageSignature", fromBundle},
		{"payloadType", fromEnvelope}, {"signed", fromLink}, {"predicateType", fromStatement}, {"_type", fromStatement},
		{"bomFormat", fromCycloneDX}, {"spdxVersion", fromSPDX}, {"SPDXID", fromSPDX},
		{"certificateAuthorities", fromTrustRoot}, {"tlogs", fromTrustRoot}, {"ctlogs", fromTrustRoot}, {"timestampAuthorities", fromTrustRoot},
		{"caUrls", flat(SigningConfig)}, {"rekorTlogUrls", flat(SigningConfig)},
		{"verification_material", fromPyPI},
		{"findings", flat(Verdict)}, {"second", fromContradiction},
	}
}

// OfImage describes an image: the manifest that a tag or a digest names, the
// manifests below it, and the bundles that refer to each.
func OfImage(ctx context.Context, src registry.Source, repo, reference string) (Document, error) {
	graph, err := registry.Target{Source: src, Repository: repo}.Graph(ctx, reference)
	if err != nil {
		return Document{}, err
	}
	return ofNode(ctx, src, repo, graph)
}

func ofNode(ctx context.Context, src registry.Source, repo string, n *registry.Node) (Document, error) {
	d := Document{Kind: Image, Digest: n.Descriptor.Digest}
	d.say("media type", n.Descriptor.MediaType)
	d.say("platform", n.Descriptor.Platform)
	d.say("size", strconv.FormatInt(n.Descriptor.Size, 10))
	if len(n.Layers) > 0 {
		d.say("config", n.Config.Digest.String())
	}
	for _, l := range n.Layers {
		d.say("layer", l.Digest.String()+" "+l.MediaType)
	}
	bundles, err := registry.Bundles(ctx, src, repo, n.Descriptor.Digest)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return Document{}, err
	}
	d.say("bundles", strconv.Itoa(len(bundles)))
	for _, raw := range bundles {
		part, err := Describe(raw)
		if err != nil { // anyone may attach anything
			part = Document{Kind: Unreadable}
			part.say("why", string(verdict.FindingOf("", err).Code)+" "+err.Error())
		}
		d.Parts = append(d.Parts, part)
	}
	for _, child := range n.Children {
		part, err := ofNode(ctx, src, repo, child)
		if err != nil {
			return Document{}, err
		}
		d.Parts = append(d.Parts, part)
	}
	return d, nil
}
