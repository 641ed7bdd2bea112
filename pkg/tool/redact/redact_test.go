package redact_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/tool/redact"
)

// TestSecrets: each shape is taken out, and what is next to it stays.
func TestSecrets(t *testing.T) {
	const jwt = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJidWlsZGVyIn0.c2lnbmF0dXJl"
	for text, want := range map[string]string{
		"DENIED: not with Basic cm9ib3Q6aHVudGVyMg==":                                                 "DENIED: not with [redacted]",
		"asking with " + jwt + " now":                                                                 "asking with [redacted] now",
		"Authorization: Bearer abcdefgh12345678, and more":                                            "[redacted], and more",
		"authorization=abcdefgh12345678":                                                              "[redacted]",
		`{"Authorization":"Basic dXNlcjpodW50ZXIy"}`:                                                  `{"[redacted]"}`,
		"with bearer abcdefgh12345678abcdefgh":                                                        "with [redacted]",
		"Cookie: session=abc; other=def":                                                              "[redacted]",
		"Set-Cookie: session=abc":                                                                     "Set-[redacted]",
		"cloning https://ci:hunter2@git.example.test/lantern":                                         "cloning https://[redacted]@git.example.test/lantern",
		"cloning https://hunter2@git.example.test/lantern":                                            "cloning https://[redacted]@git.example.test/lantern",
		"no directory https:/ci:hunter2@git.example.test":                                             "no directory https:/[redacted]@git.example.test",
		"cloning ssh://ci:hunter2@git.example.test/lantern":                                           "cloning ssh://[redacted]@git.example.test/lantern",
		"USAGE ci:hunter2@registry.example.test/lantern:v1: no":                                       "USAGE [redacted]@registry.example.test/lantern:v1: no",
		`"ci:hunter2@127.0.0.1:5000/lantern@sha256:00"`:                                               `"[redacted]@127.0.0.1:5000/lantern@sha256:00"`,
		"PUT https://host.example.test/x?access_token=abcdef&y=1":                                     "PUT https://host.example.test/x?[redacted]&y=1",
		"DB_PASSWORD=hunter2":                                                                         "[redacted]",
		"gho_0123456789abcdefghij":                                                                    "[redacted]",
		"glpat-0123456789abcdefghij":                                                                  "[redacted]",
		"aws_secret_access_key=abcdefgh/12345678":                                                     "[redacted]",
		"GET https://host.example.test/x?X-Goog-Expires=60&X-Goog-Signature=0123456789abcdef0123&y=1": "GET https://host.example.test/x?X-Goog-Expires=60&[redacted]&y=1",
		"GET https://host.example.test/x?x-amz-signature=0123456789abcdef0123":                        "GET https://host.example.test/x?[redacted]",
		"GET https://host.example.test/x?sv=2022&sig=0123456789abcdefghijklmnop%2Fqrs%3D&se=1":        "GET https://host.example.test/x?sv=2022&[redacted]&se=1",
	} {
		if got := redact.Secrets(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{
		"", "unexpected token: EOF", "see https://host.example.test/a@b", "ssh://git@git.example.test/lantern",
		"image registry.example.test/lantern/server@sha256:" + strings.Repeat("a", 64),
		"image lantern:v0.1.0@sha256:" + strings.Repeat("a", 64) + " of linux/amd64", "signer: release@example.test/x", "localhost:5000/a:v1@sha256:00",
		"basic authentication is asked for", "the bearer of it", "release-token names no token", "sig=short", "signature=genuine", "X-Goog-Signature=none",
	} {
		if got := redact.Secrets(text); got != text {
			t.Errorf("%q became %q", text, got)
		}
	}
}
