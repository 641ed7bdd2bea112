package main

import (
	"encoding/base64"
	"time"

	bundlepb "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// windows change for how long the trust root believes a key.
func windows() []question {
	ending := func(field string, at func(s *maker, b *bundlepb.Bundle) time.Time) func(*maker, *bundlepb.Bundle, map[string]any) {
		return func(s *maker, b *bundlepb.Bundle, root map[string]any) {
			for _, party := range root[field].([]any) {
				window(party.(map[string]any))["end"] = at(s, b).UTC().Format(time.RFC3339)
			}
		}
	}
	before := func(*maker, *bundlepb.Bundle) time.Time { return time.Now().Add(-30 * time.Minute) }
	integrated := func(d time.Duration) func(*maker, *bundlepb.Bundle) time.Time {
		return func(_ *maker, b *bundlepb.Bundle) time.Time {
			return time.Unix(b.VerificationMaterial.TlogEntries[0].IntegratedTime, 0).Add(d)
		}
	}
	unstamped := func(_ *maker, b *bundlepb.Bundle) { b.VerificationMaterial.TimestampVerificationData = nil }
	return []question{
		{vector: vector{name: "log-key-ended", why: "C16: the trust root's window of the log's key ended before it was signed", from: blob, code: verdict.KeyExpired}, root: ending("tlogs", before)},
		{vector: vector{name: "log-key-ended-for-a-key", why: "C16: the same, and a long-lived key signed", from: keyBlob, code: verdict.KeyExpired}, root: ending("tlogs", before)},
		{vector: vector{name: "authority-ended", why: "C16: the trust root's window of the certificate authority ended before it was signed", from: blob, code: verdict.KeyExpired}, root: ending("certificateAuthorities", before)},
		{vector: vector{name: "certificate-log-ended", why: "C16: the trust root's window of the certificate log ended before", from: blob, code: verdict.SCT}, root: ending("ctlogs", before)},
		{vector: vector{name: "timestamp-authority-ended", why: "D06: the trust root's window of the timestamp authority ended before", from: blob, code: verdict.TSAWindow}, root: ending("timestampAuthorities", before)},
		{vector: vector{name: "log-without-beginning", why: "D09: a trust root that does not say since when a log is believed", from: blob, code: verdict.TrustRootParse},
			root: func(_ *maker, _ *bundlepb.Bundle, root map[string]any) {
				for _, party := range root["tlogs"].([]any) {
					delete(window(party.(map[string]any)), "start")
				}
			}},
		{vector: vector{name: "root-of-another-form", why: "E12: a trust root of a media type that nobody knows", from: blob, code: verdict.TrustRootParse},
			root: func(_ *maker, _ *bundlepb.Bundle, root map[string]any) {
				root["mediaType"] = "application/vnd.dev.sigstore.trustedroot.v9.9+json"
			}},
		{vector: vector{name: "root-of-nobody", why: "E12: a trust root that names nobody", from: blob, code: verdict.TrustRootParse},
			root: func(_ *maker, _ *bundlepb.Bundle, root map[string]any) {
				for _, field := range []string{"tlogs", "ctlogs", "certificateAuthorities", "timestampAuthorities"} {
					delete(root, field)
				}
			}},
		{vector: vector{name: "log-key-at-its-end", why: "D10: signed in the very second in which the window of the log's key ends", from: blobInOldLog, change: unstamped}, root: ending("tlogs", integrated(0))},
		{vector: vector{name: "log-key-just-ended", why: "D10: signed in the second after it", from: blobInOldLog, change: unstamped, code: verdict.KeyExpired},
			root: ending("tlogs", integrated(-time.Second)), beside: "log-key-at-its-end"},
	}
}

// window is how long a party of a trust root is believed.
func window(party map[string]any) map[string]any {
	if key, ok := party["publicKey"].(map[string]any); ok {
		party = key
	}
	if party["validFor"] == nil {
		party["validFor"] = map[string]any{}
	}
	return party["validFor"].(map[string]any)
}

// believing adds a certificate authority to a trust root.
func believing(name string) func(*maker, *bundlepb.Bundle, map[string]any) {
	return func(s *maker, _ *bundlepb.Bundle, root map[string]any) {
		root["certificateAuthorities"] = append(root["certificateAuthorities"].([]any), party(s.authorities[name]))
	}
}

// party is an authority of a trust root.
func party(chain [][]byte) map[string]any {
	var list []any
	for _, der := range chain {
		list = append(list, map[string]any{"rawBytes": base64.StdEncoding.EncodeToString(der)})
	}
	return map[string]any{
		"subject": map[string]any{"organization": "attacks", "commonName": "attacks"}, "uri": "https://authority.example",
		"certChain": map[string]any{"certificates": list},
		"validFor":  map[string]any{"start": time.Now().AddDate(-1, 0, 0).UTC().Format(time.RFC3339)},
	}
}
