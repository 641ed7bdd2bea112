package provenance_test

import (
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// listing is what Cloud Build hands out, with one provenance.
func listing(t *testing.T) string {
	t.Helper()
	s := said(t, provenance.PredicateTypeV01, inV01())
	shown := strings.Replace(string(s.Raw()), `"predicate":`, `"slsaProvenance":`, 1)
	return fmt.Sprintf(`{"image_summary":{},"provenance_summary":{"provenance":[{"build":{"intotoStatement":%s},"envelope":{"payloadType":"application/vnd.in-toto+json","payload":"%s","signatures":[{"keyid":"a","sig":"AA=="}]},"kind":"BUILD"}]}}`,
		shown, base64.URLEncoding.EncodeToString(s.Raw()))
}

func TestCloudBuild(t *testing.T) {
	rows := []struct {
		name     string
		old, new string
		code     verdict.Code // empty when accepted
	}{
		{"as it is", "", "", ""},
		{"a text in another order", `{"name":"bin/lantern","digest":{"sha256":"` + strings.Repeat("b", 64) + `"}}`, `{"digest":{"sha256":"` + strings.Repeat("b", 64) + `"},"name":"bin/lantern"}`, ""},
		{"a text with more than was signed", `{"name":"bin/lantern",`, `{"name":"bin/lantern","x":1,`, verdict.NotBound},
		{"a text with spaces", `"slsaProvenance":{`, `"slsaProvenance": { `, ""},
		{"a text of another builder", builderID, "https://builder.example/other", verdict.NotBound},
		{"a text of another subject", "bin/lantern", "bin/other", verdict.NotBound},
		{"a text of another type", "provenance/v0.1", "provenance/v0.2", verdict.NotBound},
		{"a text without predicate", "slsaProvenance", "other", verdict.NotBound},
		{"no text", `"intotoStatement"`, `"other"`, ""},
		{"no envelope", `"envelope"`, `"other"`, verdict.BundleParse},
		{"nothing listed", `"provenance":`, `"other":`, verdict.BundleParse},
		{"too much listed", `"provenance":[`, `"provenance":[` + strings.Repeat(`{},`, provenance.MaxListed), verdict.Limit},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			list, err := provenance.CloudBuild([]byte(strings.Replace(listing(t), r.old, r.new, 1)))
			switch {
			case r.code == "" && (err != nil || len(list) != 1):
				t.Errorf("%d envelopes, %v", len(list), err)
			case r.code != "" && (err == nil || verdict.FindingOf("", err).Code != r.code):
				t.Errorf("%v, want %s", err, r.code)
			}
		})
	}
}

func TestBundles(t *testing.T) {
	rows := []struct {
		name, text string
		want       int // 0 is refused
	}{
		{"of npm", `{"attestations":[{"predicateType":"x","bundle":{"a": 1}},{"predicateType":"y","bundle":{}}]}`, 2},
		{"of GitHub", `{"attestations":[{"bundle":{"a": 1},"repository_id":1,"bundle_url":"x"}]}`, 1},
		{"none", `{"attestations":[]}`, 0},
		{"no list", `{}`, 0},
		{"an entry without bundle", `{"attestations":[{"predicateType":"x"}]}`, 0},
		{"an entry without bundle, said so", `{"attestations":[{"bundle":null}]}`, 0},
		{"two bundles in one entry", `{"attestations":[{"bundle":{},"bundle":{}}]}`, 0},
		{"too many", `{"attestations":[` + strings.Repeat(`{"bundle":{}},`, provenance.MaxListed) + `{"bundle":{}}]}`, 0},
	}
	for _, r := range rows {
		list, err := provenance.Bundles([]byte(r.text))
		if len(list) != r.want || (err == nil) != (r.want > 0) {
			t.Errorf("%s: %d bundles, %v, want %d", r.name, len(list), err, r.want)
		}
		if len(list) > 0 && string(list[0].Bundle) != `{"a": 1}` {
			t.Errorf("%s: the bytes became %s", r.name, list[0].Bundle)
		}
	}
}

func FuzzCloudBuild(f *testing.F) {
	f.Add([]byte(`{"provenance_summary":{"provenance":[{"build":{},"envelope":{"payloadType":"t","payload":"AA==","signatures":[]}}]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		bounds.Bounded(t, raw, func() { _, _ = provenance.CloudBuild(raw) })
		list, err := provenance.CloudBuild(raw)
		if (err == nil) != (len(list) > 0) {
			t.Fatalf("%d envelopes, %v", len(list), err)
		}
	})
}
