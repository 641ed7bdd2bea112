package sbom

import (
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Validate is [spdx.Validate] for several documents, as one verdict, with two
// more checks: no document is dated in the future, and no two different
// documents share a namespace. The profile "ntia-2021", "cisa-2026" or "bsi-2.1"
// demands more elements, and "spdx" none.
func Validate(names, texts []string, profile string, at time.Time) *verdict.Verdict {
	v := verdict.NewCheck("do these SPDX documents conform to the specification", at)
	v.Subject = plural.Of(len(names), "SPDX document")
	if profile != "" && profile != "spdx" {
		v.Subject += " by the profile " + profile
	}
	v.Scope = verdict.Scope{Checks: []string{"each document by itself"}, Left: append([]string{"whether their statements are true", "signatures"}, sbomcheck.ProfileLeft(profile)...)}
	called := map[string]int{} // documents by namespace
	for i, name := range names {
		document, report := spdx.Validate(texts[i])
		if profile == "ntia-2021" {
			report.Faults, report.More = append(report.Faults, report.Minimum...), report.More+report.MoreMinimum
		}
		sum, _, _ := digest.SumSHA256(strings.NewReader(texts[i])) // a text can always be read
		v.Counts.Required++
		faults, named := report.Faults, sbomcheck.Named(sbomcheck.Artifact{Name: name, Document: document})
		if !sbomcheck.Ours(document) { // the specification alone counts
			faults = report.Standard()
			for _, f := range named {
				v.Note("%s: %s: %s and %s", name, f.Message, clean(f.Want), clean(f.Got))
			}
			named = nil
		}
		for _, f := range faults {
			v.Add(verdict.Find(f.Code(), name, "%s: %v", f.Rule, f).Advise(f.Fix()))
		}
		if report.More > 0 {
			v.Add(verdict.Find(verdict.Limit, name, "further faults, not listed: %d", report.More))
		}
		more := slices.Concat(named, sbomcheck.Profiled(sbomcheck.Artifact{Name: name, Document: document}, profile), fromTheFuture(name, document, at))
		if first, taken := called[document.Namespace()]; taken && !document.IsZero() {
			more = append(more, sharing(names[first], name, texts[first], document)...)
		} else {
			called[document.Namespace()] = i
		}
		v.Add(more...)
		if len(faults)+report.More+len(more) == 0 {
			v.Counts.Verified++
		}
		packages := report.Packages
		if !document.IsZero() {
			packages = listedPackages(document)
		}
		v.Note("%s: %q, %s in %s: packages %d, files %d, relationships %d, digest %s", name, clean(report.Name), clean(report.Version),
			report.Form, packages, report.Files, report.Relationships, sum)
		for _, u := range report.Unknown {
			v.Note("%s says: %s", name, clean(u))
		}
	}
	return v
}

// skew is how far another machine's clock may be ahead of ours.
const skew = 24 * time.Hour

// fromTheFuture refuses a document dated in the future.
func fromTheFuture(name string, doc spdx.Document, now time.Time) []verdict.Finding {
	at, err := time.Parse(time.RFC3339, doc.Created())
	if err != nil || !at.After(now.Add(skew)) {
		return nil // an invalid time is reported elsewhere
	}
	return []verdict.Finding{verdict.Find(verdict.SBOMInvalid, name, "creationInfo.created: %s is in the future", doc.Created()).
		Differ("no later than "+now.Add(skew).UTC().Format(time.RFC3339), doc.Created()).
		Advise("correct the clock or SOURCE_DATE_EPOCH, then write the document again")}
}

// sharing refuses two different documents of one form with the same namespace.
// Two forms of one document share theirs: see [Twins].
func sharing(firstName, name, first string, doc spdx.Document) []verdict.Finding {
	other, report := spdx.Validate(first)
	if other.IsZero() || report.Form != spdx.FormOf(string(doc.Raw())) || len(spdx.Twins(other, doc)) == 0 {
		return nil
	}
	return []verdict.Finding{verdict.Find(verdict.SBOMInvalid, name, "documentNamespace: %s is a different document with the same namespace %q", clean(firstName), clean(doc.Namespace())).
		Advise("write one of them again with its own namespace; waybill sbom generate gives each document its own")}
}
