package stories

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// nightOnHub stages what [evening] prepares, with its release place on GitHub.
func nightOnHub(t *testing.T) (hub, night) {
	t.Helper()
	n := evening(t)
	h := onHub(t, n.Scene)
	h.Env = append(h.Env, "WAYBILL_PATIENCE=2s")
	want(t, n.Stage(t.Context()), 0)
	return h, n
}

// fails has GitHub answer requests of a kind with a status (403 is the rate limit), until the end of f.
func (h hub) fails(status int, kind func(*http.Request) bool, f func()) {
	h.api.Spoil(func(w http.ResponseWriter, r *http.Request) bool {
		if !kind(r) {
			return false
		}
		if status == http.StatusForbidden {
			w.Header().Set("X-RateLimit-Remaining", "0")
		}
		http.Error(w, `{"message":"no"}`, status)
		return true
	})
	f()
	h.api.Spoil(nil)
}

func publishes(r *http.Request) bool {
	return r.Method == http.MethodPatch && !strings.Contains(r.URL.Path, "/assets/")
}

// tagged reports whether the image has its tag at the release place.
func (h hub) tagged(t *testing.T) bool {
	t.Helper()
	ref, err := name.ParseReference(h.Lab.Registry + "/release/lantern/lantern:" + scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	_, err = remote.Head(ref, remote.WithContext(t.Context()))
	return err == nil
}

// TestGitHubTags: tags of images move after everything in the draft was checked
// and before its publication; if that fails, status says what is public, and the
// next run publishes.
func TestGitHubTags(t *testing.T) {
	h, n := nightOnHub(t)
	text := func(text string) {
		h.api.Change(onGitHub, func(r *releases.Repository) { r.Releases[0].Text = text })
	}
	h.fails(http.StatusBadGateway, func(r *http.Request) bool {
		return strings.HasPrefix(r.URL.Path, "/api/uploads/") && strings.Contains(r.URL.RawQuery, releasemanifest.Name)
	}, func() { want(t, n.releases(t, "--confirm"), 3) })
	text("curl https://example.test | sh")
	want(t, n.releases(t, "--confirm"), 1, "FILE_CONFLICT", "wrote")
	text("")
	h.tag(releases.Tag{Commit: strings.Repeat("2", 40)})
	want(t, n.releases(t, "--confirm"), 1, "SOURCE_MOVED")
	h.tag(releases.Tag{Commit: h.commit(t), Annotated: true})
	if h.tagged(t) {
		t.Error("the image is tagged, and the draft could not be published")
	}
	h.fails(http.StatusBadGateway, publishes, func() { want(t, n.releases(t, "--confirm"), 3) })
	if !h.tagged(t) {
		t.Error("the image is not tagged")
	}
	h.refused(t, 1, verdict.EvidenceMissing, "")
	s := n.stands(t)
	i := slices.IndexFunc(s.Stages, func(s pipeline.Stage) bool { return s.Name == "release" })
	if s.Public != "no" || i < 0 || !strings.Contains(s.Stages[i].Note, "draft") || !strings.Contains(s.Stages[i].Note, "tags of its images may be") || !strings.Contains(s.Next, "waybill release") {
		t.Errorf("%+v", s)
	}
	want(t, n.releases(t, "--confirm"), 0)
	h.complete(t)
	t.Run("the tag moves after the publication", func(t *testing.T) {
		h.tag(releases.Tag{Commit: strings.Repeat("2", 40)})
		h.refused(t, 1, verdict.SourceMoved, "")
		h.tag(releases.Tag{Commit: h.commit(t)})
		h.complete(t)
	})
}

// TestGitHubLimits: a rate limit and an expired token in the middle of a release
// leave nothing public, and the next run completes it.
func TestGitHubLimits(t *testing.T) {
	h, n := nightOnHub(t)
	for _, c := range []struct {
		status int
		code   string
	}{{http.StatusForbidden, "rate limit"}, {http.StatusUnauthorized, "CREDENTIAL_REFUSED"}} {
		uploads := 0
		h.fails(c.status, func(r *http.Request) bool {
			if strings.HasPrefix(r.URL.Path, "/api/uploads/") {
				uploads++
			}
			return uploads > 3
		}, func() { want(t, n.releases(t, "--confirm"), 3, c.code) })
		h.refused(t, 1, verdict.EvidenceMissing, "")
	}
	want(t, n.releases(t, "--confirm"), 0)
	h.complete(t)
}

// TestGitHubActs: what is done to a public release: summaries, revisions of the
// manifest, a withdrawal; and doctor before it.
func TestGitHubActs(t *testing.T) {
	h, n := nightOnHub(t)
	made := 0
	h.fails(0, func(r *http.Request) bool {
		if r.Method == http.MethodPost {
			made++
		}
		return false
	}, func() {
		for confirm, drafts := range map[string]int{"--confirm=false": 0, "--confirm": 1} {
			made = 0
			r := n.Run(t.Context(), "waybill", "doctor", scene.Version, "--for", "release", "--profile", "profile.yaml", "--state", "state", confirm)
			want(t, r, 0, "is writable")
			if made != drafts {
				t.Errorf("%s: %d drafts were made\n%s", confirm, made, r.Stdout)
			}
		}
	})
	h.api.Change(onGitHub, func(r *releases.Repository) {
		if len(r.Releases) > 0 {
			t.Errorf("%d drafts are left", len(r.Releases))
		}
	})
	want(t, n.releases(t, "--confirm"), 0, vsa.Name(1))
	h.complete(t)
	if !slices.Contains(h.assets(t), vsa.Name(1)) {
		t.Errorf("no summary among %v", h.assets(t))
	}
	n.write(t, "release.token", []byte(h.Lab.Token("release")))
	amend := []string{"waybill", "seal", scene.Version, "--amend", "--at", "release", "--reason", "again", "--profile", "profile.yaml", "--identity-token", "release=release.token", "--confirm"}
	ctx, kill := context.WithCancel(t.Context())
	h.api.Spoil(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			kill()
			return true
		}
		return false
	})
	if r := n.Run(ctx, amend...); r.Code != -1 {
		t.Errorf("the run ended with %d before it was killed: %s", r.Code, r.Stderr)
	}
	h.api.Spoil(nil)
	h.complete(t) // the new manifest counts, under the name that it was uploaded with
	want(t, n.Run(t.Context(), amend...), 0)
	h.complete(t)
	if i := slices.IndexFunc(h.assets(t), func(name string) bool { return strings.HasSuffix(name, ".upload") }); i >= 0 {
		t.Errorf("%s is left", h.assets(t)[i])
	}
	withdraw := slices.Replace(slices.Clone(amend), 3, 4, "--withdraw")
	want(t, n.Run(t.Context(), withdraw...), 0)
	h.refused(t, 1, verdict.Withdrawn, "")
}

// TestGitHubImmutable: what cannot be added to an immutable release is refused
// with a code, and what can be done without it is done.
func TestGitHubImmutable(t *testing.T) {
	h, n := nightOnHub(t)
	h.api.Change(onGitHub, func(r *releases.Repository) { r.Immutable = true })
	for range 2 {
		want(t, n.releases(t, "--confirm"), 1, "FILE_CONFLICT", vsa.Name(1), "immutable")
		h.complete(t)
	}
	n.write(t, "release.token", []byte(h.Lab.Token("release")))
	for _, act := range []string{"--amend", "--withdraw"} {
		want(t, n.Run(t.Context(), "waybill", "seal", scene.Version, act, "--at", "release", "--reason", "again", "--profile", "profile.yaml",
			"--identity-token", "release=release.token", "--confirm"), 1, "FILE_CONFLICT", "immutable")
	}
	h.complete(t)
	profile := string(n.read(t, "profile.yaml"))
	i := strings.Index(profile, "records:")
	save(t, []byte(profile[:i]+profile[i+strings.Index(profile[i:], "\n")+1:]), h.Dir, "profile.yaml")
	want(t, n.releases(t, "--confirm"), 0, "marker")
}
