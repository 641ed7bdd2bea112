package stories

import (
	"fmt"
	"os"
	"testing"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
)

// channelsAhead: a dry run says as whom the index would be signed, and refuses
// who may not sign it.
func channelsAhead(t *testing.T, d *desk) {
	stable := []string{"--channel", "stable"}
	want(t, d.points(t, tender, stable...), 0, tender, ", permitted by the policy", "1 certificate", "1 log entry", "certificate authority", "no signing service", "nothing was done")
	want(t, d.points(t, tender, append(stable, "-o", "json")...), 0, `"act": "channel"`, `"logEntries": 1`)
	want(t, d.points(t, "release", stable...), 1, "SIGNED_AS_ELSE")
	d.write(t, "channel.token", []byte("not a token"))
	want(t, d.points(t, "", append(stable, "--identity-token", "channel=channel.token")...), 2, "USAGE", "not a signed web token")
	d.absent(t, channelindex.Name)
}

// revisionsAhead: so does a dry run of a revision, in the state directory.
func revisionsAhead(t *testing.T, d *desk) {
	for _, flags := range [][]string{{"--amend"}, {"--withdraw", "--reason", "it flickers"}} {
		want(t, d.seals(t, "release", flags...), 0, ", permitted by the policy", "1 certificate", "1 log entry", "certificate authority", "nothing was done")
		want(t, d.seals(t, "release", append(flags, "-o", "json")...), 0, `"schema": "waybill/forecast/v1`, `"kind": "revision of the manifest"`)
		want(t, d.seals(t, "verifier", flags...), 1, "SIGNED_AS_ELSE")
		d.write(t, "release.token", []byte("not a token"))
		want(t, d.seals(t, "", append(flags, "--identity-token", "release=release.token")...), 2, "USAGE", "not a signed web token")
	}
}

// TestChannelsOfTheProfile: the index is where the profile says, and one that
// is written elsewhere goes on from it.
func TestChannelsOfTheProfile(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	d.addTender(t)
	want(t, d.Stage(t.Context()), 0)
	want(t, d.Release(t.Context()), 0)
	plain := d.read(t, "profile.yaml")
	at := func(index string) {
		d.write(t, "profile.yaml", fmt.Appendf(nil, "%schannels: {index: %q}\n", plain, index))
	}
	stable := []string{"--channel", "stable", "--confirm"}
	elsewhere := append([]string{"--index", "elsewhere.json"}, stable...)

	if err := os.Mkdir(d.Path("public"), 0o755); err != nil {
		t.Fatal(err)
	}
	at("file://" + d.Path("public", "index.json"))
	want(t, d.points(t, tender, stable...), 0, "public/index.json: index 1")
	d.absent(t, channelindex.Name)
	want(t, d.points(t, "", "--channel", "latest"), 0, `"number": 2`, "public/index.json")
	want(t, d.points(t, tender, "--channel", "latest", "--confirm"), 0, "index 2")
	want(t, d.points(t, tender, elsewhere...), 0, "elsewhere.json: index 3")
	want(t, d.points(t, tender, elsewhere...), 0, "elsewhere.json: index 4") // what is there has gone on
	d.write(t, "public/index.json", []byte("{}"))
	want(t, d.points(t, tender, elsewhere...), 1, "BUNDLE_VERSION", "the index that the profile names")

	d.write(t, "profile.yaml", plain)
	want(t, d.points(t, tender, stable...), 0, channelindex.Name+": index 1")
}
