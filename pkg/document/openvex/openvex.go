// Package openvex reads OpenVEX documents strictly, with the model and the rules
// of go-vex. A [Document] is parsed, not verified: pkg/gate compares it with a
// release. Other forms of VEX (CSAF, CycloneDX, SPDX 3) are named and refused.
//
// Specification: OpenVEX v0.2.0, https://github.com/openvex/spec.
//
// Other projects should not import this package: it changes without notice.
package openvex

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openvex/go-vex/pkg/vex"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/oneline"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	// PredicateType is the type that cosign and vexctl write, and so do we.
	PredicateType = vex.TypeURI
	// Context is the @context of a document, which others use as type.
	Context = PredicateType + "/v" + vex.SpecVersion
	// Role is the role in a policy that signs these documents.
	Role = "vex"
	// MaxSize bounds a document.
	MaxSize = 1 << 20
)

// Form is the code of an invalid document; the others are of valid ones.
const (
	Form         verdict.Code = "VEX_STATEMENT"
	Component    verdict.Code = "VEX_COMPONENT"
	Superseded   verdict.Code = "VEX_SUPERSEDED"
	Equivocation verdict.Code = "VEX_EQUIVOCATION"
)

// Document is an OpenVEX document.
type Document = vex.VEX

// PURL is the package URL of a product or component, or else its ID.
func PURL(c vex.Component) string { return cmp.Or(c.Identifiers[vex.PURL], c.ID) }

// Components are the components of a product that a statement is about, sorted.
func Components(p vex.Product) []string {
	return slice.Unique(slice.Map(p.Subcomponents, func(c vex.Subcomponent) string { return PURL(c.Component) }))
}

// Name is the n-th name, from 1, of a signed document beside the manifest of a
// release, and Number the reverse, or 0. The highest is the newest.
func Name(n int) string { return fmt.Sprintf("release.vex-%d.sigstore.json", n) }

// Number is the number in a name, or 0.
func Number(name string) (n int) {
	if _, err := fmt.Sscanf(name, "release.vex-%d.sigstore.json", &n); err != nil || name != Name(n) {
		return 0
	}
	return n
}

// Parse reads the document of a statement that was signed at a time.
func Parse(s intoto.Statement, signed time.Time) (d Document, err error) {
	if _, err = s.DecodeStrict(PredicateType, "vex", "an OpenVEX document", MaxSize, &d); err == nil {
		err = check(d, signed)
	}
	return d, err
}

// ParseFile reads an unsigned document, at a time; at none, without its rules: of a draft,
// parts are not filled in yet.
func ParseFile(raw []byte, at time.Time) (d Document, err error) {
	var other struct {
		CSAF    json.RawMessage `json:"document"`
		Format  string          `json:"bomFormat"`
		Context json.RawMessage `json:"@context"`
	}
	err = strictjson.UnmarshalOpen(raw, &other, strictjson.MaxSize(MaxSize))
	form := other.Format
	switch {
	case strings.HasPrefix(strings.TrimSpace(string(raw[:min(len(raw), 100)])), "<"):
		form = "XML, such as CycloneDX"
	case other.CSAF != nil:
		form = "CSAF"
	case strings.Contains(string(other.Context), "spdx.org"):
		form = "SPDX 3"
	case form == "" && err == nil:
		err = strictjson.Unmarshal(raw, &d, strictjson.MaxSize(MaxSize))
	}
	if form != "" {
		return d, verdict.Refuse(Form, "vex", "the document is %.50s, not OpenVEX", form).Advise("state the same in OpenVEX, with vexctl or the flags of waybill vex add")
	}
	if err != nil {
		return d, verdict.Wrap(Form, "vex", err)
	}
	if at.IsZero() {
		return d, nil
	}
	return d, check(d, at)
}

// dates are those of a statement: the first is when it was last stated.
func dates(d Document, s vex.Statement) (all []time.Time) {
	for _, t := range []*time.Time{s.LastUpdated, s.Timestamp, d.LastUpdated, d.Timestamp} {
		if t != nil {
			all = append(all, t.UTC())
		}
	}
	return all
}

// Issued is when the document last stated something; zero if it is not dated.
func Issued(d Document, s vex.Statement) time.Time { return append(dates(d, s), time.Time{})[0] }

// check refuses a document that the specification does not allow, or with a date
// after its signature.
func check(d Document, signed time.Time) error {
	const maxLines, maxText, skew = 1000, 4096, 5 * time.Minute
	refuse := func(format string, args ...any) error {
		return verdict.Refuse(Form, "vex", "document %.100q: "+format, append([]any{d.ID}, args...)...)
	}
	if d.Context != Context || !oneline.Is(d.ID, maxText) || !oneline.Is(d.Author, maxText) || d.Version < 1 || d.Timestamp == nil || len(d.Statements) == 0 || len(d.Statements) > maxLines {
		return refuse("want @context %s, @id and author of one line each, a version from 1, a timestamp, and 1 to %d statements", Context, maxLines)
	}
	for _, s := range d.Statements {
		name := string(s.Vulnerability.Name)
		switch err := s.Validate(); {
		case !oneline.Is(name, maxText):
			return refuse("a statement names no vulnerability")
		case err != nil:
			return refuse("%s: %v", name, err)
		case s.Status == vex.StatusNotAffected && s.Justification == "":
			return refuse("%s: not_affected without a justification, want one of %s", name, strings.Join(vex.Justifications(), ", "))
		case slices.MaxFunc(dates(d, s), time.Time.Compare).After(signed.Add(skew)):
			return refuse("%s: dated %s, which is in the future, or later than its signature", name, Issued(d, s).Format(time.RFC3339))
		}
	}
	return nil
}
