package checkfeatures

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/kubernetes"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
)

// Variable names the store of [Store]: unset, a directory; "kubernetes://", a new
// namespace in the cluster of KUBECONFIG; else the address of a bucket. The suites of
// test/lab/bucket and test/cluster set it, and run the tests of features again.
const Variable = "WAYBILL_TEST_FEATURES"

// Store is an empty store.
func Store(t testing.TB) featurestore.Store {
	t.Helper()
	switch uri := os.Getenv(Variable); uri {
	case "kubernetes://":
		return Namespace(t)().Features
	case "":
		s, err := featurestore.OpenDirectory(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		return s
	default:
		at, err := cloud.Open(uri+"/"+rand.Text()+"/", http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		return featurestore.Appending(featurestore.Place{Place: at, Writer: at})
	}
}

// Requirements runs the tests of the requirements F1 to F24 with the stores at an
// address, which is as in [Variable]; root is the directory of the product's module.
func Requirements(t testing.TB, root, uri string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "test", "-vet=off", "-count=1", "-run", "^TestF[0-9][0-9]", "-v",
		"./pkg/govern/feature", "./pkg/govern/feature/componentbase", "./pkg/govern/feature/reconcile", "./pkg/testing/lifecycle")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOWORK=off", Variable+"="+uri)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for n := 1; n <= 24; n++ {
		if !strings.Contains(string(out), fmt.Sprintf("--- PASS: TestF%02d", n)) {
			t.Errorf("F%d did not pass", n)
		}
	}
}

// Namespace is a new namespace of the cluster of KUBECONFIG, as a site; each call
// of what it returns opens it anew.
func Namespace(t testing.TB) func() featurestore.Site {
	t.Helper()
	rt := transport.New(transport.Config{})
	open := func(uri string) (featurestore.Place, error) {
		at, err := kubernetes.Open(uri, rt)
		return featurestore.Place{Place: at, Writer: at}, err
	}
	name := "test-" + strings.ToLower(rand.Text())
	at, err := kubernetes.Open("kubernetes://"+name, rt)
	if err == nil {
		err = at.Do(t.Context(), http.MethodPost, "api/v1/namespaces", map[string]any{"metadata": map[string]string{"name": name}}, &struct{}{})
	}
	if err != nil {
		t.Fatal(err)
	}
	return func() featurestore.Site {
		t.Helper()
		s, err := featurestore.OpenSite("kubernetes://"+name, open)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}
