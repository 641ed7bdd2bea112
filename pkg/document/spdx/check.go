package spdx

import (
	"fmt"
	"strings"
	"time"
)

const (
	elementPrefix  = "SPDXRef-"
	documentPrefix = "DocumentRef-"
)

// element is the position of an identifier in the document.
type element struct {
	index int32 // among the packages, or among the files
	kind  kindOf
}

func (e element) where() string {
	switch e.kind {
	case aPackage:
		return packageAt(int(e.index))
	case aFile:
		return fmt.Sprintf("files[%d]", e.index)
	case aSnippet:
		return fmt.Sprintf("snippets[%d]", e.index)
	}
	return "the document itself"
}

type kindOf uint8

const (
	theDocument kindOf = iota + 1
	aPackage
	aFile
	aSnippet
)

// checker checks what a schema cannot: the clauses of the specification, one by
// one.
type checker struct {
	faults
	m         *model
	elements  map[string]element
	documents map[string]bool
	next      int // the package after the last one found
}

func (c *checker) check() {
	c.elements = make(map[string]element, len(c.m.packages)+len(c.m.files)+1)
	c.documents = make(map[string]bool, len(c.m.externals))
	c.head()
	c.creation()
	c.externals()
	c.register()
	c.extracted()
	c.relationships()
	c.subject()
	if c.acyclic() {
		c.rollUps()
	}
}

// head checks section 6, "Document creation information".
func (c *checker) head() {
	m := c.m
	if m.version != Version && m.version != version22 {
		c.add(ruleHead, "spdxVersion", "version %s, want %s", quote(m.version), Version)
	}
	if m.licence != dataLicense {
		c.add(ruleHead, "dataLicense", "data licence %s, want %s", quote(m.licence), dataLicense)
	}
	if m.id != DocumentID {
		c.add(ruleHead, "SPDXID", "document identifier %s, want %s", quote(m.id), DocumentID)
	}
	if m.name == "" {
		c.add(ruleHead, "name", "the document has no name")
	}
	c.shows(m.name, func() string { return "name" })
	if !isNamespace(m.namespace) {
		c.add(ruleHead, "documentNamespace", "namespace %s: want an absolute URI without fragment", quote(m.namespace))
	}
	c.elements[DocumentID] = element{kind: theDocument}
}

// creation checks sections 6.8 and 6.9, two of NTIA's minimum elements.
func (c *checker) creation() {
	if len(c.m.creators) == 0 {
		c.add(ruleHead, "creationInfo.creators", "the document names no creator")
	}
	for i, who := range c.m.creators {
		kind, name, _ := strings.Cut(who, ":")
		if (kind != "Person" && kind != "Organization" && kind != "Tool") || strings.TrimSpace(name) == "" {
			c.add(ruleHead, fmt.Sprintf("creationInfo.creators[%d]", i),
				"creator %s: want Person, Organization or Tool, a colon and a name", quote(who))
		}
	}
	if _, err := time.Parse(timeLayout, c.m.created); err != nil {
		c.add(ruleHead, "creationInfo.created", "time of creation %s: want YYYY-MM-DDThh:mm:ssZ", quote(c.m.created))
	}
}

// externals checks section 6.6, "External document references".
func (c *checker) externals() {
	for i, e := range c.m.externals {
		at := fmt.Sprintf("externalDocumentRefs[%d]", i)
		switch {
		case !isID(e.ID, documentPrefix, "+"):
			c.add(ruleExternal, at, "external document %s: not an identifier", quote(e.ID))
		case c.documents[e.ID]:
			c.add(ruleIdentifier, at, "two external documents have the identifier %s", e.ID)
		case !isNamespace(e.Namespace):
			c.add(ruleExternal, at, "external document %s: namespace %s: want an absolute URI without fragment", e.ID, quote(e.Namespace))
		}
		c.documents[e.ID] = true
	}
}

// register collects the identifiers. They are the only way to refer to an
// element, so each must be unique.
func (c *checker) register() {
	for i := range c.m.packages {
		p, at := &c.m.packages[i], func() string { return packageAt(i) }
		if p.Name == "" || p.Download == "" {
			c.add(ruleSchema, at(), "package %s: no name or no download location", quote(p.ID))
		}
		if p.Download != NoAssertion && !isLocation(p.Download) {
			c.add(ruleReference, packageAt(i)+".downloadLocation", "download location %s: want NONE, NOASSERTION, a URI, or one of version control", quote(p.Download))
		}
		c.shows(p.Name, at)
		c.element(p.ID, element{int32(i), aPackage}, at)
	}
	for i, f := range c.m.files {
		at := func() string { return fmt.Sprintf("files[%d]", i) }
		if f.Name == "" {
			c.add(ruleSchema, at(), "file %s: no name", quote(f.ID))
		}
		c.shows(f.Name, at)
		c.element(f.ID, element{int32(i), aFile}, at)
	}
	for i, id := range c.m.snippets {
		c.element(id, element{int32(i), aSnippet}, func() string { return fmt.Sprintf("snippets[%d]", i) })
	}
}

func (c *checker) element(id string, e element, at func() string) {
	if !isID(id, elementPrefix, "") {
		c.add(ruleIdentifier, at(), "%s is not an identifier", quote(id))
		return
	}
	if first, taken := c.elements[id]; taken {
		c.add(ruleIdentifier, at(), "two elements have the identifier %s; the first is %s", id, first.where())
		return
	}
	c.elements[id] = e
}

// extracted checks section 10. A reference to a licence is explained once.
func (c *checker) extracted() {
	seen := map[string]bool{}
	for i, id := range c.m.licences {
		at := fmt.Sprintf("hasExtractedLicensingInfos[%d]", i)
		if !isID(id, licencePrefix, "") {
			c.add(ruleLicence, at, "%s is not an identifier of a licence", quote(id))
		}
		if seen[id] {
			c.add(ruleIdentifier, at, "two licences have the identifier %s", quote(id))
		}
		seen[id] = true
	}
}

// relationships checks section 11. Both ends must exist.
func (c *checker) relationships() {
	last := NoAssertion // the last one found; relationships from one element come together
	for i := range c.m.relationships {
		r := &c.m.relationships[i]
		for _, ref := range [2]string{r.From, r.To} {
			if ref != last && !c.leads(ref) {
				c.add(ruleRelationship, relationshipAt(i), "%s does not exist in the document", quote(ref))
			} else if ref == r.From {
				last = ref
			}
		}
		if r.Type == "" {
			c.add(ruleRelationship, relationshipAt(i), "no type")
		}
		if r.From == NoAssertion || r.From == none {
			c.add(ruleRelationship, relationshipAt(i), "from %s", r.From)
		}
	}
}

func relationshipAt(i int) string { return fmt.Sprintf("relationships[%d]", i) }

func (c *checker) leads(ref string) bool {
	// Many documents relate their packages in the order in which they list
	// them.
	if c.next < len(c.m.packages) && c.m.packages[c.next].ID == ref && isID(ref, elementPrefix, "") {
		c.next++
		return true
	}
	e, there := c.elements[ref]
	if there && e.kind == aPackage {
		c.next = int(e.index) + 1
	}
	if there || ref == NoAssertion || ref == none {
		return true
	}
	document, id, found := strings.Cut(ref, ":")
	if !found {
		return c.documents[ref]
	}
	return c.documents[document] && isID(id, elementPrefix, "")
}

// subject requires that a document describes one thing. An element of another
// document is not described here.
func (c *checker) subject() {
	about := ""
	for i := range c.m.relationships {
		r := c.m.relationships[i]
		if r.Type == describedBy {
			r.From, r.To = r.To, r.From
		} else if r.Type != Describes {
			continue
		}
		e, own := c.elements[r.To]
		if r.From != DocumentID || !own || e.kind == theDocument || r.To == about {
			continue
		}
		if about != "" {
			c.m.about = described{count: 2}
			c.add(ruleSubject, relationshipAt(i), "the document describes several things; write one document for each")
			return
		}
		about = r.To
		c.m.about = c.describe(e)
	}
	if about == "" {
		c.add(ruleDescribed, "relationships", "the document describes nothing")
	}
}

func (c *checker) describe(e element) described {
	switch e.kind {
	case aPackage:
		p := c.m.packages[e.index]
		return described{name: p.Name, version: asserted(p.Version), sha256: p.Digests.SHA256, count: 1}
	case aFile:
		f := c.m.files[e.index]
		return described{name: strings.TrimPrefix(f.Name, "./"), sha256: f.Digests.SHA256, count: 1}
	}
	return described{count: 1}
}

// isID checks the grammar of idstring: letters, digits, "." and "-", and for
// documents also "+".
func isID(s, prefix, also string) bool {
	rest, found := strings.CutPrefix(s, prefix)
	if !found || rest == "" || len(rest) > 1024 {
		return false
	}
	for i := range len(rest) {
		c := rest[i]
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '-' &&
			strings.IndexByte(also, c) < 0 {
			return false
		}
	}
	return true
}

// isNamespace checks section 6.5: an absolute URI that can take a fragment.
func isNamespace(s string) bool {
	scheme, rest, found := strings.Cut(s, ":")
	if !found || scheme == "" || rest == "" || strings.Contains(s, "#") || len(s) > 4096 {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// isPURL checks the minimum of a package URL: scheme, type and name.
func isPURL(s string) bool {
	rest, found := strings.CutPrefix(s, "pkg:")
	kind, name, split := strings.Cut(strings.TrimLeft(rest, "/"), "/") // "pkg://" is to be read, too
	return found && split && kind != "" && strings.Trim(name, "/") != ""
}

// isHex reports whether s is n hex digits; if n is 0, any number but none.
func isHex(s string, n int) bool {
	return s != "" && (n == 0 || len(s) == n) && strings.Trim(s, "0123456789abcdef") == ""
}

// asserted returns s, or "" for NONE and NOASSERTION.
func asserted(s string) string {
	if s == NoAssertion {
		return ""
	}
	return s
}

// quote makes untrusted text safe to show.
func quote(s string) string {
	if len(s) > 200 {
		return fmt.Sprintf("%q…", s[:200])
	}
	return fmt.Sprintf("%q", s)
}

func packageAt(i int) string { return fmt.Sprintf("packages[%d]", i) }
