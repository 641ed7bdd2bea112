package draft_test

import (
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

const repository = "example/lantern"

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
	s.Change(repository, func(r *releases.Repository) { r.Tags = []string{"v1"} })
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
			if err := r.Publish(t.Context()); code(err) != c.want {
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
