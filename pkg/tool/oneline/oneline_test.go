package oneline_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/oneline"
)

func TestIs(t *testing.T) {
	for text, want := range map[string]bool{
		"mirrored daily": true, strings.Repeat("x", 20): true,
		"": false, " a": false, "a ": false, "a\nb": false, "a\u202eb": false, strings.Repeat("x", 21): false,
	} {
		if oneline.Is(text, 20) != want {
			t.Errorf("%q: want %t", text, want)
		}
	}
}
