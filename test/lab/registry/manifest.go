package registry

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
)

// The media types that this registry takes, and whether each is an index.
const (
	ociManifest    = "application/vnd.oci.image.manifest.v1+json"
	ociIndex       = "application/vnd.oci.image.index.v1+json"
	dockerManifest = "application/vnd.docker.distribution.manifest.v2+json"
	dockerList     = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// maxManifest is the size up to which the specification asks registries to
// take manifests.
const maxManifest = 4 << 20

// descriptor is the part of an OCI descriptor that this package reads or lists.
type descriptor struct {
	MediaType    string            `json:"mediaType"`
	Digest       string            `json:"digest"`
	Size         int64             `json:"size"`
	ArtifactType string            `json:"artifactType,omitempty"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	URLs         []string          `json:"urls,omitempty"`
}

// manifest is a manifest with its bytes.
type manifest struct {
	mediaType string // as the pusher declared it
	digest    string
	raw       []byte
	doc       document
}

// document is what image manifests and indexes say that matters here.
type document struct {
	MediaType    string            `json:"mediaType"`
	ArtifactType string            `json:"artifactType"`
	Config       *descriptor       `json:"config"`
	Layers       []descriptor      `json:"layers"`
	Manifests    []descriptor      `json:"manifests"`
	Subject      *descriptor       `json:"subject"`
	Annotations  map[string]string `json:"annotations"`
}

func (m *manifest) index() bool { return m.mediaType == ociIndex || m.mediaType == dockerList }

// referrer is how the referrers list describes the manifest.
func (m *manifest) referrer() descriptor {
	d := descriptor{
		MediaType: m.mediaType, Digest: m.digest, Size: int64(len(m.raw)),
		ArtifactType: m.doc.ArtifactType, Annotations: m.doc.Annotations,
	}
	// "If the artifactType is empty or missing in the image manifest, the
	// value of artifactType MUST be set to the config descriptor mediaType."
	if d.ArtifactType == "" && m.doc.Config != nil {
		d.ArtifactType = m.doc.Config.MediaType
	}
	return d
}

// refusal is an error with a place in the specification's table.
type refusal struct {
	status int
	code   string
	error
}

func refusef(code, format string, args ...any) error {
	return refusal{http.StatusBadRequest, code, fmt.Errorf(format, args...)}
}

func parseManifest(contentType string, raw []byte) (*manifest, error) {
	sum := sha256.Sum256(raw)
	m := &manifest{raw: raw, digest: "sha256:" + hex.EncodeToString(sum[:])}
	if err := json.Unmarshal(raw, &m.doc); err != nil {
		return nil, refusef("MANIFEST_INVALID", "parsing the manifest: %w", err)
	}
	m.mediaType = m.doc.MediaType
	if contentType != "" {
		declared, _, err := mime.ParseMediaType(contentType)
		if err != nil {
			return nil, refusef("MANIFEST_INVALID", "parsing the content type: %w", err)
		}
		if m.mediaType != "" && m.mediaType != declared {
			return nil, refusef("MANIFEST_INVALID", "pushed as %q, but says it is %q", declared, m.mediaType)
		}
		m.mediaType = declared
	}
	switch m.mediaType {
	case ociManifest, dockerManifest, ociIndex, dockerList:
	default:
		return nil, refusef("MANIFEST_INVALID", "unknown media type %q", m.mediaType)
	}
	if !m.index() && m.doc.Config == nil {
		return nil, refusef("MANIFEST_INVALID", "an image manifest without a config")
	}
	if s := m.doc.Subject; s != nil && !digestPattern.MatchString(s.Digest) {
		return nil, refusef("MANIFEST_INVALID", "the subject's digest %q is no sha256", s.Digest)
	}
	return m, nil
}

// putManifest takes a manifest that has its parts and is what it says it is.
func (r *Registry) putManifest(w http.ResponseWriter, req *http.Request, t target) {
	raw, err := io.ReadAll(io.LimitReader(req.Body, maxManifest+1))
	if err != nil {
		refuse(w, http.StatusBadRequest, "MANIFEST_INVALID", "reading the manifest: "+err.Error())
		return
	}
	if len(raw) > maxManifest {
		refuse(w, http.StatusRequestEntityTooLarge, "SIZE_INVALID", "the manifest is larger than 4 MiB")
		return
	}
	m, err := r.push(t, req.Header.Get("Content-Type"), raw)
	if err != nil {
		var no refusal
		if !errors.As(err, &no) {
			no = refusal{http.StatusInternalServerError, "UNKNOWN", err}
		}
		refuse(w, no.status, no.code, no.Error())
		return
	}
	w.Header().Set("Location", "/v2/"+t.repo+"/manifests/"+m.digest)
	w.Header().Set("Docker-Content-Digest", m.digest)
	if m.doc.Subject != nil {
		w.Header().Set("OCI-Subject", m.doc.Subject.Digest)
	}
	w.WriteHeader(http.StatusCreated)
}

func (r *Registry) push(t target, contentType string, raw []byte) (*manifest, error) {
	m, err := parseManifest(contentType, raw)
	if err != nil {
		return nil, err
	}
	byDigest := digestPattern.MatchString(t.reference)
	switch {
	case byDigest && t.reference != m.digest:
		return nil, refusef("DIGEST_INVALID", "pushed as %s, but the bytes are %s", t.reference, m.digest)
	case !byDigest && !tagPattern.MatchString(t.reference):
		return nil, refusef("MANIFEST_INVALID", "invalid reference %q", t.reference)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.complete(t.repo, m); err != nil {
		return nil, err
	}
	if err := r.disk.putManifest(t.repo, m); err != nil {
		return nil, err
	}
	repo := r.repository(t.repo)
	repo.add(m)
	if byDigest {
		return m, nil
	}
	if err := r.disk.putTag(t.repo, t.reference, m.digest); err != nil {
		return nil, err
	}
	repo.tags[t.reference] = m.digest
	return m, nil
}

// complete refuses a manifest whose parts the repository does not have.
func (r *Registry) complete(repo string, m *manifest) error {
	for _, d := range m.doc.Manifests {
		if r.find(repo, d.Digest) == nil && !r.blobs.has(repo, d.Digest) {
			return refusef("MANIFEST_BLOB_UNKNOWN", "the index names manifest %q, which this repository does not have", d.Digest)
		}
	}
	parts := m.doc.Layers
	if m.doc.Config != nil {
		parts = append([]descriptor{*m.doc.Config}, parts...)
	}
	for _, d := range parts {
		size, err := r.blobs.size(repo, d.Digest)
		switch {
		case err != nil && len(d.URLs) > 0: // kept elsewhere, by its own word
		case err != nil:
			return refusef("MANIFEST_BLOB_UNKNOWN", "the manifest names blob %q, which this repository does not have", d.Digest)
		case size != d.Size:
			return refusef("MANIFEST_INVALID", "the manifest gives blob %s %d bytes, it has %d", d.Digest, d.Size, size)
		}
	}
	return nil
}

// getManifest serves a manifest by tag or digest, as it was pushed.
func (r *Registry) getManifest(w http.ResponseWriter, req *http.Request, t target) {
	r.mu.RLock()
	m := r.find(t.repo, t.reference)
	r.mu.RUnlock()
	if m == nil {
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", fmt.Sprintf("no manifest %q in %q", t.reference, t.repo))
		return
	}
	w.Header().Set("Content-Type", m.mediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(m.raw)))
	w.Header().Set("Docker-Content-Digest", m.digest)
	if req.Method == http.MethodGet {
		_, _ = w.Write(m.raw) // the client went away: nothing to tell it
	}
}
