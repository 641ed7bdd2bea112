package sbom

import (
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Validate is [spdx.Validate] of several documents as one verdict, and what one
// document, or the specification, can not say: which time it is, and that no two
// that differ have one namespace.
func Validate(names, texts []string, at time.Time) *verdict.Verdict {
	v := verdict.NewCheck("are these SPDX documents what the specification asks", at)
	v.Scope = verdict.Scope{Checks: []string{"the documents by themselves"}, Left: []string{"whether they are true", "signatures"}}
	called := map[string]int{} // documents by namespace
	for i, name := range names {
		document, report := spdx.Validate(texts[i])
		sum, _, _ := digest.SumSHA256(strings.NewReader(texts[i])) // a text can always be read
		v.Counts.Required++
		for _, f := range report.Faults {
			finding := verdict.Find(f.Code(), name, "%s: %v", f.Rule, f)
			finding.Fix = f.Fix()
			v.Add(finding)
		}
		if report.More > 0 {
			v.Add(verdict.Find(verdict.Limit, name, "%d faults more than are listed", report.More))
		}
		more := append(sbomcheck.Named(sbomcheck.Artifact{Name: name, Document: document}), fromTheFuture(name, document, at)...)
		if first, taken := called[document.Namespace()]; taken && !document.IsZero() {
			more = append(more, sharing(names[first], name, texts[first], document)...)
		} else {
			called[document.Namespace()] = i
		}
		v.Add(more...)
		if len(report.Faults) == 0 && len(more) == 0 {
			v.Counts.Verified++
		}
		packages := report.Packages
		if !document.IsZero() {
			packages = listedPackages(document)
		}
		v.Note("%s: %q, %s in %s: %d packages, %d files, %d relationships, digest %s", name, clean(report.Name), clean(report.Version),
			report.Form, packages, report.Files, report.Relationships, sum)
		for _, u := range report.Unknown {
			v.Note("%s says: %s", name, clean(u))
		}
	}
	return v
}

// skew is how far a clock elsewhere may be ahead of ours.
const skew = 24 * time.Hour

// fromTheFuture refuses a document that is not made yet.
func fromTheFuture(name string, doc spdx.Document, now time.Time) []verdict.Finding {
	at, err := time.Parse(time.RFC3339, doc.Created())
	if err != nil || !at.After(now.Add(skew)) {
		return nil // what is no time is a fault of its own
	}
	f := verdict.Find(verdict.SBOMInvalid, name, "creationInfo.created: %s is yet to come", doc.Created()).
		Differ("no later than "+now.Add(skew).UTC().Format(time.RFC3339), doc.Created())
	f.Fix = "set the clock, or SOURCE_DATE_EPOCH, and write the document again"
	return []verdict.Finding{f}
}

// sharing refuses a namespace that another document of the same form has. Two
// forms of one have it both: see [Twins].
func sharing(firstName, name, first string, doc spdx.Document) []verdict.Finding {
	other, report := spdx.Validate(first)
	if other.IsZero() || report.Form != spdx.FormOf(string(doc.Raw())) || len(spdx.Twins(other, doc)) == 0 {
		return nil
	}
	f := verdict.Find(verdict.SBOMInvalid, name, "documentNamespace: %s is another document of the namespace %q", clean(firstName), clean(doc.Namespace()))
	f.Fix = "write one of them again under a namespace of its own; waybill sbom generate gives each document one"
	return []verdict.Finding{f}
}
