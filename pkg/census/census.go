// Package census compares what a release should consist of with what is
// there, both ways, by name and by digest.
//
// It is a pure function over two lists. Where the lists come from, and whether
// the expected one can be believed, is decided before; see pkg/gate.
//
//	findings := census.Compare(expected, found)
package census

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// Item is one named thing with its bytes.
type Item struct {
	Name    string
	Digests digest.Set
	Size    int64
}

// Compare lists every difference, sorted by name: MISSING, TAMPERED, NAME_SWAP
// and EXTRA. No finding means that the two lists are the same.
//
// Bytes that differ from what the name promises are TAMPERED, unless they are
// exactly what another name promises: then somebody moved files about, which
// checking by digest alone would never see. The order of the lists changes
// nothing; each name must stand in each of them once.
func Compare(want, have []Item) []verdict.Finding {
	found := make(map[string]Item, len(have))
	for _, h := range have {
		found[h.Name] = h
	}
	owner := make(map[digest.Digest]string, len(want))
	expected := make(map[string]bool, len(want))
	for _, w := range want {
		if first, shared := owner[w.Digests.SHA256]; !shared || w.Name < first {
			owner[w.Digests.SHA256] = w.Name
		}
		expected[w.Name] = true
	}
	var findings []verdict.Finding
	for _, w := range want {
		got, there := found[w.Name]
		switch {
		case !there:
			findings = append(findings, verdict.Find(verdict.Missing, w.Name, "listed in the manifest, not in the place").Differ(w.Digests.SHA256.String(), "nothing"))
		case !same(w, got):
			findings = append(findings, differs(w, got, owner))
		}
	}
	for _, h := range have {
		if !expected[h.Name] {
			f := verdict.Find(verdict.Extra, h.Name, "in the place, not listed in the manifest")
			if !h.Digests.SHA256.IsZero() { // what nobody listed is seldom read
				f = f.Differ("nothing", describe(h))
			}
			findings = append(findings, f)
		}
	}
	slices.SortStableFunc(findings, func(a, b verdict.Finding) int { return strings.Compare(a.Subject, b.Subject) })
	return findings
}

// same demands every digest that the manifest lists; one that holds does not
// excuse one that does not.
func same(want, got Item) bool {
	if want.Digests.SHA256.IsZero() || !want.Digests.SHA256.Equal(got.Digests.SHA256) || want.Size != got.Size {
		return false
	}
	return want.Digests.SHA512.IsZero() || got.Digests.SHA512.IsZero() || want.Digests.SHA512.Equal(got.Digests.SHA512)
}

func differs(want, got Item, owner map[digest.Digest]string) verdict.Finding {
	tampered := verdict.Find(verdict.Tampered, want.Name, "the bytes are not the ones that were signed")
	other, ours := owner[got.Digests.SHA256]
	switch {
	case !want.Digests.SHA256.Equal(got.Digests.SHA256) && ours && !got.Digests.SHA256.IsZero():
		return verdict.Find(verdict.NameSwap, want.Name, "holds the bytes of %s", other).
			Differ(want.Digests.SHA256.String(), got.Digests.SHA256.String())
	case !want.Digests.SHA256.Equal(got.Digests.SHA256):
		return tampered.Differ(describe(want), describe(got))
	case want.Size != got.Size:
		return tampered.Differ(fmt.Sprintf("%d bytes", want.Size), fmt.Sprintf("%d bytes", got.Size))
	}
	return tampered.Differ(want.Digests.SHA512.String(), got.Digests.SHA512.String())
}

func describe(i Item) string {
	if i.Digests.SHA256.IsZero() {
		return "not read"
	}
	return i.Digests.SHA256.String()
}
