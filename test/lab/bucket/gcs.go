package bucket

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// gcsObject is the JSON API's object resource.
type gcsObject struct {
	attributes
	Kind           string `json:"kind"`
	ID             string `json:"id"`
	Name           string `json:"name"`
	Bucket         string `json:"bucket"`
	Generation     string `json:"generation"`
	Metageneration string `json:"metageneration"`
	StorageClass   string `json:"storageClass"`
	Size           string `json:"size"`
	MD5Hash        string `json:"md5Hash"`
	CRC32C         string `json:"crc32c"`
	ETag           string `json:"etag"`
	TimeCreated    string `json:"timeCreated"`
	Updated        string `json:"updated"`
}

func gcsResource(bucket string, o *object) gcsObject {
	updated := o.Updated.Format(time.RFC3339Nano)
	return gcsObject{
		attributes: o.attributes, Kind: "storage#object", ID: bucket + "/" + o.Name + "/" + o.generation(),
		Name: o.Name, Bucket: bucket, Generation: o.generation(), Metageneration: "1", StorageClass: "STANDARD",
		Size: strconv.FormatInt(o.Size, 10), MD5Hash: o.md5(), CRC32C: o.crc32c(), ETag: o.ETag,
		TimeCreated: updated, Updated: updated,
	}
}

// gcsError answers with the JSON API's error document.
func gcsError(w http.ResponseWriter, err error) {
	status, reason := http.StatusInternalServerError, "backendError"
	switch {
	case errors.Is(err, errNoBucket), errors.Is(err, errNoObject):
		status, reason = http.StatusNotFound, "notFound"
	case errors.Is(err, errPrecondition):
		status, reason = http.StatusPreconditionFailed, "conditionNotMet"
	case errors.Is(err, errBadRequest), errors.Is(err, errDigest):
		status, reason = http.StatusBadRequest, "invalid"
	}
	writeJSON(w, status, map[string]any{"error": map[string]any{
		"code": status, "message": err.Error(),
		"errors": []map[string]string{{"domain": "global", "reason": reason, "message": err.Error()}},
	}})
}

// gcsBuckets lists or makes buckets.
func (s *Server) gcsBuckets(w http.ResponseWriter, r *http.Request) {
	if r.Method == http.MethodGet {
		var items []map[string]string
		for _, name := range s.store.names() {
			items = append(items, gcsBucket(name))
		}
		writeJSON(w, http.StatusOK, map[string]any{"kind": "storage#buckets", "items": items})
		return
	}
	var body struct {
		Name string `json:"name"`
	}
	if r.Method != http.MethodPost || json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&body) != nil || s.Make(body.Name) != nil {
		gcsError(w, errBadRequest)
		return
	}
	writeJSON(w, http.StatusOK, gcsBucket(body.Name))
}

func gcsBucket(name string) map[string]string {
	return map[string]string{"kind": "storage#bucket", "id": name, "name": name}
}

// gcs serves {bucket}, {bucket}/o, {bucket}/o/{object} and its rewriteTo. An
// object's slashes come escaped, so the path is still escaped here.
func (s *Server) gcs(w http.ResponseWriter, r *http.Request, path string) {
	parts := strings.Split(path, "/")
	for i, p := range parts {
		u, err := url.PathUnescape(p)
		if err != nil {
			gcsError(w, errBadRequest)
			return
		}
		parts[i] = u
	}
	var err error
	switch {
	case len(parts) == 1:
		err = s.gcsBucket(w, parts[0])
	case len(parts) == 2 && parts[1] == "o" && r.Method == http.MethodGet:
		err = s.gcsList(w, r, parts[0])
	case len(parts) == 3 && parts[1] == "o":
		err = s.gcsObject(w, r, parts[0], parts[2])
	case len(parts) == 8 && parts[1] == "o" && parts[3] == "rewriteTo" && r.Method == http.MethodPost:
		err = s.gcsRewrite(w, r, parts)
	default:
		err = errBadRequest
	}
	if err != nil {
		gcsError(w, err)
	}
}

func (s *Server) gcsBucket(w http.ResponseWriter, bucket string) error {
	if _, err := s.store.list(bucket, query{}); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, gcsBucket(bucket))
	return nil
}

func (s *Server) gcsList(w http.ResponseWriter, r *http.Request, bucket string) error {
	v := r.URL.Query()
	q := query{prefix: v.Get("prefix"), delimiter: v.Get("delimiter"), from: v.Get("startOffset")}
	var err error
	if q.max, err = pageSize(v.Get("maxResults")); err != nil {
		return err
	}
	if q.after, err = decodeToken(v.Get("pageToken")); err != nil {
		return err
	}
	p, err := s.store.list(bucket, q)
	if err != nil {
		return err
	}
	out := struct {
		Kind     string      `json:"kind"`
		Next     string      `json:"nextPageToken,omitempty"`
		Prefixes []string    `json:"prefixes,omitempty"`
		Items    []gcsObject `json:"items,omitempty"`
	}{Kind: "storage#objects", Next: encodeToken(p.next), Prefixes: p.prefixes}
	for _, o := range p.objects {
		out.Items = append(out.Items, gcsResource(bucket, o))
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// pageSize is what was asked, at most and by default 1000, as both APIs say.
func pageSize(s string) (int, error) {
	if s == "" {
		return 1000, nil
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 {
		return 0, errBadRequest
	}
	return min(n, 1000), nil
}

func encodeToken(after string) string { return base64.URLEncoding.EncodeToString([]byte(after)) }

func decodeToken(token string) (string, error) {
	b, err := base64.URLEncoding.DecodeString(token)
	if err != nil {
		return "", errBadRequest
	}
	return string(b), nil
}

func (s *Server) gcsObject(w http.ResponseWriter, r *http.Request, bucket, name string) error {
	switch {
	case r.Method == http.MethodDelete:
		if err := s.store.delete(bucket, name, gcsConditions(r)); err != nil {
			return err
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		return errBadRequest
	case r.URL.Query().Get("alt") == "media":
		return s.serveObject(w, r, bucket, name)
	}
	o, err := s.store.stat(bucket, name)
	if err != nil {
		return err
	}
	if err := gcsConditions(r).check(o); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, gcsResource(bucket, o))
	return nil
}

// gcsRewrite copies: {bucket}/o/{object}/rewriteTo/b/{bucket}/o/{object}.
func (s *Server) gcsRewrite(w http.ResponseWriter, r *http.Request, p []string) error {
	o, err := s.copy(p[0], p[2], p[5], p[7], gcsConditions(r))
	if err != nil {
		return err
	}
	size := strconv.FormatInt(o.Size, 10)
	writeJSON(w, http.StatusOK, map[string]any{
		"kind": "storage#rewriteResponse", "done": true, "objectSize": size, "totalBytesRewritten": size,
		"resource": gcsResource(p[5], o),
	})
	return nil
}

// copy makes dst a copy of src with src's attributes.
func (s *Server) copy(srcBucket, src, dstBucket, dst string, c conditions) (*object, error) {
	from, f, err := s.store.open(srcBucket, src)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := s.stage(f)
	if err != nil {
		return nil, err
	}
	return s.store.put(dstBucket, st.object(dst, from.attributes), st, c)
}
