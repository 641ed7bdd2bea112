package spdx

import (
	"fmt"
	"strings"
	"time"

	"github.com/spdx/tools-golang/spdx/v2/common"
	"github.com/spdx/tools-golang/spdx/v2/v2_3"

	"github.com/waybill-release/waybill/pkg/digest"
)

const (
	elementPrefix  = "SPDXRef-"
	documentPrefix = "DocumentRef-"
)

// described is the thing a document is about.
type described struct {
	name   string
	sha256 digest.Digest
}

// inspection walks one document, clause by clause, and keeps what later
// clauses need.
type inspection struct {
	elements  map[common.ElementID]described
	documents map[common.DocumentID]bool
	about     []common.ElementID
}

// inspect returns what the document describes: nothing if that is not exactly
// one element of its own.
func inspect(doc *v2_3.Document) (described, error) {
	in := &inspection{
		elements:  make(map[common.ElementID]described, len(doc.Packages)+len(doc.Files)+1),
		documents: make(map[common.DocumentID]bool, len(doc.ExternalDocumentReferences)),
	}
	for _, clause := range []func(*v2_3.Document) error{
		in.head, in.creation, in.externals, in.packages, in.files, in.snippets, in.relationships,
	} {
		if err := clause(doc); err != nil {
			return described{}, err
		}
	}
	switch len(in.about) {
	case 0:
		return described{}, fmt.Errorf("the document describes nothing")
	case 1:
		return in.elements[in.about[0]], nil
	}
	return described{}, nil
}

// head: section 6, "Document creation information".
func (in *inspection) head(doc *v2_3.Document) error {
	switch {
	case doc.SPDXVersion != Version:
		return fmt.Errorf("version %s, want %s", quote(doc.SPDXVersion), Version)
	case doc.DataLicense != dataLicense:
		return fmt.Errorf("data licence %s, want %s", quote(doc.DataLicense), dataLicense)
	case doc.SPDXIdentifier != "DOCUMENT":
		return fmt.Errorf("document identifier %s, want %s", quote(string(doc.SPDXIdentifier)), DocumentID)
	case doc.DocumentName == "":
		return fmt.Errorf("the document has no name")
	case !isNamespace(doc.DocumentNamespace):
		return fmt.Errorf("namespace %s: want an absolute URI without fragment", quote(doc.DocumentNamespace))
	}
	in.elements[doc.SPDXIdentifier] = described{}
	return nil
}

func (in *inspection) creation(doc *v2_3.Document) error {
	info := doc.CreationInfo
	if info == nil || len(info.Creators) == 0 {
		return fmt.Errorf("the document does not say who made it")
	}
	if _, err := time.Parse(timeLayout, info.Created); err != nil {
		return fmt.Errorf("time of creation %s: want YYYY-MM-DDThh:mm:ssZ", quote(info.Created))
	}
	return nil
}

// externals: section 6.6, "External document references".
func (in *inspection) externals(doc *v2_3.Document) error {
	for _, e := range doc.ExternalDocumentReferences {
		switch {
		case !isID(string(e.DocumentRefID), "+"):
			return fmt.Errorf("external document %s: not an identifier", quote(string(e.DocumentRefID)))
		case in.documents[e.DocumentRefID]:
			return fmt.Errorf("two external documents are %s%s", documentPrefix, e.DocumentRefID)
		case !isNamespace(e.URI):
			return fmt.Errorf("external document %s%s: namespace %s: want an absolute URI without fragment",
				documentPrefix, e.DocumentRefID, quote(e.URI))
		}
		in.documents[e.DocumentRefID] = true
		if _, err := digests([]common.Checksum{e.Checksum}); err != nil {
			return fmt.Errorf("external document %s%s: %w", documentPrefix, e.DocumentRefID, err)
		}
	}
	return nil
}

func (in *inspection) packages(doc *v2_3.Document) error {
	for i, p := range doc.Packages {
		if p == nil || p.PackageName == "" || p.PackageDownloadLocation == "" {
			return fmt.Errorf("package %d: no name or no download location", i)
		}
		if err := in.add(p.PackageSPDXIdentifier, p.PackageName, p.PackageChecksums); err != nil {
			return fmt.Errorf("package %s: %w", quote(p.PackageName), err)
		}
	}
	return nil
}

func (in *inspection) files(doc *v2_3.Document) error {
	for i, f := range doc.Files {
		if f == nil || f.FileName == "" {
			return fmt.Errorf("file %d: no name", i)
		}
		if err := in.add(f.FileSPDXIdentifier, strings.TrimPrefix(f.FileName, "./"), f.Checksums); err != nil {
			return fmt.Errorf("file %s: %w", quote(f.FileName), err)
		}
		// Section 8.4: SHA-1 is mandatory for files.
		if sha1Of(f.Checksums) == "" {
			return fmt.Errorf("file %s: no SHA1 checksum", quote(f.FileName))
		}
	}
	return nil
}

func (in *inspection) snippets(doc *v2_3.Document) error {
	for _, s := range doc.Snippets {
		if err := in.add(s.SnippetSPDXIdentifier, s.SnippetName, nil); err != nil {
			return fmt.Errorf("snippet: %w", err)
		}
	}
	return nil
}

// add registers one element. Identifiers are the only way to refer to it, so
// there is never a second element of the same identifier.
func (in *inspection) add(id common.ElementID, name string, sums []common.Checksum) error {
	if !isID(string(id), "") {
		return fmt.Errorf("%s is not an identifier", quote(string(id)))
	}
	if _, taken := in.elements[id]; taken {
		return fmt.Errorf("two elements are %s%s", elementPrefix, id)
	}
	set, err := digests(sums)
	if err != nil {
		return err
	}
	in.elements[id] = described{name: name, sha256: set.SHA256}
	return nil
}

// relationships: section 11. Each side leads somewhere.
func (in *inspection) relationships(doc *v2_3.Document) error {
	for i, r := range doc.Relationships {
		if r == nil || r.Relationship == "" {
			return fmt.Errorf("relationship %d: no type", i)
		}
		for _, ref := range []common.DocElementID{r.RefA, r.RefB} {
			if !in.leads(ref) {
				return fmt.Errorf("relationship %d: %s is not there", i, quote(common.RenderDocElementID(ref)))
			}
		}
		if r.RefA.SpecialID != "" {
			return fmt.Errorf("relationship %d: from %s", i, r.RefA.SpecialID)
		}
		in.subject(*r)
	}
	return nil
}

func (in *inspection) leads(ref common.DocElementID) bool {
	switch {
	case ref.SpecialID != "":
		return true
	case ref.DocumentRefID != "":
		return in.documents[ref.DocumentRefID] && (ref.ElementRefID == "" || isID(string(ref.ElementRefID), ""))
	}
	_, there := in.elements[ref.ElementRefID]
	return there
}

// subject notes what the document describes, once each. An element of another
// document is not described here.
func (in *inspection) subject(r v2_3.Relationship) {
	from, to := r.RefA, r.RefB
	switch r.Relationship {
	case Describes:
	case describedBy:
		from, to = to, from
	default:
		return
	}
	document := common.DocElementID{ElementRefID: "DOCUMENT"}
	if from != document || to == document || to.SpecialID != "" || to.DocumentRefID != "" {
		return
	}
	for _, seen := range in.about {
		if seen == to.ElementRefID {
			return
		}
	}
	// Two are as many as needed to know that there is no one subject; the rest
	// would make this search long.
	if len(in.about) < 2 {
		in.about = append(in.about, to.ElementRefID)
	}
}

// digests reads the checksums that prove something and refuses two values of
// one algorithm: a reader could take either.
func digests(sums []common.Checksum) (digest.Set, error) {
	values := make(map[string]string, len(sums))
	for _, s := range sums {
		name := strings.ToLower(string(s.Algorithm))
		if _, twice := values[name]; twice || s.Value == "" {
			return digest.Set{}, fmt.Errorf("checksum %s: empty, or there twice", quote(string(s.Algorithm)))
		}
		values[name] = s.Value
	}
	if _, ok := values["sha256"]; !ok {
		return digest.Set{}, nil
	}
	return digest.ParseMap(values)
}

func sha1Of(sums []common.Checksum) string {
	for _, s := range sums {
		if s.Algorithm == common.SHA1 && len(s.Value) == 40 && strings.Trim(s.Value, "0123456789abcdef") == "" {
			return s.Value
		}
	}
	return ""
}

// isID is the grammar of idstring: letters, digits, "." and "-", and for
// documents also "+".
func isID(s, also string) bool {
	return s != "" && len(s) <= 1024 &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-"+also) == ""
}

// isNamespace is section 6.5: an absolute URI that can take a fragment.
func isNamespace(s string) bool {
	scheme, rest, found := strings.Cut(s, ":")
	if !found || scheme == "" || rest == "" || strings.Contains(s, "#") || len(s) > 4096 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// quote makes foreign text safe to show.
func quote(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%q…", s[:200])
	}
	return fmt.Sprintf("%q", s)
}
