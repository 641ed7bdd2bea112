package sbom

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Count is how many packages a document names, and how many of them are there.
type Count struct{ Found, True, Truth int }

// CountIn counts the packages of a document about thing n of a directory.
func CountIn(dir string, n int, document string) (Count, error) {
	raw, err := os.ReadFile(filepath.Join(dir, fmt.Sprintf("truth-%d.json", n)))
	if err != nil {
		return Count{}, err
	}
	truth := map[string]bool{}
	if err := json.Unmarshal(raw, &truth); err != nil {
		return Count{}, err
	}
	found, err := packagesOf(document)
	c := Count{Found: len(found), Truth: len(truth)}
	for purl := range found {
		if truth[purl] {
			c.True++
		}
	}
	return c, err
}

// packagesOf are the package URLs of a document, without qualifiers.
func packagesOf(path string) (map[string]bool, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc struct {
		Packages []struct {
			ExternalRefs []struct{ ReferenceType, ReferenceLocator string }
		}
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	found := map[string]bool{}
	for _, p := range doc.Packages {
		for _, ref := range p.ExternalRefs {
			if ref.ReferenceType == "purl" {
				found[plain(ref.ReferenceLocator)] = true
			}
		}
	}
	return found, nil
}

// plain is a package URL without what tools write in different ways.
func plain(purl string) string {
	purl, _, _ = strings.Cut(purl, "?")
	purl, _, _ = strings.Cut(purl, "#")
	return strings.NewReplacer("%2B", "+", "%3A", ":", "%2b", "+", "%3a", ":").Replace(purl)
}

// document is one of n packages, each of some 850 bytes as tools write them.
func document(n int) []byte {
	var b strings.Builder
	b.WriteString(`{"spdxVersion":"SPDX-2.3","dataLicense":"CC0-1.0","SPDXID":"SPDXRef-DOCUMENT","name":"large","documentNamespace":"https://example.org/large",
 "creationInfo":{"created":"2024-05-01T10:00:00Z","creators":["Tool: other-1.0"]},"packages":[`)
	for i := range n {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `
 {"name":"example.org/module/number%d","SPDXID":"SPDXRef-Package-go-module-number%d-0123456789abcdef","versionInfo":"v1.%d.0",
  "supplier":"NOASSERTION","downloadLocation":"NOASSERTION","filesAnalyzed":false,
  "sourceInfo":"acquired package info from go module information: /usr/local/bin/program",
  "checksums":[{"algorithm":"SHA256","checksumValue":"%064x"}],
  "licenseConcluded":"NOASSERTION","licenseDeclared":"Apache-2.0","copyrightText":"NOASSERTION",
  "externalRefs":[{"referenceCategory":"PACKAGE-MANAGER","referenceType":"purl","referenceLocator":"pkg:golang/example.org/module/number%d@v1.%d.0"}]}`,
			i, i, i, i, i, i)
	}
	b.WriteString(`],"relationships":[{"spdxElementId":"SPDXRef-DOCUMENT","relationshipType":"DESCRIBES","relatedSpdxElement":"SPDXRef-Package-go-module-number0-0123456789abcdef"}`)
	for i := 1; i < n; i++ {
		fmt.Fprintf(&b, `,
 {"spdxElementId":"SPDXRef-Package-go-module-number0-0123456789abcdef","relationshipType":"DEPENDS_ON","relatedSpdxElement":"SPDXRef-Package-go-module-number%d-0123456789abcdef"}`, i)
	}
	b.WriteString("]}\n")
	return []byte(b.String())
}
