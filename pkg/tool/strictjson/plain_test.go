package strictjson_test

import (
	"bytes"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// TestPlain: eight bytes at a time end where one at a time do, whatever two
// bytes stand wherever among others.
func TestPlain(t *testing.T) {
	naive := func(s []byte) int {
		for i, c := range s {
			if c == '"' || c == '\\' || c < ' ' {
				return i
			}
		}
		return len(s)
	}
	other := []byte{' ', '!', '#', '[', ']', 0x7f, 0x80, 0xa2, 0xdc, 0xff, '"', '\\', 0x1f, 0}
	for size := range 20 {
		for at := range size {
			for c := range 256 {
				for _, filler := range other[:10] {
					s := bytes.Repeat([]byte{filler}, size)
					s[at] = byte(c)
					if at+1 < size {
						s[at+1] = other[c%len(other)]
					}
					if got, text := strictjson.Plain(s), strictjson.Plain(string(s)); got != naive(s) || text != got {
						t.Fatalf("%q: %d and %d, want %d", s, got, text, naive(s))
					}
				}
			}
		}
	}
}
