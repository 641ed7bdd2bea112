// Package census compares the artifacts that a release should consist of with
// those that were found, in both directions, by name and by digest.
//
// The lists are streams, because they may be too long to keep in memory. The
// caller decides where the lists come from and whether the expected one is
// authentic; see pkg/gate.
//
//	findings := census.Compare(expected, found)
//
// Other projects should not import this package: it changes without notice.
package census

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/order"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Item is one named thing with its bytes.
type Item struct {
	Name    string
	Digests digest.Set
	Size    int64
}

// Compare lists every difference, sorted by name: MISSING, TAMPERED, NAME_SWAP
// and EXTRA. No finding means that the two lists are equal.
//
// Bytes with another digest than their name promises are TAMPERED, or NAME_SWAP
// if they are exactly the bytes of another listed name: then files were
// exchanged, which a check by digest alone would not notice. The order of the
// lists does not matter; each list must contain each name only once.
func Compare(want, have []Item) []verdict.Finding {
	findings, err := Stream(sorted(want), sorted(have))
	if err != nil {
		return []verdict.Finding{verdict.FindingOf("census", err)}
	}
	return findings
}

// sorted iterates over a list by name.
func sorted(list []Item) iter.Seq2[Item, error] {
	if !slices.IsSortedFunc(list, byName) {
		list = slices.Clone(list)
		order.Sort(list, byName)
	}
	return func(yield func(Item, error) bool) {
		for _, i := range list {
			if !yield(i, nil) {
				return
			}
		}
	}
}

func byName(a, b Item) int { return strings.Compare(a.Name, b.Name) }

// Stream is [Compare] for lists that are too long to keep in memory: both are
// sorted by name and contain each name once. If bytes differ, Stream iterates
// over want a second time, to find out whether they belong to another name. If
// either list returns an error, so does Stream, without any findings.
func Stream(want, have iter.Seq2[Item, error]) ([]verdict.Finding, error) {
	nextWant, stopWant := iter.Pull2(ordered(want, verdict.ManifestParse))
	defer stopWant()
	nextHave, stopHave := iter.Pull2(ordered(have, verdict.Extra))
	defer stopHave()
	var c comparison
	w, wantErr, wanted := nextWant()
	h, haveErr, had := nextHave()
	for wanted || had {
		if err := errors.Join(wantErr, haveErr); err != nil {
			return nil, err
		}
		first := -1 // negative if w sorts before h
		switch {
		case !wanted:
			first = 1
		case had:
			first = byName(w, h)
		}
		c.add(first, w, h)
		if first <= 0 {
			w, wantErr, wanted = nextWant()
		}
		if first >= 0 {
			h, haveErr, had = nextHave()
		}
	}
	if err := c.explain(want); err != nil {
		return nil, err
	}
	return c.findings, nil
}

// ordered fails if a list is not sorted or contains a name twice.
func ordered(list iter.Seq2[Item, error], code verdict.Code) iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		before, some := "", false
		for i, err := range list {
			if err == nil && some && i.Name <= before {
				err = verdict.Refuse(code, i.Name, "listed twice, or out of order: the name before it is %q", before)
			}
			if !yield(i, err) || err != nil {
				return
			}
			before, some = i.Name, true
		}
	}
}

// comparison collects the findings.
type comparison struct {
	findings []verdict.Finding
	changed  []change
}

// change is a listed name that was found with other bytes, and the index of its
// finding.
type change struct {
	at        int
	want, got Item
}

func (c *comparison) add(first int, w, h Item) {
	switch {
	case first < 0:
		c.findings = append(c.findings,
			verdict.Find(verdict.Missing, w.Name, "listed in the manifest, not in the place").Differ(describe(w), "nothing"))
	case first > 0:
		f := verdict.Find(verdict.Extra, h.Name, "in the place, not listed in the manifest")
		if !h.Digests.SHA256.IsZero() { // extra files are seldom read
			f = f.Differ("nothing", describe(h))
		}
		c.findings = append(c.findings, f)
	case !same(w, h):
		c.changed = append(c.changed, change{len(c.findings), w, h})
		c.findings = append(c.findings, verdict.Finding{}) // filled in by explain
	}
}

// explain decides for each changed name: NAME_SWAP if the bytes are those of
// another listed name, else TAMPERED.
func (c *comparison) explain(want iter.Seq2[Item, error]) error {
	if len(c.changed) == 0 {
		return nil
	}
	owner := make(map[digest.Digest]string, len(c.changed))
	for _, ch := range c.changed {
		owner[ch.got.Digests.SHA256] = ""
	}
	for w, err := range want {
		if err != nil {
			return err
		}
		if name, sought := owner[w.Digests.SHA256]; sought && name == "" {
			owner[w.Digests.SHA256] = w.Name
		}
	}
	for _, ch := range c.changed {
		c.findings[ch.at] = differs(ch.want, ch.got, owner)
	}
	return nil
}

// same compares every digest that both items have: a matching SHA-256 does not
// excuse a differing SHA-512.
func same(want, got Item) bool {
	if want.Digests.SHA256.IsZero() || !want.Digests.SHA256.Equal(got.Digests.SHA256) || want.Size != got.Size {
		return false
	}
	return want.Digests.SHA512.IsZero() || got.Digests.SHA512.IsZero() || want.Digests.SHA512.Equal(got.Digests.SHA512)
}

func differs(want, got Item, owner map[digest.Digest]string) verdict.Finding {
	tampered := verdict.Find(verdict.Tampered, want.Name, "the bytes are not the ones that were signed")
	other := owner[got.Digests.SHA256]
	switch {
	case !want.Digests.SHA256.Equal(got.Digests.SHA256) && other != "" && !got.Digests.SHA256.IsZero():
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
	if i.Digests.IsZero() {
		return "not read"
	}
	return cmp.Or(i.Digests.SHA256, i.Digests.SHA512).String()
}
