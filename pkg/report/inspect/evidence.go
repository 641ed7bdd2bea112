package inspect

import (
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/intotolayout"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func fromBundle(raw []byte) (Document, error) {
	said, err := verify.Read(raw)
	if err != nil {
		return Document{}, err
	}
	d := Document{Kind: Bundle}
	d.say("media type", said.MediaType)
	if said.IsAttestation() {
		d.say("signs", "an envelope of type "+said.PayloadType)
		d.say("signatures", strconv.Itoa(said.Signatures))
	} else {
		d.say("signs", "bytes")
		algorithm := strings.ToLower(strings.Replace(said.Algorithm, "SHA2_", "SHA", 1))
		d.say("digest", algorithm+":"+hex.EncodeToString(said.Digest))
	}
	if len(said.Certificates) == 0 {
		d.say("signed by", fmt.Sprintf("a public key with hint %q", said.KeyHint))
	}
	for i, der := range said.Certificates {
		part, err := fromDER(der)
		if err != nil {
			return Document{}, err
		}
		if i == 0 {
			d.say("signed by", part.value("identity"))
		}
		d.Parts = append(d.Parts, part)
	}
	d.Parts = append(d.Parts, slice.Map(said.Entries, entry)...)
	for i := range said.Timestamps {
		d.Parts = append(d.Parts, timestamp(said, i))
	}
	if said.PayloadType != intoto.PayloadType {
		return d, nil
	}
	statement, err := fromStatement(said.Payload)
	if err != nil {
		return Document{}, err
	}
	d.Parts = append(d.Parts, statement)
	return d, nil
}

// value is the value of the first field of a name.
func (d Document) value(name string) string {
	return slice.First(d.Fields, func(f Field) bool { return f.Name == name }).Value
}

func entry(e verify.SaidEntry) Document {
	d := Document{Kind: LogEntry}
	d.say("log", hex.EncodeToString(e.LogID))
	d.say("index", strconv.FormatInt(e.LogIndex, 10))
	d.say("entry", strings.TrimSpace(e.Kind+" "+e.Version))
	if !e.Integrated.IsZero() {
		d.say("integrated", e.Integrated.Format(time.RFC3339))
	}
	if lines := strings.Split(e.Checkpoint, "\n"); len(lines) > 1 {
		d.say("checkpoint", lines[0])
		d.say("tree size", lines[1])
	}
	return d
}

func fromEnvelope(raw []byte) (Document, error) {
	e, err := intoto.ParseEnvelope(raw)
	if err != nil {
		return Document{}, err
	}
	if e.PayloadType == intoto.PayloadType && intotolayout.Is(e.Payload) {
		return fromLink(raw)
	}
	d := Document{Kind: Envelope}
	d.say("payload type", e.PayloadType)
	d.say("signatures", strconv.Itoa(len(e.Signatures)))
	for _, s := range e.Signatures {
		d.say("key id", s.KeyID)
	}
	if e.PayloadType != intoto.PayloadType {
		return d, nil
	}
	statement, err := fromStatement(e.Payload)
	if err != nil {
		return Document{}, err
	}
	d.Parts = []Document{statement}
	return d, nil
}

// fromLink reads an in-toto link or layout, in either encoding.
func fromLink(raw []byte) (Document, error) {
	signed, err := intotolayout.Parse(raw)
	if err != nil {
		return Document{}, err
	}
	d := Document{Kind: Link}
	if signed.IsLayout() {
		d.Kind = Layout
	}
	d.say("form", signed.Form())
	for _, id := range signed.KeyIDs() {
		d.say("key id", id)
	}
	said, err := flatten(signed.Payload())
	for _, f := range said {
		if list := words().FindStringSubmatch(f.Name); list != nil {
			if last := &d.Fields[len(d.Fields)-1]; last.Name == list[1] {
				last.Value += " " + f.Value
				continue
			}
			f.Name = list[1]
		}
		d.Fields = append(d.Fields, f)
	}
	return d, err
}

// words are the rules and commands of links and layouts, each shown on one
// line.
var words = pattern.Lazy(`^(.*expected_(?:materials|products)\[\d+\]|(?:.*\.)?(?:expected_command|command|run))\[\d+\]$`)

// fromList reads a list of bundles, envelopes or other documents.
func fromList(raw []byte) (Document, error) {
	f := format.Of(raw)
	list, err := f.Split(raw)
	if err == nil && f.Read != "lines" {
		_, err = format.Read(raw)
	}
	if err != nil {
		return Document{}, err
	}
	d := Document{Kind: Collection}
	d.say("format", f.Name)
	d.say("entries", strconv.Itoa(len(list)))
	for i, one := range list {
		part, err := Describe(one)
		if err != nil {
			return Document{}, fmt.Errorf("entry %d: %w", i+1, err)
		}
		d.Parts = append(d.Parts, part)
	}
	return d, nil
}

// fromPyPI reads an attestation of PyPI as the bundle that is made of it.
func fromPyPI(raw []byte) (Document, error) {
	file, err := format.Read(raw)
	if err != nil {
		return Document{}, err
	}
	return fromBundle(file.Entries[0].Bundle)
}

func fromStatement(raw []byte) (Document, error) {
	s, err := intoto.ParseOpen(raw)
	if err != nil {
		return Document{}, err
	}
	d := Document{Kind: Statement, Digest: digest.Of(digest.SHA256, raw)}
	d.say("type", s.Type())
	d.say("predicate type", s.PredicateType())
	for _, r := range s.Resources() {
		digests := digestsOf(r.Digest)
		d.say("subject", strings.TrimSpace(r.Name+" "+digests[0]))
		for _, more := range digests[1:] {
			d.say("also", more)
		}
	}
	if err := d.readPredicate(s); err != nil {
		return Document{}, err
	}
	predicate := Document{Kind: Predicate}
	if predicate.Fields, err = flatten(s.Predicate()); err != nil {
		return Document{}, err
	}
	d.Parts = []Document{predicate}
	return d, nil
}

// readPredicate reads known predicates with the readers that verification uses,
// and refuses what these refuse.
func (d *Document) readPredicate(s intoto.Statement) (err error) {
	switch s.PredicateType() {
	case provenance.PredicateTypeV01, provenance.PredicateTypeV02, provenance.PredicateType:
		if d.claim, err = provenance.Read(s); err != nil {
			return err
		}
		d.say("builder", d.claim.Builder.ID)
		d.say("build type", d.claim.BuildType)
	case releasemanifest.PredicateType:
		r, err := manifest.ParseRoot(s)
		if err != nil {
			return err
		}
		m := r.Head()
		d.say("release", m.Name+" "+m.Version.String())
	case sbomlist.PredicateType:
		p, err := sbomlist.Parse(s)
		if err != nil {
			return err
		}
		d.say("release", p.Name+" "+p.Version)
	}
	return nil
}

// fromContradiction reads the proof that a log contradicted itself.
func fromContradiction(raw []byte) (Document, error) {
	d := Document{Kind: Contradiction}
	if err := strictjson.Unmarshal(raw, &d.proof); err != nil {
		return Document{}, verdict.Wrap(verdict.ConfigParse, string(d.Kind), err)
	}
	d.say("code", string(d.proof.Code))
	d.say("log", d.proof.Log)
	d.say("seen", moment(d.proof.Seen))
	for _, text := range []string{d.proof.First, d.proof.Second} {
		for i, line := range strings.Split(strings.TrimSpace(text), "\n") {
			d.say([]string{"checkpoint", "tree size", "root", "signature"}[min(i, 3)], line)
		}
	}
	return d, nil
}

// flat reads JSON and lists its fields as they are.
func flat(kind Kind) func([]byte) (Document, error) {
	return func(raw []byte) (d Document, err error) {
		if err := strictjson.Check(raw); err != nil {
			return Document{}, verdict.Wrap(verdict.ConfigParse, string(kind), err)
		}
		d.Kind = kind
		d.Fields, err = flatten(raw)
		return d, err
	}
}
