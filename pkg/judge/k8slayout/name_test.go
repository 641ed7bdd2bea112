package k8slayout

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestBytesOfNames asks about every byte: a name of a release has ASCII letters,
// digits and a few marks.
func TestBytesOfNames(t *testing.T) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	allowed := map[byte]bool{}
	for _, c := range []byte(letters + "/._+@~-") {
		allowed[c] = true
	}
	for c := range 256 {
		w := Witness{name: "list"}
		name := "bin/a" + string([]byte{byte(c)}) + "b"
		err := w.claim(name, digest.SetOf([]byte("a")))
		switch {
		case allowed[byte(c)]:
			if err != nil || w.Len() != 1 {
				t.Errorf("%q: %v", name, err)
			}
		case err == nil || w.Len() != 0 || verdict.FindingOf("", err).Code != verdict.Path:
			t.Errorf("%q: %v, want PATH and no claim", name, err)
		}
	}
}

// TestIndependent: only a witness that was made without the build makes a set
// independent of it.
func TestIndependent(t *testing.T) {
	of := func(independent ...bool) Set {
		var all []Witness
		for _, is := range independent {
			w := Witness{name: "w", independent: is}
			if err := w.claim("bin/a", digest.SetOf([]byte("a"))); err != nil {
				t.Fatal(err)
			}
			all = append(all, w)
		}
		s, err := Of(all...)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	if of(false).Independent() || of(false, false).Independent() || (Set{}).Independent() {
		t.Error("independent, and every witness is of the build")
	}
	if !of(true).Independent() || !of(false, true).Independent() {
		t.Error("not independent, with a witness of its own")
	}
}
