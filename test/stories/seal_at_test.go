package stories

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/test/scene"
)

// revises runs seal where the release is public, from a machine that has
// nothing of it.
func (d *desk) revises(t *testing.T, role string, flags ...string) scene.Result {
	t.Helper()
	args := append([]string{"waybill", "seal", scene.Version, "--profile", "profile.yaml", "--state", "nowhere", "--at", "release"}, flags...)
	if role != "" {
		d.write(t, role+".token", []byte(d.Lab.Token(role)))
		args = append(args, "--identity-token", "release="+role+".token")
	}
	return d.Run(t.Context(), args...)
}

// TestReviseAtThePlace: whoever holds the release identity amends or withdraws
// a public release from any machine, nobody else does, and of two who do so at
// once one is told.
func TestReviseAtThePlace(t *testing.T) {
	d := publishedDesk(t)
	rows := []struct {
		name, role string
		flags      []string
		code       int
		said       string
	}{
		{"a dry run", "", []string{"--amend"}, 0, "nothing was done"},
		{"a dry run of a withdrawal", "", []string{"--withdraw", "--reason", "it flickers"}, 0, "nothing was done"},
		{"a dry run as who may", "release", []string{"--amend"}, 0, ", permitted by the policy"},
		{"a dry run with the verifier's token", "verifier", []string{"--amend"}, 1, "SIGNED_AS_ELSE"},
		{"a dry run of a withdrawal by a stranger", "mallory@evil.example", []string{"--withdraw", "--reason", "it flickers"}, 1, "SIGNED_AS_ELSE"},
		{"no token", "", []string{"--amend", "--confirm"}, 2, "--identity-token"},
		{"the verifier's token", "verifier", []string{"--withdraw", "--reason", "it flickers", "--confirm"}, 1, "SIGNED_AS_ELSE"},
		{"a stranger's token", "mallory@evil.example", []string{"--amend", "--confirm"}, 1, "SIGNED_AS_ELSE"},
		{"no reason to withdraw", "release", []string{"--withdraw", "--confirm"}, 2, "--reason"},
		{"neither", "release", []string{"--confirm"}, 2, "--at"},
		{"nowhere", "release", []string{"--amend", "--at", "mirror"}, 2, "--at"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			want(t, d.revises(t, r.role, r.flags...), r.code, r.said)
			want(t, d.Verify(t.Context()), 0, "nothing extra")
		})
	}
	want(t, d.Run(t.Context(), "waybill", "seal", "v0.9.9", "--profile", "profile.yaml", "--state", "nowhere", "--at", "release", "--withdraw", "--reason", "it flickers"), 1, "EVIDENCE_MISSING", "no manifest of v0.9.9 to revise")
	want(t, d.revises(t, "release", "--amend", "--reason", "a new log", "--confirm"), 0, "revision 2 is sealed", "revision also written to ")
	want(t, d.Verify(t.Context()), 0, "nothing extra", "Revision 2 of the manifest", "a new log")
	d.absent(t, "nowhere")
	t.Run("from the state directory of before", func(t *testing.T) {
		want(t, d.seals(t, "release", "--amend", "--reason", "another log", "--confirm"), 0, "revision 2 is sealed")
		want(t, d.promotes(t, "staging"), 1, "MANIFEST_EQUIVOCATION")
		want(t, d.Verify(t.Context()), 0, "nothing extra", "a new log")
	})
	t.Run("a release that is not as it must be", func(t *testing.T) { damaged(t, d) })
	t.Run("an identity that was stolen", func(t *testing.T) { revoked(t, d) })
	t.Run("two at once", func(t *testing.T) { atOnce(t, d) })
	want(t, d.Verify(t.Context()), 1, "WITHDRAWN", "it flickers")
	want(t, d.Release(t.Context()), 1, "WITHDRAWN", "it flickers") // the gate before the promotion sees it, too
	want(t, d.revises(t, "release", "--amend", "--confirm"), 1, "WITHDRAWN")
	want(t, d.revises(t, "release", "--withdraw", "--reason", "again", "--confirm"), 1, "WITHDRAWN")
}

// damaged: nobody vouches once more for what has changed, but it can be
// withdrawn.
func damaged(t *testing.T, d *desk) {
	body := d.read(t, filepath.Join("state", "files", artifact))
	at := "release/lantern/" + scene.Version + "/" + artifact
	d.bucket(t, http.MethodPut, at, string(body)+"!")
	want(t, d.revises(t, "release", "--amend", "--confirm"), 1, "TAMPERED")
	want(t, d.revises(t, "", "--withdraw", "--reason", "it flickers"), 0, "revision 3", "nothing was done")
	d.bucket(t, http.MethodPut, at, string(body))
	want(t, d.Verify(t.Context()), 0, "Revision 2 of the manifest")
}

// revoked: what was signed by an identity after it lost its role is not amended, because
// that would vouch for it; it is withdrawn, by whoever has the role now.
func revoked(t *testing.T, d *desk) {
	before := d.read(t, "policy.yaml")
	issuer, subject := d.Lab.Identity("release")
	_, now := d.Lab.Identity("release-2@lab.invalid")
	const end = "2026-01-01T12:00:00Z"
	d.write(t, "policy.yaml", []byte(strings.Replace(string(before), "release: [", fmt.Sprintf("release: [{issuer: %q, subject: %q, type: email}, ", issuer, now), 1)))
	edit(t, d.Path("policy.yaml"), fmt.Sprintf("subject: %q, type: email", subject), fmt.Sprintf("subject: %q, type: email, until: %q", subject, end))
	want(t, d.Verify(t.Context()), 1, "IDENTITY_WINDOW", "until "+end)
	want(t, d.revises(t, "release-2@lab.invalid", "--amend", "--confirm"), 1, "IDENTITY_WINDOW")
	want(t, d.revises(t, "release", "--withdraw", "--reason", "stolen"), 1, "IDENTITY_WINDOW")
	want(t, d.revises(t, "release-2@lab.invalid", "--withdraw", "--reason", "stolen"), 0, "revision 3", "permitted by the policy")
	edit(t, d.Path("policy.yaml"), fmt.Sprintf("subject: %q", subject), `subject: "other@lab.invalid"`)
	want(t, d.revises(t, "release-2@lab.invalid", "--withdraw", "--reason", "stolen"), 1, "IDENTITY")
	d.write(t, "policy.yaml", before)
}

// atOnce has two officers withdraw the same release. One does; the other is
// told that it was done, or that somebody came between.
func atOnce(t *testing.T, d *desk) {
	d.write(t, "release.token", []byte(d.Lab.Token("release")))
	results := make([]scene.Result, 2)
	var group sync.WaitGroup
	for i := range results {
		group.Go(func() {
			results[i] = d.Run(t.Context(), "waybill", "seal", scene.Version, "--profile", "profile.yaml", "--at", "release", "--withdraw",
				"--reason", "it flickers", "--identity-token", "release=release.token", "--confirm")
		})
	}
	group.Wait()
	done := 0
	for _, r := range results {
		text := r.Stdout + r.Stderr
		switch {
		case r.Code == 0:
			done++
		case r.Code != 1 || !strings.Contains(text, "MANIFEST_EQUIVOCATION") && !strings.Contains(text, "WITHDRAWN"):
			t.Errorf("%s\n%s", r, text)
		}
	}
	if done != 1 {
		t.Errorf("%d of two withdrew it", done)
	}
}
