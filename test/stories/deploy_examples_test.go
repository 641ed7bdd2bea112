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

	"google.golang.org/api/cloudbuild/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/vsa"
)

// deployed reads a shipped file strictly: a key that is not there in the other's
// API is an error, and so is one that stands there twice.
func deployed(t *testing.T, name string, into func() any) any {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", name))
	if err != nil {
		t.Fatal(err)
	}
	parse := func(text string, to any) error {
		asJSON, err := yaml.YAMLToJSONStrict([]byte(text))
		if err != nil {
			return err
		}
		faults, err := json.UnmarshalStrict(asJSON, to)
		return errors.Join(append(faults, err)...)
	}
	read := into()
	if err := parse(string(raw), read); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	lines := strings.Split(string(raw), "\n")
	first := slices.IndexFunc(lines, func(line string) bool { return line != "" && !strings.HasPrefix(line, "#") })
	key, _, _ := strings.Cut(lines[first], ":")
	for _, fault := range []string{"\nunheardOf: true\n", "\n" + key + ": twice\n"} {
		if parse(string(raw)+fault, into()) == nil {
			t.Errorf("%s: %q is read", name, fault)
		}
	}
	return read
}

// takes runs the command with the arguments of an example, as far as to the gate
// that is not there: every argument is taken, and nothing is decided.
func takes(t *testing.T, args []string, values ...string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "token"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range args {
		args[i] = strings.NewReplacer(values...).Replace(args[i])
		if _, file, is := strings.Cut(args[i], "--identity-token=caller=/"); is {
			args[i] = "--identity-token=caller=" + filepath.Join(dir, filepath.Base(file))
		}
		if word, _, is := strings.Cut(args[i], "google"); is && strings.HasPrefix(word, "--identity=") || strings.HasPrefix(args[i], "--identity=caller=github") {
			args[i] = "--identity-token=caller=" + filepath.Join(dir, "token")
		}
		args[i] = strings.Replace(args[i], "https://gate.example.test", "http://127.0.0.1:1", 1)
		args[i] = strings.Replace(args[i], "/workspace/", dir+"/", 1)
	}
	run := func(args ...string) (string, int) {
		cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "WAYBILL_PATIENCE=1s")
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState == nil {
			t.Fatal(err)
		}
		return string(out), cmd.ProcessState.ExitCode()
	}
	if out, code := run(args...); code != 3 || !strings.Contains(out, "127.0.0.1:1") {
		t.Errorf("%q: %d\n%s", args, code, out)
	}
	if out, code := run(append(args, "--unheard-of")...); code != 2 {
		t.Errorf("a flag that is not one: %d\n%s", code, out)
	}
}

// sum256 is a digest to be asked about.
var sum256 = "sha256:" + strings.Repeat("1", 64)

// prowJobs is the part of Prow's job configuration that the example uses. Prow's
// own types come with all of Prow; the pod is the API's.
type prowJobs struct {
	Postsubmits map[string][]struct {
		Name             string            `json:"name"`
		Cluster          string            `json:"cluster"`
		Branches         []string          `json:"branches"`
		Decorate         bool              `json:"decorate"`
		MaxConcurrency   int               `json:"max_concurrency"`
		Annotations      map[string]string `json:"annotations"`
		DecorationConfig struct {
			Timeout metav1.Duration `json:"timeout"`
		} `json:"decoration_config"`
		Spec corev1.PodSpec `json:"spec"`
	} `json:"postsubmits"`
}

// TestDocsProwJob: the job is one, its token is the gate's, and the command
// takes its arguments.
func TestDocsProwJob(t *testing.T) {
	jobs := deployed(t, "prow-job.yaml", func() any { return new(prowJobs) }).(*prowJobs)
	for _, list := range jobs.Postsubmits {
		pod := list[0].Spec
		c := pod.Containers[0]
		if !list[0].Decorate || !*pod.SecurityContext.RunAsNonRoot || *pod.AutomountServiceAccountToken || *c.SecurityContext.AllowPrivilegeEscalation || !strings.Contains(c.Image, "@sha256:") {
			t.Errorf("%+v", pod)
		}
		token := pod.Volumes[0].Projected.Sources[0].ServiceAccountToken
		if at := c.VolumeMounts[0]; at.Name != pod.Volumes[0].Name || !slices.Contains(c.Args, "--identity-token=caller="+at.MountPath+"/"+token.Path) || !slices.Contains(c.Args, "--server="+token.Audience) {
			t.Errorf("%+v, %q", token, c.Args)
		}
		if !slices.Equal(c.Command, []string{"waybill"}) {
			t.Errorf("%q", c.Command)
		}
		takes(t, c.Args, "lantern:$(PULL_BASE_REF)", "lantern@"+sum256, "$(PULL_BASE_REF)", "v0.1.0", "$(ARTIFACTS)/", "")
		return
	}
	t.Error("there is no job")
}

// TestDocsCloudBuild: the build is one of the API, every substitution is used,
// and the command takes the arguments.
func TestDocsCloudBuild(t *testing.T) {
	b := deployed(t, "cloudbuild.yaml", func() any { return new(cloudbuild.Build) }).(*cloudbuild.Build)
	if len(b.Steps) != 1 || b.Steps[0].Entrypoint != "waybill" || !strings.Contains(b.Steps[0].Name, "@sha256:") || b.Options.SubstitutionOption != "MUST_MATCH" || b.ServiceAccount == "" {
		t.Fatalf("%+v", b)
	}
	said := strings.Join(b.Steps[0].Args, " ")
	for name := range b.Substitutions {
		if !strings.Contains(said, "${"+name+"}") {
			t.Errorf("%s is not used", name)
		}
	}
	takes(t, b.Steps[0].Args, "${_DIGEST}", sum256, "${_VERSION}", "v0.1.0")
}

// workflow is the part of GitHub's workflow syntax that the example uses.
type workflow struct {
	Name string `json:"name"`
	On   struct {
		Dispatch struct {
			Inputs map[string]struct {
				Description string `json:"description"`
				Type        string `json:"type"`
				Required    bool   `json:"required"`
			} `json:"inputs"`
		} `json:"workflow_dispatch"`
	} `json:"true"` // on: what YAML 1.1 reads as yes
	Permissions map[string]string `json:"permissions"`
	Concurrency struct {
		Group            string `json:"group"`
		CancelInProgress bool   `json:"cancel-in-progress"`
	} `json:"concurrency"`
	Jobs map[string]struct {
		RunsOn      string            `json:"runs-on"`
		Environment string            `json:"environment"`
		Timeout     int               `json:"timeout-minutes"`
		Permissions map[string]string `json:"permissions"`
		Container   struct {
			Image string `json:"image"`
		} `json:"container"`
		Steps []struct {
			Name  string            `json:"name"`
			Env   map[string]string `json:"env"`
			Shell string            `json:"shell"`
			Run   string            `json:"run"`
		} `json:"steps"`
	} `json:"jobs"`
}

// TestDocsWorkflow: the job may get a token and nothing else, what somebody
// typed is no part of its script, and the shell hands the command arguments
// that it takes.
func TestDocsWorkflow(t *testing.T) {
	w := deployed(t, "github-workflow.yaml", func() any { return new(workflow) }).(*workflow)
	job := w.Jobs["gate"]
	if len(w.Permissions) != 0 || len(job.Permissions) != 1 || job.Permissions["id-token"] != "write" || !strings.Contains(job.Container.Image, "@sha256:") {
		t.Fatalf("%+v", w)
	}
	step := job.Steps[0]
	for name, value := range step.Env {
		if input := strings.TrimSuffix(strings.TrimPrefix(value, "${{ inputs."), " }}"); !w.On.Dispatch.Inputs[input].Required {
			t.Errorf("%s: %s is no input that must be given", name, value)
		}
	}
	if strings.Contains(step.Run, "${{") {
		t.Error("what somebody typed is a part of the script")
	}
	dir := t.TempDir()
	shown := filepath.Join(dir, "waybill")
	if err := os.WriteFile(shown, []byte("#!/bin/sh\nprintf '%s\\n' \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	run := func(version string) []string {
		cmd := exec.CommandContext(t.Context(), "sh", "-e", "-c", step.Run)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "VERSION="+version, "DIGEST="+sum256, "GITHUB_STEP_SUMMARY=summary.md")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return strings.Split(strings.TrimSpace(string(out)), "\n")
	}
	if hostile := "v1; touch $(echo x) `id`"; !slices.Contains(run(hostile), "--release-version="+hostile) {
		t.Error("the shell makes something of what somebody typed")
	}
	takes(t, run("v0.1.0"))
}

// imagePolicy is the part of Kyverno's ImageValidatingPolicy, of
// policies.kyverno.io/v1, that the example uses; what of it is Kubernetes' own
// has the types of the API.
type imagePolicy struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		FailurePolicy *admissionv1.FailurePolicyType `json:"failurePolicy"`
		Actions       []admissionv1.ValidationAction `json:"validationActions"`
		Webhook       struct {
			Timeout int32 `json:"timeoutSeconds"`
		} `json:"webhookConfiguration"`
		Match      *admissionv1.MatchResources `json:"matchConstraints"`
		References []struct {
			Glob string `json:"glob"`
		} `json:"matchImageReferences"`
		Images []struct {
			Name       string `json:"name"`
			Expression string `json:"expression"`
		} `json:"images"`
		Configurations struct {
			MutateDigest bool `json:"mutateDigest"`
			VerifyDigest bool `json:"verifyDigest"`
			Required     bool `json:"required"`
		} `json:"validationConfigurations"`
		Attestors []struct {
			Name   string `json:"name"`
			Cosign struct {
				Keyless struct {
					Identities []struct {
						Issuer  string `json:"issuer"`
						Subject string `json:"subject"`
					} `json:"identities"`
				} `json:"keyless"`
			} `json:"cosign"`
		} `json:"attestors"`
		Attestations []struct {
			Name   string `json:"name"`
			InToto struct {
				Type string `json:"type"`
			} `json:"intoto"`
		} `json:"attestations"`
		Variables   []admissionv1.Variable   `json:"variables"`
		Validations []admissionv1.Validation `json:"validations"`
	} `json:"spec"`
}

// TestDocsKyverno: the policy asks for what we sign, by one identity each, of
// every image that a pod can run or mount, and lets in nothing that cannot be
// asked about (H10, H11).
func TestDocsKyverno(t *testing.T) {
	p := deployed(t, "kyverno.yaml", func() any { return new(imagePolicy) }).(*imagePolicy)
	s := p.Spec
	if p.APIVersion != "policies.kyverno.io/v1" || p.Kind != "ImageValidatingPolicy" || *s.FailurePolicy != admissionv1.Fail || !slices.Equal(s.Actions, []admissionv1.ValidationAction{admissionv1.Deny}) ||
		!s.Configurations.MutateDigest || !s.Configurations.VerifyDigest || !s.Configurations.Required || s.Webhook.Timeout < 1 || s.Webhook.Timeout > 30 {
		t.Errorf("%+v", s)
	}
	rule := s.Match.ResourceRules[0]
	for _, asked := range []string{"pods", "pods/ephemeralcontainers"} {
		if !slices.Contains(rule.Resources, asked) {
			t.Errorf("%s is not asked about: %q", asked, rule.Resources)
		}
	}
	if !slices.Contains(rule.Operations, admissionv1.Create) || !slices.Contains(rule.Operations, admissionv1.Update) || s.Match.ExcludeResourceRules != nil {
		t.Errorf("%+v", s.Match)
	}
	for _, part := range []string{"images.containers", "images.initContainers", "images.ephemeralContainers", "images." + s.Images[0].Name} {
		if !strings.Contains(s.Variables[0].Expression, part) {
			t.Errorf("%s are not asked about", part)
		}
	}
	kinds := map[string]string{}
	for _, a := range s.Attestations {
		kinds[a.Name] = a.InToto.Type
	}
	if kinds["signature"] != intoto.CosignSignature || kinds["summary"] != vsa.PredicateType {
		t.Errorf("%q", kinds)
	}
	var all strings.Builder
	for _, v := range s.Validations {
		fmt.Fprintf(&all, "%s\n", v.Expression)
		if v.Message == "" || !strings.HasPrefix(v.Expression, "variables."+s.Variables[0].Name+".all(") {
			t.Errorf("%+v is not asked of all", v)
		}
	}
	for _, a := range s.Attestors {
		if ids := a.Cosign.Keyless.Identities; len(ids) != 1 || ids[0].Issuer == "" || ids[0].Subject == "" || !strings.Contains(all.String(), "attestors."+a.Name+"]") {
			t.Errorf("%+v", a)
		}
	}
	for _, said := range []string{`verificationResult == "PASSED"`, "verifier.id ==", "policy.digest.sha256 ==", "resourceUri.", "verifiedLevels."} {
		if !strings.Contains(all.String(), said) {
			t.Errorf("%s is not asked", said)
		}
	}
}
