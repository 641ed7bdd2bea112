package registry

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
)

// repository is one repository's manifests, tags and referrers.
type repository struct {
	manifests map[string]*manifest // by digest
	tags      map[string]string    // tag -> digest
	// referrers are sorted by digest; the subject need not exist.
	referrers map[string][]descriptor
}

// repository returns the repository, made if new; r.mu is held.
func (r *Registry) repository(name string) *repository {
	repo, ok := r.repos[name]
	if !ok {
		repo = &repository{manifests: map[string]*manifest{}, tags: map[string]string{}, referrers: map[string][]descriptor{}}
		r.repos[name] = repo
	}
	return repo
}

// find returns the manifest that a tag or digest names, or nil; r.mu is held.
func (r *Registry) find(repo, reference string) *manifest {
	p, ok := r.repos[repo]
	if !ok {
		return nil
	}
	if digest, ok := p.tags[reference]; ok {
		reference = digest
	}
	return p.manifests[reference]
}

func byDigest(a, b descriptor) int { return cmp.Compare(a.Digest, b.Digest) }

func (p *repository) add(m *manifest) {
	p.manifests[m.digest] = m
	if s := m.doc.Subject; s != nil {
		d := m.referrer()
		if i, found := slices.BinarySearchFunc(p.referrers[s.Digest], d, byDigest); !found {
			p.referrers[s.Digest] = slices.Insert(p.referrers[s.Digest], i, d)
		}
	}
}

func (p *repository) remove(m *manifest) {
	delete(p.manifests, m.digest)
	if s := m.doc.Subject; s != nil {
		p.referrers[s.Digest] = slices.DeleteFunc(p.referrers[s.Digest], func(d descriptor) bool { return d.Digest == m.digest })
	}
}

// deleteManifest deletes a tag, or a manifest with all its tags.
func (r *Registry) deleteManifest(w http.ResponseWriter, t target) {
	r.mu.Lock()
	defer r.mu.Unlock()
	p, ok := r.repos[t.repo]
	if !ok {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", fmt.Sprintf("no repository %q", t.repo))
		return
	}
	_, isTag := p.tags[t.reference]
	m := r.find(t.repo, t.reference)
	if m == nil {
		refuse(w, http.StatusNotFound, "MANIFEST_UNKNOWN", fmt.Sprintf("no manifest %q", t.reference))
		return
	}
	gone := []string{t.reference}
	for tag, d := range p.tags {
		if d == m.digest && !isTag {
			gone = append(gone, tag)
		}
	}
	if !isTag {
		p.remove(m)
	}
	for _, reference := range gone {
		delete(p.tags, reference)
		if err := r.disk.remove(t.repo, reference); err != nil {
			refuse(w, http.StatusInternalServerError, "UNKNOWN", err.Error())
			return
		}
	}
	w.WriteHeader(http.StatusAccepted)
}

// listReferrers answers for any digest: "the registry MUST NOT return a 404
// to a referrers API request", as an absent subject has no referrers yet.
func (r *Registry) listReferrers(w http.ResponseWriter, req *http.Request, t target) {
	if !digestPattern.MatchString(t.reference) {
		refuse(w, http.StatusBadRequest, "DIGEST_INVALID", fmt.Sprintf("invalid digest %q", t.reference))
		return
	}
	r.mu.RLock()
	list := []descriptor{}
	if p, ok := r.repos[t.repo]; ok {
		list = append(list, p.referrers[t.reference]...)
	}
	r.mu.RUnlock()
	if want := req.URL.Query().Get("artifactType"); want != "" {
		list = slices.DeleteFunc(list, func(d descriptor) bool { return d.ArtifactType != want })
		w.Header().Set("OCI-Filters-Applied", "artifactType")
	}
	answer(w, http.StatusOK, ociIndex, struct {
		SchemaVersion int          `json:"schemaVersion"`
		MediaType     string       `json:"mediaType"`
		Manifests     []descriptor `json:"manifests"`
	}{2, ociIndex, list})
}

func (r *Registry) listRepositories(w http.ResponseWriter) {
	r.mu.RLock()
	names := slices.Sorted(maps.Keys(r.repos))
	r.mu.RUnlock()
	answer(w, http.StatusOK, "application/json", map[string][]string{"repositories": names})
}

// listTags lists tags in order, at most n after last, and links to the rest.
func (r *Registry) listTags(w http.ResponseWriter, req *http.Request, t target) {
	r.mu.RLock()
	p, ok := r.repos[t.repo]
	tags := []string{}
	if ok {
		for tag := range p.tags {
			tags = append(tags, tag)
		}
	}
	r.mu.RUnlock()
	if !ok {
		refuse(w, http.StatusNotFound, "NAME_UNKNOWN", fmt.Sprintf("no repository %q", t.repo))
		return
	}
	slices.Sort(tags)
	q := req.URL.Query()
	last := q.Get("last")
	tags = slices.DeleteFunc(tags, func(tag string) bool { return tag <= last })
	if s := q.Get("n"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 0 {
			refuse(w, http.StatusBadRequest, "PAGINATION_NUMBER_INVALID", fmt.Sprintf("invalid n %q", s))
			return
		}
		if n < len(tags) {
			tags = tags[:n]
			if n > 0 {
				next := url.Values{"n": {s}, "last": {tags[n-1]}}
				w.Header().Set("Link", "</v2/"+t.repo+"/tags/list?"+next.Encode()+`>; rel="next"`)
			}
		}
	}
	answer(w, http.StatusOK, "application/json", map[string]any{"name": t.repo, "tags": tags})
}
