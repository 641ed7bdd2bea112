// Package bucket is an object store that speaks three languages about the same
// objects: enough of Google Cloud Storage's JSON API, enough of Amazon S3's
// XML API (path style) for gocloud.dev's drivers and the vendors' clients, and
// plain HTTP, where an object is a page and nothing is listed.
//
//	http://127.0.0.1:PORT/BUCKET/OBJECT              plain HTTP, S3, GCS downloads
//	http://127.0.0.1:PORT/BUCKET?list-type=2         S3 listing
//	http://127.0.0.1:PORT/storage/v1/b/BUCKET/o      GCS JSON (STORAGE_EMULATOR_HOST)
//	http://127.0.0.1:PORT/upload/storage/v1/b/...    GCS uploads
//
// Preconditions are true: of two writers that both ask for "if absent", one
// succeeds. Objects are kept in a directory and survive a restart; generations
// only grow. There is no authentication and there are no old versions.
package bucket

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// Server serves the buckets of one directory.
type Server struct {
	// Unconditional ignores the conditions of writes, as services do that are
	// older than these conditions, or were never given them.
	Unconditional bool
	// Remembers refuses a write that asks for "if absent" where an object was
	// removed, as versitygw v1.8 does in a bucket that keeps versions.
	Remembers bool

	store *store

	mu       sync.Mutex         // owns what follows
	sessions map[string]*upload // GCS resumable and S3 multipart uploads, by id
	removed  map[string]bool    // paths of what was removed, if it Remembers
}

// New opens the buckets in dir, which it makes.
func New(dir string) (*Server, error) {
	st, err := openStore(dir)
	if err != nil {
		return nil, err
	}
	return &Server{store: st, sessions: map[string]*upload{}, removed: map[string]bool{}}, nil
}

// Make makes an empty bucket, unless it is there.
func (s *Server) Make(name string) error { return s.store.make(name) }

// Close drops the uploads that were not finished. Objects are on disk already.
func (s *Server) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for id, u := range s.sessions {
		u.mu.Lock()
		errs = append(errs, u.discard())
		u.mu.Unlock()
		delete(s.sessions, id)
	}
	return errors.Join(errs...)
}

// ServeHTTP tells the languages apart by the path.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := r.URL.EscapedPath()
	switch {
	case s.differs(w, r):
	case path == "/storage/v1/b":
		s.gcsBuckets(w, r)
	case strings.HasPrefix(path, "/storage/v1/b/"):
		s.gcs(w, r, strings.TrimPrefix(path, "/storage/v1/b/"))
	case strings.HasPrefix(path, "/download/storage/v1/b/"):
		s.gcs(w, r, strings.TrimPrefix(path, "/download/storage/v1/b/"))
	case strings.HasPrefix(path, "/upload/storage/v1/b/"):
		s.gcsUpload(w, r, strings.TrimPrefix(path, "/upload/storage/v1/b/"))
	default:
		bucket, name, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		name, err := url.PathUnescape(name)
		if err != nil {
			s3Error(w, r, errBadRequest)
			return
		}
		s.s3(w, r, bucket, name)
	}
}

// differs makes a request one that ignores conditions, or answers it as a
// service that remembers.
func (s *Server) differs(w http.ResponseWriter, r *http.Request) bool {
	if s.Unconditional && r.Method != http.MethodGet && r.Method != http.MethodHead {
		r.Header.Del("If-None-Match")
		r.Header.Del("If-Match")
		q := r.URL.Query()
		q.Del("ifGenerationMatch")
		r.URL.RawQuery = q.Encode()
	}
	if !s.Remembers {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if r.Method == http.MethodDelete {
		s.removed[r.URL.Path] = true
	}
	if r.Method != http.MethodPut || r.Header.Get("If-None-Match") == "" || !s.removed[r.URL.Path] {
		return false
	}
	s3Error(w, r, errPrecondition)
	return true
}

// The refusals that both APIs know, each under its own name.
var (
	errNoBucket     = errors.New("the bucket does not exist")
	errNoObject     = errors.New("the object does not exist")
	errPrecondition = errors.New("a precondition does not hold")
	errBadRequest   = errors.New("the request cannot be understood")
	errDigest       = errors.New("the bytes are not what their digest says")
)

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client went away: nothing to tell it
}

// serveObject sends an object's bytes or a range of them.
func (s *Server) serveObject(w http.ResponseWriter, r *http.Request, bucket, name string) error {
	o, f, err := s.store.open(bucket, name)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := gcsConditions(r).check(o); err != nil {
		return err
	}
	if g := r.URL.Query().Get("generation"); g != "" && g != o.generation() {
		return errNoObject
	}
	o.setHeaders(w.Header())
	http.ServeContent(w, r, "", o.Updated, f)
	return nil
}
