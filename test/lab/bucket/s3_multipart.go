package bucket

import (
	"bufio"
	"crypto/md5" //nolint:gosec // S3 defines the tag of a multipart object by MD5
	"encoding/hex"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// s3Multipart serves an upload in parts: begin, part, complete, abort.
func (s *Server) s3Multipart(w http.ResponseWriter, r *http.Request, bucket, name string) error {
	v := r.URL.Query()
	id := v.Get("uploadId")
	if r.Method == http.MethodPost && id == "" {
		return s.s3Begin(w, r, bucket, name)
	}
	u := s.session(id)
	if u == nil || u.parts == nil || u.bucket != bucket || u.name != name {
		return errNoObject
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	switch r.Method {
	case http.MethodPut:
		return s.s3Part(w, r, u)
	case http.MethodPost:
		s.forget(id)
		return s.s3Complete(w, r, u)
	case http.MethodDelete:
		s.forget(id)
		w.WriteHeader(http.StatusNoContent)
		return u.discard()
	default:
		return errBadRequest
	}
}

func (s *Server) s3Begin(w http.ResponseWriter, r *http.Request, bucket, name string) error {
	if _, err := s.store.list(bucket, query{}); err != nil {
		return err
	}
	id := s.open(&upload{bucket: bucket, name: name, attrs: attributesFrom(r.Header), parts: map[int]*staged{}})
	writeXML(w, r, http.StatusOK, struct {
		XMLName  xml.Name `xml:"InitiateMultipartUploadResult"`
		Bucket   string
		Key      string
		UploadID string `xml:"UploadId"`
	}{Bucket: bucket, Key: name, UploadID: id})
	return nil
}

func (s *Server) s3Part(w http.ResponseWriter, r *http.Request, u *upload) error {
	n, err := strconv.Atoi(r.URL.Query().Get("partNumber"))
	if err != nil || n < 1 || n > 10000 {
		return errBadRequest
	}
	st, err := s.stage(s3Body(r))
	if err != nil {
		return err
	}
	if old := u.parts[n]; old != nil {
		if err := old.discard(); err != nil {
			return errors.Join(err, st.discard())
		}
	}
	u.parts[n] = st
	w.Header().Set("ETag", `"`+hex.EncodeToString(st.md5.Sum(nil))+`"`)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) s3Complete(w http.ResponseWriter, r *http.Request, u *upload) (err error) {
	defer func() { err = errors.Join(err, u.discard()) }()
	var body struct {
		Part []struct {
			PartNumber int
			ETag       string
		}
	}
	if err := xml.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<22)).Decode(&body); err != nil || len(body.Part) == 0 {
		return errBadRequest
	}
	whole, err := newStaged(s.store.dir)
	if err != nil {
		return err
	}
	tags := md5.New() //nolint:gosec // see the import
	last := 0
	for _, p := range body.Part {
		st := u.parts[p.PartNumber]
		if st == nil || p.PartNumber <= last || strings.Trim(p.ETag, `"`) != hex.EncodeToString(st.md5.Sum(nil)) {
			return errors.Join(errBadRequest, whole.discard())
		}
		last = p.PartNumber
		tags.Write(st.md5.Sum(nil))
		if _, err := io.Copy(whole, io.NewSectionReader(st.file, 0, st.size)); err != nil {
			return errors.Join(fmt.Errorf("joining the parts: %w", err), whole.discard())
		}
	}
	o := whole.object(u.name, u.attrs)
	o.ETag = fmt.Sprintf("%x-%d", tags.Sum(nil), len(body.Part))
	if o, err = s.store.put(u.bucket, o, whole, s3Conditions(r)); err != nil {
		return err
	}
	writeXML(w, r, http.StatusOK, struct {
		XMLName xml.Name `xml:"CompleteMultipartUploadResult"`
		Bucket  string
		Key     string
		ETag    string
	}{Bucket: u.bucket, Key: u.name, ETag: `"` + o.ETag + `"`})
	return nil
}

// discard removes what arrived; u.mu is held.
func (u *upload) discard() error {
	var errs []error
	if u.whole != nil {
		errs = append(errs, u.whole.discard())
	}
	for n, st := range u.parts {
		errs = append(errs, st.discard())
		delete(u.parts, n)
	}
	return errors.Join(errs...)
}

// s3Body is a request's body without the framing in which Amazon's clients
// wrap it to send signatures and checksums along.
func s3Body(r *http.Request) io.Reader {
	if strings.HasPrefix(r.Header.Get("X-Amz-Content-Sha256"), "STREAMING-") {
		return &awsChunked{in: bufio.NewReader(r.Body)}
	}
	return r.Body
}

// awsChunked reads chunks, "SIZE[;extension]\r\n" bytes "\r\n", up to one of
// size 0. Signatures and trailing checksums are not looked at.
type awsChunked struct {
	in   *bufio.Reader
	left int64
	done bool
}

// Read reads the bytes of the chunks.
func (c *awsChunked) Read(b []byte) (int, error) {
	if c.done {
		return 0, io.EOF
	}
	if c.left == 0 {
		if err := c.next(); err != nil {
			return 0, err // io.EOF after the last chunk
		}
	}
	n, err := c.in.Read(b[:min(int64(len(b)), c.left)])
	c.left -= int64(n)
	if err == nil && c.left == 0 {
		_, err = c.in.Discard(len("\r\n"))
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (c *awsChunked) next() error {
	line, err := c.in.ReadString('\n')
	if err != nil {
		return io.ErrUnexpectedEOF
	}
	size, _, _ := strings.Cut(strings.TrimSpace(line), ";")
	if c.left, err = strconv.ParseInt(size, 16, 64); err != nil || c.left < 0 {
		return errBadRequest
	}
	if c.left > 0 {
		return nil
	}
	c.done = true
	if _, err := io.Copy(io.Discard, c.in); err != nil { // the trailer
		return err
	}
	return io.EOF
}
