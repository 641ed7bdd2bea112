package stories

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

const onGitHub = "lab/lantern"

// hub is a project that publishes its files on GitHub.
type hub struct {
	*scene.Scene
	api *releases.Server
}

// openHub stages the release of a project whose tag was pushed.
func openHub(t *testing.T) hub {
	t.Helper()
	h := onHub(t, open(t))
	want(t, h.Stage(t.Context()), 0)
	return h
}

// onHub gives a project the release place on GitHub.
func onHub(t *testing.T, s *scene.Scene) hub {
	t.Helper()
	h := hub{Scene: s}
	h.api = h.Lab.Releases()
	t.Cleanup(func() {
		if n := h.api.Leaked(); n > 0 {
			t.Errorf("%d requests took the token to another origin", n)
		}
	})
	h.Env = append(h.Env, "GH_CONFIG_DIR="+t.TempDir(), "GH_ENTERPRISE_TOKEN="+releases.Token)
	raw, err := os.ReadFile(h.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	bucket := strings.Replace(h.Lab.Bucket, "http://", "gs+http://", 1) + "/release/lantern/{version}/"
	place := "github+" + h.Lab.GitHub + "/" + onGitHub + "/{version}/"
	if raw = bytes.Replace(raw, []byte(bucket), []byte(place), 1); !bytes.Contains(raw, []byte(place)) {
		t.Fatalf("the profile has another release place:\n%s", raw)
	}
	if err := os.WriteFile(h.Path("profile.yaml"), raw, 0o644); err != nil {
		t.Fatal(err)
	}
	h.tag(releases.Tag{Commit: h.commit(t)})
	return h
}

// commit is the commit that the tag names in the project.
func (h hub) commit(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "git", "-C", h.Path("lantern"), "rev-parse", scene.Version+"^{commit}").Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// tag has the repository name something by the tag of the release.
func (h hub) tag(of releases.Tag) {
	h.api.Change(onGitHub, func(r *releases.Repository) { r.Tags = map[string]releases.Tag{scene.Version: of} })
}

// verify verifies as a user without a token does.
func (h hub) verify(t *testing.T, flags ...string) (scene.Result, verdict.Verdict) {
	t.Helper()
	env := h.Env
	h.Env = append(slices.Clone(env), "GH_ENTERPRISE_TOKEN=")
	r := h.Verify(t.Context(), append(flags, "--output", "json")...)
	h.Env = env
	var v verdict.Verdict
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return r, v
}

// complete wants the release accepted.
func (h hub) complete(t *testing.T) {
	t.Helper()
	r, v := h.verify(t)
	want(t, r, 0)
	if v.Outcome() != verdict.Accepted || len(v.Findings) > 0 {
		t.Errorf("the release is not complete: %s", r.Stdout)
	}
}

// refused wants exit status and code, about a subject.
func (h hub) refused(t *testing.T, status int, code verdict.Code, subject string, flags ...string) {
	t.Helper()
	r, v := h.verify(t, flags...)
	want(t, r, status)
	if !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == code && strings.Contains(f.Subject, subject) }) {
		t.Errorf("no %s about %s: %s%s", code, subject, r.Stdout, r.Stderr)
	}
}

// public is the one published release.
func public(t *testing.T, r *releases.Repository) *releases.Release {
	t.Helper()
	for _, release := range r.Releases {
		if !release.Draft {
			return release
		}
	}
	t.Fatal("nothing is published")
	return nil
}

const tool = "bin/linux/amd64/lantern"

// find is an asset by its planned name.
func find(t *testing.T, r *releases.Release, name string) int {
	t.Helper()
	i := slices.IndexFunc(r.Assets, func(a *releases.Asset) bool { return a.Name == strings.ReplaceAll(name, "/", "_") })
	if i < 0 {
		t.Fatalf("no asset %s", name)
	}
	return i
}

// TestGitHub: the demo release goes public on GitHub as a whole, and each attack
// on it has its code; undone, it is complete again.
func TestGitHub(t *testing.T) {
	h := openHub(t)
	want(t, h.Release(t.Context()), 0)
	h.complete(t)
	h.attacks(t)
	h.offline(t)
	t.Run("an expired token", func(t *testing.T) {
		h := h
		scene := *h.Scene
		scene.Env = append(slices.Clone(h.Env), "GH_ENTERPRISE_TOKEN=expired")
		r := scene.Verify(t.Context(), "--output", "json")
		want(t, r, 3)
		if !strings.Contains(r.Stdout, "CREDENTIAL_REFUSED") || strings.Contains(r.Stdout+r.Stderr, "Bearer") {
			t.Error(r.Stdout)
		}
	})
	t.Run("the rate limit", func(t *testing.T) {
		h.api.Spoil(func(w http.ResponseWriter, r *http.Request) bool {
			w.Header().Set("X-RateLimit-Remaining", "0")
			w.Header().Set("X-RateLimit-Reset", "32503680000")
			http.Error(w, `{"message":"API rate limit exceeded"}`, http.StatusForbidden)
			return true
		})
		h.refused(t, 3, verdict.PlaceDown, "")
		h.api.Spoil(nil)
		h.complete(t)
	})
	t.Run("replaced between listing and download", func(t *testing.T) {
		var once atomic.Bool
		id := "/" + h.idOf(t, tool) // before: while the asset is replaced, no other download asks for it
		h.api.Spoil(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.Header.Get("Accept") != "application/octet-stream" || strings.Contains(r.URL.Path, "objects") {
				return false
			}
			if strings.HasSuffix(r.URL.Path, id) && once.CompareAndSwap(false, true) {
				h.again(t, tool)
			}
			return false
		})
		h.refused(t, 3, "PLACE_CHANGED", tool)
		h.api.Spoil(nil)
		h.complete(t)
	})
}

// idOf is the ID of an asset.
func (h hub) idOf(t *testing.T, name string) (id string) {
	h.api.Change(onGitHub, func(r *releases.Repository) {
		p := public(t, r)
		id = fmt.Sprint(p.Assets[find(t, p, name)].ID)
	})
	return id
}

// again deletes an asset and uploads the same bytes.
func (h hub) again(t *testing.T, name string) {
	content := h.bytesOf(t, name)
	h.api.Change(onGitHub, func(r *releases.Repository) {
		p := public(t, r)
		i := find(t, p, name)
		p.Assets = slices.Delete(p.Assets, i, i+1)
	})
	h.api.Store(onGitHub, scene.Version, strings.ReplaceAll(name, "/", "_"), content)
	h.api.Change(onGitHub, func(r *releases.Repository) {
		p := public(t, r)
		p.Assets[find(t, p, name)].Label = &name
	})
}

func (h hub) bytesOf(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(h.Lab.Dir(), "state", "github", h.idOf(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// attacks are what somebody with write access can do to a published release.
func (h hub) attacks(t *testing.T) {
	for _, a := range []struct {
		name    string
		attack  func(*releases.Release)
		code    verdict.Code
		subject string
	}{
		{"an asset is deleted", func(r *releases.Release) {
			i := find(t, r, tool)
			r.Assets = slices.Delete(slices.Clone(r.Assets), i, i+1)
		}, verdict.Missing, tool},
		{"an asset is renamed", func(r *releases.Release) {
			r.Assets[find(t, r, tool)].Name = "lantern"
		}, verdict.Missing, tool},
		{"a renamed asset is extra", func(r *releases.Release) {
			r.Assets[find(t, r, tool)].Name = "lantern"
		}, verdict.Extra, "lantern"},
		{"the label is removed", func(r *releases.Release) {
			r.Assets[find(t, r, tool)].Label = nil
		}, verdict.Missing, tool},
		{"the upload was not finished", func(r *releases.Release) {
			r.Assets[find(t, r, tool)].State = "starter"
		}, verdict.Missing, tool},
		{"the manifest is deleted", func(r *releases.Release) {
			i := find(t, r, releasemanifest.Name)
			r.Assets = slices.Delete(slices.Clone(r.Assets), i, i+1)
		}, verdict.EvidenceMissing, ""},
		{"only a draft is left", func(r *releases.Release) { r.Draft = true }, verdict.EvidenceMissing, ""},
		{"the tag has another release", func(r *releases.Release) { r.Tag = "v0.0.9" }, verdict.EvidenceMissing, ""},
	} {
		t.Run(a.name, func(t *testing.T) {
			before := h.snapshot(t)
			h.api.Change(onGitHub, func(r *releases.Repository) { a.attack(public(t, r)) })
			h.refused(t, 1, a.code, a.subject)
			h.restore(before)
			h.complete(t)
		})
	}
	t.Run("an asset is replaced", func(t *testing.T) {
		before := h.snapshot(t)
		other := bytes.Repeat([]byte("x"), len(h.bytesOf(t, tool)))
		h.api.Change(onGitHub, func(r *releases.Repository) {
			p := public(t, r)
			i := find(t, p, tool)
			p.Assets = slices.Delete(p.Assets, i, i+1)
		})
		h.api.Store(onGitHub, scene.Version, strings.ReplaceAll(tool, "/", "_"), other)
		h.api.Change(onGitHub, func(r *releases.Repository) {
			p, name := public(t, r), tool
			p.Assets[find(t, p, tool)].Label = &name
		})
		h.refused(t, 1, verdict.Tampered, tool)
		h.restore(before)
		h.complete(t)
	})
	t.Run("an asset is added", func(t *testing.T) {
		before := h.snapshot(t)
		h.api.Store(onGitHub, scene.Version, "install.sh", []byte("curl | sh\n"))
		h.refused(t, 1, verdict.Extra, "install.sh")
		h.restore(before)
		h.complete(t)
	})
}

// snapshot and restore keep the state of the repository.
func (h hub) snapshot(t *testing.T) (raw []byte) {
	t.Helper()
	h.api.Change(onGitHub, func(r *releases.Repository) {
		var err error
		if raw, err = json.Marshal(r); err != nil {
			t.Fatal(err)
		}
	})
	return raw
}

func (h hub) restore(raw []byte) {
	h.api.Change(onGitHub, func(r *releases.Repository) {
		*r = releases.Repository{}
		_ = json.Unmarshal(raw, r) // it was made by snapshot
	})
}

// offline verifies what gh downloads, by the listing that was recorded.
func (h hub) offline(t *testing.T) {
	dir := t.TempDir()
	h.api.Change(onGitHub, func(r *releases.Repository) {
		listing, err := json.Marshal(public(t, r).Assets)
		if err != nil {
			t.Fatal(err)
		}
		save(t, listing, dir, "assets.json")
	})
	for _, a := range h.assets(t) {
		save(t, h.bytesOf(t, a), dir, a)
	}
	place := "github+file://" + dir
	r := h.Verify(t.Context(), "--files", place, "--output", "json")
	want(t, r, 0)
	if err := os.Remove(filepath.Join(dir, strings.ReplaceAll(tool, "/", "_"))); err != nil {
		t.Fatal(err)
	}
	h.refused(t, 1, verdict.Missing, tool, "--files", place)
}

// assets are the names of the assets.
func (h hub) assets(t *testing.T) (names []string) {
	h.api.Change(onGitHub, func(r *releases.Repository) {
		for _, a := range public(t, r).Assets {
			names = append(names, a.Name)
		}
	})
	return names
}

// TestGitHubInterrupted: a release that breaks off leaves a draft that nobody
// sees; the next run completes it, and deletes what was half uploaded.
func TestGitHubInterrupted(t *testing.T) {
	h := openHub(t)
	var uploads atomic.Int64
	h.api.Spoil(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasPrefix(r.URL.Path, "/api/uploads/") && uploads.Add(1) > 5 {
			http.Error(w, `{"message":"Server Error"}`, http.StatusBadGateway)
			return true
		}
		return false
	})
	want(t, h.Release(t.Context()), 3)
	h.refused(t, 1, verdict.EvidenceMissing, "")
	h.api.Spoil(nil)
	h.api.Change(onGitHub, func(r *releases.Repository) {
		if len(r.Releases) != 1 || !r.Releases[0].Draft || len(r.Releases[0].Assets) == 0 {
			t.Fatalf("want one draft with some assets, got %+v", r.Releases)
		}
		r.Releases[0].Assets[0].State = "starter"
	})
	want(t, h.Release(t.Context()), 0)
	h.complete(t)
	h.api.Change(onGitHub, func(r *releases.Repository) {
		if len(r.Releases) != 1 {
			t.Errorf("%d releases", len(r.Releases))
		}
	})
	want(t, h.Release(t.Context()), 0) // of the same bytes: done already
}

// TestGitHubDrafts: what another run or person left in a draft is not published.
func TestGitHubDrafts(t *testing.T) {
	h := openHub(t)
	draft := func(name string, content []byte) {
		h.api.Change(onGitHub, func(r *releases.Repository) {
			r.Releases = []*releases.Release{{ID: 7, Tag: scene.Version, Draft: true}}
		})
		h.api.Store(onGitHub, scene.Version, name, content)
	}
	draft("lantern.sh", []byte("extra"))
	want(t, h.Release(t.Context()), 1, "FILE_CONFLICT", "lantern.sh")
	draft(releasemanifest.Name, []byte("{}"))
	want(t, h.Release(t.Context()), 1, "FILE_CONFLICT")
	h.refused(t, 1, verdict.EvidenceMissing, "")
	h.api.Change(onGitHub, func(r *releases.Repository) { r.Tags, r.Releases = nil, nil })
	want(t, h.Release(t.Context()), 1, "MISSING", "push the tag")
	h.api.Change(onGitHub, func(r *releases.Repository) {
		if len(r.Releases) > 0 {
			t.Errorf("%d releases were made", len(r.Releases))
		}
		r.Immutable = true
	})
	h.tag(releases.Tag{Commit: h.commit(t)})
	want(t, h.Release(t.Context()), 0)
	h.complete(t)
	before := h.snapshot(t)
	h.api.Change(onGitHub, func(r *releases.Repository) {
		p := public(t, r)
		i := find(t, p, tool)
		p.Assets = slices.Delete(p.Assets, i, i+1)
	})
	want(t, h.Release(t.Context()), 1, "FILE_CONFLICT", "immutable")
	h.restore(before)
	want(t, h.Release(t.Context()), 0)
}

// TestGitHubPublicBefore: a release that somebody made public by hand gets no file,
// because users would see a part of them; as a draft it is completed and published.
func TestGitHubPublicBefore(t *testing.T) {
	h := openHub(t)
	of := func(draft bool) (assets int) {
		h.api.Change(onGitHub, func(r *releases.Repository) {
			r.Releases = []*releases.Release{{ID: 7, Tag: scene.Version, Draft: draft}}
		})
		want(t, h.Release(t.Context()), map[bool]int{false: 1, true: 0}[draft])
		h.api.Change(onGitHub, func(r *releases.Repository) { assets = len(r.Releases[0].Assets) })
		return assets
	}
	if n := of(false); n > 0 {
		t.Errorf("%d assets are public without a manifest", n)
	}
	if n := of(true); n == 0 {
		t.Error("nothing was published")
	}
	h.complete(t)
}

// TestGitHubTwoRuns: of two runs at once, nothing half is published.
func TestGitHubTwoRuns(t *testing.T) {
	h := openHub(t)
	if err := exec.CommandContext(t.Context(), "cp", "-a", h.Path("state"), h.Path("state2")).Run(); err != nil {
		t.Fatal(err)
	}
	results := make(chan scene.Result, 2)
	for _, state := range []string{"state", "state2"} {
		go func() {
			results <- h.Run(context.WithoutCancel(t.Context()), "waybill", "release", scene.Version, "--profile", "profile.yaml", "--state", state, "--confirm")
		}()
	}
	published := 0
	for range 2 {
		switch r := <-results; r.Code {
		case 0:
			published++
		case 1, 3:
			if !strings.Contains(r.Stderr, "BUSY") && !strings.Contains(r.Stderr, "FILE_CONFLICT") && !strings.Contains(r.Stderr, "PLACE_") {
				t.Error(r.Stderr)
			}
		default:
			t.Errorf("%d: %s", r.Code, r.Stderr)
		}
	}
	if published == 0 {
		want(t, h.Release(t.Context()), 0)
	}
	h.complete(t)
}

// TestGitHubNames: two planned names that would be one asset stop the release
// before its first step.
func TestGitHubNames(t *testing.T) {
	const step = "steps:\n"
	for name, c := range map[string]struct {
		output string
		status int
	}{
		"a collision":  {"bin_linux/amd64_lantern", 1},
		"no collision": {"bin_linux/amd64_candle", 0},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(shell)); err != nil {
				t.Fatal(err)
			}
			config := string(contents(t, dir, "release.yaml"))
			config = strings.Replace(config, step, step+"- name: more\n  run: [sh, -c, \"mkdir -p {out}/bin_linux && echo more > {out}/"+c.output+"\"]\n  outputs: [{class: binary, name: \""+c.output+"\"}]\n", 1)
			save(t, []byte(config), dir, "release.yaml")
			h := onHub(t, openExample(t, dir))
			r := h.Stage(t.Context())
			want(t, r, c.status)
			if c.status != 0 {
				want(t, r, c.status, "PATH", tool, c.output)
			}
			if files, _ := os.ReadDir(h.Path("state", "files")); c.status != 0 && len(files) > 0 {
				t.Errorf("%d files were built", len(files))
			}
		})
	}
}
