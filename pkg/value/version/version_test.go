package version_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/version"
)

// ascending is strictly ordered, the lowest version first.
func ascending(t *testing.T) []version.Version {
	t.Helper()
	var all []version.Version
	for _, major := range []int{0, 1, 10, 999_999_999} {
		for _, minor := range []int{0, 2, 31} {
			for _, patch := range []int{0, 9, 10} {
				for _, suffix := range []string{
					"-alpha.0", "-alpha.0.1+2a4f1c0", "-alpha.0.1+2a4f1c09d3be1f", "-alpha.0.35+0a4f1c09d3be1f", "-alpha.2", "-alpha.10", "-beta.0", "-beta.1", "-rc.0", "-rc.999999999", "",
				} {
					s := fmt.Sprintf("v%d.%d.%d%s", major, minor, patch, suffix)
					v, err := version.Parse(s)
					if err != nil {
						t.Fatalf("the good twin %q: %v", s, err)
					}
					all = append(all, v)
				}
			}
		}
	}
	return all
}

func TestParse(t *testing.T) {
	for s, want := range map[string]struct {
		major, minor, patch int
		channel             version.Channel
	}{
		"v1.31.2":          {1, 31, 2, version.Stable},
		"v0.0.0":           {0, 0, 0, version.Stable},
		"v1.31.0-alpha.1":  {1, 31, 0, version.Alpha},
		"v1.31.0-beta.0":   {1, 31, 0, version.Beta},
		"v12.345.678-rc.9": {12, 345, 678, version.RC},

		"v1.32.0-alpha.0.123+2a4f1c09d3be1f": {1, 32, 0, "ci"},
	} {
		v, err := version.Parse(s)
		if err != nil {
			t.Errorf("Parse(%q): %v", s, err)
			continue
		}
		if v.Major() != want.major || v.Minor() != want.minor || v.Patch() != want.patch || v.Channel() != want.channel {
			t.Errorf("Parse(%q) = %d %d %d %s", s, v.Major(), v.Minor(), v.Patch(), v.Channel())
		}
		if v.String() != s {
			t.Errorf("Parse(%q).String() = %q", s, v)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	for _, s := range []string{
		"", "v", "1.31.2", "V1.31.2", "vv1.31.2", " v1.31.2", "v1.31.2 ", "v1.31.2\n", "v1.31.2\x00",
		"v1", "v1.31", "v1.31.2.0", "v1..2", "v.31.2", "v1.31.", "v1,31,2", "v1.31.2-",
		"v01.31.2", "v1.031.2", "v1.31.02", "v00.0.0", "v1.31.2-rc.01", "v1.31.2-rc.00",
		"v-1.31.2", "v+1.31.2", "v1.3_1.2", "v0x1.31.2", "v1e3.0.0", "v1.31.\u0662", "v1.31.x",
		"v1.31.2-alpha", "v1.31.2-alpha.", "v1.31.2-alpha1", "v1.31.2-alpha.1.2", "v1.31.2-alpha.x",
		"v1.31.2-Alpha.1", "v1.31.2-ALPHA.1", "v1.31.2-RC.1", "v1.31.2-stable.1", "v1.31.2-.1",
		"v1.31.2-dev.1", "v1.31.2-a.1", "v1.31.2-rc.-1", "v1.31.2-rc.1-rc.2", "v1.31.2--rc.1",
		"v1.31.2+build", "v1.31.2-rc.1+build", "v1.31.2-rc.1+", "v1.31.2/../x",
		"v1000000000.0.0", "v0.1000000000.0", "v0.0.4294967296", "v0.0.0-rc.1000000000",
		"v1.31.99999999999999999999999999", "latest", "stable-1.31",
		"v1.32.0-alpha.0.123", "v1.32.0-alpha.0+2a4f1c09d3be1f", "v1.32.0-alpha.0.0+2a4f1c09d3be1f", "v1.32.0-alpha.0.123+", "v1.32.0-alpha.0.123+2a4f1c",
		"v1.32.0-alpha.0.123+2A4F1C09D3BE1F", "v1.32.0-alpha.0.123+2a4f1c09d3be1g", "v1.32.0-alpha.0.0123+2a4f1c09d3be1f", "v1.32.0-alpha.0.1.2+2a4f1c09d3be1f",
		"v1.32.0-alpha.0.123+2a4f1c09d3be1f+2a4f1c09d3be1f", "v1.32.0-alpha.0.123+2a4f1c09d3be1f-dirty", "v1.32.0-alpha.0.123_2a4f1c09d3be1f", "v1.32.0-123+2a4f1c09d3be1f",
	} {
		t.Run(s, func(t *testing.T) {
			v, err := version.Parse(s)
			var form *version.FormError
			if !errors.As(err, &form) || form.Text != s || !v.IsZero() {
				t.Errorf("Parse(%q) = %q, %v, want a FormError", s, v, err)
			}
		})
	}
}

func TestImageTag(t *testing.T) {
	for text, want := range map[string]string{"v1.31.2": "v1.31.2", "v1.32.0-alpha.0.123+2a4f1c09d3be1f": "v1.32.0-alpha.0.123_2a4f1c09d3be1f"} {
		v, err := version.Parse(text)
		if err != nil || v.ImageTag() != want || v.IsBuild() != (text != want) {
			t.Errorf("%q: tag %q, build %t, %v", text, v.ImageTag(), v.IsBuild(), err)
		}
	}
}

// TestOf: the version of a build is that of one commit, and that of a release of
// any.
func TestOf(t *testing.T) {
	const commit = "2a4f1c09d3be1f00000000000000000000000000"
	for text, want := range map[string]bool{
		"v1.31.2": true, "v1.31.2-rc.0": true, "v1.31.2-rc.0.1+2a4f1c0": true, "v1.31.2-rc.0.1+" + commit: true,
		"v1.31.2-rc.0.1+2a4f1c1": false, "v1.31.2-rc.0.1+a4f1c09": false,
	} {
		v, err := version.Parse(text)
		if err != nil || v.Of(commit) != want || v.IsBuild() && v.Of("") {
			t.Errorf("%s: %t, %v", text, v.Of(commit), err)
		}
	}
}

func TestFormErrorQuotesAndTruncates(t *testing.T) {
	_, err := version.Parse("v\x1b[2J\r\n" + strings.Repeat("1", 1<<20))
	if err == nil {
		t.Fatal("want an error")
	}
	if msg := err.Error(); len(msg) > 400 || strings.ContainsAny(msg, "\x1b\r\n") {
		t.Errorf("foreign text reaches the message: %d bytes, %.80q", len(msg), msg)
	}
}

// Every prefix and every change of one byte is refused or reads back as
// itself: no two spellings share a version.
func TestParseMangled(t *testing.T) {
	for _, v := range ascending(t) {
		s := v.String()
		for i := range len(s) {
			bumped := []byte(s)
			bumped[i]++
			for _, mangled := range []string{s[:i], string(bumped)} {
				if m, err := version.Parse(mangled); err == nil && (m.String() != mangled || m == v) {
					t.Errorf("%q was read as %q", mangled, m)
				}
			}
		}
	}
}

func TestParseStringIsIdentity(t *testing.T) {
	for _, v := range ascending(t) {
		if again, err := version.Parse(v.String()); err != nil || again != v {
			t.Errorf("Parse(%q) = %q, %v", v, again, err)
		}
	}
}

// The whole table is compared with itself, which covers antisymmetry and,
// as positions are transitive, transitivity.
func TestCompareIsTheTotalOrder(t *testing.T) {
	all := append([]version.Version{{}}, ascending(t)...)
	for i, a := range all {
		for j, b := range all {
			want := 0
			switch {
			case i < j:
				want = -1
			case i > j:
				want = +1
			}
			if got := a.Compare(b); got != want || a.Less(b) != (want < 0) || (a == b) != (want == 0) {
				t.Fatalf("Compare(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
	shuffled := slices.Clone(all)
	slices.Reverse(shuffled)
	slices.SortFunc(shuffled, version.Version.Compare)
	if !slices.Equal(shuffled, all) {
		t.Error("sorting does not restore the order")
	}
}

func TestZero(t *testing.T) {
	var zero version.Version
	if !zero.IsZero() || zero.String() != "" || zero.Channel() != "" {
		t.Errorf("zero is %q of channel %q", zero, zero.Channel())
	}
	if _, err := zero.MarshalText(); err == nil {
		t.Error("zero can be marshalled")
	}
	v, err := version.Parse("v0.0.0")
	if err != nil || v.IsZero() || v == zero {
		t.Errorf("v0.0.0 is the zero value: %v", err)
	}
}

func TestJSONRoundTrip(t *testing.T) {
	for _, v := range ascending(t) {
		text, err := json.Marshal(map[version.Version]version.Version{v: v})
		if err != nil {
			t.Fatal(err)
		}
		var back map[version.Version]version.Version
		if err := json.Unmarshal(text, &back); err != nil || back[v] != v {
			t.Errorf("%s was read as %v, %v", text, back, err)
		}
	}
	v := ascending(t)[0]
	if err := v.UnmarshalText([]byte("1.0.0")); err == nil || !v.IsZero() {
		t.Errorf("a refused text left %q, %v", v, err)
	}
}

func FuzzParse(f *testing.F) {
	for _, s := range []string{"v1.31.2", "v1.31.0-alpha.1", "v0.0.0-beta.0", "v1.0.0-rc.999999999", "v01.0.0", "V1.0.0+x"} {
		f.Add(s, "v1.0.0")
	}
	f.Fuzz(func(t *testing.T, s, other string) {
		v, err := version.Parse(s)
		if err != nil {
			if !v.IsZero() {
				t.Errorf("Parse(%q) = %q with an error", s, v)
			}
			return
		}
		if v.String() != s {
			t.Errorf("Parse(%q).String() = %q", s, v)
		}
		w, err := version.Parse(other)
		if err == nil && (v.Compare(w) != -w.Compare(v) || (v.Compare(w) == 0) != (s == other)) {
			t.Errorf("%q and %q compare as %d and %d", s, other, v.Compare(w), w.Compare(v))
		}
	})
}
