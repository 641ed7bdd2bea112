package cluster

import (
	"bytes"
	"context"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// patience is how long a test waits for the control plane. It is no measure of
// anything: a machine under load may need most of it.
const patience = 20 * time.Minute

// Await waits for a condition, and fails the test if it does not come about.
func (c *Cluster) Await(t testing.TB, what string, is func() bool) {
	t.Helper()
	for until := time.Now().Add(patience); !is(); time.Sleep(50 * time.Millisecond) {
		if t.Context().Err() != nil || time.Now().After(until) {
			t.Fatalf("waited %s in vain for %s", patience, what)
		}
	}
}

func clientOf(ca []byte) *http.Client {
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca)
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, ForceAttemptHTTP2: true, MaxIdleConnsPerHost: 16}}
}

// keyID is what the API server calls a key.
func keyID(t testing.TB, key *rsa.PublicKey) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// StatusError is an answer of the API server that is no success.
type StatusError struct {
	metav1.Status
	Warnings []string
}

// Error returns the message of the API server.
func (e *StatusError) Error() string {
	return fmt.Sprintf("%d %s: %s", e.Code, e.Reason, e.Message)
}

// IsStatus reports whether an error is an answer with a status code.
func IsStatus(err error, code int) bool {
	var e *StatusError
	return errors.As(err, &e) && int(e.Code) == code
}

// Do sends an object, if there is one, and reads the answer into out, if that is
// not nil. A patch is a strategic merge patch.
func (c *Cluster) Do(ctx context.Context, method, path string, in, out any) error {
	kind := "application/json"
	if method == http.MethodPatch {
		kind = "application/strategic-merge-patch+json"
	}
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	raw, _, err := c.send(ctx, method, path, kind, body)
	if err != nil || out == nil {
		return err
	}
	return json.Unmarshal(raw, out)
}

func (c *Cluster) send(ctx context.Context, method, path, kind string, body []byte) (raw []byte, warnings []string, err error) {
	answer, err := c.open(ctx, method, path, kind, body)
	if err != nil {
		return nil, nil, err
	}
	defer answer.Body.Close()
	raw, err = io.ReadAll(answer.Body)
	for _, w := range answer.Header.Values("Warning") {
		warnings = append(warnings, strings.TrimPrefix(w, "299 - "))
	}
	if err == nil && answer.StatusCode >= 300 {
		failed := &StatusError{Warnings: warnings}
		if json.Unmarshal(raw, &failed.Status) != nil {
			failed.Message = string(raw)
		}
		failed.Code = int32(answer.StatusCode)
		return nil, nil, failed
	}
	return raw, warnings, err
}

func (c *Cluster) open(ctx context.Context, method, path, kind string, body []byte) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, method, c.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", kind)
	return c.client.Do(request)
}

// Event is a change of an object.
type Event struct {
	Type   string // ADDED, MODIFIED, DELETED, ERROR
	Object json.RawMessage
}

// Watch yields what a collection contains, and then its changes, until the
// context ends, the connection does, or the loop is left.
func (c *Cluster) Watch(ctx context.Context, path string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		with := "?"
		if strings.Contains(path, "?") {
			with = "&"
		}
		answer, err := c.open(ctx, http.MethodGet, path+with+"watch=1", "application/json", nil)
		if err == nil && answer.StatusCode != http.StatusOK {
			err = errors.Join(fmt.Errorf("watching %s: %s", path, answer.Status), answer.Body.Close())
		}
		if err != nil {
			yield(Event{}, err)
			return
		}
		defer answer.Body.Close()
		for from := json.NewDecoder(answer.Body); ; {
			var e Event
			if err := from.Decode(&e); err != nil {
				if !errors.Is(err, io.EOF) && ctx.Err() == nil {
					yield(Event{}, err)
				}
				return
			}
			if !yield(e, nil) {
				return
			}
		}
	}
}

// Apply applies the objects of a manifest, as kubectl apply --server-side
// --validate=strict does: an unknown or repeated field fails the test.
func (c *Cluster) Apply(t testing.TB, manifest string) {
	t.Helper()
	for object := range Documents(manifest) {
		if _, err := c.ApplyOne(t.Context(), object, false); err != nil {
			t.Fatalf("applying %.80q…: %v", object, err)
		}
	}
}

// Documents are the documents of a YAML stream, without empty ones.
func Documents(manifest string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for document := range strings.SplitSeq("\n"+manifest, "\n---\n") {
			var content any
			if yaml.Unmarshal([]byte(document), &content) == nil && content == nil {
				continue // comments only
			}
			if !yield(document) {
				return
			}
		}
	}
}

// ApplyOne applies one object, strictly, or only asks whether it could be
// applied. It returns the warnings of the API server.
func (c *Cluster) ApplyOne(ctx context.Context, object string, dry bool) ([]string, error) {
	var head struct {
		metav1.TypeMeta
		Metadata struct{ Name, Namespace string }
	}
	if err := yaml.Unmarshal([]byte(object), &head); err != nil {
		return nil, err
	}
	path, err := c.collection(ctx, head.APIVersion, head.Kind, head.Metadata.Namespace)
	if err != nil {
		return nil, err
	}
	query := url.Values{"fieldManager": {"lab"}, "fieldValidation": {"Strict"}, "force": {"true"}}
	if dry {
		query.Set("dryRun", "All")
	}
	_, warnings, err := c.send(ctx, http.MethodPatch, path+"/"+head.Metadata.Name+"?"+query.Encode(), "application/apply-patch+yaml", []byte(object))
	return warnings, err
}

// collection is the path of a kind's objects, as the API server's discovery has it.
func (c *Cluster) collection(ctx context.Context, version, kind, namespace string) (string, error) {
	base := "/apis/" + version
	if !strings.Contains(version, "/") {
		base = "/api/" + version
	}
	var known metav1.APIResourceList
	if err := c.Do(ctx, http.MethodGet, base, nil, &known); err != nil {
		return "", fmt.Errorf("%s %s: %w", version, kind, err)
	}
	for _, r := range known.APIResources {
		if r.Kind != kind || strings.Contains(r.Name, "/") {
			continue
		}
		if !r.Namespaced {
			return base + "/" + r.Name, nil
		}
		if namespace == "" {
			namespace = metav1.NamespaceDefault
		}
		return base + "/namespaces/" + namespace + "/" + r.Name, nil
	}
	return "", fmt.Errorf("the API server knows no %s of %s", kind, version)
}
