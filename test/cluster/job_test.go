package cluster_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/waybill-release/waybill/test/lab/cluster"
	"github.com/waybill-release/waybill/test/lab/cluster/node"
)

// repository is that of the image of the deploy files.
const repository = "ghcr.io/waybill-release/waybill"

// kube is a cluster in which a plan is promoted by the Job of promote-job.yaml.
type kube struct {
	*cluster.Cluster
	t *testing.T
	f *fleet
}

const (
	jobs = "/apis/batch/v1/namespaces/default/jobs"
	pods = "/api/v1/namespaces/default/pods"
)

// open starts a cluster with the service account of promote-job.yaml.
func open(t *testing.T) *kube {
	t.Helper()
	k := &kube{Cluster: cluster.Start(t), t: t}
	k.Apply(t, "apiVersion: v1\nkind: ServiceAccount\nmetadata: {name: promoter}\n")
	return k
}

// with is the same cluster for one row, with a fleet of its own.
func (k *kube) with(t *testing.T, f *fleet) *kube {
	t.Helper()
	r := &kube{Cluster: k.Cluster, t: t, f: f}
	r.configure("plan.json")
	return r
}

// nodes starts nodes that have waybill's image, each with room for some shards of
// promote-job.yaml.
func (k *kube) nodes(shards int, names ...string) (list []*node.Node) {
	k.t.Helper()
	for _, name := range names {
		list = append(list, node.Start(k.t, k.Cluster, node.Options{
			Name: name, CPU: fmt.Sprintf("%dm", 500*shards), Memory: "64Gi", Images: map[string]string{repository: bin + "/waybill"},
		}))
	}
	return list
}

// configure makes the config maps of promote-job.yaml, as its README does.
func (k *kube) configure(plan string) {
	k.t.Helper()
	for name, files := range map[string][]string{
		"promotion-profile": {"profile.yaml", "policy.yaml", "trusted_root.json", "signing_config.json"}, "promotion-plan": {plan},
	} {
		m := corev1.ConfigMap{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Data: map[string]string{}}
		for _, file := range files {
			m.Data[strings.Replace(file, plan, "plan.json", 1)] = k.f.read(file)
		}
		k.apply(m)
	}
}

func (k *kube) apply(object any) {
	k.t.Helper()
	raw, err := yaml.Marshal(object)
	if err != nil {
		k.t.Fatal(err)
	}
	k.Apply(k.t, string(raw))
}

// promotion is one Job: where it writes, and what of the file it changes.
type promotion struct {
	name           string
	results, lease string
	shards         int // 8 if unset
	change         func(*batchv1.Job)
}

// start applies promote-job.yaml. Only what its README says to change is changed:
// the two addresses and the number of shards; the image is the node's.
func (k *kube) start(r promotion) {
	k.t.Helper()
	if r.shards == 0 {
		r.shards = 8
	}
	text := strings.NewReplacer(
		"gs://promotions.example.test/results", r.results, "gs://promotions.example.test/leases", r.lease,
		"name: promote\n", "name: "+r.name+"\n", "completions: 8", fmt.Sprintf("completions: %d", r.shards), "parallelism: 8", fmt.Sprintf("parallelism: %d", r.shards),
		"maxFailedIndexes: 8", fmt.Sprintf("maxFailedIndexes: %d", r.shards), "$(JOB_COMPLETION_INDEX)/8", fmt.Sprintf("$(JOB_COMPLETION_INDEX)/%d", r.shards),
	).Replace(deployed(k.t, "promote-job.yaml"))
	if strings.HasPrefix(r.lease, "kubernetes://") { // its pods use the API
		text = strings.Replace(text, "automountServiceAccountToken: false", "automountServiceAccountToken: true", 1)
	}
	if r.change == nil {
		k.Apply(k.t, text)
		return
	}
	var job batchv1.Job
	if err := yaml.UnmarshalStrict([]byte(text), &job); err != nil {
		k.t.Fatal(err)
	}
	r.change(&job)
	k.apply(job)
}

// withArgs changes arguments of the container.
func withArgs(pairs ...string) func(*batchv1.Job) {
	return func(j *batchv1.Job) {
		c := &j.Spec.Template.Spec.Containers[0]
		for i := range c.Args {
			c.Args[i] = strings.NewReplacer(pairs...).Replace(c.Args[i])
		}
		c.Args = slices.DeleteFunc(c.Args, func(a string) bool { return a == "" })
	}
}

// job is a Job as it is now.
func (k *kube) job(name string) (j batchv1.Job) {
	k.t.Helper()
	if err := k.Do(k.t.Context(), http.MethodGet, jobs+"/"+name, nil, &j); err != nil {
		k.t.Fatal(err)
	}
	return j
}

// pods are the pods of a Job, the oldest first.
func (k *kube) pods(name string) []corev1.Pod {
	k.t.Helper()
	var list corev1.PodList
	if err := k.Do(k.t.Context(), http.MethodGet, pods+"?labelSelector=batch.kubernetes.io/job-name%3D"+name, nil, &list); err != nil {
		k.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) })
	return list.Items
}

// ends waits until a Job is over, and returns the condition that says so.
func (k *kube) ends(name string, nodes ...*node.Node) (end batchv1.JobCondition) {
	k.t.Helper()
	defer func() {
		if k.t.Failed() {
			k.tell(name, nodes...)
		}
	}()
	k.Await(k.t, "the end of Job "+name, func() bool {
		for _, c := range k.job(name).Status.Conditions {
			if c.Status == corev1.ConditionTrue && (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) {
				end = c
				return true
			}
		}
		return false
	})
	return end
}

// tell prints what there is to see of a Job.
func (k *kube) tell(name string, nodes ...*node.Node) {
	k.t.Helper()
	j := k.job(name)
	k.t.Logf("Job %s: completed %q, failed indexes %q, %d active, %d failed, conditions %+v", name, j.Status.CompletedIndexes, orNone(j.Status.FailedIndexes), j.Status.Active, j.Status.Failed, j.Status.Conditions)
	for _, p := range k.pods(name) {
		k.t.Logf("  %s", line(p))
		for _, n := range nodes {
			if p.Spec.NodeName == n.Name {
				k.t.Logf("    %s", n.Log(p.UID))
			}
		}
	}
}

func orNone(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// line is a pod in one line: its index, node, phase, exit code, and conditions that
// say why.
func line(p corev1.Pod) string {
	said := fmt.Sprintf("index %s on %s: %s", index(p), p.Spec.NodeName, p.Status.Phase)
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			said += fmt.Sprintf(", exit %d %s", c.State.Terminated.ExitCode, c.State.Terminated.Reason)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.DisruptionTarget && c.Status == corev1.ConditionTrue {
			said += ", disrupted: " + c.Reason
		}
	}
	if p.DeletionTimestamp != nil {
		said += ", being deleted"
	}
	if p.Status.Message != "" {
		said += ": " + p.Status.Message
	}
	return said
}

func index(p corev1.Pod) string { return p.Annotations[batchv1.JobCompletionIndexAnnotation] }

// exitOf is how a container of a pod ended; -1 if it did not.
func exitOf(p corev1.Pod) int32 {
	for _, c := range p.Status.ContainerStatuses {
		if c.State.Terminated != nil {
			return c.State.Terminated.ExitCode
		}
	}
	return -1
}
