package stories

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/caller"
)

// gateObjects are the objects of the service's manifest, read as strictly as the
// API server is asked to be.
type gateObjects struct {
	Namespace           corev1.Namespace
	ServiceAccount      corev1.ServiceAccount
	ConfigMap           corev1.ConfigMap
	Deployment          appsv1.Deployment
	Service             corev1.Service
	PodDisruptionBudget policyv1.PodDisruptionBudget
	NetworkPolicy       networkingv1.NetworkPolicy
}

func parseGate(text string) (o gateObjects, err error) {
	kinds := map[string]any{
		"v1 Namespace": &o.Namespace, "v1 ServiceAccount": &o.ServiceAccount, "v1 ConfigMap": &o.ConfigMap, "apps/v1 Deployment": &o.Deployment,
		"v1 Service": &o.Service, "policy/v1 PodDisruptionBudget": &o.PodDisruptionBudget, "networking.k8s.io/v1 NetworkPolicy": &o.NetworkPolicy,
	}
	for document := range strings.SplitSeq(text, "\n---\n") {
		raw, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			return o, err
		}
		var head struct{ APIVersion, Kind string }
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			return o, err
		}
		into := kinds[head.APIVersion+" "+head.Kind]
		if into == nil {
			return o, errors.New("unexpected, or there twice: " + head.Kind)
		}
		delete(kinds, head.APIVersion+" "+head.Kind)
		faults, err := json.UnmarshalStrict(raw, into)
		if err := errors.Join(append(faults, err)...); err != nil {
			return o, err
		}
	}
	if len(kinds) > 0 {
		return o, errors.New("an object lacks")
	}
	return o, nil
}

// TestDocsGateDeployment: the objects are those of the API, the pod has no right
// that it does not need, and the service takes the configuration that is there.
func TestDocsGateDeployment(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", "gate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	o, err := parseGate(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range [][2]string{{"readinessProbe", "readinessprobe"}, {"replicas: 2", "replicas: 2\n  replicas: 3"}, {"minAvailable", "minimum"}} {
		if _, err := parseGate(strings.Replace(text, fault[0], fault[1], 1)); err == nil {
			t.Errorf("%q is read", fault[1])
		}
	}
	pod := o.Deployment.Spec.Template.Spec
	c := pod.Containers[0]
	if sc := c.SecurityContext; !*pod.SecurityContext.RunAsNonRoot || !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation ||
		len(sc.Capabilities.Drop) != 1 || sc.Capabilities.Drop[0] != "ALL" || *pod.AutomountServiceAccountToken {
		t.Errorf("%+v, %+v", pod.SecurityContext, sc)
	}
	if c.Resources.Limits.Memory().IsZero() || !strings.Contains(c.Image, "@sha256:") || *o.Deployment.Spec.Replicas < 2 {
		t.Errorf("%+v, %s", c.Resources, c.Image)
	}
	if grace := *pod.TerminationGracePeriodSeconds; grace <= int64(serve.DrainTime.Seconds()) {
		t.Errorf("it is killed after %d s, and answers for %s", grace, serve.DrainTime)
	}
	labels := o.Deployment.Spec.Template.Labels
	for name, selector := range map[string]map[string]string{
		"the deployment": o.Deployment.Spec.Selector.MatchLabels, "the service": o.Service.Spec.Selector,
		"the budget": o.PodDisruptionBudget.Spec.Selector.MatchLabels, "the network": o.NetworkPolicy.Spec.PodSelector.MatchLabels,
	} {
		for key, value := range selector {
			if labels[key] != value || len(selector) == 0 {
				t.Errorf("%s selects other pods: %v", name, selector)
			}
		}
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
	}
	for _, used := range []string{c.LivenessProbe.HTTPGet.Port.StrVal, c.ReadinessProbe.HTTPGet.Port.StrVal, o.Service.Spec.Ports[0].TargetPort.StrVal, o.NetworkPolicy.Spec.Ingress[0].Ports[0].Port.StrVal} {
		if !ports[used] {
			t.Errorf("there is no port %q", used)
		}
	}
	if len(o.NetworkPolicy.Spec.PolicyTypes) != 2 {
		t.Error("the network is open one way")
	}
	if _, err := serve.ParseConfig([]byte(o.ConfigMap.Data["service.yaml"]), "/etc/waybill"); err != nil {
		t.Error(err)
	}
	if _, err := caller.Parse([]byte(o.ConfigMap.Data["callers.yaml"])); err != nil {
		t.Error(err)
	}
}

// TestDocsGateArgs: the command takes the arguments of the deployment, as far
// as to what lacks here.
func TestDocsGateArgs(t *testing.T) {
	dir := t.TempDir()
	raw, err := os.ReadFile(filepath.Join("..", "..", "cmd", "waybill", "deploy", "gate.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	o, err := parseGate(string(raw))
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range o.ConfigMap.Data {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := o.Deployment.Spec.Template.Spec.Containers[0].Args
	args[len(args)-1] = filepath.Join(dir, filepath.Base(args[len(args)-1]))
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), append(args, "--check")...)
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 2 || !strings.Contains(string(out), "profile.yaml") {
		t.Errorf("without a profile: %v\n%s", err, out)
	}
}
