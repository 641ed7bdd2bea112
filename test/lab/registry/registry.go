// Package registry is an OCI registry for one machine: go-containerregistry's
// handler, which takes and serves blobs, wrapped where it differs from the
// distribution specification 1.1:
//
//   - referrers answer with the right artifactType, filter by it, and cost as
//     much as there are referrers, not as there are manifests;
//   - a pushed manifest with a subject is answered with OCI-Subject;
//   - a manifest is refused when it names blobs or manifests that the
//     repository does not have, or when its bytes are not what its digest says;
//   - tags are listed in pages, and go when their manifest is deleted;
//   - blobs belong to repositories, and can be mounted from one into another;
//   - manifests and tags are kept on disk like blobs.
//
// So manifests, tags and referrers are ours; blobs and uploads are upstream's.
// There is no authentication and no garbage collection.
package registry

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	upstream "github.com/google/go-containerregistry/pkg/registry"
)

// Registry serves the registry that a directory holds.
type Registry struct {
	upstream http.Handler
	blobs    *blobs
	disk     disk

	mu    sync.RWMutex // owns repos, and orders writes of manifests
	repos map[string]*repository
}

// New opens the registry in dir, which it makes.
func New(dir string) (*Registry, error) {
	r := &Registry{
		blobs: &blobs{dir: filepath.Join(dir, "blobs")},
		disk:  disk{dir: filepath.Join(dir, "manifests")},
		repos: map[string]*repository{},
	}
	for _, d := range []string{r.blobs.dir, r.disk.dir} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, fmt.Errorf("opening the registry: %w", err)
		}
	}
	quiet := log.New(io.Discard, "", 0)
	r.upstream = upstream.New(upstream.Logger(quiet), upstream.WithBlobHandler(r.blobs))
	if err := r.load(); err != nil {
		return nil, fmt.Errorf("opening the registry: %w", err)
	}
	return r, nil
}

// The grammar of the distribution specification.
var (
	repoPattern   = regexp.MustCompile(`\A[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*(/[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*)*\z`)
	tagPattern    = regexp.MustCompile(`\A[a-zA-Z0-9_][a-zA-Z0-9._-]{0,127}\z`)
	digestPattern = regexp.MustCompile(`\Asha256:[a-f0-9]{64}\z`)
)

// target is what a request is about: /v2/<repo>/<kind>/<reference>.
type target struct{ repo, kind, reference string }

func parseTarget(path string) (target, bool) {
	rest, ok := strings.CutPrefix(path, "/v2/")
	if !ok {
		return target{}, false
	}
	for _, kind := range []string{"manifests", "referrers", "tags", "blobs"} {
		i := strings.LastIndex(rest, "/"+kind+"/")
		if i > 0 {
			return target{rest[:i], kind, rest[i+len(kind)+2:]}, true
		}
	}
	return target{}, false
}

// ServeHTTP mends what upstream gets wrong and passes on the rest.
func (r *Registry) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	t, ok := parseTarget(req.URL.Path)
	switch {
	case req.URL.Path == "/v2/_catalog":
		r.listRepositories(w)
		return
	case !ok:
		r.upstream.ServeHTTP(w, req)
		return
	case !repoPattern.MatchString(t.repo):
		refuse(w, http.StatusBadRequest, "NAME_INVALID", fmt.Sprintf("invalid repository name %q", t.repo))
		return
	}
	switch req.Method + " " + t.kind {
	case "PUT manifests":
		r.putManifest(w, req, t)
	case "GET manifests", "HEAD manifests":
		r.getManifest(w, req, t)
	case "DELETE manifests":
		r.deleteManifest(w, t)
	case "GET referrers":
		r.listReferrers(w, req, t)
	case "GET tags":
		r.listTags(w, req, t)
	case "POST blobs":
		r.startUpload(w, req, t)
	case "DELETE blobs":
		r.deleteBlob(w, req, t)
	default:
		r.upstream.ServeHTTP(w, req)
	}
}

// startUpload mounts a blob if that was asked and can be done.
func (r *Registry) startUpload(w http.ResponseWriter, req *http.Request, t target) {
	q := req.URL.Query()
	digest, from := q.Get("mount"), q.Get("from")
	if !digestPattern.MatchString(digest) || !repoPattern.MatchString(from) || r.blobs.mount(t.repo, from, digest) != nil {
		r.upstream.ServeHTTP(w, req)
		return
	}
	w.Header().Set("Location", "/v2/"+t.repo+"/blobs/"+digest)
	w.Header().Set("Docker-Content-Digest", digest)
	w.WriteHeader(http.StatusCreated)
}

func (r *Registry) deleteBlob(w http.ResponseWriter, req *http.Request, t target) {
	if digestPattern.MatchString(t.reference) && !r.blobs.has(t.repo, t.reference) {
		refuse(w, http.StatusNotFound, "BLOB_UNKNOWN", "no such blob in this repository")
		return
	}
	r.upstream.ServeHTTP(w, req)
}

// refuse answers with the specification's error document.
func refuse(w http.ResponseWriter, status int, code, message string) {
	type detail struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	answer(w, status, "application/json", map[string][]detail{"errors": {{code, message}}})
}

func answer(w http.ResponseWriter, status int, mediaType string, v any) {
	w.Header().Set("Content-Type", mediaType)
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client went away: nothing to tell it
}
