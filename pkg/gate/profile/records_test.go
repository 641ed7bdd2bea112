package profile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate/profile"
)

// TestRecords: who vouches, and where the policy is, are said together and as
// addresses.
func TestRecords(t *testing.T) {
	const verifier, policy = `verifier: "https://example.test/verifier"`, `policy: "https://example.test/policy.yaml"`
	for given, good := range map[string]bool{
		"records: {}": true,
		"records: {" + verifier + ", " + policy + "}":      true,
		"records: {" + verifier + "}":                      false,
		"records: {" + policy + "}":                        false,
		"records: {verifier: somebody, " + policy + "}":    false,
		"records: {" + verifier + ", policy: policy.yaml}": false,
	} {
		p, err := with(t, given)
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "records") {
			t.Errorf("%q: %v", given, err)
		}
		if want := strings.Contains(given, "verifier"); good && (p.Records != (profile.Records{})) != want {
			t.Errorf("%q: %+v", given, p.Records)
		}
	}
}

// TestMarkersPlace: markers lie below one place, whatever the version.
func TestMarkersPlace(t *testing.T) {
	for uri, good := range map[string]bool{
		"gs://bucket/": true, "markers/": true,
		"gs://bucket": false, "gs://bucket/stable.txt": false, "gs://bucket/{version}/": false,
	} {
		files := valid(t)
		files["profile.yaml"] = strings.Replace(files["profile.yaml"], "places:\n", "places:\n  markers: \""+uri+"\"\n", 1)
		p, err := profile.Load(place(t, files), profile.Reader{Now: time.Now()})
		if good && (err != nil || p.Markers != uri) || !good && (err == nil || !strings.Contains(err.Error(), "places.markers")) {
			t.Errorf("%q: %q, %v", uri, p.Markers, err)
		}
	}
}
