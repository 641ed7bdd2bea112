package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/openvex/go-vex/pkg/vex"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// triedVEX is how many names are tried at a time in a place that lists nothing.
const triedVEX = 16

// vexDocument is a VEX document of the release, or the draft of one.
type vexDocument struct {
	openvex.Document
	said     intoto.Statement
	evidence verify.Evidence // zero for a draft
	place    string          // its file, or the image that it refers to
}

// vexOf parses late evidence about this release as a VEX document, each product
// of which is a subject.
func vexOf(place string, said intoto.Statement, e verify.Evidence, at time.Time) (d vexDocument, err error) {
	d = vexDocument{said: said, evidence: e, place: place}
	if !e.SignedAt().IsZero() {
		at = e.SignedAt()
	}
	if d.Document, err = openvex.Parse(said, at); err != nil {
		return d, about(place, err)
	}
	for _, s := range d.Statements {
		if len(s.Products) == 0 || slices.ContainsFunc(s.Products, func(p vex.Product) bool { return len(d.names(p)) == 0 }) {
			return d, verdict.Refuse(verdict.NotBound, place, "%s: a statement without products, or with one that has no sha-256 digest of a subject", s.Vulnerability.Name)
		}
	}
	return d, nil
}

// names are the subjects with the digest of a product.
func (d vexDocument) names(p vex.Product) (names []string) {
	for _, one := range d.said.Subjects() {
		if one.Digests.SHA256.Hex() == string(p.Hashes[vex.SHA256]) {
			names = append(names, one.Name)
		}
	}
	return names
}

// vexOfGiven reads the VEX documents for single files; a failed listing refuses none.
func vexOfGiven(ctx context.Context, s *sealed) (f facts) {
	if !s.Policy.AllowsLate(openvex.PredicateType, openvex.Role, s.Stage) {
		return f
	}
	objects, err := s.Files.List(ctx)
	if errors.Is(err, store.ErrNotListable) {
		objects, _ = s.list(ctx, &facts{}) // names to try
	} else if err != nil {
		f.leave("VEX statements (the place was not listed)")
		return f
	}
	objects = slices.DeleteFunc(objects, func(o store.Object) bool { return openvex.Number(o.Name) == 0 })
	_, _ = s.withoutLate(ctx, objects, nil, &f)
	return f
}

// vexOfImages are the VEX documents that refer to images. What the policy does
// not allow is foreign: it does not block.
func vexOfImages(ctx context.Context, g gathered, f *facts) (all []vexDocument) {
	for _, a := range g.images() {
		if !g.release.Policy.AllowsLate(openvex.PredicateType, openvex.Role, g.release.Stage) {
			break
		}
		refers, err := g.release.reader.evidenceOf(ctx, a.Repository, a.Digests.SHA256)
		f.fail(a.Name, err)
		for _, e := range refers.holds {
			if e.Kind() == openvex.PredicateType && g.release.Policy.IsLate(e, policy.Question{Subject: a.Name, Stage: g.release.Stage}) && len(g.release.manifest.subjectsOf(e)) > 0 {
				if d, err := vexOf(a.Name, e.Statement(), e, g.release.Now); err == nil {
					all = append(all, d)
				}
			}
		}
	}
	return all
}

// vexClaim is a version of a document, or a statement about a product.
type vexClaim struct {
	key, is, said string
	rank          int64 // a newer one has a higher rank
	by            vexDocument
}

// newestVEX returns the newest claim of each key. Two that differ and have one
// rank are refused, and so is one that the newest file has, and that is older
// than another: it was replayed, or the newer file was removed.
func newestVEX(claims []vexClaim, f *facts) map[string]vexClaim {
	newest, offered, told := map[string]vexClaim{}, map[string]vexClaim{}, map[string]bool{}
	refuse := func(code verdict.Code, c, n vexClaim, message string) {
		if !told[c.by.place] {
			f.refuse(verdict.Find(code, c.by.place, "%s: %s", c.key, message).Differ(n.is+", in "+n.by.place, c.is).Citing(c.by.evidence.Bundle(), n.by.evidence.Bundle()))
		}
		told[c.by.place] = true
	}
	for _, c := range claims {
		n, known := newest[c.key]
		if known && c.rank == n.rank && c.said != n.said {
			refuse(openvex.Equivocation, c, n, "two VEX statements that differ are equally new")
		}
		if !known || c.rank >= n.rank {
			newest[c.key] = c
		}
		if openvex.Number(c.by.place) > 0 {
			offered[c.key] = c
		}
	}
	for _, key := range slices.Sorted(maps.Keys(offered)) {
		if c, n := offered[key], newest[key]; c.rank < n.rank {
			refuse(openvex.Superseded, c, n, "the newest file has an older VEX statement than another")
		}
	}
	return newest
}

// checkVEX reports what the VEX documents say, newest or superseded. Nothing
// that they say removes a finding.
func checkVEX(ctx context.Context, g gathered) (f facts) {
	all := append(vexOfImages(ctx, g, &f), slices.SortedFunc(slices.Values(g.vex), func(a, b vexDocument) int { return openvex.Number(a.place) - openvex.Number(b.place) })...)
	var claims []vexClaim
	for _, d := range all {
		claims = append(claims, vexClaim{"document " + d.ID, fmt.Sprint("version ", d.Version), string(d.said.Predicate()), int64(d.Version), d})
		d.each(func(key string, row verdict.VEX) {
			claims = append(claims, vexClaim{key, row.Issued.Format(time.RFC3339), row.Status + row.Justification, row.Issued.Unix(), d})
		})
	}
	newest, read := newestVEX(claims, &f), map[string]map[string]bool{}
	for _, d := range all {
		latest := newest["document "+d.ID].by
		if d.Version == latest.Version && d.place != latest.place {
			continue // a copy
		}
		d.each(func(key string, row verdict.VEX) {
			if g.release.asked != nil && !g.release.asked[row.Products[0]] {
				return
			}
			row.Superseded = d.Version < latest.Version || newest[key].rank > row.Issued.Unix()
			if err := g.listsAll(ctx, row.Products[0], row.Components, read); err != nil && !row.Superseded {
				f.weigh(policy.Warn, verdict.FindingOf(d.place, err))
			}
			if i := len(f.vex) - 1; i >= 0 && f.vex[i].Document == row.Document && f.vex[i].About(row.Products).String() == row.String() {
				f.vex[i].Products = append(f.vex[i].Products, row.Products...)
			} else {
				f.vex = append(f.vex, row)
			}
		})
	}
	for i, row := range f.vex {
		tell := f.tell
		if row.Superseded || i >= 20 {
			tell = f.note
		}
		tell("%s", row)
	}
	return f
}

// each calls do for each statement and product, with the key of the claim.
func (d vexDocument) each(do func(key string, row verdict.VEX)) {
	for _, s := range d.Statements {
		for _, p := range s.Products {
			for _, name := range d.names(p) {
				row := verdict.VEX{
					Vulnerability: string(s.Vulnerability.Name), Status: string(s.Status), Justification: string(s.Justification), Products: []string{name}, Components: openvex.Components(p),
					Signer: policy.Who(d.evidence).Subject, Issued: openvex.Issued(d.Document, s), Document: d.ID, Version: d.Version, Place: d.place, Bundle: d.evidence.Bundle(), Entry: fmt.Sprintf("%s/%d", d.evidence.Log(), d.evidence.LogIndex()),
				}
				do(strings.Join(append([]string{row.Vulnerability, name}, row.Components...), " "), row)
			}
		}
	}
}

// listsAll requires that the SBOM of an artifact lists components.
func (g gathered) listsAll(ctx context.Context, artifact string, components []string, read map[string]map[string]bool) error {
	a, _ := g.release.manifest.Find(artifact)
	if read[artifact] == nil {
		document, err := g.documentOf(ctx, a)
		if err != nil {
			return err
		}
		read[artifact] = map[string]bool{}
		for p := range document.EachPackage() {
			read[artifact][p.PURL] = true
			if p.Digests.SHA256.Equal(a.Digests.SHA256) {
				read[artifact]["of it: "+p.PURL] = true // its own
			}
		}
	}
	for _, one := range components {
		if !read[artifact][one] {
			return verdict.Refuse(openvex.Component, artifact, "its SBOM, %s, lists no component %s", a.SBOM, one)
		}
	}
	return nil
}

// VEX decides about the VEX documents of a release alone. An unsigned draft is
// bound to the artifacts of the release, and judged as its newest document; the
// statement is to be signed and written under the returned name.
func (g Gate) VEX(ctx context.Context, req Request, draft []byte) (v *verdict.Verdict, said intoto.Statement, name string) {
	j := req.terms().begin("VEX documents of release " + req.Version.String() + " at " + req.Files.URI())
	j.v.Scope = verdict.Scope{Checks: []string{"manifest", "vex"}, Left: []string{"the artifacts of the release"}}
	m, f, err := readManifest(ctx, req)
	f.fail(releasemanifest.Name, err)
	if err == nil && !req.Policy.AllowsLate(openvex.PredicateType, openvex.Role, req.Stage) {
		err = verdict.Refuse(verdict.Usage, "policy", "its section late does not let the role %s add %s at the stage %s", openvex.Role, openvex.PredicateType, req.Stage).Advise(fixVEX)
		f.fail("policy", err)
	}
	if err == nil {
		s := &sealed{Request: req, manifest: m, reader: &imageReader{source: req.Images, verifier: req.Verifier}}
		listed := map[string]bool{releasemanifest.Name: true}
		for _, a := range m.Artifacts {
			listed[a.Name] = true
		}
		objects, _ := s.list(ctx, &f)
		_, _ = s.withoutLate(ctx, objects, listed, &f)
		at := gathered{release: s, vex: f.vexFiles}
		if draft != nil {
			d, err := draftVEX(ctx, at, draft)
			f.fail("vex", err)
			said, name, at.vex = d.said, d.place, append(at.vex, d)
		}
		if j.addFacts(checkVEX(ctx, at)); len(j.v.VEX) == 0 {
			j.v.Tell("There is no VEX statement.")
		}
	}
	j.addFacts(f)
	j.count()
	return j.end(req.Version, nil), said, name
}

// fixVEX is the next act where a policy does not allow VEX documents.
const fixVEX = "list the identity in roles and the type in late: docs/how-to/vex.md shows both"

// draftVEX binds an unsigned document to the release. A document without a
// version is the next one about its products.
func draftVEX(ctx context.Context, g gathered, raw []byte) (d vexDocument, err error) {
	if d.Document, err = openvex.ParseFile(raw, time.Time{}); err != nil {
		return d, err
	}
	var subjects []intoto.Subject
	for i, s := range d.Statements {
		d.Statements[i].Products = nil
		for _, p := range s.Products {
			before := len(d.Statements[i].Products)
			for _, a := range g.release.manifest.Artifacts {
				named, err := isVEXProduct(ctx, g, a.Name, p)
				if err != nil {
					return d, err
				}
				if named == nil {
					continue
				}
				d.Statements[i].Products = append(d.Statements[i].Products, *named)
				subjects = append(subjects, intoto.Subject{Name: a.Name, Digests: a.Digests})
			}
			if len(d.Statements[i].Products) == before {
				return d, verdict.Refuse(openvex.Component, cmp.Or(openvex.PURL(p.Component), "vex"), "no artifact of the release with an SBOM is this product, or has its components")
			}
		}
	}
	slices.SortFunc(subjects, func(a, b intoto.Subject) int { return strings.Compare(a.Name, b.Name) })
	subjects = slices.CompactFunc(subjects, func(a, b intoto.Subject) bool { return a.Name == b.Name })
	next, now := 1, g.release.Now.UTC().Truncate(time.Second)
	if d.Version == 0 && len(subjects) > 0 {
		about := digest.Of(digest.SHA256, fmt.Append(nil, subjects, openvex.Components(d.Statements[0].Products[0])))
		d.ID, d.Version, d.Timestamp = fmt.Sprintf("%svex/%s/%.12s", g.release.Canon.Files, d.Statements[0].Vulnerability.Name, about.Hex()), 1, &now
	}
	for _, other := range g.vex {
		next = max(next, openvex.Number(other.place)+1)
		if d.Timestamp == &now && other.ID == d.ID && other.Version >= d.Version {
			later := slices.MaxFunc([]time.Time{now, openvex.Issued(other.Document, other.Statements[0]).Add(time.Second)}, time.Time.Compare)
			d.Version, d.LastUpdated = other.Version+1, &later
		}
	}
	if said, err := intoto.New(openvex.PredicateType, subjects, &d.Document); err == nil {
		return vexOf(openvex.Name(next), said, verify.Evidence{}, g.release.Now)
	}
	return d, verdict.Refuse(openvex.Form, "vex", "want statements, each with products")
}

// isVEXProduct returns an artifact as a product, if its name, digest or package
// URL is given; without any of them, if its SBOM lists the components.
func isVEXProduct(ctx context.Context, g gathered, name string, p vex.Product) (*vex.Product, error) {
	a, _ := g.release.manifest.Find(name)
	id, sum, read := openvex.PURL(p.Component), string(p.Hashes[vex.SHA256]), map[string]map[string]bool{}
	if a.SBOM == "" || sum != "" && sum != a.Digests.SHA256.Hex() || sum == "" && id != "" && id != name && !strings.HasPrefix(id, "pkg:") {
		return nil, nil
	}
	err := g.listsAll(ctx, name, openvex.Components(p), read)
	is := sum != "" || id == name || read[name]["of it: "+id]
	switch {
	case id != "" && !is, err != nil && id == "" && verdict.FindingOf("", err).Code == openvex.Component:
		return nil, nil
	case err != nil:
		return nil, err
	}
	p.Component = vex.Component{ID: name, Hashes: map[vex.Algorithm]vex.Hash{vex.SHA256: vex.Hash(a.Digests.SHA256.Hex())}}
	for purl := range read[name] {
		if own, is := strings.CutPrefix(purl, "of it: pkg:"); is {
			p.ID = "pkg:" + own
		}
	}
	return &p, nil
}
