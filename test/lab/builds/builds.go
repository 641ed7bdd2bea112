// Package builds answers like the APIs of build services about finished builds:
// Google Cloud Build (projects.locations.builds.get of v1, and the artifact
// manifest in a bucket), GitHub Actions (runs and their artifacts), and Prow (the
// files of a job in a bucket). Nothing is built: a test says what was recorded.
//
//	s := builds.New(lab.Bucket)
//	defer s.Close()
//	s.CloudBuild(builds.Build{Owner: "example", ID: "b-1"}, nil)
//	waybill observe gcb $URL/projects/example/locations/global/builds/b-1 …
package builds

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"sync"
)

// Object is a JSON object.
type Object = map[string]any

// Build is what a service ran.
type Build struct {
	Owner, ID               string // project, job or OWNER/REPOSITORY
	Repository, Tag, Commit string
	Files                   map[string][]byte // the outputs with a digest
	Listed                  []string          // the outputs without one
}

// Server is the APIs of all services.
type Server struct {
	URL string

	http   *httptest.Server
	bucket string
	mu     sync.Mutex // guards answers
	// answers are the answers of the APIs, by path.
	answers map[string][]byte
}

// New starts a server. Objects are in the bucket of a lab.
func New(bucket string) *Server {
	s := &Server{bucket: bucket, answers: map[string][]byte{}}
	at, err := url.Parse(bucket)
	if err != nil {
		panic(err)
	}
	objects := httputil.NewSingleHostReverseProxy(at)
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		answer, there := s.answers[r.URL.Path]
		s.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case there:
			_, _ = w.Write(answer)
		case strings.HasPrefix(r.URL.Path, "/v1/projects/"), strings.HasPrefix(r.URL.Path, "/api/v3/"):
			w.WriteHeader(http.StatusNotFound)
			fmt.Fprint(w, `{"message":"Not Found","error":{"code":404,"status":"NOT_FOUND"}}`)
		default:
			objects.ServeHTTP(w, r)
		}
	}))
	s.URL = s.http.URL
	return s
}

// Close stops the server.
func (s *Server) Close() { s.http.Close() }

// Answer sets what is answered at a path.
func (s *Server) Answer(path string, raw []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.answers[path] = raw
}

func encode(value any) []byte {
	raw, err := json.Marshal(value)
	if err != nil {
		panic(err)
	}
	return raw
}

// put writes an object to the bucket.
func (s *Server) put(name string, body []byte) error {
	req, err := http.NewRequest(http.MethodPut, s.bucket+"/"+name, strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err == nil {
		err = resp.Body.Close()
	}
	return err
}

// CloudBuild records a build of Cloud Build, which uploaded its files to
// gs://staging/dist/, and returns the name of the build. change edits the record.
func (s *Server) CloudBuild(b Build, change func(Object)) (name string, err error) {
	name = "projects/" + b.Owner + "/locations/global/builds/" + b.ID
	var lines strings.Builder
	for _, file := range slices.Sorted(maps.Keys(b.Files)) {
		sum := sha256.Sum256(b.Files[file])
		fmt.Fprintf(&lines, "%s\n", encode(Object{"location": "gs://staging/dist/" + file + "#1700000000000000", "file_hash": []Object{
			{"file_hash": []Object{{"type": 1, "value": base64.StdEncoding.EncodeToString(sum[:])}}},
		}}))
	}
	for _, file := range b.Listed {
		fmt.Fprintf(&lines, "%s\n", encode(Object{"location": "gs://staging/dist/" + file + "#1700000000000000"}))
	}
	manifest := "staging/records/artifacts-" + b.ID + ".json"
	record := Object{
		"id": b.ID, "name": name, "projectId": b.Owner, "status": "SUCCESS", "createTime": "2026-01-02T03:04:00Z", "startTime": "2026-01-02T03:04:05.678Z", "finishTime": "2026-01-02T03:14:05Z",
		"buildTriggerId": "t-1", "substitutions": Object{"TAG_NAME": b.Tag, "_FLAVOUR": "dark"}, "steps": []Object{{"name": "goreleaser", "args": []string{"release"}}},
		"sourceProvenance": Object{"resolvedGitSource": Object{"url": b.Repository, "revision": b.Commit}},
		"results":          Object{"artifactManifest": "gs://" + manifest, "numArtifacts": fmt.Sprint(len(b.Files) + len(b.Listed))},
	}
	if change != nil {
		change(record)
	}
	s.Answer("/v1/"+name, encode(record))
	return s.URL + "/" + name, s.put(manifest, []byte(lines.String()))
}

// Prow records a job, and returns the address of its directory.
func (s *Server) Prow(b Build, change func(Object)) (name string, err error) {
	digests, clone := Object{}, Object{"refs": Object{"org": "example", "repo": "lantern", "repo_link": b.Repository, "base_ref": b.Tag}, "final_sha": b.Commit}
	for file, body := range b.Files {
		digests[file] = fmt.Sprintf("sha256:%x", sha256.Sum256(body))
	}
	record := Object{
		"prowjob.json": Object{"metadata": Object{"name": "u-1"}, "spec": Object{"job": b.Owner, "type": "postsubmit"}, "status": Object{
			"state": "success", "build_id": b.ID, "url": "https://prow.example.test/view/" + b.ID, "startTime": "2026-01-02T03:04:05Z", "completionTime": "2026-01-02T03:14:05Z",
		}},
		"started.json": Object{"timestamp": 1767323045}, "finished.json": Object{"timestamp": 1767323645, "passed": true, "result": "SUCCESS", "metadata": digests},
		"clone-records.json": []Object{clone},
	}
	for _, file := range append(slices.Collect(maps.Keys(b.Files)), b.Listed...) {
		record["artifacts/"+file] = "bytes"
	}
	if change != nil {
		change(record)
	}
	dir := "staging/logs/" + b.Owner + "/" + b.ID
	for file, body := range record {
		if err := s.put(dir+"/"+file, encode(body)); err != nil {
			return "", err
		}
	}
	return "gs+" + s.bucket + "/" + dir, nil
}

// GitHub records a run with one artifact for each file, and returns its address.
func (s *Server) GitHub(b Build, change func(run, artifacts Object)) string {
	repository, id := Object{"full_name": b.Owner, "html_url": b.Repository}, json.Number(b.ID)
	run := Object{
		"id": id, "run_attempt": 2, "status": "completed", "conclusion": "success", "event": "push", "path": ".github/workflows/release.yml", "head_sha": b.Commit, "head_branch": b.Tag,
		"html_url": b.Repository + "/actions/runs/" + b.ID, "run_started_at": "2026-01-02T03:04:05Z", "updated_at": "2026-01-02T03:14:05Z", "repository": repository, "head_repository": repository,
	}
	list := []Object{}
	for _, file := range append(slices.Sorted(maps.Keys(b.Files)), b.Listed...) {
		one := Object{"name": file, "digest": nil, "created_at": "2026-01-02T03:10:05Z", "workflow_run": Object{"id": id, "head_sha": b.Commit}}
		if body, hashed := b.Files[file]; hashed {
			one["digest"] = fmt.Sprintf("sha256:%x", sha256.Sum256(body))
		}
		list = append(list, one)
	}
	artifacts := Object{"total_count": len(list), "artifacts": list}
	if change != nil {
		change(run, artifacts)
	}
	path := "/api/v3/repos/" + b.Owner + "/actions/runs/" + b.ID
	s.Answer(path, encode(run))
	s.Answer(path+"/artifacts", encode(artifacts))
	return "github+" + s.URL + "/" + b.Owner + "/" + b.ID
}
