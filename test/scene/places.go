package scene

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/test/lab"
)

// Places are where a release is staged and published.
type Places struct {
	// Files is the address of a place that holds staging/ and release/.
	Files string
	// Images is a registry, with a path if its repositories lie below one.
	Images string
	// Objects changes what lies at Files, past Waybill.
	Objects Objects
	// Untag removes a tag of a repository below Images.
	Untag func(ctx context.Context, repository, tag string) error
	// Transport reaches Images for attacks, with credentials if it demands any;
	// [http.DefaultTransport] if it is nil.
	Transport http.RoundTripper
}

// Copy is a second scene with what was made so far in this one, in an empty
// directory, and with other places. It uses the same lab and repository, so it
// ends with this scene. This one must have no build service.
func (s *Scene) Copy(dir string, elsewhere func(*Scene)) (*Scene, error) {
	c := &Scene{Options: s.Options, Lab: s.Lab, Places: labPlaces(s.Lab), Env: slices.Clone(s.Env), first: s}
	if c.Dir = dir; elsewhere != nil {
		elsewhere(c)
	}
	all, err := os.ReadDir(s.Dir)
	if err != nil {
		return nil, err
	}
	for _, e := range all {
		if slices.Contains([]string{"lab", "lantern", "profile.yaml"}, e.Name()) {
			continue
		}
		copied := exec.Command("cp", "-a", s.Path(e.Name()), dir)
		if out, err := copied.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("%s: %w: %s", copied, err, out)
		}
	}
	return c, c.writeProfile(context.Background())
}

// Objects are the files of a place as its owner, or a thief, gets at them.
type Objects interface {
	Get(ctx context.Context, name string) ([]byte, error)
	Put(ctx context.Context, name string, body []byte) error
	Remove(ctx context.Context, name string) error
}

// labPlaces are the bucket and the registry of a lab.
func labPlaces(l *lab.Lab) Places {
	return Places{
		Files: strings.Replace(l.Bucket, "http://", "gs+http://", 1), Images: l.Registry,
		Objects: Web{URL: l.Bucket + "/"}, Untag: Untagger("http://"+l.Registry, nil),
	}
}

// Untagger removes tags as the registry at a URL documents it.
func Untagger(registry string, header http.Header) func(ctx context.Context, repository, tag string) error {
	return func(ctx context.Context, repository, tag string) error {
		_, err := Web{URL: registry + "/v2/", Header: header}.ask(ctx, http.MethodDelete, repository+"/manifests/"+tag, nil)
		return err
	}
}

// Web are objects below a URL, changed by PUT and DELETE.
type Web struct {
	URL    string // ends with a slash
	Header http.Header
}

// Get reads an object.
func (w Web) Get(ctx context.Context, name string) ([]byte, error) {
	return w.ask(ctx, http.MethodGet, name, nil)
}

// Put writes an object.
func (w Web) Put(ctx context.Context, name string, body []byte) error {
	_, err := w.ask(ctx, http.MethodPut, name, body)
	return err
}

// Remove removes an object.
func (w Web) Remove(ctx context.Context, name string) error {
	_, err := w.ask(ctx, http.MethodDelete, name, nil)
	return err
}

func (w Web) ask(ctx context.Context, method, name string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, w.URL+name, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if w.Header != nil {
		request.Header = w.Header.Clone()
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, err
	}
	if response.StatusCode >= 300 {
		return nil, fmt.Errorf("%s %s: %s: %.200s", method, w.URL+name, response.Status, answer)
	}
	return answer, nil
}
