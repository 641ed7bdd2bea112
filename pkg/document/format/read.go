package format

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// File is a file of evidence, split.
type File struct {
	Format
	Entries []Entry
}

// Entry is one signed statement or signature, not verified.
type Entry struct {
	Bundle []byte // a Sigstore bundle: as it was written, or made of what was
	Bare   bool   // an envelope without certificate, log entry and time
	Type   string // of the predicate; empty for a plain signature and a large payload
	// Others are bundles of the further signatures of a bare envelope, such as
	// Cloud Build makes with several keys. One by the asked key is enough.
	Others [][]byte
}

// Read splits a file of evidence. It refuses a form that the table only names,
// and a list that is empty, too long, or has an entry twice.
func Read(raw []byte) (File, error) {
	file := File{Format: Of(raw)}
	if err := file.Refuse(); err != nil {
		return File{}, err
	}
	list, err := file.Split(raw)
	if err != nil {
		return File{}, err
	}
	seen := map[string]bool{}
	for i, one := range list {
		text := string(bytes.TrimSpace(one))
		switch e, err := entry(one); {
		case err != nil:
			return File{}, err
		case file.IsList() && Of(one).Read != "statement":
			return File{}, bad("entry %d is neither a bundle nor an envelope", i+1)
		case seen[text]:
			return File{}, bad("entry %d repeats an earlier one; a statement counts once", i+1)
		default:
			seen[text], file.Entries = true, append(file.Entries, e)
		}
	}
	return file, file.check(look(raw))
}

func bad(format string, args ...any) error {
	return verdict.Refuse(verdict.BundleParse, "attestations", format, args...)
}

// Split returns the entries of a list, at least one; or else the text itself.
func (f Format) Split(raw []byte) (list [][]byte, err error) {
	switch {
	case !f.IsList():
		return [][]byte{raw}, nil
	case f.Read == "lines":
		if list, err = intoto.Lines(bytes.TrimRight(raw, "\r\n")); len(list) == 1 {
			return nil, bad("two documents on one line")
		}
		return list, err
	}
	if err := strictjson.Check(raw, strictjson.MaxSize(maxText)); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "attestations", err)
	}
	for _, one := range look(raw).at(f.Read) {
		list = append(list, one)
	}
	switch {
	case len(list) == 0:
		return nil, bad("the list is empty")
	case len(list) > maxListed:
		return nil, verdict.Refuse(verdict.Limit, "attestations", "more than %d in the list", maxListed)
	}
	return list, nil
}

// entry makes a bundle of one statement, unless it is one.
func entry(raw []byte) (e Entry, err error) {
	o := look(raw)
	e.Bundle = raw
	switch {
	case o["verification_material"] != nil:
		e.Bundle, err = o.ofPyPI(raw)
	case o["payloadType"] != nil:
		e.Bundle, e.Bare, e.Others, err = o.ofEnvelope(raw)
	}
	e.Type = look(e.Bundle).text("statement.predicateType")
	return e, err
}

// ofPyPI makes a bundle of an attestation object of PEP 740. Its envelope has
// no payload type: it is always a statement.
func (o object) ofPyPI(raw []byte) ([]byte, error) {
	if err := strictjson.Check(raw); err != nil {
		return nil, verdict.Wrap(verdict.BundleParse, "attestation", err)
	}
	if string(o["version"]) != "1" {
		return nil, verdict.Refuse(verdict.BundleVersion, "attestation", "version %.20s of PyPI's form, want 1", o["version"])
	}
	material := fmt.Sprintf(`"certificate":{"rawBytes":%s},"tlogEntries":%s`, o.at("verification_material.certificate")[0], o.at("verification_material.transparency_entries")[0])
	return bundle(material, o.at("envelope.statement")[0], []byte(`"`+intoto.PayloadType+`"`), o.at("envelope.signature")[0]), nil
}

// maxSignatures limits the signatures of a bare envelope.
const maxSignatures = 8

// ofEnvelope makes a bundle of an envelope. Witness and older generators write
// a certificate, and Witness timestamps, into the signature.
func (o object) ofEnvelope(raw []byte) (made []byte, bare bool, others [][]byte, err error) {
	if _, err := intoto.ParseEnvelope(raw); err != nil {
		return nil, false, nil, err
	}
	encoded, text := o.text("signatures.0.certificate"), o.text("signatures.0.cert")
	material := `"publicKey":{"hint":""}`
	if bare = encoded+text == ""; !bare {
		decoded, _ := base64.StdEncoding.DecodeString(encoded)
		block, _ := pem.Decode(append(decoded, text...))
		if block == nil {
			return nil, false, nil, verdict.Refuse(verdict.CertParse, "envelope", "the certificate beside the signature is not PEM")
		}
		var stamps []string
		for _, t := range o.at("signatures.0.timestamps.*.data") {
			if t != nil {
				stamps = append(stamps, fmt.Sprintf(`{"signedTimestamp":%s}`, t))
			}
		}
		material = fmt.Sprintf(`"certificate":{"rawBytes":%q},"timestampVerificationData":{"rfc3161Timestamps":[%s]}`,
			base64.StdEncoding.EncodeToString(block.Bytes), strings.Join(stamps, ","))
	}
	list := o.at("signatures.*.sig")
	if !bare || len(list) < 2 {
		return bundle(material, o.at("payload")[0], o.at("payloadType")[0], list...), bare, nil, nil
	}
	if len(list) > maxSignatures {
		return nil, false, nil, verdict.Refuse(verdict.SigCount, "envelope", "%d signatures, at most %d are read", len(list), maxSignatures)
	}
	others = slice.Map(list, func(one json.RawMessage) []byte {
		return bundle(material, o.at("payload")[0], o.at("payloadType")[0], one)
	})
	return others[0], bare, others[1:], nil
}

func bundle(material string, payload, payloadType []byte, signatures ...json.RawMessage) []byte {
	list := slice.Map(signatures, func(s json.RawMessage) string { return fmt.Sprintf(`{"sig":%s}`, s) })
	return fmt.Appendf(nil, `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{%s},`+
		`"dsseEnvelope":{"payload":%s,"payloadType":%s,"signatures":[%s]}}`, material, payload, payloadType, strings.Join(list, ","))
}

// check compares the entries of a list with what is written beside them: in
// npm's, the type of each, which differ, and the one package that all are about;
// in Cloud Build's, each statement in readable form, which is not signed.
func (f File) check(o object) error {
	types, shown := o.at("attestations.*.predicateType"), o.at("provenance_summary.provenance.*.build.intotoStatement")
	seen := map[string]bool{}
	for i, e := range f.Entries {
		switch about, first := e.about(), f.Entries[0].about(); {
		case !f.IsList():
		case len(shown) > i && shown[i] != nil && !e.isShown(shown[i]):
			return verdict.Refuse(verdict.NotBound, "attestations", "the statement beside an envelope differs from the one inside it")
		case len(types) <= i || types[i] == nil:
		case seen[e.Type] || !bytes.Equal(types[i], fmt.Appendf(nil, "%q", e.Type)):
			return verdict.Refuse(verdict.Conflict, "attestations", "entry %d is listed as %s, but its statement is %q, or a second one of this type", i+1, types[i], e.Type)
		case about != first:
			return verdict.Refuse(verdict.Conflict, "attestations", "the statements are about different packages: %q and %q", first, about)
		}
		seen[e.Type] = true
	}
	return nil
}

// about names the subjects of a statement with their digests.
func (e Entry) about() string {
	s, _ := intoto.ParseOpen(look(e.Bundle)["statement"]) // the verifier refuses what cannot be parsed
	return fmt.Sprint(s.Subjects())
}

// isShown reports whether a readable statement means the same as the one in the
// envelope. Its predicate has another key.
func (e Entry) isShown(raw []byte) bool {
	shown, signed := look(raw), look(look(e.Bundle)["statement"])
	return !slices.ContainsFunc([]string{"_type", "predicateType", "subject", "predicate"}, func(key string) bool {
		var value [2]any
		for i, raw := range [][]byte{signed[key], shown[cmp.Or(map[string]string{"predicate": "slsaProvenance"}[key], key)]} {
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			_ = d.Decode(&value[i])
		}
		return value[0] == nil || !reflect.DeepEqual(value[0], value[1])
	})
}
