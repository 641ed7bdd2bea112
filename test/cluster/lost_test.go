package cluster_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/waybill-release/waybill/test/lab/cluster/node"
)

// TestLostNode: the node of a shard is lost. Its pod is not replaced before it is
// certain that it does not run, which is when the node's object is deleted. If the
// process of that pod still runs, its lease keeps the next pod from working beside
// it.
func TestLostNode(t *testing.T) {
	for name, how := range map[string]node.Loss{"dead": node.Dead, "apart": node.Apart} {
		t.Run(name, func(t *testing.T) {
			k := open(t)
			f := openFleet(t, k.Cluster, 16, func(f *fleet) { f.door = newDoorway(t, f.Registry); f.to = f.door.host })
			lose(t, k.with(t, f), how, promotion{name: "promote", results: f.bucket("results"), lease: f.bucket("leases"), shards: 4})
		})
	}
}

func lose(t *testing.T, k *kube, how node.Loss, r promotion) {
	r.change = patient // what is held up waits longer than the eviction takes
	n := k.nodes(4, "one", "two")
	shard, tag := k.f.lastOf(r.shards)
	held, open := k.f.door.hold(tag)
	k.start(r)
	<-held
	_, victim := k.process(r.name, shard, n)
	lost := n[slices.IndexFunc(n, func(n *node.Node) bool { return n.Name == k.pod(victim).Spec.NodeName })]
	lost.Lose(how)
	if how == node.Dead {
		open()
	}
	k.Await(t, "the eviction of what ran on "+lost.Name, func() bool { return strings.Contains(line(k.pod(victim)), "being deleted") })
	k.tell(r.name)
	if codes, _ := k.attempts(r.name, shard, nil); len(codes) != 1 {
		t.Errorf("a pod of a node that nobody reaches was replaced: %v", codes)
	}
	// A cloud's controller does this when the machine is gone, and else a person.
	if err := k.Do(t.Context(), http.MethodDelete, "/api/v1/nodes/"+lost.Name, nil, nil); err != nil {
		t.Fatal(err)
	}
	if how == node.Apart {
		k.Await(t, "a pod that the lease excludes", func() bool {
			codes, said := k.attempts(r.name, shard, n)
			return slices.Contains(codes, 3) && strings.Contains(said, "BUSY")
		})
		open()
	}
	k.completes(r, n...)
	if failed := k.failures(r.name, shard); how == node.Dead && failed != k.busy(r.name, shard) {
		t.Errorf("the loss counts: %d failures", failed)
	}
}

// patient lets pods wait long for what is held up, and try it again.
func patient(j *batchv1.Job) {
	c := &j.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env, corev1.EnvVar{Name: "WAYBILL_PATIENCE", Value: "15m"})
}

// busy is how many pods of a shard were refused by the lease of an earlier one.
func (k *kube) busy(job, shard string) (n int) {
	for _, p := range k.pods(job) {
		if index(p) == shard && p.Status.Phase == corev1.PodFailed && exitOf(p) == 3 {
			n++
		}
	}
	return n
}
