package token_test

import (
	"encoding/base64"
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/sign/token"
)

func TestTokensAreRecognised(t *testing.T) {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	bare := part(`{"alg":"RS256"}`) + "." + part(`{"sub":"release@example.test"}`) + ".c2lnbmF0dXJl"
	for text, hidden := range map[string]string{
		"release=" + bare:            "release=TOKEN",
		bare:                         "TOKEN",
		"--identity=release=" + bare: "--identity=release=TOKEN",
		"release=release.token":      "",
		"release=./eyJ.token.json":   "",
		"kubernetes:/run/eyJhbGci":   "",
		"":                           "",
	} {
		if got := token.IsBare(text); got != (hidden != "") {
			t.Errorf("%q is a token: %v", text, got)
		}
		want := hidden
		if want == "" {
			want = text
		}
		if got := token.Hide(text); got != want {
			t.Errorf("%q is shown as %q, want %q", text, got, want)
		}
	}
}
