package transport

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// continuations is how often one body may break off.
const continuations = 4

// continued lets the body of a GET survive a broken connection, if the server
// identifies the version: by a strong entity tag (RFC 9110, 8.8.3), or by the
// digest that registries announce.
func (t *Transport) continued(resp *http.Response, req *http.Request, w way) {
	if req.Method != http.MethodGet && req.Method != "" || resp.StatusCode != http.StatusOK || resp.Uncompressed ||
		req.Header.Get("Range") != "" || versionOf(resp) == "" || resp.ContentLength == 0 {
		return
	}
	resp.Body = &continuedBody{ReadCloser: resp.Body, t: t, req: req, way: w, version: versionOf(resp), total: resp.ContentLength}
}

// versionOf identifies the content that a server sent, "" if unknown.
func versionOf(resp *http.Response) string {
	if tag := resp.Header.Get("ETag"); strings.HasPrefix(tag, `"`) {
		return tag
	}
	return resp.Header.Get("Docker-Content-Digest")
}

// continuedBody requests the rest when a body breaks off. A caller that needs
// the right bytes must hash them, as always.
type continuedBody struct {
	io.ReadCloser
	t       *Transport
	req     *http.Request
	way     way
	version string
	total   int64 // -1 if unknown
	offset  int64
	broken  error // error of the last read, returned after its bytes
	times   int
}

// Read implements [io.Reader].
func (b *continuedBody) Read(p []byte) (int, error) {
	for {
		if b.broken != nil && !b.resume() {
			return 0, b.broken
		}
		n, err := b.ReadCloser.Read(p)
		b.offset += int64(n)
		if err == nil || err == io.EOF {
			return n, err
		}
		b.broken = err
		if n > 0 {
			return n, nil
		}
	}
}

// resume replaces a body that broke off by one that begins at the same offset.
func (b *continuedBody) resume() bool {
	if _, is := errors.AsType[*EndlessError](b.broken); b.times >= continuations || b.req.Context().Err() != nil || !transient(b.broken) && !is {
		return false
	}
	b.times++
	if Sleep(b.req.Context(), b.t.pause(b.times, 0, false)) != nil {
		return false
	}
	rest, err := b.rest()
	if err != nil {
		return false // the first error is reported
	}
	_ = b.Close() // broken already
	b.ReadCloser, b.broken = rest, nil
	return true
}

// rest requests the bytes from the offset on, of the same version.
func (b *continuedBody) rest() (io.ReadCloser, error) {
	w := b.way
	w.header = w.header.Clone()
	w.header.Set("Range", fmt.Sprintf("bytes=%d-", b.offset))
	if b.total >= 0 {
		w.header.Set("Range", fmt.Sprintf("bytes=%d-%d", b.offset, b.total-1))
	}
	if strings.HasPrefix(b.version, `"`) {
		w.header.Set("If-Range", b.version)
	}
	resp, err := b.t.exchange(b.req, w, false)
	if err == nil && resp.StatusCode == http.StatusRequestedRangeNotSatisfiable {
		discard(resp) // some servers require the end of a range
		w.header = b.way.header
		resp, err = b.t.exchange(b.req, w, false)
	}
	if err != nil {
		return nil, err
	}
	skip := int64(0)
	switch {
	case versionOf(resp) != b.version || resp.Uncompressed:
		err = fmt.Errorf("continuing response: the content changed meanwhile")
	case resp.StatusCode == http.StatusOK: // the whole body again
		skip = b.offset
	case resp.StatusCode != http.StatusPartialContent || !strings.HasPrefix(resp.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", b.offset)):
		err = fmt.Errorf("continuing response: the server answered %s", resp.Status)
	}
	if err == nil {
		_, err = io.CopyN(io.Discard, resp.Body, skip)
	}
	if err != nil {
		_ = resp.Body.Close()
		return nil, err
	}
	return resp.Body, nil
}
