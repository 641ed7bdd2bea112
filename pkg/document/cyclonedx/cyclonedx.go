// Package cyclonedx reads CycloneDX 1.4 to 1.6 in JSON into the form in which
// SBOMs are compared with bytes: a [spdx.Document] with the bytes of the
// original.
//
// The model is that of github.com/CycloneDX/cyclonedx-go. That library decodes
// keys in any letter case, and the last of two equal ones, so the text is
// checked first. Components inside components are listed beside them; services,
// vulnerabilities, licences and signatures are not read.
//
// Other projects should not import this package: it changes without notice.
package cyclonedx

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	cdx "github.com/CycloneDX/cyclonedx-go"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPairs limits the dependencies, as SPDX documents have a limit of relationships.
const maxPairs = 1_000_000

// Parse reads a document of at most [spdx.MaxSize] bytes. It is not verified.
func Parse(raw []byte) (spdx.Document, error) {
	var bom cdx.BOM
	if err := strictjson.UnmarshalOpen(raw, &bom, strictjson.MaxSize(spdx.MaxSize)); err != nil {
		code, line := verdict.StatementParse, ""
		if e := (*strictjson.Error)(nil); errors.As(err, &e) {
			if strings.HasPrefix(e.Code, "LIMIT_") {
				code = verdict.Limit
			}
			line = fmt.Sprintf("line %d: ", 1+strings.Count(string(raw[:max(e.Offset, 0)]), "\n"))
		}
		return spdx.Document{}, refuse(code, "%s%v", line, err)
	}
	if v := bom.SpecVersion; bom.BOMFormat != "CycloneDX" || v < cdx.SpecVersion1_4 || v > cdx.SpecVersion1_6 {
		return spdx.Document{}, refuse(verdict.StatementParse, "%.40q version %s; want CycloneDX 1.4, 1.5 or 1.6", bom.BOMFormat, v)
	}
	r := &reader{draft: spdx.Draft{Namespace: bom.SerialNumber, Tool: "unnamed"}, refs: map[string]string{}}
	if bom.Metadata != nil {
		r.head(*bom.Metadata)
	}
	r.components(bom.Components)
	pairs := 0
	for _, d := range list(bom.Dependencies) {
		if pairs += len(list(d.Dependencies)); pairs > maxPairs {
			return spdx.Document{}, refuse(verdict.Limit, "more than %d dependencies", maxPairs)
		}
		for _, ref := range list(d.Dependencies) {
			if from, to := r.refs[d.Ref], r.refs[ref]; from != "" && to != "" { // services are no components
				r.draft.Relationships = append(r.draft.Relationships, spdx.Relationship{From: from, Type: spdx.DependsOn, To: to})
			}
		}
	}
	if r.err != nil {
		return spdx.Document{}, r.err
	}
	return r.draft.ParsedFrom(raw, r.weak...)
}

func refuse(code verdict.Code, format string, args ...any) error {
	return verdict.Refuse(code, "CycloneDX document", format, args...).Advise("let its tool write the document again as CycloneDX 1.6, or ask its author to")
}

func list[T any](l *[]T) (all []T) {
	if l != nil {
		all = *l
	}
	return all
}

// reader collects the content, and keeps the last error.
type reader struct {
	draft spdx.Draft
	weak  []spdx.Checksum
	refs  map[string]string // identifiers by bom-ref
	err   error
}

func (r *reader) fail(format string, args ...any) {
	r.err = refuse(verdict.StatementParse, format, args...)
}

func (r *reader) head(m cdx.Metadata) {
	r.draft.Created, _ = time.Parse(time.RFC3339, m.Timestamp) // only shown
	if m.Tools != nil {
		for _, t := range list(m.Tools.Tools) {
			r.draft.Tool = t.Name + "-" + t.Version
		}
		for _, t := range list(m.Tools.Components) {
			r.draft.Tool = t.Name + "-" + t.Version
		}
	}
	if m.Component != nil {
		r.draft.Name = m.Component.Name
		r.draft.Relationships = []spdx.Relationship{{From: spdx.DocumentID, Type: spdx.Describes, To: "SPDXRef-1"}}
		r.components(&[]cdx.Component{*m.Component})
	}
}

// components adds components and those inside them: one that is a file as a
// file, unless the document is about it.
func (r *reader) components(all *[]cdx.Component) {
	for _, c := range list(all) {
		id := fmt.Sprintf("SPDXRef-%d", len(r.draft.Packages)+len(r.draft.Files)+1)
		if r.refs[c.BOMRef] != "" {
			r.fail("two components have the bom-ref %.200q", c.BOMRef)
		} else if c.BOMRef != "" {
			r.refs[c.BOMRef] = id
		}
		name := c.Name
		if c.Group != "" {
			name = c.Group + "/" + name
		}
		if set, sha1 := r.hashes(id, c); c.Type == cdx.ComponentTypeFile && (id != "SPDXRef-1" || len(r.draft.Relationships) == 0) {
			r.draft.Files = append(r.draft.Files, spdx.File{ID: id, Name: name, Digests: set, SHA1: sha1})
		} else {
			r.draft.Packages = append(r.draft.Packages, spdx.Package{
				ID: id, Name: name, Version: c.Version, PURL: c.PackageURL, Digests: set, Download: spdx.NoAssertion,
			})
		}
		r.components(c.Components)
	}
}

// hashes reads the hashes of a component: of each algorithm at most one.
func (r *reader) hashes(id string, c cdx.Component) (set digest.Set, sha1 string) {
	var seen []cdx.HashAlgorithm
	for _, h := range list(c.Hashes) {
		var err error
		switch value := strings.ToLower(h.Value); h.Algorithm {
		case cdx.HashAlgoSHA256:
			set.SHA256, err = digest.ParseHex(digest.SHA256, value)
		case cdx.HashAlgoSHA512:
			set.SHA512, err = digest.ParseHex(digest.SHA512, value)
		case cdx.HashAlgoSHA1:
			sha1 = value
			r.weak = append(r.weak, spdx.Checksum{ID: id, Algorithm: "SHA1", Value: value})
		default:
			r.weak = append(r.weak, spdx.Checksum{ID: id, Algorithm: string(h.Algorithm), Value: value})
		}
		if twice := slices.Contains(seen, h.Algorithm); err != nil || twice {
			r.fail("component %.200q: hash %s: two of them, or malformed: %v", c.Name, h.Algorithm, err)
		}
		seen = append(seen, h.Algorithm)
	}
	return set, sha1
}
