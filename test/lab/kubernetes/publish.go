package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
	"github.com/waybill-release/waybill/test/lab"
)

// prefix is where in the lab's bucket and registry the release lies.
const prefix = "release/kubernetes"

// Publish publishes the release in the lab's bucket and registry.
func (r *Release) Publish(ctx context.Context, l *lab.Lab) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for name, body := range r.Files {
		group.Go(func() error { return put(ctx, l.Bucket+"/"+prefix+"/"+r.Version.String()+"/"+name, body) })
	}
	images, err := registry.OpenRemote(l.Registry+"/"+prefix, http.DefaultTransport)
	if err != nil {
		return err
	}
	for _, i := range slices.Concat(r.Images, r.Artifacts) {
		group.Go(func() error { return i.Push(ctx, images) })
	}
	return group.Wait()
}

func put(ctx context.Context, url string, body []byte) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPut, url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return err
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("putting %s: %s", url, resp.Status)
	}
	return nil
}

// WriteProfile writes a profile of the release as it lies in the lab, with the
// policy that is shipped for Kubernetes, changed in who vouches for the
// accounts, in that a lab's keys do, and in that the list of known defects,
// which nobody signed, need not count.
func WriteProfile(l *lab.Lab, dir string) error {
	shipped, err := policies.Read("kubernetes-today")
	if err != nil {
		return err
	}
	defects, err := policies.Read("kubernetes-known-defects")
	if err != nil {
		return err
	}
	policy := strings.NewReplacer("https://accounts.google.com", l.Issuer, `trustRoot: {lab: "off"}`, "trustRoot: {lab: warn}", "defects: {atLeast: 1}\n", "").Replace(string(shipped))
	profile := fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: kubernetes-in-a-lab
policy: policy.yaml
trustedRoot: trusted_root.json
knownDefects: known-defects.yaml
places:
  files: {canonical: "https://dl.k8s.io/release/{version}/", release: "%s/%s/{version}/"}
  images: {canonical: registry.k8s.io, release: "%s/%s"}
unsealed: {layout: kubernetes, log: %q}
`, strings.Replace(l.Bucket, "http://", "gs+http://", 1), prefix, l.Registry, prefix, l.RekorV1)
	for name, body := range map[string]string{
		"policy.yaml": policy, "profile.yaml": profile, "trusted_root.json": string(l.TrustedRoot), "known-defects.yaml": string(defects),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(body), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// Place is the files of a release as a place in memory.
type Place struct {
	Files map[string][]byte
	// Unlistable is a place that answers for names only, as a web server does.
	Unlistable bool
	// Down is an object for which the place gives no answer.
	Down string
}

// URI implements [store.Place].
func (p Place) URI() string { return "memory://release/" }

// List implements [store.Place].
func (p Place) List(context.Context) ([]store.Object, error) {
	if p.Unlistable {
		return nil, store.ErrNotListable
	}
	r := Release{Files: p.Files}
	var all []store.Object
	for _, name := range r.Names() {
		all = append(all, store.Object{Name: name, Size: int64(len(p.Files[name]))})
	}
	return all, nil
}

// Open implements [store.Place].
func (p Place) Open(_ context.Context, name string) (io.ReadCloser, int64, error) {
	if name == p.Down {
		return nil, 0, &verdict.UnavailableError{Place: p.URI(), Op: "opening " + name, Err: io.ErrUnexpectedEOF}
	}
	body, there := p.Files[name]
	if !there {
		return nil, 0, store.ErrNotFound
	}
	return io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
}
