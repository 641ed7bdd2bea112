package stories

import (
	"bytes"
	"fmt"
	"os"
	"testing"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/test/scene"
)

// follows verifies what a channel stands for.
func (d *desk) follows(t *testing.T, channel string, flags ...string) scene.Result {
	t.Helper()
	return d.Run(t.Context(), append([]string{"k8s-verify-release", channel, "--profile", "followed.yaml", "--depth", "files"}, flags...)...)
}

// TestFollowingAChannel: the index says which release is meant, the highest
// that was seen is remembered, and what nobody signed is said to be so.
func TestFollowingAChannel(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	d.addTender(t)
	want(t, d.Stage(t.Context()), 0)
	want(t, d.Release(t.Context()), 0)
	profile := string(d.read(t, "profile.yaml"))
	at := func(channels string) { d.write(t, "followed.yaml", []byte(profile+"channels: {"+channels+"}\n")) }

	at("")
	want(t, d.follows(t, "stable"), 2, "neither a channel index nor markers")
	at(fmt.Sprintf("markers: %q", "file://"+d.Path("markers")+"/{channel}.txt"))
	if err := os.Mkdir(d.Path("markers"), 0o755); err != nil {
		t.Fatal(err)
	}
	want(t, d.follows(t, "stable"), 1, "EVIDENCE_MISSING", "has no marker")
	for _, r := range []struct {
		channel, says string
		code          int
		said          string
	}{
		{"stable", scene.Version + "\n", 0, "rollback not checked"},
		{"stable-0.1", scene.Version, 0, "rollback not checked"},
		{"stable-0", scene.Version + "\n", 0, "rollback not checked"},
		{"latest", scene.Version + "\n", 0, "according to the unsigned "},
		{"latest-1", scene.Version + "\n", 1, "VERSION"},
		{"latest", "v0.1.0-alpha.0.7+2a4f1c09d3be1f", 1, "is a build between two releases"},
		{"rc", scene.Version + "\n", 1, "VERSION"},
		{"stable-0.2", scene.Version + "\n", 1, "VERSION"},
		{"stable", "v0.1.0 v0.2.0", 1, "VERSION"},
		{"stable", "", 1, "VERSION"},
		{"stable", "v0.0.9\n", 1, "EVIDENCE_MISSING"}, // there is no such release
	} {
		d.write(t, "markers/"+r.channel+".txt", []byte(r.says))
		want(t, d.follows(t, r.channel), r.code, r.said)
	}

	for _, marker := range []string{"ci/latest", "ci/latest-0.1", "k8s-master"} {
		want(t, d.follows(t, marker), 2, "is a marker of builds between two releases")
	}

	at(fmt.Sprintf("index: %q", "file://"+d.Path(channelindex.Name)))
	want(t, d.follows(t, "stable"), 1, "EVIDENCE_MISSING", "no such channel index")
	want(t, d.points(t, tender, "--channel", "stable", "--confirm"), 0, "index 1")
	first := d.read(t, channelindex.Name)
	want(t, d.follows(t, "stable", "--state", "memory"), 0, "according to channel index 1, signed by "+tender, "no index was seen before")
	r := d.follows(t, "stable", "--state", "memory")
	want(t, r, 0, "according to channel index 1")
	want(t, d.follows(t, "latest", "--state", "memory"), 1, "EVIDENCE_MISSING", "no channel")
	want(t, d.follows(t, "stable", "--state", "memory", "--now", "2126-01-01T00:00:00Z"), 1, "CHANNEL_EXPIRED")

	want(t, d.follows(t, "stable", "--state", "memory", "--now", "2026-01-01T00:00:00Z"), 3, "CLOCK", "after the time of judgement")
	t.Run("another project's", func(t *testing.T) { anotherProject(t, d) })
	t.Run("issued after it was signed", func(t *testing.T) { issuedAhead(t, d) })

	want(t, d.points(t, tender, "--channel", "latest", "--confirm"), 0, "index 2")
	want(t, d.follows(t, "latest", "--state", "memory"), 0, "according to channel index 2")
	second := d.read(t, channelindex.Name)
	d.write(t, channelindex.Name, first)
	want(t, d.follows(t, "stable", "--state", "memory"), 1, "CHANNEL_STALE", "want 2", "got  1")
	want(t, d.follows(t, "stable", "--state", "elsewhere"), 0, "according to channel index 1") // which remembers nothing
	want(t, d.follows(t, "stable"), 0)                                                         // neither does the user's cache
	d.write(t, channelindex.Name, second)
	want(t, d.follows(t, "stable", "--state", "memory"), 0)
	want(t, d.follows(t, "stable"), 0)
	d.write(t, channelindex.Name, first)
	want(t, d.follows(t, "stable"), 1, "CHANNEL_STALE")

	t.Run("a memory that does not hold", func(t *testing.T) { forgets(t, d) })
	t.Run("another manifest", func(t *testing.T) { anotherManifest(t, d, second) })
}

// anotherProject: the first index that is seen must be that of the project that
// the profile names, though its signer may sign one.
func anotherProject(t *testing.T, d *desk) {
	profile := d.read(t, "followed.yaml")
	d.write(t, "followed.yaml", bytes.Replace(profile, []byte("name: lantern"), []byte("name: torch"), 1))
	want(t, d.follows(t, "stable", "--state", "of-torch"), 1, "CHANNEL_FORK", "another project", "want torch", "got  lantern")
	d.absent(t, "of-torch")
	d.write(t, "followed.yaml", profile)
	want(t, d.follows(t, "stable", "--state", "of-lantern"), 0, "no index was seen before")
}

// issuedAhead: the life of an index counts from when it was issued, which is
// not after it was signed.
func issuedAhead(t *testing.T, d *desk) {
	genuine := d.read(t, channelindex.Name)
	said, err := channelindex.Parse(d.evidence(t, channelindex.Name).Statement())
	if err != nil {
		t.Fatal(err)
	}
	for ahead, code := range map[time.Duration]string{50 * time.Minute: "CLOCK", 70 * time.Minute: "PAYLOAD_PARSE"} {
		p := said.Predicate
		p.Number, p.Issued = 2, time.Now().UTC().Truncate(time.Second).Add(ahead)
		s, err := channelindex.New(p, said.Manifests)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := d.Sign(t.Context(), tender, s.Raw())
		if err != nil {
			t.Fatal(err)
		}
		d.write(t, channelindex.Name, signed)
		exit := map[string]int{"CLOCK": 3, "PAYLOAD_PARSE": 1}[code]
		want(t, d.follows(t, "stable", "--state", "ahead"), exit, code)
		d.absent(t, "ahead")
	}
	d.write(t, channelindex.Name, genuine)
	want(t, d.follows(t, "stable", "--state", "ahead"), 0, "according to channel index 1")
}

// forgets: a memory that cannot be read is never taken for none.
func forgets(t *testing.T, d *desk) {
	list, err := os.ReadDir(d.Path("memory"))
	if err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	d.write(t, "memory/"+list[0].Name(), []byte("{}"))
	want(t, d.follows(t, "stable", "--state", "memory"), 1, "judging the last seen index", "remove the file to start over")
}

// anotherManifest: the index names one manifest of a version; a genuine one
// that is another is not the one that is meant, and a revision of it is.
func anotherManifest(t *testing.T, d *desk, index []byte) {
	d.write(t, channelindex.Name, index)
	want(t, d.seals(t, "release", "--amend", "--reason", "a new log", "--confirm"), 0, "revision 2")
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.promotes(t, "release"), 0)
	want(t, d.follows(t, "stable"), 0, "Revision 2")
	want(t, d.seals(t, "release", "--amend", "--reason", "another", "--confirm"), 0, "revision 3")
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.promotes(t, "release"), 0)
	want(t, d.follows(t, "stable"), 1, "MANIFEST_EQUIVOCATION", "names another manifest")
	want(t, d.points(t, tender, "--channel", "stable", "--confirm"), 0, "index 3")
	want(t, d.follows(t, "stable"), 0, "according to channel index 3")
}
