package bucket

import (
	"crypto/md5" //nolint:gosec // both APIs promise MD5; nothing here trusts it
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

// attributes are what a writer says about an object.
type attributes struct {
	ContentType        string            `json:"contentType,omitempty"`
	CacheControl       string            `json:"cacheControl,omitempty"`
	ContentDisposition string            `json:"contentDisposition,omitempty"`
	ContentEncoding    string            `json:"contentEncoding,omitempty"`
	ContentLanguage    string            `json:"contentLanguage,omitempty"`
	Metadata           map[string]string `json:"metadata,omitempty"`
}

// object is one object without its bytes. It never changes once stored.
type object struct {
	attributes
	Name       string    `json:"name"`
	Size       int64     `json:"size"`
	MD5        []byte    `json:"md5"`
	CRC32C     uint32    `json:"crc32c"`
	ETag       string    `json:"etag"` // without quotes
	Generation int64     `json:"generation"`
	Updated    time.Time `json:"updated"`
}

func (o *object) generation() string { return strconv.FormatInt(o.Generation, 10) }

func (o *object) crc32c() string {
	return base64.StdEncoding.EncodeToString(binary.BigEndian.AppendUint32(nil, o.CRC32C))
}

func (o *object) md5() string { return base64.StdEncoding.EncodeToString(o.MD5) }

// setHeaders describes the object to all three kinds of reader.
func (o *object) setHeaders(h http.Header) {
	h.Set("ETag", `"`+o.ETag+`"`)
	h.Set("X-Goog-Generation", o.generation())
	h.Set("X-Goog-Metageneration", "1")
	h.Add("X-Goog-Hash", "crc32c="+o.crc32c())
	h.Add("X-Goog-Hash", "md5="+o.md5())
	h.Set("X-Goog-Stored-Content-Length", strconv.FormatInt(o.Size, 10))
	h.Set("Content-Type", "application/octet-stream")
	for name, v := range map[string]string{
		"Content-Type": o.ContentType, "Cache-Control": o.CacheControl, "Content-Encoding": o.ContentEncoding,
		"Content-Disposition": o.ContentDisposition, "Content-Language": o.ContentLanguage,
	} {
		if v != "" {
			h.Set(name, v)
		}
	}
	for k, v := range o.Metadata {
		h.Set("X-Amz-Meta-"+k, v)
		h.Set("X-Goog-Meta-"+k, v)
	}
}

// attributesFrom reads what the headers of a plain or S3 upload say.
func attributesFrom(h http.Header) attributes {
	a := attributes{
		ContentType: h.Get("Content-Type"), CacheControl: h.Get("Cache-Control"), ContentDisposition: h.Get("Content-Disposition"),
		ContentLanguage: h.Get("Content-Language"), Metadata: map[string]string{},
	}
	a.ContentEncoding = strings.Trim(strings.ReplaceAll(h.Get("Content-Encoding"), "aws-chunked", ""), ", ")
	for k := range h {
		if name, ok := strings.CutPrefix(k, "X-Amz-Meta-"); ok {
			a.Metadata[strings.ToLower(name)] = h.Get(k)
		}
	}
	return a
}

// conditions are what a request asks of the object that is there now.
type conditions struct {
	generation    *int64 // must be this; 0: there must be none
	notGeneration *int64
	etag          string // must be this, if not empty
	err           error  // the conditions could not be read
}

// check holds the conditions against an object, nil if there is none.
func (c conditions) check(o *object) error {
	var now int64
	if o != nil {
		now = o.Generation
	}
	switch {
	case c.err != nil:
		return c.err
	case c.generation != nil && *c.generation != now,
		c.notGeneration != nil && *c.notGeneration == now,
		c.etag != "" && (o == nil || c.etag != o.ETag):
		return errPrecondition
	}
	return nil
}

// gcsConditions reads ifGenerationMatch and ifGenerationNotMatch, as
// parameters of the JSON API or headers of the XML API.
func gcsConditions(r *http.Request) conditions {
	var c conditions
	read := func(parameter, header string) *int64 {
		s := r.URL.Query().Get(parameter)
		if s == "" {
			s = r.Header.Get(header)
		}
		if s == "" {
			return nil
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			c.err = errBadRequest
		}
		return &n
	}
	c.generation = read("ifGenerationMatch", "X-Goog-If-Generation-Match")
	c.notGeneration = read("ifGenerationNotMatch", "X-Goog-If-Generation-Not-Match")
	return c
}

// s3Conditions reads If-Match and If-None-Match: * of an upload.
func s3Conditions(r *http.Request) conditions {
	c := conditions{etag: strings.Trim(r.Header.Get("If-Match"), `"`)}
	if r.Header.Get("If-None-Match") == "*" {
		c.generation = new(int64)
	}
	return c
}

// staged is an object's bytes before it exists: a temporary file, hashed as it
// grows. The owner either commits it to the store or discards it.
type staged struct {
	file *os.File
	size int64
	md5  hash.Hash
	crc  hash.Hash32
}

func newStaged(dir string) (*staged, error) {
	f, err := os.CreateTemp(dir, "staged-")
	if err != nil {
		return nil, fmt.Errorf("staging an object: %w", err)
	}
	return &staged{file: f, md5: md5.New(), crc: crc32.New(crc32.MakeTable(crc32.Castagnoli))}, nil
}

// Write appends and hashes.
func (s *staged) Write(b []byte) (int, error) {
	n, err := s.file.Write(b)
	s.md5.Write(b[:n])
	s.crc.Write(b[:n])
	s.size += int64(n)
	return n, err
}

func (s *staged) discard() error {
	return errors.Join(s.file.Close(), os.Remove(s.file.Name()))
}

func (s *staged) object(name string, a attributes) *object {
	sum := s.md5.Sum(nil)
	return &object{attributes: a, Name: name, Size: s.size, MD5: sum, CRC32C: s.crc.Sum32(), ETag: hex.EncodeToString(sum)}
}

// stage copies a request's body into a staged object.
func (s *Server) stage(r io.Reader) (*staged, error) {
	st, err := newStaged(s.store.dir)
	if err != nil {
		return nil, err
	}
	if _, err := io.Copy(st, r); err != nil {
		return nil, errors.Join(fmt.Errorf("reading an object: %w", err), st.discard())
	}
	return st, nil
}
