package attacks

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab/cluster"
)

// slow is a registry that can be made to stall.
type slow struct{ stalls *atomic.Bool }

func (s slow) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.stalls.Load() {
		return stalled{}.RoundTrip(r)
	}
	return http.DefaultTransport.RoundTrip(r)
}

// apiServer is a real API server whose webhooks are a gate, by the deploy files.
type apiServer struct {
	*cluster.Cluster
	*gatehouse
	ca     *authority
	stalls atomic.Bool
}

// deploy is a shipped file with the gate's address and authority.
func (a *apiServer) deploy(name string, ca *authority) string {
	a.t.Helper()
	text := string(must[[]byte](a.t)(os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", name))))
	bundle := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw}))
	text = strings.ReplaceAll(text, `caBundle: ""`, "caBundle: "+bundle)
	text = strings.ReplaceAll(text, "failurePolicy: Ignore", "failurePolicy: Fail") // to see why it fails
	return regexp.MustCompile(`service: \{.*path: ([a-z0-9/]+),.*\}`).ReplaceAllString(text, "url: https://"+a.host+"$1")
}

func startAPIServer(t *testing.T) *apiServer {
	t.Helper()
	a := &apiServer{Cluster: cluster.StartServer(t), ca: newAuthority(t)}
	certificate, key := a.ca.write(t.TempDir(), "gate", a.ca.issue())
	a.gatehouse = openGatehouse(t, func(g *gatehouse) {
		g.cluster, g.tls = clusterRules(g.w.Lab.Registry, "deny"), &serve.TLS{Certificate: certificate, Key: key}
		g.open = func(string) (*registry.Remote, error) { return registry.OpenRemote(g.w.Lab.Registry, slow{&a.stalls}) }
	})
	for _, name := range []string{"prod", "trial-1", "other"} {
		if err := a.Do(t.Context(), http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]string{"name": name}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"prod", "trial-1", "other"} { // no controller makes them
		if err := a.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/"+name+"/serviceaccounts", map[string]any{"metadata": map[string]string{"name": "default"}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	a.Apply(t, a.deploy("admission.yaml", a.ca))
	a.Await(t, "the webhooks", func() bool {
		return a.create("", "prod", "pods", podOf("probe", "busybox"), "?dryRun=All") != nil
	})
	return a
}

func podOf(name, image string) string {
	return fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"containers":[{"name":"a","image":%q}]}}`, name, image)
}

// create creates an object; group is such as "apps", "" the core.
func (a *apiServer) create(group, namespace, resource, object, query string) error {
	return a.Do(a.t.Context(), http.MethodPost, path(group, namespace, resource)+query, raw(object), nil)
}

func path(group, namespace, resource string) string {
	if group == "" {
		return "/api/v1/namespaces/" + namespace + "/" + resource
	}
	return "/apis/" + group + "/v1/namespaces/" + namespace + "/" + resource
}

// raw is JSON as it is.
type raw string

// MarshalJSON implements json.Marshaler.
func (r raw) MarshalJSON() ([]byte, error) { return []byte(r), nil }

// TestLongAPIServer attacks the gate as the webhook of a real API server; the suite
// of test/cluster runs it.
func TestLongAPIServer(t *testing.T) {
	a := startAPIServer(t)
	good := a.image
	name, sum, _ := strings.Cut(good, "@")
	bad := name + "@" + digest.Of(digest.SHA256, []byte("another")).String()
	template := func(image string) string {
		return fmt.Sprintf(`"template":{"metadata":{"labels":{"a":"b"}},"spec":{"restartPolicy":"%%s","containers":[{"name":"a","image":%q}]}}`, image)
	}
	deployment := func(image string) string {
		return fmt.Sprintf(`{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},`+template(image)+`}}`, "Always")
	}
	job := func(image string) string {
		return fmt.Sprintf(`{"metadata":{"name":"j"},"spec":{`+template(image)+`}}`, "Never")
	}
	cron := func(image string) string {
		return fmt.Sprintf(`{"metadata":{"name":"c"},"spec":{"schedule":"* * * * *","jobTemplate":{"spec":{`+template(image)+`}}}}`, "Never")
	}
	more := func(more string) string {
		return fmt.Sprintf(`{"metadata":{"name":"more"},"spec":{"containers":[{"name":"a","image":%q}],%s}}`, good, more)
	}
	for what, row := range map[string]struct{ group, resource, object, want string }{
		"accepted":            {"", "pods", podOf("good", good), ""},
		"a tag":               {"", "pods", podOf("p", name+":v1"), "IMAGE_TAG"},
		"unproven":            {"", "pods", podOf("p", bad), "MISSING"},
		"another registry":    {"", "pods", podOf("p", "other.example.test/a@"+sum), "NOT_GRANTED"},
		"an init container":   {"", "pods", more(fmt.Sprintf(`"initContainers":[{"name":"b","image":%q}]`, bad)), "MISSING"},
		"a volume":            {"", "pods", more(fmt.Sprintf(`"volumes":[{"name":"v","image":{"reference":%q}}]`, bad)), "MISSING"},
		"a volume, accepted":  {"", "pods", more(fmt.Sprintf(`"volumes":[{"name":"v","image":{"reference":%q}}]`, good)), ""},
		"a Deployment":        {"apps", "deployments", deployment(bad), "MISSING"},
		"a good Deployment":   {"apps", "deployments", deployment(good), ""},
		"a Job":               {"batch", "jobs", job(bad), "MISSING"},
		"a CronJob":           {"batch", "cronjobs", cron(bad), "MISSING"},
		"an accepted CronJob": {"batch", "cronjobs", cron(good), ""},
		"a ConfigMap":         {"", "configmaps", `{"metadata":{"name":"x"}}`, ""},
	} {
		for _, query := range []string{"?dryRun=All", ""} {
			if err := a.create(row.group, "prod", row.resource, row.object, query); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
				t.Errorf("%s %s: %v, want %q", what, query, err, row.want)
			}
		}
	}
	change := func(path, patch string) error { return a.Do(t.Context(), http.MethodPatch, path, raw(patch), nil) }
	one := path("", "prod", "pods/good")
	for what, row := range map[string]struct{ path, patch, want string }{
		"an update of a pod's image":       {one, fmt.Sprintf(`{"spec":{"containers":[{"name":"a","image":%q}]}}`, bad), "MISSING"},
		"a label":                          {one, `{"metadata":{"labels":{"x":"y"}}}`, ""},
		"an ephemeral container":           {one + "/ephemeralcontainers", fmt.Sprintf(`{"spec":{"ephemeralContainers":[{"name":"debug","image":%q}]}}`, bad), "MISSING"},
		"an accepted ephemeral container":  {one + "/ephemeralcontainers", fmt.Sprintf(`{"spec":{"ephemeralContainers":[{"name":"tool","image":%q}]}}`, good), ""},
		"an update of a template's image":  {path("apps", "prod", "deployments/d"), fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"a","image":%q}]}}}}`, bad), "MISSING"},
		"the number of replicas":           {path("apps", "prod", "deployments/d"), `{"spec":{"replicas":3}}`, ""},
		"a CronJob's template":             {path("batch", "prod", "cronjobs/c"), fmt.Sprintf(`{"spec":{"jobTemplate":{"spec":{"template":{"spec":{"containers":[{"name":"a","image":%q}]}}}}}}`, bad), "MISSING"},
		"an object larger than the gate's": {path("apps", "prod", "deployments/d"), fmt.Sprintf(`{"metadata":{"labels":{"x":"z"}},"spec":{"template":{"spec":{"containers":[{"name":"a","args":[%q]}]}}}}`, strings.Repeat("x", 1100<<10)), "failed calling webhook"},
	} {
		if err := change(row.path, row.patch); (err == nil) != (row.want == "") || err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: %.500v, want %q", what, err, row.want)
		}
	}
	if err := a.create("", "trial-1", "pods", podOf("p", bad), ""); err != nil {
		t.Errorf("a trial: %v", err)
	}
	if err := a.create("", "other", "pods", podOf("p", good), ""); !cluster.IsStatus(err, http.StatusForbidden) {
		t.Errorf("a namespace of no rule: %v", err)
	}
	a.traced(t, good, job(good))
	a.warm(t, good)
	fresh := name + "@" + digest.Of(digest.SHA256, []byte("fresh")).String()
	a.stalls.Store(true)
	began := time.Now()
	if err := a.create("", "prod", "pods", podOf("stalled", fresh), ""); !cluster.IsStatus(err, http.StatusServiceUnavailable) || !strings.Contains(err.Error(), "images.waybill.dev") {
		t.Errorf("a registry that stalls: %v", err)
	}
	t.Logf("a registry that stalls is answered after %s, of the webhook's 10 s", time.Since(began))
	a.policies(t, good)
}

// traced: the initial trace id is stamped on Jobs and their pods, and written once.
func (a *apiServer) traced(t *testing.T, good, job string) {
	type object struct {
		Metadata struct{ Annotations map[string]string }
		Spec     struct {
			Template struct {
				Metadata struct{ Annotations map[string]string }
			}
		}
	}
	const initial = "dev.waybill.initial-trace-id"
	read := func(path string) (o object) {
		t.Helper()
		if err := a.Do(t.Context(), http.MethodGet, path, nil, &o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	if err := a.create("batch", "prod", "jobs", job, ""); err != nil {
		t.Fatal(err)
	}
	made := read(path("batch", "prod", "jobs/j"))
	id := made.Metadata.Annotations[initial]
	if len(id) != 32 || made.Spec.Template.Metadata.Annotations[initial] != id {
		t.Errorf("a Job: %+v", made)
	}
	for _, patch := range []string{`{"metadata":{"annotations":{%q:"0af7651916cd43dd8448eb211c80319c"}}}`, `{"metadata":{"annotations":{%q:null}}}`} {
		if err := a.Do(t.Context(), http.MethodPatch, path("batch", "prod", "jobs/j"), raw(fmt.Sprintf(patch, initial)), nil); err != nil {
			t.Error(err)
		}
		if now := read(path("batch", "prod", "jobs/j")); now.Metadata.Annotations[initial] != id {
			t.Errorf("after %s it is %+v, want %s", patch, now.Metadata, id)
		}
	}
	pod := strings.Replace(podOf("of-j", good), `"name":"of-j"`, fmt.Sprintf(`"name":"of-j","annotations":{%q:%q}`, initial, id), 1) // as the Job's controller makes it
	if err := a.create("", "prod", "pods", pod, ""); err != nil {
		t.Fatal(err)
	}
	if of := read(path("", "prod", "pods/of-j")); of.Metadata.Annotations[initial] != id || of.Metadata.Annotations["dev.waybill.trace-id"] == id {
		t.Errorf("a pod of the Job: %+v, want %s", of, id)
	}
}

// warm measures reviews of a decided image, from the side of the API server.
func (a *apiServer) warm(t *testing.T, good string) {
	roots := x509.NewCertPool()
	roots.AddCert(a.ca.cert)
	from := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true}}
	var took []time.Duration
	for range 2000 {
		req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+a.host+"/v1/cluster/images?timeout=10s", strings.NewReader(reviewOf("Pod", "prod", podOf("p", good), ""))))
		began := time.Now()
		resp, err := from.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil || resp.Body.Close() != nil {
			t.Fatal(err)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	t.Logf("a warm review takes %s (p50), %s (p95), %s (p99) of %d", took[len(took)/2], took[len(took)*95/100], took[len(took)*99/100], len(took))
}

// policies: the ValidatingAdmissionPolicies say what they can.
func (a *apiServer) policies(t *testing.T, good string) {
	a.stalls.Store(false)
	for _, kind := range []string{"validatingwebhookconfigurations/waybill-images", "mutatingwebhookconfigurations/waybill-trace"} {
		if err := a.Do(t.Context(), http.MethodDelete, "/apis/admissionregistration.k8s.io/v1/"+kind, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	a.Apply(t, a.deploy("admission-policy.yaml", a.ca))
	allowed := "registry.example.test/prod/a@sha256:" + strings.Repeat("1", 64)
	a.Await(t, "the policy", func() bool { return a.create("", "prod", "pods", podOf("probe", "busybox"), "?dryRun=All") != nil })
	spec := func(more string) string {
		return fmt.Sprintf(`{"metadata":{"name":"vap"},"spec":{"containers":[{"name":"a","image":%q}]%s}}`, allowed, more)
	}
	for what, row := range map[string]struct {
		object string
		allows bool
	}{
		"pinned":                {spec(""), true},
		"by tag":                {podOf("vap", "registry.example.test/prod/a:v1"), false},
		"another registry":      {podOf("vap", good), false},
		"a like name":           {podOf("vap", "registry-example-test/prod/a@sha256:"+strings.Repeat("1", 64)), false},
		"an init container":     {spec(`,"initContainers":[{"name":"b","image":"busybox"}]`), false},
		"a volume":              {spec(`,"volumes":[{"name":"v","image":{"reference":"busybox"}}]`), false},
		"a volume that is none": {spec(`,"volumes":[{"name":"v","emptyDir":{}}]`), true},
		"what it cannot say: no evidence is asked": {podOf("vap", "registry.example.test/prod/never-promoted@sha256:"+strings.Repeat("2", 64)), true},
	} {
		if err := a.create("", "prod", "pods", row.object, "?dryRun=All"); (err == nil) != row.allows {
			t.Errorf("%s: %v", what, err)
		}
	}
	const initial = `{"metadata":{"annotations":{"dev.waybill.initial-trace-id":%s}}}`
	for _, value := range []string{`"0af7651916cd43dd8448eb211c80319c"`, "null"} {
		a.Await(t, "the initial trace id cannot become "+value, func() bool { // nothing says when a policy is in force
			return a.Do(t.Context(), http.MethodPatch, path("batch", "prod", "jobs/j")+"?dryRun=All", raw(fmt.Sprintf(initial, value)), nil) != nil
		})
	}
	if err := a.Do(t.Context(), http.MethodPatch, path("batch", "prod", "jobs/j"), raw(`{"metadata":{"labels":{"x":"y"}}}`), nil); err != nil {
		t.Error(err)
	}
}
