package k8slayout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Compare lists the differences between the release that was found and what the
// witnesses say, sorted by name. Each item of have was read to its end; an item
// that was not read has no digests, and only its name is compared.
func (s Set) Compare(have []census.Item) []verdict.Finding {
	c := &comparison{Set: s, have: make(map[string]census.Item, len(have)), owner: map[digest.Digest]string{}}
	for _, item := range have {
		c.have[item.Name] = item
	}
	names := s.Names()
	for _, name := range names {
		for _, w := range s.witnesses {
			if sum := w.claims[name].SHA256; !sum.IsZero() && c.owner[sum] == "" {
				c.owner[sum] = name
			}
		}
	}
	for _, name := range names {
		c.name(name)
	}
	for _, item := range have {
		c.extra(item, names)
	}
	slices.SortStableFunc(c.findings, func(a, b verdict.Finding) int { return strings.Compare(a.Subject, b.Subject) })
	return c.findings
}

type comparison struct {
	Set
	have     map[string]census.Item
	owner    map[digest.Digest]string // the name that a witness gives these bytes
	findings []verdict.Finding
}

func (c *comparison) add(f verdict.Finding) { c.findings = append(c.findings, f) }

// name compares one file that a witness names.
func (c *comparison) name(name string) {
	silent := c.silent(name)
	if len(silent) > 0 {
		c.add(verdict.Find(verdict.Conflict, name, "listed in %s, but not in %s, which should list all such files", join(c.By(name)), join(silent)))
	}
	item, there := c.have[name]
	if !there {
		c.add(verdict.Find(verdict.Missing, name, "listed in %s, but not found in the place", join(c.By(name))))
		return
	}
	if c.bytes(item) && KindOf(name).Summed {
		c.sidecars(item)
	}
}

// silent lists the witnesses that should name a file, but do not.
func (c *comparison) silent(name string) (list []string) {
	for _, w := range c.witnesses {
		if _, names := w.claims[name]; !names && w.covers != nil && w.covers(name) {
			list = append(list, w.name)
		}
	}
	return list
}

// Sides lists the witnesses whose digest for a name matches bytes, and those
// whose digest does not; want is the first digest that does not match.
func (s Set) Sides(name string, bytes digest.Set) (with, against []string, want digest.Digest) {
	for _, w := range s.witnesses {
		claim, names := w.claims[name]
		switch {
		case !names || !compared(claim, bytes):
		case fits(claim.SHA256, bytes.SHA256) && fits(claim.SHA512, bytes.SHA512):
			with = append(with, w.name)
		default:
			if against = append(against, w.name); want.IsZero() {
				want = cmp.Or(claim.SHA256, claim.SHA512)
			}
		}
	}
	return with, against, want
}

// bytes compares a file with every digest that a witness gives for it, and
// reports whether all match.
func (c *comparison) bytes(item census.Item) bool {
	with, against, want := c.Sides(item.Name, item.Digests)
	if len(against) == 0 {
		return true
	}
	got := item.Digests.SHA256
	if want.Algorithm() == digest.SHA512 {
		got = item.Digests.SHA512
	}
	other := c.owner[item.Digests.SHA256]
	switch {
	case len(with) > 0:
		c.add(verdict.Find(verdict.Conflict, item.Name, "the bytes match the digest in %s, but not the one in %s", join(with), join(against)).Differ(want.String(), got.String()))
	case other != "" && other != item.Name:
		c.add(verdict.Find(verdict.NameSwap, item.Name, "holds the bytes of %s", other).Differ(want.String(), got.String()))
	default:
		c.add(verdict.Find(verdict.Tampered, item.Name, "the bytes do not match the digest in %s", join(against)).Differ(want.String(), got.String()))
	}
	return false
}

// compared reports whether a claim contains a digest of an algorithm that was
// computed.
func compared(claim, bytes digest.Set) bool {
	return !claim.SHA256.IsZero() && !bytes.SHA256.IsZero() || !claim.SHA512.IsZero() && !bytes.SHA512.IsZero()
}

func fits(claim, bytes digest.Digest) bool {
	return claim.IsZero() || bytes.IsZero() || claim.Equal(bytes)
}

// sidecars checks the two hash sidecars of a file. A sidecar consists only of
// the hexadecimal digest, so its own digest shows its contents.
func (c *comparison) sidecars(of census.Item) {
	for suffix, sum := range map[string]digest.Digest{".sha256": of.Digests.SHA256, ".sha512": of.Digests.SHA512} {
		name := of.Name + suffix
		item, there := c.have[name]
		switch {
		case !there:
			c.add(verdict.Find(verdict.Missing, name, "the hash sidecar of %s was not found in the place", of.Name))
		case sum.IsZero() || item.Digests.IsZero() || says(item, sum, of.Name):
		default:
			c.add(verdict.Find(verdict.Conflict, name, "the sidecar's digest is not that of %s", of.Name).
				Differ(digest.Of(digest.SHA256, []byte(sum.Hex())).String(), item.Digests.SHA256.String()))
		}
	}
}

// says reports whether a sidecar is one of the few valid spellings of a digest.
func says(sidecar census.Item, sum digest.Digest, of string) bool {
	return slices.ContainsFunc([]string{"%s", "%s\n", "%s  " + of + "\n", "%s *" + of + "\n"}, func(text string) bool {
		return digest.Of(digest.SHA256, fmt.Appendf(nil, text, sum.Hex())).Equal(sidecar.Digests.SHA256)
	})
}

// extra refuses a file that no witness names. A sidecar or signature of a named
// file is allowed, and so are the documents of every release.
func (c *comparison) extra(item census.Item, names []string) {
	k := KindOf(item.Name)
	_, named := slices.BinarySearch(names, item.Name)
	_, beside := slices.BinarySearch(names, k.Of)
	if named || written[item.Name] || k.Of != "" && beside {
		return
	}
	found := verdict.Find(verdict.Extra, item.Name, "found in the place, but not listed in any document of the release")
	if read := item.Digests.SHA256; !read.IsZero() {
		found = found.Differ("nothing", read.String())
	}
	c.add(found)
}

func join(names []string) string {
	if len(names) == 0 {
		return "no document"
	}
	return strings.Join(names, ", ")
}
