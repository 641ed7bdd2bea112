package cluster_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/kubernetes"
	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/testing/checkfeatures"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab/cluster"
)

// startServer starts an API server that knows the features, with a namespace
// called waybill, and a KUBECONFIG.
func startServer(t *testing.T) *cluster.Cluster {
	t.Helper()
	c := cluster.StartServer(t)
	config(t, c, c.Token)
	if err := c.Do(t.Context(), http.MethodPost, "/api/v1/namespaces", map[string]any{"metadata": map[string]string{"name": "waybill"}}, nil); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", "features.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	c.Apply(t, string(raw))
	c.Await(t, "the resource of features", func() bool {
		return c.Do(t.Context(), http.MethodGet, "/apis/waybill.dev/v1alpha1/namespaces/waybill/features", nil, nil) == nil
	})
	return c
}

// config makes KUBECONFIG a file as kubectl config view --raw --flatten --minify
// prints it, with a token.
func config(t *testing.T, c *cluster.Cluster, token string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "config")
	text := fmt.Sprintf("apiVersion: v1\nkind: Config\nclusters: [{name: a, cluster: {server: %q, certificate-authority-data: %s}}]\nusers: [{name: a, user: {token: %q}}]\n",
		c.URL, base64.StdEncoding.EncodeToString(c.CA), token)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KUBECONFIG", file)
}

// tokenOf is the token of a service account with a role of the deploy files.
func tokenOf(t *testing.T, c *cluster.Cluster, role string) string {
	t.Helper()
	c.Apply(t, fmt.Sprintf(`apiVersion: v1
kind: ServiceAccount
metadata: {name: %[1]s, namespace: waybill}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: %[1]s, namespace: waybill}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: %[1]s}
subjects: [{kind: ServiceAccount, name: %[1]s, namespace: waybill}]
`, role))
	var made struct{ Status struct{ Token string } }
	if err := c.Do(t.Context(), http.MethodPost, "/api/v1/namespaces/waybill/serviceaccounts/"+role+"/token", map[string]any{"spec": map[string]any{}}, &made); err != nil {
		t.Fatal(err)
	}
	return made.Status.Token
}

func namespace(t *testing.T, uri string) *kubernetes.Place {
	t.Helper()
	at, err := kubernetes.Open(uri, transport.New(transport.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func site(t *testing.T) featurestore.Site {
	t.Helper()
	s, err := featurestore.OpenSite("kubernetes://waybill", func(uri string) (featurestore.Place, error) {
		at := namespace(t, uri)
		return featurestore.Place{Place: at, Writer: at}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func code(err error) verdict.Code {
	if err == nil {
		return ""
	}
	return verdict.FindingOf("", err).Code
}

// TestFeatures: features are stored in the cluster as in any other place, and the
// requirements F1 to F24 hold there.
func TestFeatures(t *testing.T) {
	startServer(t)
	checkfeatures.Run(t, func(t *testing.T) func() featurestore.Store {
		again := checkfeatures.Namespace(t)
		return func() featurestore.Store { return again().Features }
	})
	checkfeatures.Requirements(t, filepath.Join("..", ".."), "kubernetes://")
}

// TestFeatureResource: the API server refuses an object that is none, whoever
// writes it; what a person changes with kubectl is noticed; and each role can do
// what it is for, and no more.
func TestFeatureResource(t *testing.T) {
	c := startServer(t)
	s := site(t)
	f, err := s.Features.Create(t.Context(), checkfeatures.Feature(t, "waybill", "RequireLantern"))
	if err != nil {
		t.Fatal(err)
	}
	const path = "/apis/waybill.dev/v1alpha1/namespaces/waybill/features/waybill.requirelantern"
	read := func() (o map[string]map[string]any) {
		t.Helper()
		var all map[string]any
		if err := c.Do(t.Context(), http.MethodGet, path, nil, &all); err != nil {
			t.Fatal(err)
		}
		raw, _ := json.Marshal(all)
		_ = json.Unmarshal(raw, &o) // apiVersion and kind are no maps
		return o
	}
	whole := func(o map[string]map[string]any) map[string]any {
		return map[string]any{"apiVersion": "waybill.dev/v1alpha1", "kind": "Feature", "metadata": o["metadata"], "spec": o["spec"], "status": o["status"]}
	}
	for what, spoil := range map[string]func(o map[string]map[string]any) (sub string){
		"another feature":              func(o map[string]map[string]any) string { o["spec"]["name"] = "RequireWick"; return "" },
		"a desired state that is none": func(o map[string]map[string]any) string { o["spec"]["desired"] = "TurningOn"; return "" },
		"both scopes": func(o map[string]map[string]any) string {
			o["spec"]["scope"] = map[string]any{"everything": true, "repositories": []string{"a"}}
			return ""
		},
		"a state that is none": func(o map[string]map[string]any) string { o["status"]["state"] = "Maybe"; return "/status" },
		"a transition without tasks": func(o map[string]map[string]any) string {
			o["status"]["state"], o["status"]["revision"] = "TurningOn", 2
			return "/status"
		},
		"a status that is not counted":     func(o map[string]map[string]any) string { o["status"]["revision"] = 7; return "/status" },
		"a transition that is not counted": func(o map[string]map[string]any) string { o["status"]["number"] = 1; return "/status" },
	} {
		o := read()
		sub := spoil(o)
		if err := c.Do(t.Context(), http.MethodPut, path+sub, whole(o), nil); !cluster.IsStatus(err, http.StatusUnprocessableEntity) {
			t.Errorf("%s: %v", what, err)
		}
	}
	o := read()
	o["spec"]["desired"] = "On" // as kubectl edit does
	if err := c.Do(t.Context(), http.MethodPut, path, whole(o), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Features.Update(t.Context(), f); !errors.Is(err, featurestore.ErrConflict) {
		t.Errorf("writing over an edit: %v", err)
	}
	f, err = s.Features.Get(t.Context(), f.Key())
	if err != nil || f.Spec.Desired != feature.On || f.Metadata.Generation != 2 {
		t.Fatalf("%+v, %v", f.Metadata, err)
	}
	both := f // a write of both parts counts as two
	both.Spec.Desired = feature.Off
	if both, err = feature.Report(both, feature.Use{Identity: "x", Version: "v0.2.0", LastSeen: time.Now()}); err != nil {
		t.Fatal(err)
	}
	if both, err = s.Features.Update(t.Context(), both); err != nil || both.Metadata.Generation != 4 {
		t.Fatalf("%+v, %v", both.Metadata, err)
	}
	if got, err := s.Features.Get(t.Context(), f.Key()); err != nil || got.Metadata.Generation != 4 || got.Spec.Desired != feature.Off || len(got.Status.Uses) != 1 {
		t.Errorf("%+v, %v", got, err)
	}
	for role, may := range map[string]struct{ spec, status, statement bool }{
		"waybill-reconciler": {true, true, true}, "waybill-reporter": {false, true, false}, "waybill-operator": {true, false, false},
	} {
		config(t, c, tokenOf(t, c, role))
		as := site(t)
		now, err := as.Features.Get(t.Context(), f.Key())
		if err != nil {
			t.Fatal(role, err)
		}
		wish := now
		wish.Spec.Desired = map[feature.State]feature.State{feature.On: feature.Off, feature.Off: feature.On}[now.Spec.Desired]
		if now, err = as.Features.Update(t.Context(), wish); (err == nil) != may.spec || err != nil && code(err) != "CREDENTIAL_REFUSED" {
			t.Errorf("%s writes the spec: %v", role, err)
		}
		if now, err = as.Features.Get(t.Context(), f.Key()); err != nil {
			t.Fatal(err)
		}
		use, _ := feature.Report(now, feature.Use{Identity: role, Version: "v0.2.0", LastSeen: time.Now()})
		if _, err = as.Features.Update(t.Context(), use); (err == nil) != may.status || err != nil && code(err) != "CREDENTIAL_REFUSED" {
			t.Errorf("%s writes the status: %v", role, err)
		}
		err = as.Statements.Put(t.Context(), "waybill/"+role+"/1.sigstore.json", -1, strings.NewReader("{}"), store.PutOptions{IfAbsent: true})
		if (err == nil) != may.statement {
			t.Errorf("%s writes a statement: %v", role, err)
		}
	}
	config(t, c, "x")
	if _, err := site(t).Features.List(t.Context()); code(err) != "CREDENTIAL_REFUSED" {
		t.Errorf("a token that is none: %v", err)
	}
}

// TestObjects: a namespace is a place of objects, those that were written if absent
// are immutable, and one that somebody else marked is refused.
func TestObjects(t *testing.T) {
	c := startServer(t)
	at := namespace(t, "kubernetes://waybill/statements")
	put := func(name, text string, absent bool) error {
		return at.Put(t.Context(), name, int64(len(text)), strings.NewReader(text), store.PutOptions{IfAbsent: absent})
	}
	for i := range 130 { // more than a page
		if err := put(fmt.Sprintf("waybill/RequireLantern/%d.json", i), "{}", true); err != nil {
			t.Fatal(err)
		}
	}
	for what, err := range map[string]error{"absent": put("b", "1", false), "replaced": put("b", "22", false)} {
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if err := put("waybill/RequireLantern/7.json", "x", true); !errors.Is(err, store.ErrExists) {
		t.Errorf("written twice: %v", err)
	}
	if err := put("waybill/RequireLantern/7.json", "x", false); code(err) != verdict.ConfigParse {
		t.Errorf("an immutable one: %v", err)
	}
	if raw, err := store.Read(t.Context(), at, "waybill/RequireLantern/7.json", 10); err != nil || string(raw) != "{}" {
		t.Errorf("%q, %v", raw, err)
	}
	if list, err := at.List(t.Context()); err != nil || len(list) != 131 {
		t.Errorf("%d, %v", len(list), err)
	}
	if _, err := store.Read(t.Context(), at, "c", 10); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("none: %v", err)
	}
	if list, err := namespace(t, "kubernetes://waybill/members").List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("another part: %v, %v", list, err)
	}
	c.Apply(t, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: planted, namespace: waybill, labels: {waybill.dev/part: statements}, annotations: {waybill.dev/name: b}}\n")
	if _, err := at.List(t.Context()); code(err) != verdict.ConfigParse {
		t.Errorf("one of somebody else: %v", err)
	}
}

// TestLease: one holder at a time; a live one keeps the lease however wrong its
// clock is, a dead one loses it after its term, and then knows.
func TestLease(t *testing.T) {
	c := startServer(t)
	config(t, c, tokenOf(t, c, "waybill-promoter"))
	const term = 4 * time.Second
	claim := func(who string, clock func() time.Time) (*lease.Lease, error) {
		at := namespace(t, "kubernetes://waybill") // as another process
		return lease.Claim(t.Context(), lease.Place{Place: at, Writer: at}, "promotion.lease.json", lease.Config{Holder: who, Term: term, Clock: clock})
	}
	yesterday := func() time.Time { return time.Now().Add(-24 * time.Hour) }
	first, err := claim("first", yesterday)
	if err != nil || first.Number() != 1 {
		t.Fatal(err)
	}
	if _, err := claim("second", nil); code(err) != verdict.Busy || !strings.Contains(err.Error(), `"first"`) {
		t.Errorf("a second holder: %v", err)
	}
	if err := first.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context()) // a holder that dies does not renew
	at := namespace(t, "kubernetes://waybill")
	dead, err := lease.Claim(ctx, lease.Place{Place: at, Writer: at}, "promotion.lease.json", lease.Config{Holder: "dead", Term: term})
	if err != nil || dead.Number() != 2 {
		t.Fatal(err)
	}
	stop()
	third, err := claim("third", nil)
	if err != nil || third.Number() != 3 {
		t.Fatalf("after a dead holder: %v", err)
	}
	if err := dead.Held(t.Context()); code(err) != verdict.Busy {
		t.Errorf("the dead holder wakes: %v", err)
	}
	if err := third.Held(t.Context()); err != nil {
		t.Error(err)
	}
	thief := map[string]any{"spec": map[string]any{"holderIdentity": "thief", "leaseTransitions": 9}} // as no holder does
	if err := c.Do(t.Context(), http.MethodPatch, "/apis/coordination.k8s.io/v1/namespaces/waybill/leases/promotion", thief, nil); err != nil {
		t.Fatal(err)
	}
	c.Await(t, "the holder notices that its lease was taken", func() bool { return code(third.Held(t.Context())) == verdict.Busy })
}

// TestAdmission runs the attacks on the gate as the webhook of a real API server,
// which use the world of test/attacks.
func TestAdmission(t *testing.T) {
	cluster.Program(t, "kube-apiserver")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-run", "^TestLongAPIServer$", "-v", "../attacks")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: TestLongAPIServer") {
		t.Errorf("%v\n%s", err, out)
	}
}
