package verify_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestBoundsBeforeWork: a bundle of very many nothings is refused before there
// is room for them, and one with as many bytes in one string is read.
func TestBoundsBeforeWork(t *testing.T) {
	const size = 16 << 20
	fill := func(open, item, end string) string {
		return open + strings.Repeat(item+",", size/(len(item)+1)) + item + end
	}
	head := `{"mediaType":"application/vnd.dev.sigstore.bundle.v0.3+json","verificationMaterial":{`
	rows := []struct {
		name, raw string
		code      verdict.Code
	}{
		{"log entries", fill(head+`"tlogEntries":[`, "{}", `]}}`), verdict.Limit},
		{"hashes of a proof", fill(head+`"tlogEntries":[{"inclusionProof":{"hashes":[`, `""`, `]}}]}}`), verdict.Limit},
		{"timestamps", fill(head+`"timestampVerificationData":{"rfc3161Timestamps":[`, "{}", `]}}}`), verdict.Limit},
		{"certificates", fill(head+`"x509CertificateChain":{"certificates":[`, "{}", `]}}}`), verdict.Limit},
		{"signatures", fill(head+`},"dsseEnvelope":{"signatures":[`, "{}", `]}}`), verdict.Limit},
		{"members", "{" + strings.Repeat(`"a":0,`, size/6) + "}", verdict.Limit},
		{"commas in a string", `{"mediaType":"` + strings.Repeat(",", size/16) + `"}`, verdict.BundleVersion},
		{"quotes in a string", `{"mediaType":"` + strings.Repeat(`\",`, size/64) + `"}`, verdict.BundleVersion},
	}
	v := provers(t)[0]
	for _, r := range rows {
		var err error
		bounds.Within(t, len(r.raw), func() { _, err = v.Blob([]byte(r.raw), digest.SetOf(nil)) })
		if codeOf(err) != r.code {
			t.Errorf("%s: refused with %.200v, want %s", r.name, err, r.code)
		}
	}
}

// TestBoundsOfParts: the pieces of a bundle are documents of their own, and
// bounded before anybody reads them.
func TestBoundsOfParts(t *testing.T) {
	many := func(n int) string { return `{"x":[` + strings.Repeat("{},", n) + `{}]}` }
	rows := []struct {
		name, doc string
		part      int
		value     string
		code      verdict.Code
	}{
		{"a body too large", "blob-rekor-v1", 1, strings.Repeat(" ", 256<<10+1), verdict.Limit},
		{"a body of many nothings", "blob-rekor-v1", 1, many(2000), verdict.Limit},
		{"a body of some nothings", "blob-rekor-v1", 1, many(500), verdict.BundleParse},
		{"a body that is deep", "blob", 1, strings.Repeat("[", 1000) + strings.Repeat("]", 1000), verdict.BundleParse},
		{"a checkpoint too large", "blob", 0, strings.Repeat("a\n", 32<<10+1), verdict.Limit},
		{"a checkpoint just not too large", "blob", 0, strings.Repeat("a\n", 32<<10), verdict.CheckpointOrigin},
		{"a timestamp too large", "blob", 6, strings.Repeat("\x30\x80", 128<<10+1), verdict.Limit},
		{"a timestamp that is deep", "blob", 6, strings.Repeat("\x30\x80", 128<<10), verdict.TimeInvalid},
		{"a certificate too large", "blob", 7, strings.Repeat("\x30\x80", 32<<10+1), verdict.CertLimit},
		{"a certificate that is deep", "blob", 7, strings.Repeat("\x30\x80", 32<<10), verdict.CertParse},
	}
	v, set := provers(t)[0], digest.SetOf(genuine(t, "blob", "artifact"))
	for _, r := range rows {
		raw, ok := exchange(t, genuine(t, r.doc, "bundle.sigstore.json"), parts[r.part], []byte(r.value))
		if !ok {
			t.Fatalf("%s: there is no such part", r.name)
		}
		bounds.Within(t, len(raw), func() {
			if _, err := v.Blob(raw, set); codeOf(err) != r.code {
				t.Errorf("%s: refused with %.200v, want %s", r.name, err, r.code)
			}
		})
	}
}
