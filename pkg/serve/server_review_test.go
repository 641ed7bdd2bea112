package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestQuestions: a question of the one schema is answered as the policy says, and
// one of another is malformed (USAGE).
func TestQuestions(t *testing.T) {
	f := openFront(t)
	for _, row := range []struct {
		schema, image string
		code          int
		says          string
	}{
		{api.SchemaRequest, f.index.Digest.String(), 200, `"outcome":"accepted"`},
		{api.SchemaRequest, f.image.Digest.String(), 403, `"outcome":"refused"`},
		{"waybill/request/v0", f.index.Digest.String(), 422, string(verdict.Usage)},
	} {
		body := fmt.Sprintf(`{"schema":%q,"decisions":[{"verb":"verify","image":"%s/%s@%s"}]}`, row.schema, f.host, repository, row.image)
		got := f.send("puller", httptest.NewRequest(http.MethodPost, "/v1/decisions", strings.NewReader(body)))
		if got.Code != row.code || !json.Valid(got.Body.Bytes()) || !strings.Contains(got.Body.String(), row.says) {
			t.Errorf("%s of %s: %d %s", row.schema, row.image, got.Code, got.Body)
		}
	}
	if record := f.record.String(); strings.Count(record, `"outcome":"accepted"`) != 1 || strings.Count(record, `"outcome":"refused"`) != 1 || strings.Count(record, `"code":"USAGE"`) != 1 {
		t.Errorf("the record has\n%s", record)
	}
}

// TestReviews: what a cluster creates is checked, and of an update what is new;
// the refusal names the code of the first finding. The pods of a Job get its trace.
func TestReviews(t *testing.T) {
	f := openFront(t, func(w *World) {
		w.Cluster = &ClusterUse{Caller: "puller", Undecided: "deny", Namespaces: []NamespaceRule{{Names: []string{"prod"}, Mode: "require", Images: []string{w.Proxy.Registry + "/gated/"}}}}
	})
	pod := func(of string) string {
		return fmt.Sprintf(`{"metadata":{},"spec":{"containers":[{"name":"a","image":"%s/%s@%s"}]}}`, f.host, repository, of)
	}
	good, bad := pod(f.index.Digest.String()), pod(f.image.Digest.String())
	const job = `{"metadata":{},"spec":{"template":{"metadata":{}}}}`
	for what, row := range map[string]struct {
		path, group, kind, object, old string
		allowed                        bool
		says                           string // in the message of a refusal, or in the patch
	}{
		"accepted":       {"images", "", "Pod", good, "", true, ""},
		"refused":        {"images", "", "Pod", bad, "", false, "POLICY_RULE: "},
		"an update":      {"images", "", "Pod", bad, good, false, "POLICY_RULE: "},
		"nothing is new": {"images", "", "Pod", bad, bad, true, ""},
		"a Job":          {"trace", "batch", "Job", job, "", true, "/spec/template/metadata/annotations/dev.waybill.initial-trace-id"},
	} {
		operation, old := "CREATE", ""
		if row.old != "" {
			operation, old = "UPDATE", `,"oldObject":`+row.old
		}
		body := fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"request":{"uid":"u","kind":{"group":%q,"version":"v1","kind":%q},"namespace":"prod","operation":%q,"object":%s%s}}`,
			reviewVersion, reviewKind, row.group, row.kind, operation, row.object, old)
		r := httptest.NewRequest(http.MethodPost, "/v1/cluster/"+row.path, strings.NewReader(body))
		r.Header.Set("Traceparent", "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01")
		out := httptest.NewRecorder()
		f.ServeHTTP(out, r)
		var said struct{ Response reviewed }
		if err := json.Unmarshal(out.Body.Bytes(), &said); err != nil || out.Code != 200 || said.Response.Allowed != row.allowed {
			t.Errorf("%s: %d %v %s", what, out.Code, err, out.Body)
			continue
		}
		message := string(said.Response.Patch)
		if said.Response.Status != nil {
			message += said.Response.Status.Message
		}
		if !strings.Contains(message, row.says) || !row.allowed && (message == "" || said.Response.Status.Code != 403) {
			t.Errorf("%s: %q, want %q", what, message, row.says)
		}
	}
}
