package stories

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/judge/channel"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// manifestPath is the sealed manifest in the state directory.
func (d *desk) manifestPath() string { return d.Path("state", "files", releasemanifest.Name) }

// seals runs seal with flags, as the holder of a token; an empty role has none.
func (d *desk) seals(t *testing.T, role string, flags ...string) scene.Result {
	t.Helper()
	args := append([]string{"waybill", "seal", scene.Version, "--profile", "profile.yaml", "--state", "state"}, flags...)
	if role != "" {
		d.write(t, role+".token", []byte(d.Lab.Token(role)))
		args = append(args, "--identity-token", "release="+role+".token")
	}
	return d.Run(t.Context(), args...)
}

func (d *desk) promotes(t *testing.T, to string) scene.Result {
	t.Helper()
	return d.Run(t.Context(), "waybill", "promote", scene.Version, "--to", to, "--profile", "profile.yaml", "--state", "state", "--confirm")
}

// publishedDesk is a desk with a release that is out.
func publishedDesk(t *testing.T) *desk {
	t.Helper()
	return &desk{&workshop{Scene: published(t)}}
}

// TestAmendAndWithdraw: a sealed release gets revisions. Nothing changes its
// bytes, a dry run signs nothing, nobody else's token will do, and what was
// withdrawn is refused wherever the revision has arrived.
func TestAmendAndWithdraw(t *testing.T) {
	d := publishedDesk(t)
	first := d.read(t, filepath.Join("state", "files", releasemanifest.Name))
	t.Run("refused", func(t *testing.T) { revisionsRefused(t, d) })
	t.Run("dry runs", func(t *testing.T) { revisionsAhead(t, d) })
	t.Run("amended", func(t *testing.T) { amended(t, d, first) })
	t.Run("another revision two", func(t *testing.T) { forked(t, d, first) })
	t.Run("withdrawn", func(t *testing.T) { withdrawn(t, d) })
}

// TestWithdrawnUnseen: a withdrawal goes out where the release is public, to
// take it back. Of one that never was public nothing goes out by it: whatever
// it lists, no gate has accepted.
func TestWithdrawnUnseen(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	want(t, d.Stage(t.Context()), 0)
	want(t, d.seals(t, "release", "--withdraw", "--reason", "it flickers", "--confirm"), 0)
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.promotes(t, "release"), 1, "WITHDRAWN")
	if status := d.Run(t.Context(), "waybill", "status", scene.Version, "--profile", "profile.yaml", "--state", "state"); !strings.Contains(status.Stdout, "public: no") {
		t.Errorf("it is public: %s", status.Stdout)
	}
}

func revisionsRefused(t *testing.T, d *desk) {
	before := d.read(t, filepath.Join("state", "files", releasemanifest.Name))
	rows := []struct {
		name, role string
		flags      []string
		code       int
		said       string
	}{
		{"a dry run", "", []string{"--amend"}, 0, "nothing was done"},
		{"a dry run of a withdrawal", "", []string{"--withdraw", "--reason", "it flickers"}, 0, "nothing was done"},
		{"no token", "", []string{"--amend", "--confirm"}, 2, "--identity-token"},
		{"the builder's token", "builder", []string{"--amend", "--confirm"}, 1, "SIGNED_AS_ELSE"},
		{"the verifier's token", "verifier", []string{"--amend", "--confirm"}, 1, "SIGNED_AS_ELSE"},
		{"the officer's token", "policy", []string{"--withdraw", "--reason", "it flickers", "--confirm"}, 1, "SIGNED_AS_ELSE"},
		{"no reason to withdraw", "release", []string{"--withdraw", "--confirm"}, 2, "--reason"},
		{"a reason that hides", "release", []string{"--amend", "--reason", "fine\u202e", "--confirm"}, 2, "--reason"},
		{"a reason of two lines", "release", []string{"--withdraw", "--reason", "one\ntwo", "--confirm"}, 2, "--reason"},
		{"an endless reason", "release", []string{"--amend", "--reason", strings.Repeat("x", 301), "--confirm"}, 2, "--reason"},
		{"both", "release", []string{"--amend", "--withdraw", "--reason", "r", "--confirm"}, 2, "--amend"},
		{"a reason for nothing", "release", []string{"--reason", "r"}, 2, "--reason"},
		{"a replacement for nothing", "release", []string{"--amend", "--use", "v0.1.1", "--confirm"}, 2, "--use"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			want(t, d.seals(t, r.role, r.flags...), r.code, r.said)
			d.sealedStill(t, before)
		})
	}
	for name, code := range map[string]string{artifact: "NOT_BOUND", plan.BundleName(artifact): "TAMPERED", plan.SBOMName(artifact): "EVIDENCE_CONFLICT"} {
		t.Run("other bytes of "+name, func(t *testing.T) {
			path := d.Path("state", "files", filepath.FromSlash(name))
			body, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			rewrite(t, path, append(body, '\n'))
			want(t, d.seals(t, "release", "--amend", "--confirm"), 1, code)
			d.sealedStill(t, before)
			rewrite(t, path, body)
			want(t, d.seals(t, "", "--amend"), 0, "nothing was done")
		})
	}
	t.Run("one file more", func(t *testing.T) {
		path := d.Path("state", "files", "helper")
		rewrite(t, path, []byte("x"))
		want(t, d.seals(t, "release", "--amend", "--confirm"), 1, "SEAL_EXTRA")
		d.sealedStill(t, before)
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	})
}

// sealedStill demands that the manifest is what it was.
func (d *desk) sealedStill(t *testing.T, before []byte) {
	t.Helper()
	if now, err := os.ReadFile(d.manifestPath()); err != nil || string(now) != string(before) {
		t.Errorf("the manifest changed: %v", err)
	}
}

func rewrite(t *testing.T, path string, body []byte) {
	t.Helper()
	if err := os.Remove(path); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, body, 0o644); err != nil {
		t.Fatal(err)
	}
}

func amended(t *testing.T, d *desk, first []byte) {
	want(t, d.seals(t, "", "--amend", "--reason", "a new log"), 0, "revision 2", "supersedes  sha256:", "the same evidence: a new log", "nothing was done")
	d.sealedStill(t, first)
	want(t, d.seals(t, "release", "--amend", "--reason", "a new log", "--confirm"), 0, "revision 2 is sealed")
	kept, err := os.ReadFile(d.Path("state", "revisions", "1."+releasemanifest.Name))
	if err != nil || string(kept) != string(first) {
		t.Errorf("the revision before was not kept: %v", err)
	}
	status := func() scene.Result {
		return d.Run(t.Context(), "waybill", "status", scene.Version, "--profile", "profile.yaml", "--state", "state")
	}
	want(t, status(), 0, "revision 2", "a different manifest than the one sealed here", "last:   amend")
	want(t, d.seals(t, "release", "--confirm"), 0, "sealed already")
	want(t, d.Verify(t.Context()), 0, "nothing extra") // of revision 1, which is out
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.Release(t.Context()), 0, "nothing extra", "Revision 2 of the manifest", "a new log")
	want(t, d.Verify(t.Context()), 0, "nothing extra", "Revision 2 of the manifest", "a new log")
	want(t, status(), 0, "public: yes")
}

// forked: another revision of the same number is not published over the one
// that is out, however genuine, and neither is the one before.
func forked(t *testing.T, d *desk, first []byte) {
	second, err := os.ReadFile(d.manifestPath())
	if err != nil {
		t.Fatal(err)
	}
	rewrite(t, d.manifestPath(), first)
	want(t, d.promotes(t, "staging"), 1, "STALE")
	want(t, d.seals(t, "release", "--amend", "--reason", "another log", "--confirm"), 0, "revision 2 is sealed")
	want(t, d.promotes(t, "staging"), 1, "MANIFEST_EQUIVOCATION")
	want(t, d.seals(t, "release", "--amend", "--reason", "a third", "--confirm"), 0, "revision 3 is sealed")
	want(t, d.Verify(t.Context()), 0, "nothing extra", "a new log")
	rewrite(t, d.manifestPath(), second)
	want(t, d.promotes(t, "staging"), 0)
}

func withdrawn(t *testing.T, d *desk) {
	want(t, d.seals(t, "", "--withdraw", "--reason", "it flickers", "--use", "v0.1.1"), 0, "revision 3", "withdrawn   it flickers", "use         v0.1.1")
	want(t, d.seals(t, "release", "--withdraw", "--reason", "it flickers", "--use", "v0.1.1", "--confirm"), 0, "revision 3 is sealed")
	want(t, d.Verify(t.Context()), 0, "nothing extra") // nothing is public yet
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.Release(t.Context()), 1, "WITHDRAWN", "it flickers")
	want(t, d.Verify(t.Context()), 0, "nothing extra")
	want(t, d.promotes(t, "release"), 0)
	want(t, d.Verify(t.Context()), 1, "WITHDRAWN", "it flickers", "v0.1.1")
	for _, flags := range [][]string{{"--amend"}, {"--withdraw", "--reason", "again"}, nil} {
		want(t, d.seals(t, "release", append(flags, "--confirm")...), 1, "WITHDRAWN")
	}
	r := d.Run(t.Context(), "waybill", "status", scene.Version, "--profile", "profile.yaml", "--state", "state")
	want(t, r, 0, "WITHDRAWN (it flickers): revision 3")
}

// points runs seal --channel as the holder of a token; an empty one has none.
func (d *desk) points(t *testing.T, as string, flags ...string) scene.Result {
	t.Helper()
	args := append([]string{"waybill", "seal", scene.Version, "--profile", "profile.yaml", "--state", "state"}, flags...)
	if as != "" {
		d.write(t, "channel.token", []byte(d.Lab.Token(as)))
		args = append(args, "--identity-token", "channel=channel.token")
	}
	return d.Run(t.Context(), args...)
}

// tender is who tends the channels.
const tender = "channels@lantern.test"

// addTender gives the policy the role.
func (d *desk) addTender(t *testing.T) {
	t.Helper()
	issuer, subject := d.Lab.Identity(tender)
	role := fmt.Sprintf("roles:\n  channel: [{issuer: %q, subject: %q, type: email}]\n", issuer, subject)
	d.write(t, "policy.yaml", []byte(strings.Replace(string(d.read(t, "policy.yaml")), "roles:\n", role, 1)))
}

// TestChannels: the channel index has a signer of its own, its numbers go up,
// and it names what is public and not withdrawn.
func TestChannels(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	stable := []string{"--channel", "stable", "--channel", "latest"}
	confirmed := append(slices.Clone(stable), "--confirm")
	want(t, d.Stage(t.Context()), 0)
	want(t, d.points(t, tender, confirmed...), 1, "EVIDENCE_MISSING", "not public")
	want(t, d.Release(t.Context()), 0)
	for _, flags := range [][]string{stable, confirmed} {
		want(t, d.points(t, tender, flags...), 1, "SIGNED_AS_ELSE", "lists no identity in the channel role")
	}
	d.addTender(t)
	t.Run("refused", func(t *testing.T) { channelsRefused(t, d) })
	t.Run("dry runs", func(t *testing.T) { channelsAhead(t, d) })

	want(t, d.points(t, "", stable...), 0, "nothing was done", `"number": 1`, `"stable"`)
	d.absent(t, channelindex.Name)
	want(t, d.points(t, tender, confirmed...), 0, "index 1, signed by "+tender)
	first := d.index(t)
	want(t, d.points(t, tender, "--channel", "stable-0.1", "--confirm", "-o", "json"), 0, `"act": "channel"`, `"logEntries": 1`)
	second := d.index(t)
	wantCode(t, first.Follows(second), verdict.ChannelStale)
	wantCode(t, second.Follows(first), "")
	wantCode(t, second.Fresh(time.Now().AddDate(0, 2, 0)), "CHANNEL_EXPIRED")
	wantCode(t, second.Fresh(time.Now()), "")
	sealed := digest.SetOf(d.read(t, filepath.Join("state", "files", releasemanifest.Name)))
	for _, name := range []string{"stable", "latest", "stable-0.1"} {
		if got, err := second.Find(name); err != nil || got.Version.String() != scene.Version || !got.Manifest.Equal(sealed) {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
	t.Run("an index by others", func(t *testing.T) { indexesOfOthers(t, d) })

	want(t, d.seals(t, "release", "--withdraw", "--reason", "it flickers", "--confirm"), 0)
	want(t, d.points(t, "", stable...), 0, `"number": 3`) // it is not public yet
	want(t, d.promotes(t, "staging"), 0)
	want(t, d.promotes(t, "release"), 0)
	want(t, d.points(t, tender, confirmed...), 1, "WITHDRAWN")
}

func channelsRefused(t *testing.T, d *desk) {
	rows := []struct {
		name, as string
		flags    []string
		code     int
		said     string
	}{
		{"no token", "", []string{"--channel", "stable"}, 2, "channel"},
		{"the release's token", "release", []string{"--channel", "stable"}, 1, "SIGNED_AS_ELSE"},
		{"the officer's token", "policy", []string{"--channel", "stable"}, 1, "SIGNED_AS_ELSE"},
		{"a stranger's token", "mallory@evil.example", []string{"--channel", "stable"}, 1, "SIGNED_AS_ELSE"},
		{"no such channel", tender, []string{"--channel", "nightly"}, 2, "USAGE"},
		{"a channel of another kind", tender, []string{"--channel", "rc"}, 1, "PAYLOAD_PARSE"},
		{"a channel of another minor version", tender, []string{"--channel", "stable-0.2"}, 1, "PAYLOAD_PARSE"},
		{"for no time", tender, []string{"--channel", "stable", "--expires", "0"}, 2, "--expires"},
		{"for years", tender, []string{"--channel", "stable", "--expires", "20000h"}, 1, "PAYLOAD_PARSE"},
		{"with an amendment", tender, []string{"--channel", "stable", "--amend"}, 2, "--channel"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			want(t, d.points(t, r.as, append(r.flags, "--confirm")...), r.code, r.said)
			d.absent(t, channelindex.Name)
		})
	}
}

// indexesOfOthers puts an index there that is none: it is not written over.
func indexesOfOthers(t *testing.T, d *desk) {
	genuine := d.read(t, channelindex.Name)
	statement := d.evidence(t, channelindex.Name).Statement().Raw()
	for role, code := range map[string]string{"release": "IDENTITY_ROLE", "mallory@evil.example": "IDENTITY"} {
		forged, err := d.Sign(t.Context(), role, statement)
		if err != nil {
			t.Fatal(err)
		}
		d.write(t, channelindex.Name, forged)
		want(t, d.points(t, tender, "--channel", "stable", "--confirm"), 1, code)
		if now := d.read(t, channelindex.Name); string(now) != string(forged) {
			t.Error("it was written over")
		}
	}
	d.write(t, channelindex.Name, []byte("{}"))
	want(t, d.points(t, tender, "--channel", "stable", "--confirm"), 1, "BUNDLE_VERSION")
	d.write(t, channelindex.Name, genuine)
	want(t, d.points(t, "", "--channel", "stable"), 0, "nothing was done")
}

// index judges the index as a verifier does.
func (d *desk) index(t *testing.T) channel.Index {
	t.Helper()
	x, err := channel.Parse(d.evidence(t, channelindex.Name), d.policy(t))
	if err != nil {
		t.Fatal(err)
	}
	return x
}

func wantCode(t *testing.T, err error, code verdict.Code) {
	t.Helper()
	if (err == nil) != (code == "") || err != nil && verdict.FindingOf("", err).Code != code {
		t.Errorf("%v, want %q", err, code)
	}
}
