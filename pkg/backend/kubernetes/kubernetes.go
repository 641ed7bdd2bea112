// Package kubernetes reads and writes objects of a Kubernetes API server.
//
//	at, err := kubernetes.Open("kubernetes://waybill", rt)
//
// A [Place] is one namespace, and there three things: named objects as ConfigMaps
// (a place of package store), the leases of package lease as Leases of
// coordination.k8s.io/v1, and custom resources ([Place.Do]) for package
// featurestore.
//
// Server and credentials are those of the pod's service account or, where
// KUBECONFIG is set, of that file: one cluster, and one user with a token, a file
// with a token or a client certificate, as kubectl config view --raw --flatten
// --minify prints it. Plugins that make a credential are not run. Requests go
// through the one transport of the program.
//
// It is written by hand because client-go has a transport, retries, rate limits
// and a logger of its own, and the requests made here are four.
//
// Other projects should not import this package: it changes without notice.
package kubernetes

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"
	maxFile        = 1 << 20
	maxAnswer      = 64 << 20
)

// Place is a namespace of a cluster, and the part of it that an address names.
// It is safe for concurrent use.
type Place struct {
	server, namespace, part string
	http                    *http.Client
	token                   func() ([]byte, error) // read for each request, because it is renewed

	mu   sync.Mutex // guards seen
	seen map[string]sighting
}

// addresses matches kubernetes://NAMESPACE and kubernetes://NAMESPACE/PART.
var addresses = pattern.Lazy(`\Akubernetes://([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)(?:/([a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?))?/?\z`)

// Is reports whether an address is that of a namespace.
func Is(uri string) bool { return strings.HasPrefix(uri, "kubernetes://") }

// Open returns the namespace at kubernetes://NAMESPACE, or a part of it at
// kubernetes://NAMESPACE/PART. Nothing is requested yet.
func Open(uri string, rt http.RoundTripper) (*Place, error) {
	name := addresses().FindStringSubmatch(uri)
	ours, is := rt.(*transport.Transport)
	if name == nil || !is {
		return nil, &verdict.UsageError{Err: fmt.Errorf("opening place %q: want kubernetes://NAMESPACE or kubernetes://NAMESPACE/PART, and a transport", uri)}
	}
	p := &Place{namespace: name[1], part: name[2], seen: map[string]sighting{}}
	authority, pair, err := p.configure()
	roots := x509.NewCertPool()
	if err == nil && !roots.AppendCertsFromPEM(authority) {
		err = errors.New("it has no certificate of the cluster's authority")
	}
	if err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, uri, fmt.Errorf("the access to the cluster: %w", err)).
			Advise("run in a pod with a service account, or set KUBECONFIG to a file with one cluster, its authority, and one user with a token or a client certificate")
	}
	p.http = transport.Client(ours.For(roots, pair))
	return p, nil
}

// configure finds the API server and the credentials.
func (p *Place) configure() (authority []byte, pair *tls.Certificate, err error) {
	if file := os.Getenv("KUBECONFIG"); file != "" {
		return p.readConfig(file)
	}
	host, port := os.Getenv("KUBERNETES_SERVICE_HOST"), os.Getenv("KUBERNETES_SERVICE_PORT")
	if host == "" || port == "" {
		return nil, nil, errors.New("KUBECONFIG is not set, and this is not a pod of a cluster")
	}
	p.server = "https://" + net.JoinHostPort(host, port)
	p.token = func() ([]byte, error) { return store.ReadNamed(serviceAccount+"token", maxFile) }
	authority, err = store.ReadNamed(serviceAccount+"ca.crt", maxFile)
	return authority, nil, err
}

// readConfig reads a kubeconfig with one cluster and one user.
func (p *Place) readConfig(file string) (authority []byte, pair *tls.Certificate, err error) {
	raw, err := store.ReadNamed(file, maxFile)
	if err != nil {
		return nil, nil, err
	}
	var tree any
	var c struct {
		Clusters []struct {
			Cluster struct {
				Server    string `json:"server"`
				Authority []byte `json:"certificate-authority-data"`
			} `json:"cluster"`
		} `json:"clusters"`
		Users []struct {
			User struct {
				Token       string `json:"token"`
				TokenFile   string `json:"tokenFile"`
				Certificate []byte `json:"client-certificate-data"`
				Key         []byte `json:"client-key-data"`
			} `json:"user"`
		} `json:"users"`
	}
	if err = yaml.Unmarshal(raw, &tree); err == nil {
		if raw, err = json.Marshal(tree); err == nil { // JSON reads base64
			err = strictjson.UnmarshalOpen(raw, &c)
		}
	}
	if err != nil {
		return nil, nil, fmt.Errorf("reading %q: %w", file, err)
	}
	if len(c.Clusters) != 1 || len(c.Users) != 1 || !strings.HasPrefix(c.Clusters[0].Cluster.Server, "https://") {
		return nil, nil, fmt.Errorf("reading %q: %d clusters and %d users, want one of each, and an https address", file, len(c.Clusters), len(c.Users))
	}
	user := c.Users[0].User
	p.server = strings.TrimSuffix(c.Clusters[0].Cluster.Server, "/")
	p.token = func() ([]byte, error) { return []byte(user.Token), nil }
	if user.TokenFile != "" {
		p.token = func() ([]byte, error) { return store.ReadNamed(user.TokenFile, maxFile) }
	}
	if len(user.Certificate) > 0 {
		both, err := tls.X509KeyPair(user.Certificate, user.Key)
		return c.Clusters[0].Cluster.Authority, &both, err
	}
	return c.Clusters[0].Cluster.Authority, nil, nil
}

// URI returns the address.
func (p *Place) URI() string {
	return strings.TrimSuffix("kubernetes://"+p.namespace+"/"+p.part, "/")
}

// At is the path of a resource in the namespace, such as "leases/NAME" of the API
// "apis/coordination.k8s.io/v1".
func (p *Place) At(api, resource string) string {
	return api + "/namespaces/" + p.namespace + "/" + resource
}

// Do sends a request. An object that is not there is [store.ErrNotFound], a write
// of one that exists [store.ErrExists], and one of another version
// [store.ErrChanged]. An object that the server refuses is refused with what it
// says.
func (p *Place) Do(ctx context.Context, method, path string, body, into any) error {
	op := strings.ToLower(method) + " " + path
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, p.server+"/"+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if body == nil {
		req.Body, req.GetBody, req.ContentLength = nil, nil, 0
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	token, err := p.token()
	if err != nil {
		return &verdict.UnavailableError{Place: p.URI(), Op: op, Err: err}
	}
	if len(token) > 0 {
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	}
	resp, err := p.http.Do(req)
	if err != nil {
		return &verdict.UnavailableError{Place: p.URI(), Op: op, Err: err}
	}
	defer resp.Body.Close()
	raw, err = io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err == nil && len(raw) > maxAnswer:
		err = fmt.Errorf("the answer exceeds %d bytes", maxAnswer)
	case err == nil && resp.StatusCode < http.StatusMultipleChoices:
		err = strictjson.UnmarshalOpen(raw, into)
	case err == nil:
		return p.refused(op, resp.StatusCode, raw)
	}
	if err != nil {
		err = &verdict.UnavailableError{Place: p.URI(), Op: op, Err: err}
	}
	return err
}

// refused is the error for an answer that is not a success.
func (p *Place) refused(op string, status int, raw []byte) error {
	var told struct {
		Message, Reason string
		Details         struct{ Name string }
	}
	_ = json.Unmarshal(raw, &told) // an answer without a text has a status
	at := fmt.Sprintf("%s at %q", op, p.URI())
	switch {
	case status == http.StatusNotFound && told.Details.Name != "": // otherwise the server does not know the resource
		return fmt.Errorf("%s: %.300q: %w", at, told.Message, store.ErrNotFound)
	case told.Reason == "AlreadyExists":
		return fmt.Errorf("%s: %w", at, store.ErrExists)
	case status == http.StatusConflict:
		return fmt.Errorf("%s: %w", at, store.ErrChanged)
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return verdict.Refuse("CREDENTIAL_REFUSED", at, "the API server answered %d: %.500q", status, told.Message).
			Advise("give the account the role of the deploy files in that namespace; nothing was decided")
	case status == http.StatusNotFound || status == http.StatusBadRequest || status == http.StatusUnprocessableEntity:
		return verdict.Refuse(verdict.ConfigParse, at, "the API server answered %d: %.1000q", status, told.Message).
			Advise("install the resource definition of this version of Waybill")
	}
	return &verdict.UnavailableError{Place: p.URI(), Op: op, Err: fmt.Errorf("the API server answered %d: %.500q", status, told.Message)}
}

// Meta is the metadata of an object that is read and written here.
type Meta struct {
	Name            string            `json:"name,omitempty"`
	ResourceVersion string            `json:"resourceVersion,omitempty"`
	Generation      int               `json:"generation,omitempty"`
	Labels          map[string]string `json:"labels,omitempty"`
	Annotations     map[string]string `json:"annotations,omitempty"`
	Continue        string            `json:"continue,omitempty"` // of a list
}

// pageSize is how many objects one answer has.
const pageSize = 100

// All lists the objects of a resource, page by page; query selects some.
func All[T any](ctx context.Context, p *Place, api, resource, query string) (all []T, err error) {
	for more := ""; ; {
		var page struct {
			Metadata Meta `json:"metadata"`
			Items    []T  `json:"items"`
		}
		err := p.Do(ctx, http.MethodGet, fmt.Sprintf("%s?limit=%d&continue=%s&%s", p.At(api, resource), pageSize, url.QueryEscape(more), query), nil, &page)
		if err != nil {
			return nil, err
		}
		if all, more = append(all, page.Items...), page.Metadata.Continue; more == "" {
			return all, nil
		}
	}
}

// sighting is when this process first saw a version of an object, by its own
// clock.
type sighting struct {
	version string
	at      time.Time
}
