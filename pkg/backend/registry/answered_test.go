package registry

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	ggcr "github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestActsOfAnswers: an answer that no repetition changes says what to do about
// it; the twin, an overloaded registry, does not.
func TestActsOfAnswers(t *testing.T) {
	for status, act := range map[int]string{
		http.StatusUnauthorized: "docker login", http.StatusForbidden: "docker login",
		http.StatusRequestEntityTooLarge: "client_max_body_size", http.StatusMethodNotAllowed: "read-only",
		http.StatusConflict: "",
	} {
		r := serve(t, func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if req.Method == http.MethodGet && strings.HasSuffix(req.URL.Path, "/v2/") {
					next.ServeHTTP(w, req)
					return
				}
				w.WriteHeader(status)
			})
		})
		_, read := r.Resolve(t.Context(), "demo", "v1")
		_, listed := r.Tags(t.Context(), "demo")
		for _, err := range []error{read, listed} {
			var knows interface{ NextAct() string }
			switch said := errors.As(err, &knows); {
			case said != (act != ""), said && !strings.Contains(knows.NextAct(), act):
				t.Errorf("%d: %v, want %q", status, err, act)
			case !errors.As(err, new(*ggcr.Error)):
				t.Errorf("%d: %v does not have the registry's answer", status, err)
			case verdict.FindingOf("demo", err).Code.Outcome() != verdict.Unavailable:
				t.Errorf("%d: %v is not unavailability", status, err)
			}
		}
	}
}

// TestUploadAgain: an upload is repeated if it broke or the registry was busy, and
// not if the caller stopped it, its time is over, or the registry refused it.
func TestUploadAgain(t *testing.T) {
	for _, row := range []struct {
		err   error
		again bool
	}{
		{nil, false}, {io.ErrUnexpectedEOF, true}, {context.Canceled, false}, {context.DeadlineExceeded, false},
		{&ggcr.Error{StatusCode: http.StatusServiceUnavailable}, true}, {&ggcr.Error{StatusCode: http.StatusForbidden}, false},
	} {
		err := row.err
		if err != nil {
			err = fmt.Errorf("uploading: %w", err)
		}
		if got := uploadAgain(err); got != row.again {
			t.Errorf("%v: %t", err, got)
		}
	}
}

// TestTagInARepositoryOfNoName: the refusal is about the repository.
func TestTagInARepositoryOfNoName(t *testing.T) {
	r := serve(t, nil)
	raw := []byte(`{"schemaVersion":2,"mediaType":"` + MediaTypeIndex + `","manifests":[]}`)
	for repo, want := range map[string]string{"Demo": "USAGE", "demo": ""} {
		err := r.TagManifest(t.Context(), repo, "v1", blobOf(MediaTypeIndex, raw).Descriptor, raw)
		if code(err) != want || want != "" && !strings.Contains(err.Error(), "naming repository") {
			t.Errorf("%s: %v", repo, err)
		}
	}
}

// TestNamesThatAreNoTags: what cannot be a tag is wrong use, and a tag that is not there is not found.
func TestNamesThatAreNoTags(t *testing.T) {
	r := serve(t, nil)
	for tag, wrong := range map[string]bool{"no tag": true, strings.Repeat("v", 129): true, "v1": false} {
		_, err := r.Resolve(t.Context(), "demo", tag)
		if usage := verdict.FindingOf("demo", err).Code == verdict.Usage; usage != wrong || !wrong && !errors.Is(err, ErrNotFound) {
			t.Errorf("%s: %v", tag, err)
		}
	}
}
