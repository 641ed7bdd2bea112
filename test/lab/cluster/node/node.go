// Package node is a node of a Kubernetes cluster that runs the containers of pods
// as processes of this machine, without images: a table says which program an
// image contains. It does as much of a kubelet's work as Jobs need, and refuses
// the pods that need more.
//
//	n := node.Start(t, c, node.Options{Name: "one", CPU: "4", Memory: "4Gi", Images: map[string]string{"ghcr.io/example/waybill": bin}})
//	n.Lose(node.Dead) // the machine is off; n.Return() switches it on
//
// A container is a process in a root directory of its own (chroot), under the user
// that its pod names, which contains the program and the volumes: emptyDir,
// configMap, secret, hostPath and projected, with the tokens of service accounts,
// which are renewed. What a container adds to a hostPath is there for others when it
// ended. Configuration is written as a kubelet does, as links into a
// directory. A container whose processes hold more memory than its limit is killed
// and counts as OOMKilled, with 137. Requests count in the scheduler. Limits of CPU
// and of disk are not enforced, images are not pulled, the network is this
// machine's, and probes are not sent.
package node

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/waybill-release/waybill/test/lab/cluster"
)

// Options say what a node is.
type Options struct {
	Name        string
	CPU, Memory string // what the scheduler may give to pods
	// Images are the programs of images, by repository: without tag and digest. An
	// image without a program has the root directory of this machine, and a command.
	Images map[string]string
}

// Loss is how a node is lost.
type Loss int

// A node that is off runs nothing; one that is apart runs what it ran, but does not
// reach the API server.
const (
	Dead Loss = iota + 1
	Apart
)

// Node is a node that runs until the test ends.
type Node struct {
	Options
	t   testing.TB
	c   *cluster.Cluster
	dir string

	mu   sync.Mutex // guards the fields below
	pods map[types.UID]*pod
	down context.CancelFunc // ends the connection to the API server; nil if there is none
	live context.Context    // ends with that connection
	done sync.WaitGroup     // of that connection
	cpu  time.Duration      // of containers that ended
}

const heartbeat = 2 * time.Second

// Start registers a node, and runs the pods that are bound to it. The scheduler
// binds some to it as soon as the controllers have seen that it is ready.
func Start(t testing.TB, c *cluster.Cluster, o Options) *Node {
	t.Helper()
	n := &Node{Options: o, t: t, c: c, dir: t.TempDir(), pods: map[types.UID]*pod{}}
	if err := os.Chmod(n.dir, 0o755); err != nil { // other users run in it
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Lose(Dead) })
	if err := n.register(); err != nil {
		t.Fatalf("registering node %s: %v", o.Name, err)
	}
	n.Return()
	return n
}

// register makes the node's object and its status.
func (n *Node) register() error {
	now := metav1.Now()
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(n.CPU), corev1.ResourceMemory: resource.MustParse(n.Memory),
		corev1.ResourceEphemeralStorage: resource.MustParse("10Ti"), corev1.ResourcePods: resource.MustParse("250"),
	}
	self := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: n.Name, Labels: map[string]string{
		corev1.LabelHostname: n.Name, corev1.LabelOSStable: "linux", corev1.LabelArchStable: "amd64",
	}}}
	err := n.c.Do(n.t.Context(), http.MethodPost, "/api/v1/nodes", self, nil)
	if err != nil && !cluster.IsStatus(err, http.StatusConflict) {
		return err
	}
	status := corev1.NodeStatus{Capacity: room, Allocatable: room, Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}}
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		is := corev1.ConditionFalse
		if kind == corev1.NodeReady {
			is = corev1.ConditionTrue
		}
		status.Conditions = append(status.Conditions, corev1.NodeCondition{Type: kind, Status: is, Reason: "Lab", LastHeartbeatTime: now, LastTransitionTime: now})
	}
	return n.c.Do(n.t.Context(), http.MethodPatch, "/api/v1/nodes/"+n.Name+"/status", map[string]any{"status": status}, nil)
}

// Lose cuts the node off from the API server: its lease ends. The processes of a
// dead node end, too.
func (n *Node) Lose(how Loss) {
	n.mu.Lock()
	down := n.down
	n.down = nil
	n.mu.Unlock()
	if down != nil {
		down()
	}
	n.done.Wait()
	if how == Apart {
		return
	}
	n.mu.Lock()
	gone := n.pods
	n.pods = map[types.UID]*pod{}
	n.mu.Unlock()
	for _, p := range gone {
		p.kill()
		<-p.ended
	}
}

// Return connects the node again. A dead one has forgotten its pods, and reports
// them as failed.
func (n *Node) Return() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down != nil {
		return
	}
	n.live, n.down = context.WithCancel(context.WithoutCancel(n.t.Context()))
	live := n.live
	n.done.Go(func() { n.beat(live) })
	n.done.Go(func() { n.follow(live) })
	for _, p := range n.pods {
		p.report(live)
	}
}

// beat renews the node's lease, and its status after a loss.
func (n *Node) beat(live context.Context) {
	const leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
	lost := true
	for live.Err() == nil {
		now, seconds := metav1.NewMicroTime(time.Now()), int32(40)
		l := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: n.Name}, Spec: coordinationv1.LeaseSpec{HolderIdentity: &n.Name, LeaseDurationSeconds: &seconds, RenewTime: &now}}
		err := n.c.Do(live, http.MethodPatch, leases+"/"+n.Name, l, nil)
		if cluster.IsStatus(err, http.StatusNotFound) {
			err = n.c.Do(live, http.MethodPost, leases, l, nil)
		}
		if err == nil && lost && live.Err() == nil {
			err = n.register() // ready again
		}
		lost = err != nil
		pause(live, heartbeat)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// follow runs what is bound to the node, and ends what no longer is.
func (n *Node) follow(live context.Context) {
	at := "/api/v1/pods?fieldSelector=spec.nodeName%3D" + n.Name
	for live.Err() == nil {
		var now corev1.PodList
		if err := n.c.Do(live, http.MethodGet, at, nil, &now); err != nil {
			pause(live, heartbeat/4)
			continue
		}
		listed := map[types.UID]bool{}
		for _, p := range now.Items {
			listed[p.UID] = true
			n.see(live, p)
		}
		for _, p := range n.unlisted(listed) {
			p.kill()
		}
		for e, err := range n.c.Watch(live, at+"&resourceVersion="+now.ResourceVersion) {
			var p corev1.Pod
			if err != nil || e.Type == "ERROR" || json.Unmarshal(e.Object, &p) != nil {
				break // list again
			}
			if e.Type == "DELETED" {
				n.forget(p.UID)
				continue
			}
			n.see(live, p)
		}
	}
}

func (n *Node) unlisted(listed map[types.UID]bool) (gone []*pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for uid, p := range n.pods {
		if !listed[uid] {
			gone = append(gone, p)
			delete(n.pods, uid)
		}
	}
	return gone
}

// forget ends a pod that the API server no longer has.
func (n *Node) forget(uid types.UID) {
	n.mu.Lock()
	p := n.pods[uid]
	delete(n.pods, uid)
	n.mu.Unlock()
	if p != nil {
		p.kill()
	}
}

// see starts a new pod, and stops one that is being deleted.
func (n *Node) see(live context.Context, seen corev1.Pod) {
	n.mu.Lock()
	p, known := n.pods[seen.UID]
	over := seen.Status.Phase == corev1.PodSucceeded || seen.Status.Phase == corev1.PodFailed
	if !known && !over {
		p = newPod(n, seen)
		n.pods[seen.UID] = p
	}
	n.mu.Unlock()
	switch {
	case known && seen.DeletionTimestamp != nil:
		p.stop(live, *seen.DeletionGracePeriodSeconds)
	case known:
	case over:
		if seen.DeletionTimestamp != nil {
			n.remove(live, seen)
		}
	case seen.DeletionTimestamp != nil || seen.Status.Phase == corev1.PodRunning: // it ran before the node was off
		p.lose()
		p.report(live)
	default:
		go p.run()
	}
}

// remove says that nothing of a pod runs here: the API server may forget it.
func (n *Node) remove(live context.Context, p corev1.Pod) {
	none := int64(0)
	_ = n.c.Do(live, http.MethodDelete, path(p), metav1.DeleteOptions{GracePeriodSeconds: &none, Preconditions: &metav1.Preconditions{UID: &p.UID}}, nil)
}

func path(p corev1.Pod) string { return "/api/v1/namespaces/" + p.Namespace + "/pods/" + p.Name }

// connection is the context of the connection to the API server, or one that
// ended.
func (n *Node) connection() context.Context {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.live
}

// Log is what the containers of a pod printed.
func (n *Node) Log(uid types.UID) string {
	raw, err := os.ReadFile(filepath.Join(n.dir, string(uid), "log"))
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// Used is how long the containers that ended had a CPU.
func (n *Node) Used() time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.cpu
}

// Running are the process ids of the containers of a pod.
func (n *Node) Running(uid types.UID) (pids []int) {
	n.mu.Lock()
	p := n.pods[uid]
	n.mu.Unlock()
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.containers {
		if c.cmd != nil && c.ended == nil {
			pids = append(pids, c.cmd.Process.Pid)
		}
	}
	return pids
}
