package bucket

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
)

// upload is one upload in several requests: a resumable one, or S3's parts.
type upload struct {
	bucket string
	name   string
	attrs  attributes
	cond   conditions
	expect gcsExpectation

	mu    sync.Mutex // owns what follows
	whole *staged    // resumable: what arrived so far
	parts map[int]*staged
}

// gcsExpectation is what an uploader says the bytes are; empty is nothing.
type gcsExpectation struct {
	MD5Hash string `json:"md5Hash"`
	CRC32C  string `json:"crc32c"`
}

func (e gcsExpectation) check(o *object) error {
	if e.MD5Hash != "" && e.MD5Hash != o.md5() || e.CRC32C != "" && e.CRC32C != o.crc32c() {
		return errDigest
	}
	return nil
}

// gcsMetadata is what an upload says about the object it makes.
type gcsMetadata struct {
	attributes
	gcsExpectation
	Name string `json:"name"`
}

func (s *Server) open(u *upload) string {
	id := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions[id] = u
	return id
}

func (s *Server) session(id string) *upload {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sessions[id]
}

func (s *Server) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, id)
}

// gcsUpload serves the three kinds of upload: {bucket}/o?uploadType=…
func (s *Server) gcsUpload(w http.ResponseWriter, r *http.Request, path string) {
	bucket, rest, _ := strings.Cut(path, "/")
	bucket, err := url.PathUnescape(bucket)
	if err != nil || rest != "o" {
		gcsError(w, errBadRequest)
		return
	}
	kind := r.URL.Query().Get("uploadType")
	switch {
	case r.URL.Query().Has("upload_id"): // PUT by the book, POST by Google's Go client
		err = s.gcsChunk(w, r)
	case r.Method == http.MethodPost && kind == "media":
		err = s.gcsMedia(w, r, bucket)
	case r.Method == http.MethodPost && kind == "multipart":
		err = s.gcsMultipart(w, r, bucket)
	case r.Method == http.MethodPost && kind == "resumable":
		err = s.gcsResumable(w, r, bucket)
	default:
		err = errBadRequest
	}
	if err != nil {
		gcsError(w, err)
	}
}

func (s *Server) gcsMedia(w http.ResponseWriter, r *http.Request, bucket string) error {
	m := gcsMetadata{Name: r.URL.Query().Get("name"), attributes: attributes{ContentType: r.Header.Get("Content-Type")}}
	st, err := s.stage(r.Body)
	if err != nil {
		return err
	}
	return s.gcsCommit(w, bucket, m, st, gcsConditions(r))
}

// gcsCommit stores the staged bytes and answers with the object.
func (s *Server) gcsCommit(w http.ResponseWriter, bucket string, m gcsMetadata, st *staged, c conditions) error {
	o := st.object(m.Name, m.attributes)
	if err := m.check(o); err != nil {
		return errors.Join(err, st.discard())
	}
	o, err := s.store.put(bucket, o, st, c)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, gcsResource(bucket, o))
	return nil
}

// gcsMultipart takes a multipart/related body: a JSON part, then the bytes.
func (s *Server) gcsMultipart(w http.ResponseWriter, r *http.Request, bucket string) error {
	_, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil {
		return errBadRequest
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	first, err := parts.NextPart()
	if err != nil {
		return errBadRequest
	}
	m, err := readMetadata(first, r)
	if err != nil {
		return err
	}
	media, err := parts.NextPart()
	if err != nil {
		return errBadRequest
	}
	if m.ContentType == "" {
		m.ContentType = media.Header.Get("Content-Type")
	}
	st, err := s.stage(media)
	if err != nil {
		return err
	}
	return s.gcsCommit(w, bucket, m, st, gcsConditions(r))
}

func readMetadata(body io.Reader, r *http.Request) (gcsMetadata, error) {
	var m gcsMetadata
	if err := json.NewDecoder(io.LimitReader(body, 1<<20)).Decode(&m); err != nil && !errors.Is(err, io.EOF) {
		return m, errBadRequest
	}
	if name := r.URL.Query().Get("name"); name != "" {
		m.Name = name
	}
	return m, nil
}

// gcsResumable opens a session; its URL is the answer.
func (s *Server) gcsResumable(w http.ResponseWriter, r *http.Request, bucket string) error {
	m, err := readMetadata(r.Body, r)
	if err != nil {
		return err
	}
	if m.ContentType == "" {
		m.ContentType = r.Header.Get("X-Upload-Content-Type")
	}
	whole, err := newStaged(s.store.dir)
	if err != nil {
		return err
	}
	id := s.open(&upload{bucket: bucket, name: m.Name, attrs: m.attributes, expect: m.gcsExpectation, cond: gcsConditions(r), whole: whole})
	w.Header().Set("Location", fmt.Sprintf("http://%s%s?uploadType=resumable&upload_id=%s", r.Host, r.URL.EscapedPath(), id))
	w.Header().Set("X-GUploader-UploadID", id)
	w.WriteHeader(http.StatusOK)
	return nil
}

// contentRange is "bytes FIRST-LAST/TOTAL" with * for what is not known.
type contentRange struct {
	first int64 // -1: no bytes in this request
	total int64 // -1: more to come
}

func parseContentRange(s string) (contentRange, error) {
	c := contentRange{-1, -1}
	span, total, ok := strings.Cut(strings.TrimPrefix(s, "bytes "), "/")
	if !ok {
		return c, errBadRequest
	}
	var err error
	if total != "*" {
		if c.total, err = strconv.ParseInt(total, 10, 64); err != nil {
			return c, errBadRequest
		}
	}
	if first, _, ok := strings.Cut(span, "-"); ok {
		if c.first, err = strconv.ParseInt(first, 10, 64); err != nil {
			return c, errBadRequest
		}
	}
	return c, nil
}

// gcsChunk takes a chunk of a resumable upload, or says how much there is.
func (s *Server) gcsChunk(w http.ResponseWriter, r *http.Request) error {
	id := r.URL.Query().Get("upload_id")
	u := s.session(id)
	if u == nil || u.whole == nil {
		return errNoObject
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	c, err := chunkRange(r)
	if err != nil || c.first > u.whole.size {
		return errBadRequest
	}
	if c.first >= 0 {
		// A repeated chunk may begin before the end of what arrived.
		if _, err := io.CopyN(io.Discard, r.Body, u.whole.size-c.first); err != nil && !errors.Is(err, io.EOF) {
			return errBadRequest
		}
		if _, err := io.Copy(u.whole, r.Body); err != nil {
			return fmt.Errorf("reading a chunk: %w", err)
		}
	}
	if c.total != u.whole.size {
		gcsIncomplete(w, r, u.whole.size)
		return nil
	}
	s.forget(id)
	return s.gcsCommit(w, u.bucket, gcsMetadata{u.attrs, u.expect, u.name}, u.whole, u.cond)
}

// chunkRange is a request's range; without one, the request is everything.
func chunkRange(r *http.Request) (contentRange, error) {
	if h := r.Header.Get("Content-Range"); h != "" {
		return parseContentRange(h)
	}
	return contentRange{0, r.ContentLength}, nil
}

// gcsIncomplete says how many bytes arrived. Google's clients ask for a 200
// with the real status in a header, as 308 means something else elsewhere.
func gcsIncomplete(w http.ResponseWriter, r *http.Request, size int64) {
	if size > 0 {
		w.Header().Set("Range", fmt.Sprintf("bytes=0-%d", size-1))
	}
	status := http.StatusPermanentRedirect
	if r.Header.Get("X-GUploader-No-308") == "yes" {
		w.Header().Set("X-Http-Status-Code-Override", "308")
		status = http.StatusOK
	}
	w.WriteHeader(status)
}
