package sbom

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Judge compares a document with the bytes that it is about: their digest, the
// files, modules and packages in them, and the layers that are served. The scope
// of the verdict is partial, and lists what was not compared.
func Judge(ctx context.Context, q Question, at time.Time) (*verdict.Verdict, error) {
	others, err := q.narrow()
	if err != nil {
		return nil, err
	}
	held, err := compareDocument(ctx, q)
	if err != nil {
		return nil, err
	}
	name, sum := q.Document.Describes()
	name = clean(cmp.Or(name, q.Document.Name(), "an unnamed artifact"))
	v := verdict.NewCheck("does the SBOM of "+name+" agree with its bytes", at)
	v.Subject = "SBOM of " + name + " and its bytes"
	v.Scope = verdict.Scope{Checks: []string{"the SBOM against its artifact"}, Left: []string{
		"signatures", "licences", "comments", "suppliers", "download locations", "purposes", "CPEs", "annotations",
	}}
	v.Counts.Required++
	v.Add(held.Findings...)
	who := "Waybill"
	if !sbomcheck.Ours(q.Document) {
		who = clean(strings.Join(q.Document.Creators(), ", "))
		v.Scope.Left = append(v.Scope.Left, "how its elements depend on and contain each other")
	}
	v.Note("SBOM written by %s; compared with %s", who, held.As)
	if q.GoSum != nil && sbomcheck.BuiltFromFetched(q.Document) {
		v.Note("built from a downloaded module, for which this go.sum has no entries: module checksums were not compared")
	}
	for _, left := range held.Left {
		v.Note("not compared: %s", clean(left))
	}
	if omitted := sbomcheck.Omitted(q.Document); len(omitted) > 0 {
		v.Scope.Left = append(v.Scope.Left, fmt.Sprintf("%s that the SBOM itself leaves out", plural.Of(len(omitted), "part")))
		for _, left := range omitted {
			v.Note("the SBOM states: %s", clean(left))
		}
	}
	if others > 0 {
		v.Scope.Left = append(v.Scope.Left, plural.Of(others, "thing")+" that the SBOM also describes")
	}
	if len(held.Findings) == 0 {
		v.Counts.Verified++
		if sum.IsZero() {
			v.Note("contents match the SBOM: %s, %s", plural.Of(listedPackages(q.Document), "package"), plural.Of(len(q.Document.Files()), "file"))
		} else {
			v.Note("%s matches the SBOM: %s, %s", sum, plural.Of(listedPackages(q.Document), "package"), plural.Of(len(q.Document.Files()), "file"))
		}
	}
	return v, nil
}

// narrow reduces a document of several things to the one with the digest of the
// bytes or of the image, and returns how many others it describes.
func (q *Question) narrow() (others int, err error) {
	var sums []digest.Digest
	if name, _ := q.Document.Describes(); q.Content != nil && name == "" { // it has none, or is several
		set, _, err := digest.Sum(io.NewSectionReader(q.Content, 0, q.Content.Size))
		if err != nil {
			return 0, verdict.Wrap(verdict.PlaceDown, "the artifact", err)
		}
		sums = append(sums, set.SHA256)
	}
	if q.Image != nil {
		sums = append(sums, q.Image.Index.SHA256)
		for _, p := range q.Image.Platforms {
			sums = append(sums, p.Digest, p.Config)
		}
	}
	q.Document, others = q.Document.About(func(p spdx.Package) bool { return slices.ContainsFunc(sums, sbomcheck.ClaimedBy(p).Equal) })
	return others, nil
}

// listedPackages counts the packages that a document lists, without the one
// that it is about, as [Summarise] does.
func listedPackages(doc spdx.Document) (n int) {
	about := map[string]bool{}
	for r := range doc.EachRelationship() {
		if r.Type == spdx.Describes && r.From == spdx.DocumentID {
			about[r.To] = true
		}
	}
	for p := range doc.EachPackage() {
		if !about[p.ID] {
			n++
		}
	}
	return n
}

// Twins reports where two forms of one document differ. Documents that cannot
// be read have their findings already.
func Twins(v *verdict.Verdict, names, texts []string) {
	v.Counts.Required++
	a, _ := spdx.Validate(texts[0])
	b, _ := spdx.Validate(texts[1])
	if a.IsZero() || b.IsZero() {
		return
	}
	differ := spdx.Twins(a, b)
	for _, d := range differ {
		v.Add(verdict.Find(verdict.SBOMTwin, names[0], "differs from %s: %s", names[1], clean(d)))
	}
	if len(differ) == 0 {
		v.Counts.Verified++
	}
}
