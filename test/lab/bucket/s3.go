package bucket

import (
	"encoding/base64"
	"encoding/xml"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

const s3Namespace = "http://s3.amazonaws.com/doc/2006-03-01/"

// s3Error answers with S3's error document, which GCS's XML API shares.
func s3Error(w http.ResponseWriter, r *http.Request, err error) {
	status, code := http.StatusInternalServerError, "InternalError"
	switch {
	case errors.Is(err, errNoBucket):
		status, code = http.StatusNotFound, "NoSuchBucket"
	case errors.Is(err, errNoObject):
		status, code = http.StatusNotFound, "NoSuchKey"
	case errors.Is(err, errPrecondition):
		status, code = http.StatusPreconditionFailed, "PreconditionFailed"
	case errors.Is(err, errDigest):
		status, code = http.StatusBadRequest, "BadDigest"
	case errors.Is(err, errNotListed):
		status, code = http.StatusForbidden, "AccessDenied"
	case errors.Is(err, errBadRequest):
		status, code = http.StatusBadRequest, "InvalidRequest"
	}
	writeXML(w, r, status, struct {
		XMLName xml.Name `xml:"Error"`
		Code    string
		Message string
	}{Code: code, Message: err.Error()})
}

// errNotListed is what plain HTTP gets where a listing would be.
var errNotListed = errors.New("plain HTTP does not list a bucket")

func writeXML(w http.ResponseWriter, r *http.Request, status int, v any) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method == http.MethodHead {
		return
	}
	_, _ = io.WriteString(w, xml.Header) // the client went away: nothing to tell it
	_ = xml.NewEncoder(w).Encode(v)
}

// s3 serves /{bucket} and /{bucket}/{object}.
func (s *Server) s3(w http.ResponseWriter, r *http.Request, bucket, name string) {
	var err error
	switch {
	case bucket == "":
		err = errNotListed
	case name == "":
		err = s.s3Bucket(w, r, bucket)
	case r.URL.Query().Has("uploads") || r.URL.Query().Has("uploadId"):
		err = s.s3Multipart(w, r, bucket, name)
	default:
		err = s.s3Object(w, r, bucket, name)
	}
	if err != nil {
		s3Error(w, r, err)
	}
}

func (s *Server) s3Bucket(w http.ResponseWriter, r *http.Request, bucket string) error {
	switch {
	case r.Method == http.MethodPut:
		if err := s.Make(bucket); err != nil {
			return errors.Join(errBadRequest, err)
		}
		return nil
	case r.Method == http.MethodHead:
		_, err := s.store.list(bucket, query{})
		return err
	case r.Method != http.MethodGet:
		return errBadRequest
	case r.URL.Query().Get("list-type") == "2":
		return s.s3List(w, r, bucket)
	default:
		return errNotListed
	}
}

type s3Content struct {
	Key          string
	LastModified string
	ETag         string
	Size         int64
	StorageClass string
}

type s3Prefix struct{ Prefix string }

// s3Listing is the answer to ListObjectsV2.
type s3Listing struct {
	XMLName               xml.Name `xml:"ListBucketResult"`
	Xmlns                 string   `xml:"xmlns,attr"`
	Name                  string
	Prefix                string
	Delimiter             string `xml:",omitempty"`
	EncodingType          string `xml:",omitempty"`
	MaxKeys               int
	KeyCount              int
	IsTruncated           bool
	NextContinuationToken string `xml:",omitempty"`
	Contents              []s3Content
	CommonPrefixes        []s3Prefix
}

func (s *Server) s3List(w http.ResponseWriter, r *http.Request, bucket string) error {
	v := r.URL.Query()
	q := query{prefix: v.Get("prefix"), delimiter: v.Get("delimiter")}
	var err error
	if q.max, err = pageSize(v.Get("max-keys")); err != nil {
		return err
	}
	if q.after, err = decodeToken(v.Get("continuation-token")); err != nil {
		return err
	}
	q.after = max(q.after, v.Get("start-after"))
	p, err := s.store.list(bucket, q)
	if err != nil {
		return err
	}
	spell := func(s string) string { return s }
	if v.Get("encoding-type") == "url" {
		spell = func(s string) string { return strings.ReplaceAll(url.QueryEscape(s), "%2F", "/") }
	}
	out := s3Listing{
		Xmlns: s3Namespace, Name: bucket, Prefix: spell(q.prefix), Delimiter: spell(q.delimiter), EncodingType: v.Get("encoding-type"),
		MaxKeys: q.max, KeyCount: len(p.objects) + len(p.prefixes), IsTruncated: p.next != "", NextContinuationToken: encodeToken(p.next),
	}
	for _, o := range p.objects {
		out.Contents = append(out.Contents, s3Content{
			Key: spell(o.Name), LastModified: o.Updated.Format(time.RFC3339Nano), ETag: `"` + o.ETag + `"`, Size: o.Size, StorageClass: "STANDARD",
		})
	}
	for _, prefix := range p.prefixes {
		out.CommonPrefixes = append(out.CommonPrefixes, s3Prefix{spell(prefix)})
	}
	writeXML(w, r, http.StatusOK, out)
	return nil
}

func (s *Server) s3Object(w http.ResponseWriter, r *http.Request, bucket, name string) error {
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		return s.serveObject(w, r, bucket, name)
	case http.MethodPut:
		if source := r.Header.Get("X-Amz-Copy-Source"); source != "" {
			return s.s3Copy(w, r, source, bucket, name)
		}
		return s.s3Put(w, r, bucket, name)
	case http.MethodDelete:
		err := s.store.delete(bucket, name, conditions{})
		if err != nil && !errors.Is(err, errNoObject) { // deleting what is not there succeeds
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	default:
		return errBadRequest
	}
}

func (s *Server) s3Put(w http.ResponseWriter, r *http.Request, bucket, name string) error {
	st, err := s.stage(s3Body(r))
	if err != nil {
		return err
	}
	o := st.object(name, attributesFrom(r.Header))
	if want := r.Header.Get("Content-MD5"); want != "" && want != base64.StdEncoding.EncodeToString(o.MD5) {
		return errors.Join(errDigest, st.discard())
	}
	if o, err = s.store.put(bucket, o, st, s3Conditions(r)); err != nil {
		return err
	}
	w.Header().Set("ETag", `"`+o.ETag+`"`)
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) s3Copy(w http.ResponseWriter, r *http.Request, source, bucket, name string) error {
	source, err := url.PathUnescape(source)
	if err != nil {
		return errBadRequest
	}
	fromBucket, from, _ := strings.Cut(strings.TrimPrefix(source, "/"), "/")
	o, err := s.copy(fromBucket, from, bucket, name, s3Conditions(r))
	if err != nil {
		return err
	}
	writeXML(w, r, http.StatusOK, struct {
		XMLName      xml.Name `xml:"CopyObjectResult"`
		ETag         string
		LastModified string
	}{ETag: `"` + o.ETag + `"`, LastModified: o.Updated.Format(time.RFC3339Nano)})
	return nil
}
