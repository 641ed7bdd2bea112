package stories

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// promoteJob reads the manifest, strictly: a key that the API does not have is
// an error, and so is one that stands there twice.
func promoteJob(t *testing.T) (batchv1.Job, string) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", "promote-job.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	job, err := parseJob(raw)
	if err != nil {
		t.Fatal(err)
	}
	return job, string(raw)
}

// parseJob is as strict as the API server is asked to be, letter case included.
func parseJob(raw []byte) (job batchv1.Job, err error) {
	raw, err = yaml.YAMLToJSONStrict(raw)
	if err != nil {
		return job, err
	}
	faults, err := json.UnmarshalStrict(raw, &job)
	return job, errors.Join(append(faults, err)...)
}

// TestDocsPromoteJob: the Job is one of the API, its shards are the ones that it
// says, and it ends as our exit status means.
func TestDocsPromoteJob(t *testing.T) {
	job, text := promoteJob(t)
	for _, wrong := range []string{strings.Replace(text, "completionMode", "completionmode", 1), strings.Replace(text, "  completions", "  parallelism: 1\n  completions", 1)} {
		if _, err := parseJob([]byte(wrong)); err == nil {
			t.Error("a manifest with a fault is read")
		}
	}
	s := job.Spec
	if job.APIVersion != batchv1.SchemeGroupVersion.String() || job.Kind != "Job" || s.CompletionMode == nil || *s.CompletionMode != batchv1.IndexedCompletion ||
		s.Completions == nil || s.BackoffLimitPerIndex == nil || s.Template.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Fatalf("no indexed job with a limit for each index: %+v", s)
	}
	does := map[int32]batchv1.PodFailurePolicyAction{}
	for _, rule := range s.PodFailurePolicy.Rules {
		if rule.OnExitCodes == nil {
			continue
		}
		if !slices.IsSorted(rule.OnExitCodes.Values) || rule.OnExitCodes.Operator != batchv1.PodFailurePolicyOnExitCodesOpIn || *rule.OnExitCodes.ContainerName != s.Template.Spec.Containers[0].Name {
			t.Errorf("%+v", rule.OnExitCodes)
		}
		for _, code := range rule.OnExitCodes.Values {
			does[code] = rule.Action
		}
	}
	for outcome, want := range map[verdict.Outcome]batchv1.PodFailurePolicyAction{
		verdict.Refused: batchv1.PodFailurePolicyActionFailIndex, verdict.Malformed: batchv1.PodFailurePolicyActionFailIndex,
		verdict.Internal: batchv1.PodFailurePolicyActionFailIndex, verdict.Unavailable: batchv1.PodFailurePolicyActionCount,
	} {
		if got := does[int32(verdict.ExitCode(outcome))]; got != want {
			t.Errorf("%s: %s, want %s", outcome, got, want)
		}
	}
	shards := fmt.Sprintf("--shard=$(JOB_COMPLETION_INDEX)/%d", *s.Completions)
	if args := s.Template.Spec.Containers[0].Args; !slices.Contains(args, shards) {
		t.Errorf("%v: no %s", args, shards)
	}
}

// TestDocsPromoteJobPod: the pod has no right that it does not need, and every
// path of its arguments is mounted.
func TestDocsPromoteJobPod(t *testing.T) {
	job, _ := promoteJob(t)
	pod := job.Spec.Template.Spec
	c := pod.Containers[0]
	if sc := c.SecurityContext; !*pod.SecurityContext.RunAsNonRoot || !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation ||
		!slices.Equal(sc.Capabilities.Drop, []corev1.Capability{"ALL"}) || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v, %+v", pod.SecurityContext, sc)
	}
	if c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() || !strings.Contains(c.Image, "@sha256:") {
		t.Errorf("%+v, %s", c.Resources, c.Image)
	}
	volumes := map[string]corev1.Volume{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = v
	}
	for _, m := range c.VolumeMounts {
		if _, known := volumes[m.Name]; !known {
			t.Errorf("there is no volume %s", m.Name)
		}
		delete(volumes, m.Name)
		if !strings.Contains(strings.Join(c.Args, " "), m.MountPath) {
			t.Errorf("%s is mounted for nothing", m.MountPath)
		}
		if m.Name == "token" {
			token := pod.Volumes[slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })].Projected.Sources[0].ServiceAccountToken
			if token.Audience != "sigstore" || !slices.Contains(c.Args, "--identity-token=verifier="+m.MountPath+"/"+token.Path) {
				t.Errorf("%+v", token)
			}
		}
	}
	if len(volumes) > 0 {
		t.Errorf("nobody mounts %v", volumes)
	}
}

// TestDocsPromoteJobArgs: the command takes the arguments that the Job gives it.
func TestDocsPromoteJobArgs(t *testing.T) {
	job, _ := promoteJob(t)
	dir := t.TempDir()
	l := lab.New(t)
	save(t, l.TrustedRoot, dir, "profile", "trusted_root.json")
	save(t, scene.Policy(l, "git+https://example.test/demo"), dir, "profile", "policy.yaml")
	save(t, []byte("apiVersion: waybill/v1\nkind: Profile\nname: demo\npolicy: policy.yaml\ntrustedRoot: trusted_root.json\nplaces: {files: {canonical: \"https://dl.example.test/demo/{version}/\", release: \"public/{version}/\"}}\n"), dir, "profile", "profile.yaml")
	manifest := "registries:\n- {name: staging.example.test/a, src: true}\n- {name: eu.example.test/prod}\nimages:\n- name: demo\n  dmap: {\"sha256:" + strings.Repeat("1", 64) + "\": [v1]}\n"
	if err := os.WriteFile(filepath.Join(dir, "m.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	plan, _ := run("promote", "plan", "m.yaml", "-o", "json")
	if err := os.WriteFile(filepath.Join(dir, "plan.json"), []byte(plan), 0o600); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(job.Spec.Template.Spec.Containers[0].Args)
	if last := args[len(args)-1]; last != "--confirm" {
		t.Fatalf("it ends with %s", last)
	}
	args = args[:len(args)-1] // what is parsed, and not done
	for _, c := range []struct {
		index string
		code  int
		said  string
	}{{"0", 0, "nothing was copied"}, {"7", 0, "nothing was copied"}, {"8", 2, "want i/n"}, {"", 2, "want i/n"}} {
		given := slices.Clone(args)
		for i := range given {
			given[i] = strings.NewReplacer("$(JOB_COMPLETION_INDEX)", c.index, "/plan/plan.json", "plan.json", "/profile/", "profile/").Replace(given[i])
		}
		if out, code := run(given...); code != c.code || !strings.Contains(out, c.said) {
			t.Errorf("index %q ended with %d:\n%s", c.index, code, out)
		}
	}
	if out, code := run(append(args, "--no-such-flag")...); code != 2 {
		t.Errorf("a flag that there is not: %d\n%s", code, out)
	}
}
