package k8slayout

import (
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Compare lists what stands against the release that is there, sorted by name.
// Each item of have was read to its end; one that was not read has no digests,
// and is looked at by its name alone.
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

// comparison is one comparison under way.
type comparison struct {
	Set
	have     map[string]census.Item
	owner    map[digest.Digest]string // whose bytes they are
	findings []verdict.Finding
}

func (c *comparison) add(f verdict.Finding) { c.findings = append(c.findings, f) }

// name judges one file that somebody names.
func (c *comparison) name(name string) {
	silent := c.silent(name)
	if len(silent) > 0 {
		c.add(verdict.Find(verdict.Conflict, name, "%s: named there; %s: not named, though written over all such files", join(c.By(name)), join(silent)))
	}
	item, there := c.have[name]
	if !there {
		c.add(verdict.Find(verdict.Missing, name, "named by %s, not in the place", join(c.By(name))))
		return
	}
	if c.bytes(item) && KindOf(name).Summed {
		c.sidecars(item)
	}
}

// silent are the witnesses that should name a file and do not.
func (c *comparison) silent(name string) (list []string) {
	for _, w := range c.witnesses {
		if _, names := w.claims[name]; !names && w.covers != nil && w.covers(name) {
			list = append(list, w.name)
		}
	}
	return list
}

// Sides are the witnesses that give these bytes for a name, and those that give
// others: the first digest that another gives is want.
func (s Set) Sides(name string, bytes digest.Set) (with, against []string, want digest.Digest) {
	for _, w := range s.witnesses {
		claim, names := w.claims[name]
		switch {
		case !names || !compared(claim, bytes):
		case fits(claim.SHA256, bytes.SHA256) && fits(claim.SHA512, bytes.SHA512):
			with = append(with, w.name)
		default:
			if against = append(against, w.name); want.IsZero() {
				want = first(claim)
			}
		}
	}
	return with, against, want
}

// bytes holds the bytes of a file against every digest that is given for it,
// and reports whether nothing stands against them.
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
		c.add(verdict.Find(verdict.Conflict, item.Name, "the bytes are those of %s, and not those of %s", join(with), join(against)).Differ(want.String(), got.String()))
	case other != "" && other != item.Name:
		c.add(verdict.Find(verdict.NameSwap, item.Name, "holds the bytes of %s", other).Differ(want.String(), got.String()))
	default:
		c.add(verdict.Find(verdict.Tampered, item.Name, "the bytes are not those of %s", join(against)).Differ(want.String(), got.String()))
	}
	return false
}

// compared reports whether a claim gives a digest that was computed.
func compared(claim, bytes digest.Set) bool {
	return !claim.SHA256.IsZero() && !bytes.SHA256.IsZero() || !claim.SHA512.IsZero() && !bytes.SHA512.IsZero()
}

func fits(claim, bytes digest.Digest) bool {
	return claim.IsZero() || bytes.IsZero() || claim.Equal(bytes)
}

func first(set digest.Set) digest.Digest {
	if set.SHA256.IsZero() {
		return set.SHA512
	}
	return set.SHA256
}

// sidecars holds the two sidecars of a file against its bytes. A sidecar is the
// digest in hexadecimal and nothing else, so its own digest tells what it says.
func (c *comparison) sidecars(of census.Item) {
	for suffix, sum := range map[string]digest.Digest{".sha256": of.Digests.SHA256, ".sha512": of.Digests.SHA512} {
		name := of.Name + suffix
		item, there := c.have[name]
		switch {
		case !there:
			c.add(verdict.Find(verdict.Missing, name, "the hash sidecar of %s is not in the place", of.Name))
		case sum.IsZero() || item.Digests.IsZero() || says(item, sum, of.Name):
		default:
			c.add(verdict.Find(verdict.Conflict, name, "it says another digest than the bytes of %s have", of.Name).
				Differ(digest.Of(digest.SHA256, []byte(sum.Hex())).String(), item.Digests.SHA256.String()))
		}
	}
}

// says reports whether a sidecar is one of the few texts that give a digest.
func says(sidecar census.Item, sum digest.Digest, of string) bool {
	for _, text := range []string{"%s", "%s\n", "%s  " + of + "\n", "%s *" + of + "\n"} {
		if digest.Of(digest.SHA256, fmt.Appendf(nil, text, sum.Hex())).Equal(sidecar.Digests.SHA256) {
			return true
		}
	}
	return false
}

// extra refuses what nobody names. What lies beside a named file belongs to
// it; a document of the layout belongs to the release.
func (c *comparison) extra(item census.Item, names []string) {
	k := KindOf(item.Name)
	_, named := slices.BinarySearch(names, item.Name)
	_, beside := slices.BinarySearch(names, k.Of)
	if named || written[item.Name] || k.Of != "" && beside {
		return
	}
	c.add(verdict.Find(verdict.Extra, item.Name, "in the place, and no witness names it").Differ("nothing", described(item)))
}

func described(item census.Item) string {
	if item.Digests.SHA256.IsZero() {
		return "not read"
	}
	return item.Digests.SHA256.String()
}

func join(names []string) string {
	if len(names) == 0 {
		return "nobody"
	}
	return strings.Join(names, ", ")
}
