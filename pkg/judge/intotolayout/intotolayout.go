// Package intotolayout verifies files against an in-toto layout: every step
// must be signed by a key that the layout allows for it, its materials and
// products must match the rules, and each artifact must pass unchanged from
// step to step.
//
//	v := intotolayout.Judge(intotolayout.Request{Layout: raw, Keys: owners, Links: directory, Files: files, Now: now})
//
// There are two kinds of document: layouts, and links, each of which records
// what one step read and made. Both are read in the two signed forms that
// exist: the DSSE envelope, and the older {"signed": …, "signatures": […]}.
//
// in-toto-golang parses the documents and applies the rules. This package does
// the rest of its verification, because the library runs the commands of
// inspections, prints warnings to the terminal, reads the clock, treats a
// threshold of zero as met, does not check that a link belongs to its step, and
// fails on an empty rule.
//
// Other projects should not import this package: it changes without notice.
package intotolayout

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/in-toto/in-toto-golang/in_toto"
	"github.com/secure-systems-lab/go-securesystemslib/cjson"
	"github.com/secure-systems-lab/go-securesystemslib/signerverifier"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The limits of one document.
const (
	MaxSize      = 16 << 20
	maxArtifacts = 100_000 // materials and products of a link
	maxSteps     = 256
	maxRules     = 2_000 // in a whole layout
)

// Document is a signed link or layout, parsed and not yet verified.
type Document struct {
	link   *in_toto.Link
	layout *in_toto.Layout

	digest     digest.Digest
	payload    json.RawMessage
	envelope   bool
	signed     []byte // the signed bytes
	signatures []intoto.Signature
}

// IsLayout reports whether the document is a layout; if not, it is a link.
func (d Document) IsLayout() bool { return d.layout != nil }

// Form names the form in which the document is signed.
func (d Document) Form() string {
	if d.envelope {
		return "DSSE envelope"
	}
	return "signed and signatures"
}

// Payload is the link or layout itself, exactly as written.
func (d Document) Payload() json.RawMessage { return slices.Clone(d.payload) }

// KeyIDs are the key ids beside its signatures. They are not signed.
func (d Document) KeyIDs() []string {
	return slice.Map(d.signatures, func(s intoto.Signature) string { return s.KeyID })
}

// Is reports whether the payload of an envelope is a link or a layout;
// statements use the same payload type.
func Is(payload []byte) bool {
	var top struct {
		Type string `json:"_type"`
	}
	return json.Unmarshal(payload, &top) == nil && (top.Type == "link" || top.Type == "layout")
}

// Parse reads a link or a layout in either form.
func Parse(raw []byte) (Document, error) {
	if len(raw) > MaxSize {
		return Document{}, verdict.Refuse(verdict.Limit, "in-toto document", "%d bytes, the limit is %d", len(raw), MaxSize)
	}
	var top map[string]json.RawMessage
	if err := strictjson.Unmarshal(raw, &top, strictjson.MaxSize(MaxSize)); err != nil {
		return Document{}, refuse(err)
	}
	d := Document{digest: digest.Of(digest.SHA256, raw)}
	read := d.readSigned
	if _, d.envelope = top["payloadType"]; d.envelope {
		read = d.readEnvelope
	}
	if err := read(raw); err != nil {
		return Document{}, err
	}
	return d, d.readPayload()
}

func refuse(cause error) error {
	return verdict.Wrap(verdict.StatementParse, "in-toto document", cause)
}

func (d *Document) readEnvelope(raw []byte) error {
	e, err := intoto.ParseEnvelope(raw)
	if err != nil {
		return err
	}
	if e.PayloadType != in_toto.PayloadType {
		return verdict.Refuse(verdict.PayloadType, "in-toto document", "payload type %q is not an in-toto one", e.PayloadType)
	}
	d.payload, d.signed, d.signatures = e.Payload, e.PAE(), e.Signatures
	return nil
}

// readSigned reads the older form. Its signatures cover the canonical JSON of
// the bytes as written, so it must not be encoded again from a struct: other
// programs may have written empty fields.
func (d *Document) readSigned(raw []byte) error {
	var wire struct {
		Signed     json.RawMessage     `json:"signed"`
		Signatures []in_toto.Signature `json:"signatures"`
	}
	if err := strictjson.UnmarshalOpen(raw, &wire, strictjson.MaxSize(MaxSize)); err != nil {
		return refuse(err)
	}
	if len(wire.Signed) == 0 || len(wire.Signatures) > intoto.MaxSignatures {
		return verdict.Refuse(verdict.StatementParse, "in-toto document", "want a \"signed\" object and at most %d signatures", intoto.MaxSignatures)
	}
	for i, s := range wire.Signatures {
		sig, err := hex.DecodeString(s.Sig)
		if err != nil {
			return verdict.Refuse(verdict.StatementParse, "in-toto document", "signature %d is not hexadecimal", i)
		}
		d.signatures = append(d.signatures, intoto.Signature{KeyID: s.KeyID, Sig: sig})
	}
	d.payload = wire.Signed
	canonical, err := cjson.EncodeCanonical(wire.Signed)
	if err != nil {
		return refuse(err)
	}
	d.signed = canonical
	return nil
}

func (d *Document) readPayload() error {
	var kind struct {
		Type string `json:"_type"`
	}
	if err := strictjson.UnmarshalOpen(d.payload, &kind, strictjson.MaxSize(MaxSize)); err != nil {
		return refuse(err)
	}
	switch kind.Type {
	case "link":
		d.link = &in_toto.Link{}
		if err := strictjson.Unmarshal(d.payload, d.link, strictjson.MaxSize(MaxSize)); err != nil {
			return refuse(err)
		}
		return checkLink(d.link)
	case "layout":
		d.layout = &in_toto.Layout{}
		if err := strictjson.Unmarshal(d.payload, d.layout, strictjson.MaxSize(MaxSize)); err != nil {
			return refuse(err)
		}
		return checkLayout(d.layout)
	}
	return verdict.Refuse(verdict.StatementType, "in-toto document", "type %q is neither a link nor a layout", kind.Type)
}

func checkLink(l *in_toto.Link) error {
	bad := func(format string, args ...any) error {
		return verdict.Refuse(verdict.StatementParse, "link "+l.Name, format, args...)
	}
	if l.Name == "" || l.Materials == nil || l.Products == nil {
		return bad("the link lacks the name of its step, its materials or its products")
	}
	if n := len(l.Materials) + len(l.Products); n > maxArtifacts {
		return verdict.Refuse(verdict.Limit, "link "+l.Name, "%d materials and products, the limit is %d", n, maxArtifacts)
	}
	if err := in_toto.ValidateMetablock(in_toto.Metablock{Signed: *l}); err != nil {
		return bad("%v", err)
	}
	for _, list := range []*map[string]in_toto.HashObj{&l.Materials, &l.Products} {
		// The rules compare clean paths with clean and with other paths.
		clean := make(map[string]in_toto.HashObj, len(*list))
		for name, digests := range *list {
			if _, twice := clean[path.Clean(name)]; twice || name == "" {
				return bad("artifact %q is listed twice, or its name is empty", path.Clean(name))
			}
			if !binds(digests) {
				return bad("artifact %q has no strong digest: want sha256, sha384, sha512 or gitCommit", name)
			}
			clean[path.Clean(name)] = digests
		}
		*list = clean
	}
	return nil
}

// binds reports whether an artifact has a digest that identifies its bytes. Two
// artifacts without one would compare as equal.
func binds(digests in_toto.HashObj) bool {
	n := map[string]int{"sha256": 64, "sha384": 96, "sha512": 128, "gitCommit": 40}
	for algorithm, value := range digests {
		if n[algorithm] == len(value) && strings.Trim(value, "0123456789abcdef") == "" {
			return true
		}
	}
	return false
}

func checkLayout(l *in_toto.Layout) error {
	bad := func(format string, args ...any) error {
		return verdict.Refuse(verdict.StatementParse, "layout", format, args...)
	}
	rules := 0
	for _, s := range l.Steps {
		for _, list := range [][][]string{s.ExpectedMaterials, s.ExpectedProducts} {
			rules += len(list)
			for _, rule := range list {
				if err := checkRule(rule); err != nil {
					return bad("step %s: %v", s.Name, err)
				}
			}
		}
		switch {
		case s.Threshold < 1:
			return bad("step %s: threshold %d, want at least 1", s.Name, s.Threshold)
		case len(s.CertificateConstraints) > 0 && len(s.PubKeys) < s.Threshold:
			return bad("step %s authorizes certificates, which are not supported: have the layout authorize keys", s.Name)
		case s.Name == "." || strings.ContainsAny(s.Name, `/\*?[`) || strings.Contains(s.Name, ".."):
			return bad("step name %q cannot be part of a file name", s.Name)
		}
	}
	switch {
	case len(l.Steps) == 0:
		return bad("the layout has no steps, so it requires nothing")
	case len(l.Steps)+len(l.Inspect) > maxSteps, rules > maxRules:
		return verdict.Refuse(verdict.Limit, "layout", "%d steps and %d rules, the limits are %d and %d", len(l.Steps), rules, maxSteps, maxRules)
	}
	for id, key := range l.Keys {
		if strings.HasPrefix(key.KeyType, "ecdsa-sha2-") { // spelling of other writers
			key.KeyType = "ecdsa"
			l.Keys[id] = key
		}
	}
	if err := in_toto.ValidateMetablock(in_toto.Metablock{Signed: *l}); err != nil {
		return bad("%v", err)
	}
	return nil
}

// checkRule refuses a rule that the library would read as one that matches
// nothing.
func checkRule(rule []string) error {
	if len(rule) == 0 {
		return fmt.Errorf("empty rule")
	}
	words, err := in_toto.UnpackRule(rule)
	if err != nil {
		return fmt.Errorf("%q is not a valid rule", rule)
	}
	if to := words["dstType"]; words["type"] == "match" && to != "materials" && to != "products" {
		return fmt.Errorf("rule %q: want WITH MATERIALS or WITH PRODUCTS", rule)
	}
	for name, text := range words {
		if name != "type" && name != "dstType" && !isPattern(path.Clean(text)) {
			return fmt.Errorf("rule %q has an invalid pattern", rule)
		}
	}
	return nil
}

// isPattern reports whether the library can match with a pattern. The library
// skips an unreadable pattern, so a DISALLOW rule with one would disallow
// nothing.
func isPattern(text string) bool {
	for text != "" {
		switch text[0] {
		case '\\':
			if text = text[1:]; text == "" {
				return false
			}
		case '[':
			end := class(strings.TrimPrefix(text[1:], "!"))
			if end == "" {
				return false
			}
			text = end
		}
		text = text[1:]
	}
	return true
}

// class returns the rest of a pattern from the closing bracket of a character
// class on, or "".
func class(text string) string {
	one := func() bool {
		if strings.HasPrefix(text, "-") || strings.HasPrefix(text, "]") {
			return false
		}
		text = strings.TrimPrefix(text, `\`)
		_, n := utf8.DecodeRuneInString(text)
		text = text[n:]
		return text != "" // the class ends after it
	}
	for n := 0; ; n++ {
		if n > 0 && strings.HasPrefix(text, "]") {
			return text
		}
		if !one() {
			return ""
		}
		if rest, is := strings.CutPrefix(text, "-"); is {
			if text = rest; !one() {
				return ""
			}
		}
	}
}

// key is a key that verifies links and layouts.
type key struct {
	in_toto.Key
	public   digest.Digest // computed from the key, not its declared id
	verifier interface {
		Verify(ctx context.Context, data, sig []byte) error
	}
}

// keyOf converts a public key that the user gave.
func keyOf(public crypto.PublicKey) (key, error) {
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return key{}, verdict.Wrap(verdict.Usage, "key", err)
	}
	var k in_toto.Key
	if err := k.LoadKeyReaderDefaults(bytes.NewReader(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))); err != nil {
		return key{}, verdict.Wrap(verdict.Usage, "key", err)
	}
	return readKey(k)
}

// readKey reads a key of a layout. The library believes the declared key type,
// and fails if the key has another.
func readKey(k in_toto.Key) (key, error) {
	bad := func(cause error) (key, error) {
		return key{}, verdict.Wrap(verdict.StatementParse, "key "+k.KeyID, cause)
	}
	var public crypto.PublicKey
	if k.KeyType == "ed25519" {
		raw, err := hex.DecodeString(k.KeyVal.Public)
		if err != nil || len(raw) != ed25519.PublicKeySize {
			return bad(fmt.Errorf("not an ed25519 public key"))
		}
		public = ed25519.PublicKey(raw)
	} else {
		block, _ := pem.Decode([]byte(k.KeyVal.Public))
		if block == nil {
			return bad(fmt.Errorf("want a public key in PEM"))
		}
		var err error
		if public, err = x509.ParsePKIXPublicKey(block.Bytes); err != nil {
			return bad(err)
		}
	}
	if err := verify.CheckKey(public); err != nil {
		return bad(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		return bad(err)
	}
	out := key{Key: k, public: digest.Of(digest.SHA256, der)}
	ssl := &signerverifier.SSLibKey{
		KeyIDHashAlgorithms: k.KeyIDHashAlgorithms, KeyType: k.KeyType, Scheme: k.Scheme, KeyID: k.KeyID,
		KeyVal: signerverifier.KeyVal{Public: k.KeyVal.Public},
	}
	kind := strings.ToLower(strings.TrimLeft(strings.TrimSuffix(fmt.Sprintf("%T", public), ".PublicKey"), "*"))
	switch {
	case kind != k.KeyType:
		return bad(fmt.Errorf("declared as %s, but the key is %s", k.KeyType, kind))
	case kind == "rsa":
		out.verifier, err = signerverifier.NewRSAPSSSignerVerifierFromSSLibKey(ssl)
	case kind == "ecdsa":
		out.verifier, err = signerverifier.NewECDSASignerVerifierFromSSLibKey(ssl)
	default:
		out.verifier, err = signerverifier.NewED25519SignerVerifierFromSSLibKey(ssl)
	}
	if err != nil {
		return bad(err)
	}
	return out, nil
}

// signed reports whether a key signed a document. Programs derive key ids in
// different ways, so an id is only a hint and every signature is tried.
func (k key) signed(d Document) bool {
	return slices.ContainsFunc(d.signatures, func(s intoto.Signature) bool {
		return len(s.Sig) > 0 && k.verifier.Verify(context.Background(), d.signed, s.Sig) == nil
	})
}
