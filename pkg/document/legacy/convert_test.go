package legacy_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// bundled is the attestation of the testdata as a bundle.
func bundled(t testing.TB) []byte {
	t.Helper()
	m, err := legacy.ParseAttestation(legacy.Certificate, layer(t, fixture(t, "envelope.json"), annotations(t)))
	if err != nil {
		t.Fatal(err)
	}
	raw, err := m.Bundle()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// edit is a bundle with another value at a path of keys.
func edit(t *testing.T, bundle []byte, value any, path ...string) []byte {
	t.Helper()
	var all map[string]any
	if err := json.Unmarshal(bundle, &all); err != nil {
		t.Fatal(err)
	}
	at := all
	for _, key := range path[:len(path)-1] {
		next, is := at[key].(map[string]any)
		if !is {
			next = at[key].([]any)[0].(map[string]any)
		}
		at = next
	}
	if delete(at, path[len(path)-1]); value != nil {
		at[path[len(path)-1]] = value
	}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// body is what the log has, by the annotations of a layer.
func body(t *testing.T, annotations map[string]string) string {
	t.Helper()
	var entry struct{ Payload struct{ Body []byte } }
	if err := json.Unmarshal([]byte(annotations["dev.sigstore.cosign/bundle"]), &entry); err != nil {
		t.Fatal(err)
	}
	return string(entry.Payload.Body)
}

// TestConvert: a bundle becomes the layer that it was made of, and says why if
// none can be made of it.
func TestConvert(t *testing.T) {
	plain := bundled(t)
	m, err := legacy.Convert(plain)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := m.Layer()
	was := annotations(t)
	if err != nil || !strings.Contains(body(t, was), `"envelopeHash":{"algorithm":"sha256","value":"`+digest.Of(digest.SHA256, envelope).Hex()) {
		t.Errorf("%v: the log has another text than\n%s", err, envelope)
	}
	attached, err := m.Attached(nil, nil, was["predicateType"])
	if err != nil {
		t.Fatal(err)
	}
	all, err := attached.Annotations()
	const entry = "dev.sigstore.cosign/bundle"
	var got, want any
	if err != nil || json.Unmarshal([]byte(all[entry]), &got) != nil || json.Unmarshal([]byte(was[entry]), &want) != nil || all["predicateType"] != was["predicateType"] {
		t.Errorf("%v\n%v", err, all)
	}
	again, err := legacy.ParseAttestation(legacy.Certificate, attached)
	if err != nil || !again.Name().Equal(m.Name()) {
		t.Errorf("it is another: %v", err)
	}
	entries := []string{"verificationMaterial", "tlogEntries"}
	other := strings.Replace(body(t, was), digest.Of(digest.SHA256, envelope).Hex(), strings.Repeat("0", 64), 1)
	m, err = legacy.Convert(edit(t, plain, []byte(other), append(entries, "canonicalizedBody")...))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Layer(); verdict.FindingOf("", err).Code != verdict.BundleLacks {
		t.Errorf("in words that nobody kept: %v", err)
	}
	for name, c := range map[string]struct {
		bundle []byte
		want   verdict.Code
		says   string
	}{
		"no promise":      {edit(t, plain, nil, append(entries, "inclusionPromise")...), verdict.BundleLacks, "no inclusion promise"},
		"no entry":        {edit(t, plain, nil, entries...), verdict.BundleLacks, "no inclusion promise"},
		"no certificate":  {edit(t, plain, nil, "verificationMaterial", "x509CertificateChain"), verdict.BundleLacks, "signed with a key"},
		"no statement":    {edit(t, plain, nil, "dsseEnvelope"), verdict.BundleLacks, "the bundle signs bytes"},
		"another type":    {edit(t, plain, "text/plain", "dsseEnvelope", "payloadType"), verdict.BundleLacks, "not have exactly one signature"},
		"another's entry": {edit(t, plain, "AAAA", "dsseEnvelope", "payload"), verdict.LogEntryUnbound, "for another artifact"},
		"no bundle":       {[]byte("{"), verdict.BundleParse, ""},
		"too large":       {bytes.Repeat([]byte(" "), legacy.MaxBundle+1), verdict.Limit, ""},
	} {
		_, err := legacy.Convert(c.bundle)
		if err == nil || verdict.FindingOf("", err).Code != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %s and %q", name, err, c.want, c.says)
		}
	}
}

// FuzzConvert: whatever is read as a bundle is written as a layer that is read
// again as the same, or refused.
func FuzzConvert(f *testing.F) {
	f.Add(bundled(f))
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := legacy.Convert(raw)
		if err != nil {
			return
		}
		if _, err := m.Layer(); err != nil {
			return
		}
		attached, err := m.Attached(nil, nil, "kind")
		if err != nil {
			t.Fatalf("read with an entry, and written without: %v", err)
		}
		again, err := legacy.ParseAttestation(legacy.Certificate, attached)
		if err != nil || !again.Name().Equal(m.Name()) {
			t.Errorf("it is another: %v", err)
		}
	})
}
