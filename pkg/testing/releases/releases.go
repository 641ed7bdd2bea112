// Package releases is a service that speaks the REST API of GitHub Releases, as
// docs.github.com/rest/releases describes it for a host of GitHub Enterprise:
// the API below /api/v3, uploads below /api/uploads, and the bytes of assets at
// an address of another origin, to which downloads are redirected. It renames
// assets as GitHub does, shows drafts only to who has [Token], and keeps
// everything in a directory.
//
// Other projects should not import this package: it changes without notice.
package releases

import (
	"cmp"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Token is the one token that the service accepts, for every repository.
const Token = "lab-token"

// Release is a release with its assets.
type Release struct {
	ID         int64    `json:"id"`
	Tag        string   `json:"tag_name"`
	Draft      bool     `json:"draft"`
	Prerelease bool     `json:"prerelease"`
	Immutable  bool     `json:"immutable"`
	Title      string   `json:"name"`
	Text       string   `json:"body"`
	Assets     []*Asset `json:"assets"`
}

// Asset is one asset.
type Asset struct {
	ID     int64   `json:"id"`
	Name   string  `json:"name"`
	Label  *string `json:"label"`
	State  string  `json:"state"`
	Size   int64   `json:"size"`
	Digest *string `json:"digest"`
	Media  string  `json:"content_type"`
}

// Tag is a tag of a commit, with a tag object between them if it is annotated.
type Tag struct {
	Commit    string `json:"commit"`
	Annotated bool   `json:"annotated"`
}

// Repository is one repository.
type Repository struct {
	Tags     map[string]Tag `json:"tags"`
	Releases []*Release     `json:"releases"`
	// Immutable makes releases immutable when they are published.
	Immutable bool `json:"immutable"`
}

// Server is the service.
type Server struct {
	// Objects is the origin of the bytes; set it before the first request.
	Objects string

	dir string

	mu           sync.Mutex // guards the fields below
	repositories map[string]*Repository
	last         int64
	spoil        func(w http.ResponseWriter, r *http.Request) bool
	leaked       int
}

// New opens the repositories in dir.
func New(dir string) (*Server, error) {
	s := &Server{dir: dir, repositories: map[string]*Repository{}}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(filepath.Join(dir, "state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err == nil {
		err = json.Unmarshal(raw, &s.repositories)
	}
	for _, r := range s.repositories {
		for _, release := range r.Releases {
			s.last = max(s.last, release.ID)
			for _, a := range release.Assets {
				s.last = max(s.last, a.ID)
			}
		}
	}
	return s, err
}

// Change changes a repository, which it makes, behind the back of its clients.
func (s *Server) Change(name string, change func(*Repository)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.repositories[name] == nil {
		s.repositories[name] = &Repository{}
	}
	change(s.repositories[name])
	s.save()
}

// Spoil has f answer requests instead, if it returns true; nil ends that.
func (s *Server) Spoil(f func(w http.ResponseWriter, r *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.spoil = f
}

// Leaked counts the requests for bytes that carried a token.
func (s *Server) Leaked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.leaked
}

func (s *Server) next() int64 { s.last++; return s.last }

// save keeps the state; mu is held.
func (s *Server) save() {
	raw, err := json.Marshal(s.repositories)
	path := filepath.Join(s.dir, "state.json")
	if err := errors.Join(err, os.WriteFile(path+".tmp", raw, 0o600), os.Rename(path+".tmp", path)); err != nil {
		panic(fmt.Sprintf("releases: %v", err))
	}
}

// Store adds an asset behind the back of clients.
func (s *Server) Store(repository, tag, name string, content []byte) {
	s.Change(repository, func(r *Repository) {
		for _, release := range r.Releases {
			if release.Tag == tag {
				s.add(release, &Asset{Name: name}, content)
			}
		}
	})
}

func (s *Server) add(release *Release, a *Asset, content []byte) {
	sum := sha256.Sum256(content)
	text := "sha256:" + hex.EncodeToString(sum[:])
	a.ID, a.State, a.Size, a.Digest = s.next(), "uploaded", int64(len(content)), &text
	if err := os.WriteFile(s.path(a.ID), content, 0o600); err != nil {
		panic(fmt.Sprintf("releases: %v", err))
	}
	release.Assets = append(release.Assets, a)
}

func (s *Server) path(id int64) string { return filepath.Join(s.dir, strconv.FormatInt(id, 10)) }

// refuse answers as the API does.
func refuse(w http.ResponseWriter, status int, message, code string) {
	answer := map[string]any{"message": message, "documentation_url": "https://docs.github.com/rest"}
	if code != "" {
		answer["errors"] = []any{map[string]any{"code": code}}
	}
	reply(w, status, answer)
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client went away
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	content, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client gave up
	}
	s.mu.Lock()
	spoil := s.spoil
	s.mu.Unlock()
	if spoil != nil && spoil(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	authorization := r.Header.Get("Authorization")
	if id, is := strings.CutPrefix(r.URL.Path, "/objects/"); is {
		if authorization != "" {
			s.leaked++
		}
		http.ServeFile(w, r, filepath.Join(s.dir, filepath.Base(id)))
		return
	}
	owner := authorization == "Bearer "+Token
	if authorization != "" && !owner {
		refuse(w, http.StatusUnauthorized, "Bad credentials", "")
		return
	}
	if r.Method != http.MethodGet && !owner {
		refuse(w, http.StatusUnauthorized, "Requires authentication", "")
		return
	}
	path, upload := strings.CutPrefix(r.URL.Path, "/api/uploads/repos/")
	path = strings.TrimPrefix(path, "/api/v3/repos/")
	parts := strings.SplitN(path, "/", 3)
	if len(parts) < 2 || s.repositories[parts[0]+"/"+parts[1]] == nil {
		refuse(w, http.StatusNotFound, "Not Found", "")
		return
	}
	c := conversation{Server: s, w: w, r: r, repository: s.repositories[parts[0]+"/"+parts[1]], owner: owner, content: content}
	if rest := append(parts, "")[2]; upload {
		c.upload(rest)
	} else {
		c.api(rest)
	}
	if r.Method != http.MethodGet {
		s.save()
	}
}

// conversation is one request; mu of the server is held.
type conversation struct {
	*Server
	w          http.ResponseWriter
	r          *http.Request
	repository *Repository
	owner      bool
	content    []byte
}

var route = regexp.MustCompile(`\A(?:(releases)|releases/(tags)/(.+)|releases/(assets)/([0-9]+)|releases/(?:([0-9]+))(/assets)?|(git/ref/tags)/(.+)|(git/refs)|git/tags/([0-9a-f]+))\z`)

func (c conversation) api(path string) {
	m := route.FindStringSubmatch(path)
	switch {
	case path == "":
		reply(c.w, http.StatusOK, map[string]any{"permissions": map[string]bool{"push": c.owner}})
	case m == nil:
		refuse(c.w, http.StatusNotFound, "Not Found", "")
	case m[1] != "":
		c.releases()
	case m[2] != "":
		c.show(slices.IndexFunc(c.repository.Releases, func(r *Release) bool { return !r.Draft && r.Tag == m[3] }))
	case m[4] != "":
		c.asset(m[5])
	case m[6] != "":
		c.release(m[6], m[7] != "")
	case m[8] != "" || m[11] != "":
		c.tag(m[9], m[11])
	case m[10] != "" && c.r.Method == http.MethodPost:
		var ref struct{ Ref, SHA string }
		_ = json.Unmarshal(c.content, &ref)
		if c.repository.Tags == nil {
			c.repository.Tags = map[string]Tag{}
		}
		c.repository.Tags[strings.TrimPrefix(ref.Ref, "refs/tags/")] = Tag{Commit: ref.SHA}
		reply(c.w, http.StatusCreated, ref)
	default:
		refuse(c.w, http.StatusNotFound, "Not Found", "")
	}
}

// tag answers with what a tag names, or with what a tag object names.
func (c conversation) tag(name, object string) {
	for tag, t := range c.repository.Tags {
		sum := sha1.Sum([]byte(tag + " " + t.Commit))
		named := map[string]string{"type": "commit", "sha": t.Commit}
		switch sha := hex.EncodeToString(sum[:]); {
		case tag == name && t.Annotated:
			named = map[string]string{"type": "tag", "sha": sha}
		case tag != name && (object != sha || !t.Annotated):
			continue
		}
		reply(c.w, http.StatusOK, map[string]any{"ref": "refs/tags/" + tag, "object": named})
		return
	}
	refuse(c.w, http.StatusNotFound, "Not Found", "")
}

func (c conversation) show(i int) {
	if i < 0 {
		refuse(c.w, http.StatusNotFound, "Not Found", "")
		return
	}
	reply(c.w, http.StatusOK, c.repository.Releases[i])
}

func (c conversation) releases() {
	if c.r.Method == http.MethodPost {
		made := &Release{Assets: []*Asset{}}
		if err := json.Unmarshal(c.content, made); err != nil || made.Tag == "" {
			refuse(c.w, http.StatusUnprocessableEntity, "Validation Failed", "missing_field")
			return
		}
		if c.public(made.Tag) != nil {
			refuse(c.w, http.StatusUnprocessableEntity, "Validation Failed", "already_exists")
			return
		}
		made.ID = c.next()
		c.repository.Releases = append(c.repository.Releases, made)
		reply(c.w, http.StatusCreated, made)
		return
	}
	visible := slices.DeleteFunc(slices.Clone(c.repository.Releases), func(r *Release) bool { return r.Draft && !c.owner })
	slices.SortFunc(visible, func(a, b *Release) int { return cmp.Compare(b.ID, a.ID) })
	page(c, visible)
}

func (c conversation) public(tag string) *Release {
	for _, r := range c.repository.Releases {
		if r.Tag == tag && !r.Draft {
			return r
		}
	}
	return nil
}

// page answers one page of a list.
func page[T any](c conversation, all []T) {
	number := func(name string, otherwise, most int) int {
		if n, err := strconv.Atoi(c.r.URL.Query().Get(name)); err == nil && n > 0 {
			return min(n, most)
		}
		return otherwise
	}
	size, n := number("per_page", 30, 100), number("page", 1, 1<<20)
	from, to := min(len(all), (n-1)*size), min(len(all), n*size)
	if to < len(all) {
		c.w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?per_page=%d&page=%d>; rel="next"`, c.r.Host, c.r.URL.Path, size, n+1))
	}
	reply(c.w, http.StatusOK, append([]T{}, all[from:to]...))
}

func (c conversation) release(id string, assets bool) {
	i := slices.IndexFunc(c.repository.Releases, func(r *Release) bool { return strconv.FormatInt(r.ID, 10) == id && (c.owner || !r.Draft) })
	switch {
	case i < 0 || c.r.Method == http.MethodGet && !assets:
		c.show(i)
	case assets:
		page(c, c.repository.Releases[i].Assets)
	case c.r.Method == http.MethodDelete:
		c.repository.Releases = slices.Delete(c.repository.Releases, i, i+1)
		c.w.WriteHeader(http.StatusNoContent)
	default:
		release := c.repository.Releases[i]
		if other := c.public(release.Tag); other != nil && other != release {
			refuse(c.w, http.StatusUnprocessableEntity, "Validation Failed", "already_exists")
			return
		}
		kept := *release
		if err := json.Unmarshal(c.content, &kept); err != nil {
			refuse(c.w, http.StatusBadRequest, "Problems parsing JSON", "")
			return
		}
		release.Draft, release.Prerelease, release.Title, release.Text = kept.Draft, kept.Prerelease, kept.Title, kept.Text
		release.Immutable = !kept.Draft && (release.Immutable || c.repository.Immutable)
		reply(c.w, http.StatusOK, release)
	}
}

func (c conversation) asset(id string) {
	for _, release := range c.repository.Releases {
		i := slices.IndexFunc(release.Assets, func(a *Asset) bool { return strconv.FormatInt(a.ID, 10) == id })
		if i < 0 || release.Draft && !c.owner {
			continue
		}
		a := release.Assets[i]
		switch {
		case c.r.Method != http.MethodGet && release.Immutable:
			refuse(c.w, http.StatusUnprocessableEntity, "Cannot change an immutable release", "custom")
		case c.r.Method == http.MethodDelete:
			release.Assets = slices.Delete(release.Assets, i, i+1)
			c.w.WriteHeader(http.StatusNoContent)
		case c.r.Method == http.MethodPatch:
			_ = json.Unmarshal(c.content, a)
			reply(c.w, http.StatusOK, a)
		case c.r.Header.Get("Accept") == "application/octet-stream":
			http.Redirect(c.w, c.r, c.Objects+"/objects/"+id, http.StatusFound)
		default:
			reply(c.w, http.StatusOK, a)
		}
		return
	}
	refuse(c.w, http.StatusNotFound, "Not Found", "")
}

var (
	odd  = regexp.MustCompile(`[^A-Za-z0-9_+@-]+`)
	dots = regexp.MustCompile(`\.{2,}`)
)

func (c conversation) upload(path string) {
	var id int64
	if _, err := fmt.Sscanf(path, "releases/%d/assets", &id); err != nil {
		refuse(c.w, http.StatusNotFound, "Not Found", "")
		return
	}
	i := slices.IndexFunc(c.repository.Releases, func(r *Release) bool { return r.ID == id })
	query := c.r.URL.Query()
	name := strings.Trim(dots.ReplaceAllString(odd.ReplaceAllString(query.Get("name"), "."), "."), ".")
	if strings.HasPrefix(query.Get("name"), ".") {
		name = "default." + name
	}
	switch {
	case i < 0:
		refuse(c.w, http.StatusNotFound, "Not Found", "")
	case c.repository.Releases[i].Immutable:
		refuse(c.w, http.StatusUnprocessableEntity, "Cannot upload assets to an immutable release.", "custom")
	case slices.ContainsFunc(c.repository.Releases[i].Assets, func(a *Asset) bool { return a.Name == name }):
		refuse(c.w, http.StatusUnprocessableEntity, "Validation Failed", "already_exists")
	default:
		a := &Asset{Name: name, Media: c.r.Header.Get("Content-Type")}
		if label := query.Get("label"); label != "" {
			a.Label = &label
		}
		c.add(c.repository.Releases[i], a, c.content)
		reply(c.w, http.StatusCreated, a)
	}
}
