package stories

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
)

// deployFile reads a file that runs Waybill on another system.
func deployFile(t *testing.T, name string) string {
	t.Helper()
	return string(contents(t, "..", "..", "cmd", "waybill", "deploy", name))
}

// readObjects reads the objects of a manifest as strictly as the API server is asked to be.
// Exactly those in the map must be there, by kind and name.
func readObjects(text string, into map[string]any) error {
	seen := 0
	for document := range strings.SplitSeq(text, "\n---\n") {
		raw, err := yaml.YAMLToJSONStrict([]byte(document))
		if err != nil {
			return err
		}
		var head struct {
			APIVersion, Kind string
			Metadata         struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal([]byte(document), &head); err != nil {
			return err
		}
		name := head.APIVersion + " " + head.Kind + " " + head.Metadata.Name
		if into[name] == nil || head.Metadata.Namespace != "waybill" {
			return fmt.Errorf("unexpected: %s in %q", name, head.Metadata.Namespace)
		}
		faults, err := json.UnmarshalStrict(raw, into[name])
		if err := errors.Join(append(faults, err)...); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		seen++
	}
	if seen != len(into) {
		return fmt.Errorf("%d objects, want %d", seen, len(into))
	}
	return nil
}

// leastPod checks that a pod has no right that it does not need, and that each volume that
// is mounted is there. It returns the arguments of its one container.
func leastPod(t *testing.T, pod corev1.PodSpec) []string {
	t.Helper()
	c := pod.Containers[0]
	if sc := c.SecurityContext; len(pod.Containers) != 1 || !*pod.SecurityContext.RunAsNonRoot || !*sc.ReadOnlyRootFilesystem || *sc.AllowPrivilegeEscalation || !slices.Contains(sc.Capabilities.Drop, "ALL") ||
		*pod.AutomountServiceAccountToken || c.Resources.Limits.Memory().IsZero() || !strings.Contains(c.Image, "@sha256:") {
		t.Errorf("%+v", pod)
	}
	for _, m := range c.VolumeMounts {
		if !slices.ContainsFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name }) {
			t.Errorf("there is no volume %s", m.Name)
		}
	}
	return c.Args
}

// takesAll runs a command as far as to the profile or plan that is not there, and with one flag more
// that no command has.
func takesAll(t *testing.T, args []string) {
	t.Helper()
	dir := t.TempDir()
	args = slices.Clone(args)
	for i, a := range args {
		args[i] = strings.NewReplacer("=/", "="+dir+"/", "/etc/waybill/plan.json", dir+"/plan.json").Replace(a)
		if flag, path, is := strings.Cut(args[i], "="); is && flag == "--metrics-file" {
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
		}
	}
	run := func(args ...string) string {
		out, _ := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), args...).CombinedOutput() // fails, as expected here
		return string(out)
	}
	if out := run(args...); !strings.Contains(out, "/profile.yaml") && !strings.Contains(out, "/plan.json: no such file") || strings.Contains(out, "flag") {
		t.Errorf("%q: without a profile and a plan: %s", args, out)
	}
	if out := run(append(args, "--unheard-of")...); !strings.Contains(out, "--unheard-of") {
		t.Errorf("a flag that is not one: %s", out)
	}
}

// TestDeployWatch: the objects are those of the API, their pods have no right that they do
// not need, and the command takes their arguments.
func TestDeployWatch(t *testing.T) {
	var watch, mirrors batchv1.CronJob
	var network networkingv1.NetworkPolicy
	var claim corev1.PersistentVolumeClaim
	into := map[string]any{
		"v1 ServiceAccount waybill-watch": new(corev1.ServiceAccount), "v1 PersistentVolumeClaim waybill-watch": &claim, "batch/v1 CronJob waybill-watch": &watch,
		"batch/v1 CronJob waybill-mirrors": &mirrors, "networking.k8s.io/v1 NetworkPolicy waybill-watch": &network,
	}
	text := deployFile(t, "watch.yaml")
	if err := readObjects(text, into); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []string{"\nunheardOf: true\n", "\nkind: twice\n", "\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: x, namespace: waybill}\n"} {
		if readObjects(text+fault, into) == nil {
			t.Errorf("%q is read", fault)
		}
	}
	for _, job := range []batchv1.CronJob{watch, mirrors} {
		pod := job.Spec.JobTemplate.Spec.Template
		takesAll(t, leastPod(t, pod.Spec))
		if job.Spec.ConcurrencyPolicy != batchv1.ForbidConcurrent || *job.Spec.JobTemplate.Spec.BackoffLimit != 0 || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
			t.Errorf("%s runs twice at once, or an alarm is retried: %+v", job.Name, job.Spec)
		}
		if selected := network.Spec.PodSelector.MatchExpressions[0]; !slices.Contains(selected.Values, pod.Labels[selected.Key]) {
			t.Errorf("the network of %s is open", job.Name)
		}
	}
	if at := watch.Spec.JobTemplate.Spec.Template.Spec.Volumes[1].PersistentVolumeClaim; at.ClaimName != claim.Name {
		t.Errorf("%+v", at)
	}
}

var directive = regexp.MustCompile(`(?m)^(\w+)=(.*)$`)

// TestDeployUnits: each timer has its unit, whose command takes the arguments, and both are
// units for systemd, where it is installed.
func TestDeployUnits(t *testing.T) {
	for _, name := range []string{"waybill-watch", "waybill-mirrors"} {
		said := map[string]string{}
		for _, suffix := range []string{".service", ".timer"} {
			for _, m := range directive.FindAllStringSubmatch(deployFile(t, name+suffix), -1) {
				said[m[1]] = m[2]
			}
		}
		if said["User"] != "waybill" || said["Type"] != "oneshot" || said["ProtectSystem"] != "strict" || said["NoNewPrivileges"] != "yes" || said["OnCalendar"] == "" || said["Persistent"] != "yes" || said["WantedBy"] != "timers.target" {
			t.Errorf("%s: %v", name, said)
		}
		program, args, _ := strings.Cut(said["ExecStart"], " ")
		takesAll(t, strings.Fields(args))
		if said["StateDirectory"] != name || !strings.Contains(args, "--metrics-file=/var/lib/prometheus/node-exporter/"+name+".prom") {
			t.Errorf("%s: %q", name, args)
		}
		if _, err := exec.LookPath("systemd-analyze"); err != nil {
			t.Logf("systemd does not read %s: %v", name, err)
			continue
		}
		dir := t.TempDir()
		verify := func(more string) string {
			for _, suffix := range []string{".service", ".timer"} {
				text := strings.Replace(deployFile(t, name+suffix), program+" ", filepath.Join(bin, "waybill")+" ", 1)
				save(t, []byte(strings.Replace(text, "\n[", "\n"+more+"[", 2)), dir, name+suffix)
			}
			out, err := exec.CommandContext(t.Context(), "systemd-analyze", "verify", "--man=no", filepath.Join(dir, name+".service"), filepath.Join(dir, name+".timer")).CombinedOutput()
			if err != nil {
				return err.Error() + string(out)
			}
			return string(out)
		}
		if out := verify(""); strings.Contains(out, name) {
			t.Error(out)
		}
		if out := verify("UnheardOf=yes\n"); !strings.Contains(out, "UnheardOf") {
			t.Errorf("a key that is not one is read: %s", out)
		}
	}
}

// TestDocsWatchAlerts: the rules for timers name only metrics and outcomes of a run.
func TestDocsWatchAlerts(t *testing.T) {
	rules, _, _ := strings.Cut(deployFile(t, "alerts-watch.yaml"), "- name: waybill-cronjobs")
	selector := regexp.MustCompile(`(waybill_run_\w+)\{command="([a-z.]+)"(?:,outcome!?[=~]"([\w|]+)")?`)
	named := selector.FindAllStringSubmatch(rules, -1)
	if len(named) < 6 || len(named) != strings.Count(rules, "waybill_run_") {
		t.Errorf("%q", named)
	}
	for _, m := range named {
		for outcome := range strings.SplitSeq(m[3], "|") {
			var out bytes.Buffer
			if err := new(span.Tally).WriteMetrics(&out, span.Run{Command: m[2], Outcome: outcome}); err != nil {
				t.Fatal(err)
			}
			has := fmt.Sprintf("%s{command=%q", m[1], m[2])
			if outcome != "" {
				has += fmt.Sprintf(",outcome=%q} 1\n", outcome)
			}
			if !strings.Contains(out.String(), has) {
				t.Errorf("no run reports %s:\n%s", has, out.String())
			}
		}
	}
}
