package lab

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// attestations answers the lab's GitHub about the attestations of subjects, as
// docs.github.com/rest/orgs/attestations describes it; all else is for next.
type attestations struct {
	next http.Handler

	mu   sync.Mutex // guards the fields below
	by   map[string][]attested
	down string // a part of the paths that are unavailable
}

// attested is a bundle, and the digests of its subjects.
type attested struct {
	bundle  json.RawMessage
	digests []string
}

// Attest makes bundles the attestations of an owner, in place of the ones before, by
// the digests of their subjects.
func (l *Lab) Attest(owner string, bundles ...[]byte) error {
	var all []attested
	for _, raw := range bundles {
		var b struct {
			Envelope struct{ Payload []byte } `json:"dsseEnvelope"`
		}
		var statement struct {
			Subject []struct{ Digest map[string]string }
		}
		if err := json.Unmarshal(raw, &b); err != nil {
			return err
		}
		if err := json.Unmarshal(b.Envelope.Payload, &statement); err != nil {
			return err
		}
		one := attested{bundle: raw}
		for _, s := range statement.Subject {
			for algorithm, sum := range s.Digest {
				one.digests = append(one.digests, algorithm+":"+sum)
			}
		}
		all = append(all, one)
	}
	l.attested.mu.Lock()
	defer l.attested.mu.Unlock()
	l.attested.by[owner] = all
	return nil
}

var bulkList = regexp.MustCompile(`\A/api/v3/(orgs|users)/([^/]+)/attestations/bulk-list\z`)

// SpoilGitHub makes the paths of GitHub's API that contain a text unavailable; empty
// ends that.
func (l *Lab) SpoilGitHub(path string) {
	l.attested.mu.Lock()
	defer l.attested.mu.Unlock()
	l.attested.down = path
}

// ServeHTTP implements [http.Handler]. Owners are users, so an organization is not
// found; a page has at most per_page bundles.
func (a *attestations) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	down := a.down
	a.mu.Unlock()
	if down != "" && strings.Contains(r.URL.Path, down) {
		http.Error(w, `{"message":"Service Unavailable"}`, http.StatusServiceUnavailable)
		return
	}
	m := bulkList.FindStringSubmatch(r.URL.Path)
	if m == nil {
		a.next.ServeHTTP(w, r)
		return
	}
	var asked struct {
		Digests []string `json:"subject_digests"`
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if err := json.NewDecoder(r.Body).Decode(&asked); r.Method != http.MethodPost || err != nil || len(asked.Digests) == 0 {
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = w.Write([]byte(`{"message":"Validation Failed"}`)) // the client went away
		return
	}
	if m[1] == "orgs" {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"message":"Not Found"}`)) // the client went away
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	from, _ := strconv.Atoi(r.URL.Query().Get("after"))
	size, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
	found, to := map[string][]any{}, min(len(a.by[m[2]]), from+max(size, 1))
	for _, one := range a.by[m[2]][min(from, to):to] {
		for _, digest := range one.digests {
			if slices.Contains(asked.Digests, digest) {
				found[digest] = append(found[digest], map[string]any{"bundle": one.bundle, "repository_id": 1, "bundle_url": ""})
			}
		}
	}
	page := map[string]any{"has_next": to < len(a.by[m[2]]), "has_previous": from > 0}
	if to < len(a.by[m[2]]) {
		page["next"] = strconv.Itoa(to)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"attestations_subject_digests": found, "page_info": page}) // the client went away
}
