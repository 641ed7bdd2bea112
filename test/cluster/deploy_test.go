package cluster_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/test/lab/cluster"
)

// notObjects are the YAML files of cmd/waybill/deploy that are no Kubernetes
// objects, by who reads them.
var notObjects = map[string]string{
	"alerts.yaml": "Prometheus", "alerts-watch.yaml": "Prometheus", "cloudbuild.yaml": "Cloud Build", "cloudbuild-release.yaml": "Cloud Build",
	"github-build.yaml": "GitHub", "github-release.yaml": "GitHub", "github-tag.yaml": "GitHub", "github-workflow.yaml": "GitHub",
	"prow-job.yaml": "Prow", "prow-release.yaml": "Prow",
}

// TestDeployFiles: the API server takes every object of the deploy files, with
// strict validation and without a warning, and refuses a field that it does not
// know. Kyverno's policy needs Kyverno, and is refused. With the webhooks of
// admission.yaml and without a gate, no Job is created.
func TestDeployFiles(t *testing.T) {
	c := cluster.StartServer(t)
	c.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: waybill}\n") // a dry run does not make it
	files, err := filepath.Glob(filepath.Join("..", "..", "cmd", "waybill", "deploy", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	admission := slices.IndexFunc(files, func(f string) bool { return filepath.Base(f) == "admission.yaml" })
	files = append(slices.Delete(slices.Clone(files), admission, admission+1), files[admission]) // its webhooks apply to what comes after them
	for _, path := range files {
		name := filepath.Base(path)
		if notObjects[name] != "" {
			continue
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for object := range cluster.Documents(string(raw)) {
			for _, dry := range []bool{true, false} {
				warnings, err := c.ApplyOne(t.Context(), object, dry)
				if name == "kyverno.yaml" {
					if !cluster.IsStatus(err, 404) {
						t.Errorf("%s: %v, and there is no Kyverno", name, err)
					}
					continue
				}
				if err != nil || len(warnings) > 0 {
					t.Errorf("%s: %v, warnings %q, for\n%s", name, err, warnings, object)
				}
				taken++
			}
			if name != "kyverno.yaml" {
				_, err := c.ApplyOne(t.Context(), strings.Replace(object, "\nmetadata:", "\nnosuchfield: 1\nmetadata:", 1), true)
				if err == nil || !strings.Contains(err.Error(), "nosuchfield") {
					t.Errorf("%s: a field that there is not: %v", name, err)
				}
			}
		}
	}
	for job := range cluster.Documents(deployed(t, "promote-job.yaml")) {
		_, err := c.ApplyOne(t.Context(), strings.Replace(job, "name: promote\n", "name: another\n", 1), true)
		if err == nil || !strings.Contains(err.Error(), "images.waybill.dev") {
			t.Errorf("a Job, while no gate answers the webhook: %v", err)
		}
	}
	t.Logf("%d applications of objects of %d files", taken, len(files)-len(notObjects))
	for name := range notObjects {
		if !slices.ContainsFunc(files, func(f string) bool { return filepath.Base(f) == name }) {
			t.Errorf("there is no %s", name)
		}
	}
}
