package cluster_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-release/waybill/test/lab/cluster"
	"github.com/waybill-release/waybill/test/lab/cluster/node"
)

const machine = "lab.example.test/machine" // an image with this machine's programs

// TestNode: the node does what the other tests rely on.
func TestNode(t *testing.T) {
	k := &kube{Cluster: cluster.StartServer(t), t: t} // pods are bound as they are made
	k.Apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: default}\n")
	n := node.Start(t, k.Cluster, node.Options{Name: "one", CPU: "2", Memory: "8Gi", Images: map[string]string{machine: ""}})
	pod := func(name, script string, more ...string) {
		k.Apply(t, fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {name: %s, annotations: {said: hello}, finalizers: [lab.example.test/keep]} # what is deleted can be read
spec:
  nodeName: one
  automountServiceAccountToken: false
  restartPolicy: Never
  containers:
  - name: main
    image: %s
    command: [sh, -c, %q]
    env:
    - {name: SAID, valueFrom: {fieldRef: {fieldPath: "metadata.annotations['said']"}}}
    - {name: TWICE, value: $(SAID) $(SAID) $$(SAID) $(NONE)}
%s`, name, machine, script, strings.Join(more, "\n")))
	}
	for _, row := range []struct {
		name, script string
		phase        corev1.PodPhase
		code         int32
		reason, said string
	}{
		{"succeeds", `echo "$TWICE"`, corev1.PodSucceeded, 0, "Completed", "hello hello $(SAID) $(NONE)\n"},
		{"fails", "exit 3", corev1.PodFailed, 3, "Error", ""},
		{"killed", "kill -9 $$$$", corev1.PodFailed, 137, "Error", ""},
	} {
		pod(row.name, row.script)
		p := k.over(row.name)
		if s := p.Status.ContainerStatuses; p.Status.Phase != row.phase || len(s) != 1 || s[0].State.Terminated.ExitCode != row.code || s[0].State.Terminated.Reason != row.reason || n.Log(p.UID) != row.said {
			t.Errorf("%s: %s, said %q", row.name, line(p), n.Log(p.UID))
		}
	}
	pod("large", `x=x; while :; do x="$x$x"; done`, "    resources: {limits: {memory: 64Mi}}")
	if p := k.over("large"); exitOf(p) != 137 || p.Status.ContainerStatuses[0].State.Terminated.Reason != "OOMKilled" {
		t.Error(line(p))
	}
	k.stopped(n, "polite", `trap "exit 5" TERM; while :; do sleep 0.1; done`, 600, 5, pod)
	k.stopped(n, "deaf", `trap "" TERM; while :; do sleep 0.1; done`, 1, 137, pod)

	k.Apply(t, strings.ReplaceAll("apiVersion: v1\nkind: Pod\nmetadata: {name: unknown}\nspec:\n  nodeName: one\n  automountServiceAccountToken: false\n  restartPolicy: Never\n  containers: [{name: main, image: IMAGE}]\n", "IMAGE", repository))
	if p := k.over("unknown"); p.Status.Phase != corev1.PodFailed || !strings.Contains(p.Status.Message, "no image") {
		t.Error(line(p))
	}
}

// stopped deletes a pod, and wants the exit code that its process then has.
func (k *kube) stopped(n *node.Node, name, script string, grace int64, code int32, pod func(name, script string, more ...string)) {
	k.t.Helper()
	pod(name, script, "  terminationGracePeriodSeconds: 3600")
	var p corev1.Pod
	k.Await(k.t, "pod "+name, func() bool {
		p = k.pod(name)
		return len(n.Running(p.UID)) == 1
	})
	if err := k.Do(k.t.Context(), http.MethodDelete, pods+"/"+name, metav1.DeleteOptions{GracePeriodSeconds: &grace}, nil); err != nil {
		k.t.Fatal(err)
	}
	if p := k.over(name); exitOf(p) != code || p.DeletionTimestamp == nil {
		k.t.Errorf("%s, want %d", line(p), code)
	}
}

func (k *kube) pod(name string) (p corev1.Pod) {
	k.t.Helper()
	if err := k.Do(k.t.Context(), http.MethodGet, pods+"/"+name, nil, &p); err != nil {
		k.t.Fatal(err)
	}
	return p
}

// over is a pod that ended.
func (k *kube) over(name string) (p corev1.Pod) {
	k.t.Helper()
	k.Await(k.t, "the end of pod "+name, func() bool {
		p = k.pod(name)
		return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
	})
	return p
}
