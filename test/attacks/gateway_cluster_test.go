package attacks

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// review is what an API server sends and is told.
type review struct {
	Response struct {
		UID     string
		Allowed bool
		Status  struct {
			Code    int
			Message string
		}
		Warnings []string
		Patch    []byte
	}
}

// clusterRules are of the namespaces of the tests.
func clusterRules(registry, undecided string) *serve.ClusterUse {
	from := []string{registry + "/gated/", "registry.example.test/"}
	return &serve.ClusterUse{Caller: "promoter", Undecided: undecided, Namespaces: []serve.NamespaceRule{
		{Names: []string{"kube-system"}, Mode: "off"},
		{Names: []string{"trial-*"}, Mode: "warn", Images: from},
		{Names: []string{"prod"}, Mode: "require", Images: from},
	}}
}

// reviewOf is a review about an object of a kind.
func reviewOf(kind, namespace, object, old string) string {
	group, kind := "", kind
	if g, k, is := strings.Cut(kind, "/"); is {
		group, kind = g, k
	}
	operation := "CREATE"
	if old != "" {
		operation, old = "UPDATE", `,"oldObject":`+old
	}
	return fmt.Sprintf(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u-1","kind":{"group":%q,"version":"v1","kind":%q},"namespace":%q,"operation":%q,"object":%s%s}}`,
		group, kind, namespace, operation, object, old)
}

// review sends a review, without a credential.
func (g *gatehouse) review(path, text string, edits ...func(*http.Request)) (int, review) {
	g.t.Helper()
	req := must[*http.Request](g.t)(http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+g.host+"/v1/cluster/"+path+"?timeout=10s", strings.NewReader(text)))
	for _, edit := range edits {
		edit(req)
	}
	resp := must[*http.Response](g.t)(http.DefaultClient.Do(req))
	defer resp.Body.Close()
	raw := must[[]byte](g.t)(io.ReadAll(resp.Body))
	var got review
	if err := json.Unmarshal(raw, &got); err != nil {
		g.t.Fatalf("%s: %v", raw, err)
	}
	for _, c := range []verdict.Code{"IMAGE_TAG", verdict.NotGranted} {
		if strings.Contains(string(raw), string(c)+":") {
			observe(g.t, c)
		}
	}
	return resp.StatusCode, got
}

// TestClusterImages: an image in whatever part of an object is checked; each row
// differs from one that is allowed by one fact.
func TestClusterImages(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.cluster = clusterRules(g.w.Lab.Registry, "deny") })
	good := g.image
	name, sum, _ := strings.Cut(good, "@")
	unproven := name + "@" + digest.Of(digest.SHA256, []byte("another")).String()
	pod := func(image string) string {
		return fmt.Sprintf(`{"spec":{"containers":[{"name":"a","image":%q}]}}`, image)
	}
	with := func(more string) string {
		return fmt.Sprintf(`{"spec":{"containers":[{"name":"a","image":%q}],%s}}`, good, more)
	}
	within := func(outer, image string) string {
		return fmt.Sprintf(outer, fmt.Sprintf(`{"containers":[{"name":"a","image":%q}]}`, image))
	}
	const template, cron = `{"spec":{"template":{"spec":%s}}}`, `{"spec":{"jobTemplate":{"spec":{"template":{"spec":%s}}}}}`
	for what, row := range map[string]struct {
		kind, namespace, object, old, want string // want is in the message; "" is allowed
	}{
		"accepted":                       {"Pod", "prod", pod(good), "", ""},
		"accepted, with a tag":           {"Pod", "prod", pod(name + ":v1@" + sum), "", ""},
		"a tag alone":                    {"Pod", "prod", pod(name + ":v1"), "", "container a: IMAGE_TAG"},
		"unproven":                       {"Pod", "prod", pod(unproven), "", "MISSING"},
		"another registry":               {"Pod", "prod", pod("other.example.test/a@" + sum), "", "container a: NOT_GRANTED"},
		"a registry of a like name":      {"Pod", "prod", pod(g.w.Lab.Registry + "/gated-evil/a@" + sum), "", "NOT_GRANTED"},
		"a path that leads elsewhere":    {"Pod", "prod", pod(g.w.Lab.Registry + "/gated/../evil@" + sum), "", "USAGE"},
		"no image":                       {"Pod", "prod", pod(""), "", "IMAGE_TAG"},
		"granted to no caller":           {"Pod", "prod", pod("registry.example.test/prod/a@" + sum), "", "NOT_GRANTED"},
		"an init container":              {"Pod", "prod", with(fmt.Sprintf(`"initContainers":[{"name":"b","image":%q}]`, unproven)), "", "MISSING"},
		"an init container, accepted":    {"Pod", "prod", with(fmt.Sprintf(`"initContainers":[{"name":"b","image":%q}]`, good)), "", ""},
		"an ephemeral container":         {"Pod", "prod", with(`"ephemeralContainers":[{"name":"debug","image":"busybox"}]`), pod(good), "container debug: IMAGE_TAG"},
		"a volume":                       {"Pod", "prod", with(fmt.Sprintf(`"volumes":[{"name":"v","image":{"reference":%q}}]`, name+":v1")), "", "volume v: IMAGE_TAG"},
		"a volume, accepted":             {"Pod", "prod", with(fmt.Sprintf(`"volumes":[{"name":"w","emptyDir":{}},{"name":"v","image":{"reference":%q}}]`, good)), "", ""},
		"a Deployment":                   {"apps/Deployment", "prod", within(template, unproven), "", "MISSING"},
		"a Deployment, accepted":         {"apps/Deployment", "prod", within(template, good), "", ""},
		"a Job":                          {"batch/Job", "prod", within(template, unproven), "", "MISSING"},
		"a CronJob":                      {"batch/CronJob", "prod", within(cron, unproven), "", "MISSING"},
		"a CronJob, accepted":            {"batch/CronJob", "prod", within(cron, good), "", ""},
		"an update of the image":         {"apps/Deployment", "prod", within(template, unproven), within(template, good), "MISSING"},
		"an update of something else":    {"apps/Deployment", "prod", within(template, unproven), within(template, unproven), ""},
		"a namespace that is off":        {"Pod", "kube-system", pod("busybox"), "", ""},
		"a namespace of no rule":         {"Pod", "default", pod(good), "", "NOT_GRANTED"},
		"a namespace of a rule's prefix": {"Pod", "trial", pod(good), "", "NOT_GRANTED"},
	} {
		t.Run(what, func(t *testing.T) {
			status, got := g.review("images", reviewOf(row.kind, row.namespace, row.object, row.old))
			r := got.Response
			if status != http.StatusOK || r.UID != "u-1" || r.Allowed != (row.want == "") || !strings.Contains(r.Status.Message, row.want) || !r.Allowed && r.Status.Code != http.StatusForbidden {
				t.Errorf("%d %+v, want %q", status, got, row.want)
			}
		})
	}
	if _, got := g.review("images", reviewOf("Pod", "trial-1", pod(unproven), "")); !got.Response.Allowed || len(got.Response.Warnings) != 1 || !strings.Contains(got.Response.Warnings[0], "MISSING") {
		t.Errorf("a trial: %+v", got)
	}
	for what, text := range map[string]string{
		"another kind":        reviewOf("ConfigMap", "prod", `{"spec":{}}`, ""),
		"another group":       reviewOf("evil.example.test/Pod", "prod", pod(good), ""),
		"no object":           reviewOf("Pod", "prod", "null", ""),
		"a key twice":         reviewOf("Pod", "prod", `{"spec":{"containers":[]},"spec":{"containers":[]}}`, ""),
		"no JSON":             "{",
		"no request":          `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}`,
		"another version":     strings.Replace(reviewOf("Pod", "prod", pod(good), ""), "k8s.io/v1", "k8s.io/v1beta1", 1),
		"too large":           reviewOf("Pod", "prod", with(`"x":"`+strings.Repeat("x", 1<<20)+`"`), ""),
		"a deletion":          strings.Replace(reviewOf("Pod", "prod", pod(good), ""), "CREATE", "DELETE", 1),
		"more than one burst": reviewOf("Pod", "prod", `{"spec":{"containers":[`+strings.TrimSuffix(strings.Repeat("%,", 101), ",")+`]}}`, ""),
	} {
		for i := 0; strings.Contains(text, "%"); i++ {
			text = strings.Replace(text, "%", fmt.Sprintf(`{"name":"a","image":"%s@%s"}`, name, digest.Of(digest.SHA256, fmt.Append(nil, i))), 1)
		}
		if status, got := g.review("images", text); status != http.StatusUnprocessableEntity || got.Response.Allowed {
			t.Errorf("%s: %d %+v", what, status, got)
		}
	}
	if status, got := g.review("images", reviewOf("Pod", "prod", pod(good), ""), func(r *http.Request) { r.Header.Set("Authorization", "Bearer x") }); status != http.StatusUnauthorized || got.Response.Allowed {
		t.Errorf("a bad credential counts as none: %d %+v", status, got)
	}
}

// TestClusterUndecided: an image about which nothing can be decided, because its
// registry is slow or down, is denied or allowed as the configuration says, before
// the API server gives up.
func TestClusterUndecided(t *testing.T) {
	for undecided, allowed := range map[string]bool{"deny": false, "allow": true} {
		g := openGatehouse(t, func(g *gatehouse) {
			g.cluster = clusterRules(g.w.Lab.Registry, undecided)
			g.open = func(string) (*registry.Remote, error) {
				return registry.OpenRemote(g.w.Lab.Registry, stalled{})
			}
		})
		_, got := g.review("images", reviewOf("Pod", "prod", fmt.Sprintf(`{"spec":{"containers":[{"name":"a","image":%q}]}}`, g.image), ""), func(r *http.Request) { r.URL.RawQuery = "timeout=1s" })
		r := got.Response
		if r.Allowed != allowed || !allowed && r.Status.Code != http.StatusServiceUnavailable || len(r.Warnings) != map[bool]int{true: 1}[allowed] {
			t.Errorf("%s: %+v", undecided, got)
		}
	}
}

// stalled is a registry that answers only when it is no longer asked.
type stalled struct{}

func (stalled) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestClusterTrace: the initial trace id is written when an object is created, and
// never again, whatever a client writes.
func TestClusterTrace(t *testing.T) {
	g := openGatehouse(t, func(g *gatehouse) { g.cluster = clusterRules(g.w.Lab.Registry, "deny") })
	const first, other, span = "4bf92f3577b34da6a3ce929d0e0e4736", "0af7651916cd43dd8448eb211c80319c", "00f067aa0ba902b7"
	annotated := func(initial string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{"mine":"x","dev.waybill.initial-trace-id":%q}}}`, initial)
	}
	for what, row := range map[string]struct {
		kind, object, old, initial string // initial is the one in the request
		has, not                   string // in the patch
		warns                      bool
	}{
		"created":                       {"Pod", `{"metadata":{}}`, "", "", `initial-trace-id","value":"` + other, "", false},
		"created by a controller":       {"Pod", `{"metadata":{}}`, "", first, `initial-trace-id","value":"` + first, "", false},
		"a pod of a Job that has one":   {"Pod", annotated(first), "", "", `initial-trace-id","value":"` + first, "", false},
		"created with one that is none": {"Pod", annotated("x"), "", "", `initial-trace-id","value":"` + other, "", true},
		"a Job":                         {"batch/Job", `{"metadata":{},"spec":{"template":{"metadata":{}}}}`, "", "", `"path":"/spec/template/metadata/annotations/dev.waybill.initial-trace-id","value":"` + other, "", false},
		"a later change":                {"Pod", annotated(first), annotated(first), "", `initial-trace-id","value":"` + first, "", false},
		"changed by a client":           {"Pod", annotated(other), annotated(first), "", `initial-trace-id","value":"` + first, "", true},
		"removed by a client":           {"Pod", `{"metadata":{}}`, annotated(first), "", `initial-trace-id","value":"` + first, "", false},
		"added later by a client":       {"Pod", annotated(first), `{"metadata":{}}`, "", `{"op":"remove","path":"/metadata/annotations/dev.waybill.initial-trace-id"}`, "initial-trace-id\",\"value", true},
		"of another origin":             {"Pod", annotated(first), annotated(first), other, `initial-trace-id","value":"` + first, "", true},
	} {
		t.Run(what, func(t *testing.T) {
			status, got := g.review("trace", reviewOf(row.kind, "prod", row.object, row.old), func(r *http.Request) {
				r.Header.Set("Traceparent", "00-"+other+"-"+span+"-01")
				if row.initial != "" {
					r.Header.Set("Baggage", "initial-trace-id="+row.initial)
				}
			})
			patch := string(got.Response.Patch)
			var ordered []struct {
				Op, Path string
				Value    any
			}
			if err := json.Unmarshal(got.Response.Patch, &ordered); err != nil {
				t.Fatal(err)
			}
			var text strings.Builder
			for _, o := range ordered {
				raw := must[[]byte](t)(json.Marshal(o.Value))
				if o.Op == "remove" {
					fmt.Fprintf(&text, `{"op":"remove","path":%q}`, o.Path)
				} else {
					fmt.Fprintf(&text, `{"op":%q,"path":%q,"value":%s}`, o.Op, o.Path, raw)
				}
			}
			if status != http.StatusOK || !got.Response.Allowed || !strings.Contains(text.String(), row.has) || row.not != "" && strings.Contains(text.String(), row.not) || strings.Contains(patch, "mine") || (len(got.Response.Warnings) > 0) != row.warns {
				t.Errorf("%d %s %q, want %s", status, text.String(), got.Response.Warnings, row.has)
			}
		})
	}
	for _, kind := range []string{"apps/Deployment", "ConfigMap"} {
		if status, _ := g.review("trace", reviewOf(kind, "prod", `{"metadata":{}}`, "")); status != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d", kind, status)
		}
	}
}

// TestClusterIsOff: a gate without the section has no webhook.
func TestClusterIsOff(t *testing.T) {
	g := openGatehouse(t)
	req := must[*http.Request](t)(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.host+"/v1/cluster/images", strings.NewReader("{}")))
	resp := must[*http.Response](t)((&http.Client{Timeout: time.Minute}).Do(req))
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusNotFound {
		t.Error(resp.Status)
	}
}
