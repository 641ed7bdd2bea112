package unpack_test

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
)

// TestMangledArchives: a zip of which a byte is another one, or the end is
// missing, is refused or gives what it gave before. A tar has no checksum of
// what it holds, but one of each header: its entries stay as many and as large.
func TestMangledArchives(t *testing.T) {
	small, large := strings.Repeat("hello ", 20), strings.Repeat("a longer text ", 60)
	zipped := rawarchive.Zip(func(e *rawarchive.End) { e.Comment = "a comment" },
		rawarchive.Packed("stored", small, false), rawarchive.Packed("dir/", "", false), rawarchive.Packed("dir/deflated", large, true),
		rawarchive.Packed("dir/streamed", large, true).Streamed())
	gnu := rawarchive.Header{Name: "short", Kind: '0', Size: int64(len(small)), Format: rawarchive.GNU}
	tarred := rawarchive.Tar(rawarchive.File("a", small), rawarchive.Header{Name: "dir/", Kind: '5'}.Bytes(),
		rawarchive.Extended('x', rawarchive.Records("path", "dir/b", "mtime", "1.5")), rawarchive.File("b", large),
		rawarchive.Extended('L', "dir/c\x00"), gnu.Bytes(), rawarchive.Body(small))
	for name, c := range map[string]struct {
		raw  []byte
		read func([]byte) (map[string]string, error)
		same func(before, after map[string]string) bool
	}{
		"zip": {zipped, walk, maps.Equal[map[string]string, map[string]string]},
		"tar": {tarred, walk, sameShape},
		"tar as a place": {tarred, func(raw []byte) (map[string]string, error) {
			found, err := place(raw)
			other, bad := walk(raw)
			if err == nil && (bad != nil || !maps.Equal(found, other)) {
				t.Errorf("read in one way as a place, and in another as an archive: %v", bad)
			}
			return found, err
		}, sameShape},
	} {
		before, err := c.read(c.raw)
		must(t, err)
		refusals := 0
		for i := range c.raw {
			for _, by := range []byte{1, 0x80, 0xff} {
				other := bytes.Clone(c.raw)
				other[i] += by
				switch after, err := c.read(other); {
				case err != nil:
					refusals++
				case !c.same(before, after):
					t.Errorf("%s: byte %d of %d more by %d gives %d other entries", name, i, len(c.raw), by, len(after))
				}
			}
		}
		for n := range c.raw {
			if _, err := c.read(c.raw[:n]); err == nil && name != "tar" { // which may have no end
				t.Errorf("%s: the first %d bytes of %d are taken for all", name, n, len(c.raw))
			}
		}
		t.Logf("%s: %d of %d changes of one byte are refused", name, refusals, 3*len(c.raw))
		if refusals < len(c.raw)/4 {
			t.Errorf("%s: hardly anything is refused", name)
		}
	}
}

// sameShape reports whether as many entries have the same sizes: an extended
// header has no checksum of the name in it.
func sameShape(before, after map[string]string) bool {
	sizes := func(m map[string]string) (all []string) {
		for _, content := range m {
			all = append(all, strings.Repeat(" ", len(content)))
		}
		slices.Sort(all)
		return all
	}
	return slices.Equal(sizes(before), sizes(after))
}
