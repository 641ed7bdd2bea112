package digest_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

const (
	emptySHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	emptySHA512 = "cf83e1357eefb8bdf1542850d66d8007d620e4050b5715dc83f4a921d36ce9ce" +
		"47d0d13c5d85f2b0ff8318d2877eec2f63b931bd47417a81a538327af927da3e"
)

func TestParseAcceptsTheOneForm(t *testing.T) {
	for _, s := range []string{"sha256:" + emptySHA256, "sha512:" + emptySHA512} {
		d, err := digest.Parse(s)
		if err != nil {
			t.Fatalf("Parse(%q): %v", s, err)
		}
		if d.String() != s {
			t.Errorf("String() = %q, want %q", d, s)
		}
		if want := digest.Of(d.Algorithm(), nil); !d.Equal(want) {
			t.Errorf("Parse(%q) = %v, want %v", s, d, want)
		}
		again, err := digest.ParseHex(d.Algorithm(), d.Hex())
		if err != nil || again != d {
			t.Errorf("ParseHex(Hex()) = %v, %v, want %v", again, err, d)
		}
	}
}

func TestB17TextForms(t *testing.T) {
	good := "sha256:" + emptySHA256
	if _, err := digest.Parse(good); err != nil {
		t.Fatalf("the good twin: %v", err)
	}
	for name, s := range map[string]string{
		"empty":              "",
		"upper-case hex":     "sha256:" + strings.ToUpper(emptySHA256),
		"one upper-case hex": "sha256:E" + emptySHA256[1:],
		"upper-case name":    "SHA256:" + emptySHA256,
		"folded name":        "\u017fha256:" + emptySHA256,
		"dashed name":        "sha-256:" + emptySHA256,
		"no name":            emptySHA256,
		"empty name":         ":" + emptySHA256,
		"no digits":          "sha256:",
		"space before":       " " + good,
		"space after":        good + " ",
		"newline after":      good + "\n",
		"space inside":       "sha256: " + emptySHA256[1:],
		"truncated":          good[:len(good)-1],
		"half":               good[:len(good)/2],
		"too long":           good + "0",
		"NUL after":          good + "\x00",
		"not hex":            "sha256:g" + emptySHA256[1:],
		"0x":                 "sha256:0x" + emptySHA256[2:],
		"unicode digit":      "sha256:\uff11" + emptySHA256[3:],
		"invalid UTF-8":      "sha256:\xff" + emptySHA256[1:],
		"two names":          "sha256:" + good,
		"sha1":               "sha1:da39a3ee5e6b4b0d3255bfef95601890afd80709",
		"md5":                "md5:d41d8cd98f00b204e9800998ecf8427e",
		"sha384":             "sha384:" + emptySHA512[:96],
		"swapped algorithm":  "sha512:" + emptySHA256,
		"OCI @ form":         "image@" + good,
	} {
		t.Run(name, func(t *testing.T) {
			d, err := digest.Parse(s)
			var form *digest.FormError
			if !errors.As(err, &form) {
				t.Fatalf("Parse(%q) = %v, %v, want a FormError", s, d, err)
			}
			if form.Text != s || !d.IsZero() {
				t.Errorf("Parse(%q): FormError about %q with result %v", s, form.Text, d)
			}
		})
	}
}

// Every prefix of a digest and every change of one byte to the next value is
// either refused or names other bytes.
func TestParseMangled(t *testing.T) {
	for _, s := range []string{"sha256:" + emptySHA256, "sha512:" + emptySHA512} {
		good, err := digest.Parse(s)
		if err != nil {
			t.Fatal(err)
		}
		for i := range len(s) {
			if d, err := digest.Parse(s[:i]); err == nil {
				t.Errorf("prefix of %d bytes was read as %v", i, d)
			}
			bumped := []byte(s)
			bumped[i]++
			d, err := digest.Parse(string(bumped))
			switch {
			case err != nil:
			case d.Equal(good):
				t.Errorf("%q was read as %q", bumped, s)
			case d.String() != string(bumped):
				t.Errorf("%q was read as %q", bumped, d)
			}
		}
	}
}

func TestFormErrorQuotesAndTruncates(t *testing.T) {
	_, err := digest.Parse("\x1b[2J\r\n" + strings.Repeat("a", 1<<20))
	if err == nil {
		t.Fatal("want an error")
	}
	if msg := err.Error(); len(msg) > 400 || strings.ContainsAny(msg, "\x1b\r\n") {
		t.Errorf("foreign text reaches the message: %d bytes, %.80q", len(msg), msg)
	}
}

func TestParseHexUnknownAlgorithm(t *testing.T) {
	for _, a := range []digest.Algorithm{0, 3} {
		if d, err := digest.ParseHex(a, ""); err == nil {
			t.Errorf("ParseHex(%v, \"\") = %v, want an error", a, d)
		}
	}
}

func TestZeroEqualsNothing(t *testing.T) {
	var zero digest.Digest
	some := digest.Of(digest.SHA256, nil)
	switch {
	case zero.Equal(zero):
		t.Error("zero equals itself")
	case zero.Equal(some), some.Equal(zero):
		t.Error("zero equals a digest")
	case !some.Equal(some):
		t.Error("a digest does not equal itself")
	case !zero.IsZero(), some.IsZero():
		t.Error("IsZero is wrong")
	case zero.String() != "", zero.Hex() != "", zero.Bytes() != nil:
		t.Error("zero has a form")
	case digest.Of(digest.SHA512, nil).Equal(some):
		t.Error("digests of different algorithms are equal")
	}
	if _, err := zero.MarshalText(); err == nil {
		t.Error("zero can be marshalled")
	}
	if _, err := json.Marshal(struct{ D digest.Digest }{}); err == nil {
		t.Error("zero can be marshalled as JSON")
	}
}

func TestBytesIsACopy(t *testing.T) {
	d := digest.Of(digest.SHA256, nil)
	d.Bytes()[0] ^= 1
	if d != digest.Of(digest.SHA256, nil) {
		t.Error("changing the result of Bytes changed the digest")
	}
}

func TestJSONRoundTrip(t *testing.T) {
	type doc struct {
		Field digest.Digest
		Keys  map[digest.Digest]int
		None  digest.Digest `json:",omitzero"`
	}
	d := digest.Of(digest.SHA512, []byte("x"))
	text, err := json.Marshal(doc{Field: d, Keys: map[digest.Digest]int{d: 1}})
	if err != nil {
		t.Fatal(err)
	}
	var back doc
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	if back.Field != d || back.Keys[d] != 1 || !back.None.IsZero() {
		t.Errorf("%s was read as %v", text, back)
	}
	kept := d
	if err := kept.UnmarshalText([]byte("sha256:")); err == nil || !kept.IsZero() {
		t.Errorf("a refused text left %v, %v", kept, err)
	}
}

func TestOfPanicsOnUnknownAlgorithm(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("want a panic")
		}
	}()
	digest.Of(0, nil)
}

func FuzzParse(f *testing.F) {
	f.Add("sha256:" + emptySHA256)
	f.Add("sha512:" + emptySHA512)
	f.Add("SHA256:" + emptySHA256)
	f.Add("sha256:")
	f.Fuzz(func(t *testing.T, s string) {
		d, err := digest.Parse(s)
		if err != nil {
			if !d.IsZero() {
				t.Errorf("Parse(%q) = %v with an error", s, d)
			}
			return
		}
		if d.String() != s {
			t.Errorf("Parse(%q).String() = %q", s, d)
		}
		if len(d.Bytes()) != d.Algorithm().Size() {
			t.Errorf("Parse(%q) has %d bytes", s, len(d.Bytes()))
		}
	})
}

// TestHexOfEachByte: what is written of each byte is read as that byte, and
// what differs from it in one place by any byte is read as the whole rules read
// it.
func TestHexOfEachByte(t *testing.T) {
	for _, alg := range []digest.Algorithm{digest.SHA256, digest.SHA512} {
		for c := range 256 {
			d := digest.Of(alg, []byte{byte(c)})
			text := []byte("x" + d.Hex())
			if got, err := digest.ParseHexBytes(alg, text[1:]); err != nil || got != d {
				t.Fatalf("%v, %v, want %v", got, err, d)
			}
			text[1+c%(2*alg.Size())] = byte(c)
			got, err := digest.ParseHexBytes(alg, text[1:])
			want, refused := digest.ParseHex(alg, string(text[1:]))
			isDigit := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
			if got != want || (err == nil) != isDigit || (refused == nil) != isDigit {
				t.Errorf("%q: %v and %v", text[1:], err, refused)
			}
		}
		if _, err := digest.ParseHexBytes(alg, make([]byte, 2)); err == nil {
			t.Error("two bytes are a digest")
		}
	}
	if _, err := digest.ParseHexBytes(0, nil); err == nil {
		t.Error("nothing is a digest of no algorithm")
	}
}
