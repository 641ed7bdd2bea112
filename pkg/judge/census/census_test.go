package census_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/census"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func item(name, bytes string) census.Item {
	return census.Item{Name: name, Digests: digest.SetOf([]byte(bytes)), Size: int64(len(bytes))}
}

// unread is an object that nobody hashed, because nobody listed it.
func unread(name string) census.Item { return census.Item{Name: name, Size: 1} }

func sha256Only(i census.Item) census.Item { i.Digests.SHA512 = digest.Digest{}; return i }

func sized(i census.Item, size int64) census.Item { i.Size = size; return i }

func otherSHA512(i census.Item) census.Item {
	i.Digests.SHA512 = digest.Of(digest.SHA512, []byte("other"))
	return i
}

func codes(findings []verdict.Finding) []string {
	list := []string{}
	for _, f := range findings {
		list = append(list, string(f.Code)+" "+f.Subject)
	}
	return list
}

func TestCompare(t *testing.T) {
	a, b, twin := item("a", "A"), item("b", "B"), item("twin", "A") // a and twin share their bytes
	all := []census.Item{a, b, twin}
	rows := []struct {
		name       string
		want, have []census.Item
		findings   []string
	}{
		{"the same", all, all, []string{}},
		{"nothing and nothing", nil, nil, []string{}},
		{"nothing there", all, nil, []string{"MISSING a", "MISSING b", "MISSING twin"}},
		{"nothing listed", nil, all, []string{"EXTRA a", "EXTRA b", "EXTRA twin"}},
		{"one missing", all, []census.Item{a, b}, []string{"MISSING twin"}},
		{"one more", all, append(slices.Clone(all), item("x", "X")), []string{"EXTRA x"}},
		{"one more, not read", all, append(slices.Clone(all), unread("x")), []string{"EXTRA x"}},
		{"one more with listed bytes", all, append(slices.Clone(all), item("x", "A")), []string{"EXTRA x"}},
		{"other bytes", all, []census.Item{a, item("b", "evil"), twin}, []string{"TAMPERED b"}},
		{"two swapped", all, []census.Item{item("a", "B"), item("b", "A"), twin}, []string{"NAME_SWAP a", "NAME_SWAP b"}},
		{"two of the same bytes swapped", all, []census.Item{item("twin", "A"), b, item("a", "A")}, []string{}},
		{"one replaced by another's bytes", all, []census.Item{a, item("b", "A"), twin}, []string{"NAME_SWAP b"}},
		{"renamed", all, []census.Item{item("c", "A"), b, twin}, []string{"MISSING a", "EXTRA c"}},
		{"a listed file not read", all, []census.Item{unread("a"), b, twin}, []string{"TAMPERED a"}},
		{"another size", all, []census.Item{sized(a, 2), b, twin}, []string{"TAMPERED a"}},
		{"another sha512 under the right sha256", all, []census.Item{otherSHA512(a), b, twin}, []string{"TAMPERED a"}},
		{"sha512 not computed", all, []census.Item{sha256Only(a), b, twin}, []string{}},
		{"sha512 not listed", []census.Item{sha256Only(a)}, []census.Item{a}, []string{}},
		{"a name in another case", []census.Item{a}, []census.Item{item("A", "A")}, []string{"EXTRA A", "MISSING a"}},
		{"an entry without digests", []census.Item{unread("a")}, []census.Item{unread("a")}, []string{"TAMPERED a"}},
		{"two entries without digests", []census.Item{unread("a"), unread("b")}, []census.Item{unread("a"), unread("b")}, []string{"TAMPERED a", "TAMPERED b"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			if got := codes(census.Compare(r.want, r.have)); !slices.Equal(got, r.findings) {
				t.Errorf("got %q, want %q", got, r.findings)
			}
		})
	}
}

func TestFindingsSayWhatDiffers(t *testing.T) {
	a, b := item("a", "A"), item("b", "B")
	rows := []struct {
		name      string
		have      census.Item
		want, got string
	}{
		{"other bytes", item("a", "evil"), a.Digests.SHA256.String(), digest.Of(digest.SHA256, []byte("evil")).String()},
		{"the bytes of b", item("a", "B"), a.Digests.SHA256.String(), b.Digests.SHA256.String()},
		{"another size", sized(a, 7), "1 bytes", "7 bytes"},
		{"another sha512", otherSHA512(a), a.Digests.SHA512.String(), otherSHA512(a).Digests.SHA512.String()},
		{"not read", sized(unread("a"), 1), a.Digests.SHA256.String(), "not read"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			f := census.Compare([]census.Item{a, b}, []census.Item{r.have, b})
			if len(f) != 1 || f[0].Want != r.want || f[0].Got != r.got {
				t.Errorf("findings %+v, want %q, got %q", f, r.want, r.got)
			}
		})
	}
}

// TestCompareProperties draws worlds from few names and few bytes, so that
// everything clashes with everything.
func TestCompareProperties(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		want, have := world(r), world(r)
		findings := census.Compare(want, have)
		if clean := len(findings) == 0; clean != same(want, have) {
			t.Fatalf("seed %d: %d findings between\n%v\n%v", seed, len(findings), names(want), names(have))
		}
		if len(census.Compare(want, want)) != 0 {
			t.Fatalf("seed %d: a world differs from itself", seed)
		}
		for range 3 {
			r.Shuffle(len(want), func(i, j int) { want[i], want[j] = want[j], want[i] })
			r.Shuffle(len(have), func(i, j int) { have[i], have[j] = have[j], have[i] })
			if again := census.Compare(want, have); !reflect.DeepEqual(again, findings) {
				t.Fatalf("seed %d: another order, other findings:\n%v\n%v", seed, findings, again)
			}
		}
	}
}

func world(r *rand.Rand) []census.Item {
	var items []census.Item
	for i := range 5 {
		if r.IntN(4) > 0 {
			items = append(items, item(fmt.Sprintf("n%d", i), fmt.Sprintf("bytes %d", r.IntN(3))))
		}
	}
	return items
}

func same(a, b []census.Item) bool {
	index := map[string]census.Item{}
	for _, i := range a {
		index[i.Name] = i
	}
	for _, i := range b {
		if index[i.Name] != i {
			return false
		}
	}
	return len(a) == len(b)
}

func names(items []census.Item) (list []string) {
	for _, i := range items {
		list = append(list, i.Name+" "+i.Digests.SHA256.Hex()[:8])
	}
	return list
}
