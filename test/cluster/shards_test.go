package cluster_test

import (
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-release/waybill/test/lab/cluster/node"
)

// leases are where the shards of a plan exclude each other: the kinds of place that
// --lease takes, as the pods name them.
func leases() map[string]func(f *fleet, name string) string {
	return map[string]func(f *fleet, name string) string{
		"bucket":     func(f *fleet, name string) string { return f.bucket("leases-" + name) },
		"kubernetes": func(_ *fleet, name string) string { return "kubernetes://waybill/" + name },
	}
}

// promoter gives the promoter the role of features.yaml for leases in the cluster.
const promoter = `apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: promoter, namespace: waybill}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: waybill-promoter}
subjects: [{kind: ServiceAccount, name: promoter, namespace: default}]
`

// TestPromoteJob promotes plans with the Job of promote-job.yaml, and disturbs it.
func TestPromoteJob(t *testing.T) {
	k := open(t)
	k.Apply(t, "apiVersion: v1\nkind: Namespace\nmetadata: {name: waybill}\n")
	k.Apply(t, deployed(t, "features.yaml"))
	k.Apply(t, promoter)
	n := k.nodes(4, "one", "two")
	for kind, lease := range leases() {
		for name, row := range map[string]func(*testing.T, *kube, []*node.Node, promotion){
			"killed": killed, "paused": paused, "twice": twice, "whole": whole, "codes": codes, "evicted": evicted, "suspended": suspended, "memory": memory,
		} {
			if aboutLeases := name == "killed" || name == "paused" || name == "twice"; kind == "kubernetes" && !aboutLeases {
				continue
			}
			t.Run(name+"-"+kind, func(t *testing.T) {
				f := openFleet(t, k.Cluster, 32, func(f *fleet) { f.door = newDoorway(t, f.Registry); f.to, f.unsigned = f.door.host, name == "codes" })
				row(t, k.with(t, f), n, promotion{name: name + "-" + kind, results: f.bucket("results"), lease: lease(f, name)})
			})
		}
	}
}

// whole: each pod signs the records of its images with the token of its service
// account.
func whole(t *testing.T, k *kube, n []*node.Node, r promotion) {
	k.f.profile("records: {verifier: \"https://promoter.example.test\", policy: \"https://git.example.test/policy.yaml\"}\n")
	k.configure("plan.json")
	k.start(r)
	k.completes(r, n...)
	if pods := k.pods(r.name); len(pods) != 8 {
		t.Errorf("%d pods", len(pods))
	}
	for shard := range 8 {
		if _, said := k.attempts(r.name, fmt.Sprint(shard), n); strings.Contains(said, "No record was written") || !strings.Contains(said, "OK promotion") {
			t.Errorf("shard %d:\n%s", shard, said)
		}
	}
}

// completes waits until the Job is complete, and the merge accounts for all.
func (k *kube) completes(r promotion, n ...*node.Node) {
	k.t.Helper()
	end := k.ends(r.name, n...)
	k.tell(r.name)
	if end.Type != batchv1.JobComplete {
		k.tell(r.name, n...)
		k.t.Fatalf("%+v", end)
	}
	k.f.complete(r.results)
}

// codes: a refused shard is final, even if some of its images were unavailable, and
// the others finish; what was unavailable is tried again; wrong use is final.
func codes(t *testing.T, k *kube, n []*node.Node, r promotion) {
	refusing := r
	refusing.name, refusing.results = r.name+"-refused", k.f.bucket("refused")
	shard := k.f.shardOf("v0", 8)
	refused, _ := strconv.Atoi(shard)
	k.f.door.goAway(true)
	k.start(refusing)
	k.Await(t, "a pod that could not reach the registry", func() bool {
		return slices.ContainsFunc(k.pods(refusing.name), func(p corev1.Pod) bool { return exitOf(p) == 3 })
	})
	k.f.door.goAway(false)
	if end := k.ends(refusing.name, n...); end.Type != batchv1.JobFailed || end.Reason != batchv1.JobReasonFailedIndexes {
		t.Errorf("%+v", end)
	}
	k.tell(refusing.name)
	if j := k.job(refusing.name); orNone(j.Status.FailedIndexes) != shard || j.Status.Succeeded != 7 {
		t.Errorf("failed indexes %q, want %s; %d succeeded", orNone(j.Status.FailedIndexes), shard, j.Status.Succeeded)
	}
	ones := 0
	for _, p := range k.pods(refusing.name) {
		switch code := exitOf(p); {
		case index(p) == shard && code == 1:
			ones++
		case code != 0 && code != 3:
			t.Errorf("%s", line(p))
		}
	}
	if ones != 1 {
		t.Errorf("the refused shard was tried %d times", ones)
	}
	// What of the refused shard was unavailable is missing, too, and only that.
	all, lost := len(k.f.plan.Edges), len(k.f.tagsOf(refused, 8))
	if a, code, out := k.f.merge(refusing.results); code != 1 || a.Counts.Verified >= all || a.Counts.Verified < all-lost {
		t.Errorf("%d, %+v\n%s", code, a, out)
	}

	wrong := r
	wrong.name, wrong.change = r.name+"-usage", withArgs("--patience=30m", "--patience=soon")
	k.start(wrong)
	if end := k.ends(wrong.name, n...); end.Type != batchv1.JobFailed {
		t.Errorf("%+v", end)
	}
	for _, p := range k.pods(wrong.name) {
		if exitOf(p) != 2 || len(k.pods(wrong.name)) != 8 {
			t.Errorf("%s", line(p))
		}
	}
}

// killed: the process of a shard is killed before its last tag. Its lease stays, so
// that the next pods are refused until that expires; a Lease of the cluster is
// watched by the next pod, until it can take it. No tag is written twice.
func killed(t *testing.T, k *kube, n []*node.Node, r promotion) {
	shard, tag := k.f.lastOf(8)
	held, open := k.f.door.hold(tag)
	k.start(r)
	<-held
	pid, _ := k.process(r.name, shard, n)
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	open()
	k.completes(r, n...)
	k.f.once()
	codes, said := k.attempts(r.name, shard, n)
	watches := strings.HasPrefix(r.lease, "kubernetes://")
	if codes[0] != 137 || codes[len(codes)-1] != 0 || watches != (len(codes) == 2) || watches == strings.Contains(said, "BUSY") {
		t.Errorf("shard %s ended with %v:\n%s", shard, codes, said)
	}
	t.Logf("shard %s, pod after pod: %v", shard, codes)
	if watches {
		k.shows("killed", r.name, shard, n)
	}
}

// paused: the process of a shard stops before it writes a tag, as on a machine that
// sleeps, and does not renew its lease. A second Job takes the lease and finishes.
// When the first process goes on, it is refused and writes nothing; its next pod
// finds all done.
func paused(t *testing.T, k *kube, n []*node.Node, r promotion) {
	r.change = patient // what was asked for before the pause is asked for again
	shard, tag := k.f.lastOf(8)
	held, open := k.f.door.holdReads(tag)
	k.start(r)
	<-held
	pid, _ := k.process(r.name, shard, n)
	if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	open()
	second := r
	second.name += "-second"
	k.start(second)
	k.completes(second, n...)
	if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	k.completes(r, n...)
	k.f.once()
	if codes, said := k.attempts(r.name, shard, n); !slices.Equal(codes, []int32{3, 0}) || !strings.Contains(said, "was not renewed in time") {
		t.Errorf("shard %s ended with %v:\n%s", shard, codes, said)
	}
	if strings.HasPrefix(r.lease, "kubernetes://") {
		k.shows("paused", r.name, shard, n)
	}
}

// process is the process of a shard's first pod, and the pod's name.
func (k *kube) process(job, shard string, n []*node.Node) (pid int, pod string) {
	k.t.Helper()
	for _, p := range k.pods(job) {
		if index(p) != shard {
			continue
		}
		for _, at := range n {
			if pids := at.Running(p.UID); len(pids) == 1 {
				return pids[0], p.Name
			}
		}
	}
	k.t.Fatalf("nothing runs of shard %s of %s", shard, job)
	return 0, ""
}

// attempts are how the pods of a shard ended, and what they said.
func (k *kube) attempts(job, shard string, n []*node.Node) (codes []int32, said string) {
	k.t.Helper()
	for _, p := range k.pods(job) {
		if index(p) != shard {
			continue
		}
		codes = append(codes, exitOf(p))
		for _, at := range n {
			if at.Name == p.Spec.NodeName {
				said += at.Log(p.UID)
			}
		}
	}
	return codes, said
}

// evicted: a pod is evicted, as when its node is drained. It ends in time, releases
// its lease, and does not count.
func evicted(t *testing.T, k *kube, n []*node.Node, r promotion) {
	shard, tag := k.f.lastOf(8)
	held, open := k.f.door.hold(tag)
	k.start(r)
	<-held
	_, victim := k.process(r.name, shard, n)
	eviction := policyv1.Eviction{TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "Eviction"}, ObjectMeta: metav1.ObjectMeta{Name: victim}}
	if err := k.Do(t.Context(), http.MethodPost, pods+"/"+victim+"/eviction", eviction, nil); err != nil {
		t.Fatal(err)
	}
	k.Await(t, "the end of the evicted pod", func() bool {
		return !slices.ContainsFunc(k.pods(r.name), func(p corev1.Pod) bool { return p.Name == victim && exitOf(p) < 0 })
	})
	open()
	k.completes(r, n...)
	if failed := k.failures(r.name, shard); failed != 0 {
		t.Errorf("the eviction counts as %d failures", failed)
	}
}

// failures is how many failures of a shard count, as its last pod says.
func (k *kube) failures(job, shard string) (n int) {
	k.t.Helper()
	for _, p := range k.pods(job) {
		if index(p) == shard {
			n, _ = strconv.Atoi(p.Annotations[batchv1.JobIndexFailureCountAnnotation])
		}
	}
	return n
}

// suspended: a Job is suspended in the middle of its work, and resumed.
func suspended(t *testing.T, k *kube, n []*node.Node, r promotion) {
	shard, tag := k.f.lastOf(8)
	held, open := k.f.door.hold(tag)
	k.start(r)
	<-held
	suspend := func(is bool) {
		if err := k.Do(t.Context(), http.MethodPatch, jobs+"/"+r.name, map[string]any{"spec": map[string]any{"suspend": is}}, nil); err != nil {
			t.Fatal(err)
		}
	}
	suspend(true)
	k.Await(t, "the suspended Job", func() bool {
		return slices.ContainsFunc(k.job(r.name).Status.Conditions, func(c batchv1.JobCondition) bool {
			return c.Type == batchv1.JobSuspended && c.Status == corev1.ConditionTrue
		}) && !slices.ContainsFunc(k.pods(r.name), func(p corev1.Pod) bool {
			return p.Status.Phase == corev1.PodRunning || p.Status.Phase == corev1.PodPending
		})
	})
	open()
	k.tell(r.name)
	if a, code, _ := k.f.merge(r.results); code == 0 {
		t.Errorf("the merge accepts what is suspended: %+v", a)
	}
	suspend(false)
	k.completes(r, n...)
	if failed := k.failures(r.name, shard); failed != 0 {
		t.Errorf("the suspension counts as %d failures", failed)
	}
}

// twice: two Jobs of one plan. A lease excludes the second from a shard that the
// first has at that time, and after that it finds all done.
func twice(t *testing.T, k *kube, n []*node.Node, r promotion) {
	r.change = patient // the second Job may take longer to be excluded than one attempt
	shard, tag := k.f.lastOf(8)
	held, open := k.f.door.hold(tag)
	k.start(r)
	<-held
	second := r
	second.name += "-second"
	k.start(second)
	k.Await(t, "a pod that the lease excludes", func() bool {
		codes, said := k.attempts(second.name, shard, n)
		return slices.Contains(codes, 3) && strings.Contains(said, "BUSY")
	})
	open()
	k.completes(r, n...)
	k.completes(second, n...)
	k.f.once()
	if codes, _ := k.attempts(r.name, shard, n); len(codes) != 1 || codes[0] != 0 {
		t.Errorf("the first was disturbed: %v", codes)
	}
}

// memory: a pod over its limit is killed and tried again, as often as the Job says.
func memory(t *testing.T, k *kube, n []*node.Node, r promotion) {
	r.change = func(j *batchv1.Job) {
		c := &j.Spec.Template.Spec.Containers[0]
		small := resource.MustParse("8Mi")
		c.Resources.Requests[corev1.ResourceMemory], c.Resources.Limits[corev1.ResourceMemory] = small, small
		once := int32(1)
		j.Spec.BackoffLimitPerIndex = &once
	}
	k.start(r)
	if end := k.ends(r.name, n...); end.Type != batchv1.JobFailed {
		t.Errorf("%+v", end)
	}
	k.tell(r.name)
	for shard := range 8 {
		if codes, _ := k.attempts(r.name, fmt.Sprint(shard), n); !slices.Equal(codes, []int32{137, 137}) {
			t.Errorf("shard %d: %v", shard, codes)
		}
	}
}
