package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/waybill-release/waybill/test/lab/cluster"
)

// pod is a pod that the node runs, or ran.
type pod struct {
	n     *Node
	spec  corev1.Pod
	dir   string
	ended chan struct{} // closed when no process of it runs

	reports sync.Mutex // one report at a time: the last one is the newest

	mu         sync.Mutex // guards the fields below
	containers []*container
	stopping   bool   // somebody deletes it
	killed     bool   // no process may start anymore
	why        string // it did not start
	message    string
	over       bool
}

func newPod(n *Node, spec corev1.Pod) *pod {
	return &pod{n: n, spec: spec, dir: filepath.Join(n.dir, string(spec.UID)), ended: make(chan struct{})}
}

// run runs the containers, and reports how they do and how they ended.
func (p *pod) run() {
	err := supported(p.spec.Spec)
	if err == nil {
		err = p.start()
	}
	if err != nil {
		p.fail("NotStarted", err)
		p.kill()
	} else {
		p.report(p.n.connection())
	}
	for _, c := range p.containers {
		c.wait(p)
	}
	p.mu.Lock()
	p.over = true
	p.mu.Unlock()
	close(p.ended)
	p.report(p.n.connection())
}

// supported refuses what this node would not do, because a test would rely on it.
func supported(s corev1.PodSpec) error {
	switch {
	case s.RestartPolicy != corev1.RestartPolicyNever:
		return fmt.Errorf("restart policy %s: this node restarts nothing", s.RestartPolicy)
	case len(s.InitContainers) > 0:
		return errors.New("this node runs no init containers")
	}
	for _, c := range s.Containers {
		if len(c.EnvFrom) > 0 || c.Lifecycle != nil || c.LivenessProbe != nil || c.ReadinessProbe != nil || c.StartupProbe != nil {
			return fmt.Errorf("container %s: this node knows no envFrom, hooks and probes", c.Name)
		}
	}
	return nil
}

// start writes the volumes and starts the containers.
func (p *pod) start() error {
	if err := os.MkdirAll(p.dir, 0o755); err != nil {
		return err
	}
	log, err := os.OpenFile(filepath.Join(p.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close() // the processes have their own
	for _, spec := range p.spec.Spec.Containers {
		c := &container{Container: spec, log: log}
		if err := c.prepare(p); err != nil {
			return fmt.Errorf("container %s: %w", spec.Name, err)
		}
		p.mu.Lock()
		if p.killed {
			err = errors.New("the pod was deleted before it started")
		} else if err = c.cmd.Start(); err == nil {
			c.since = metav1.Now()
			p.containers = append(p.containers, c)
		}
		stopping := p.stopping
		p.mu.Unlock()
		if err != nil {
			return fmt.Errorf("container %s: %w", spec.Name, err)
		}
		if stopping {
			c.signal(syscall.SIGTERM)
		}
	}
	return nil
}

// stop asks the containers to end, and ends them when the time is over.
func (p *pod) stop(live context.Context, seconds int64) {
	p.mu.Lock()
	before := p.stopping
	p.stopping = true
	containers := p.containers
	p.mu.Unlock()
	if before {
		select {
		case <-p.ended:
			p.report(live)
		default:
		}
		return
	}
	for _, c := range containers {
		c.signal(syscall.SIGTERM)
	}
	go func() {
		select {
		case <-p.ended:
		case <-time.After(time.Duration(seconds) * time.Second):
			p.kill()
			<-p.ended
		}
		p.report(p.n.connection())
	}()
}

// kill ends every process at once.
func (p *pod) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.killed = true
	for _, c := range p.containers {
		c.signal(syscall.SIGKILL)
	}
}

// lose says that the containers ran when the node was switched off. A kubelet that
// finds none of them says the same.
func (p *pod) lose() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	for _, spec := range p.spec.Spec.Containers {
		ended := corev1.ContainerStateTerminated{ExitCode: 137, Reason: "ContainerStatusUnknown", Message: "the node was switched off", FinishedAt: metav1.Now()}
		p.containers = append(p.containers, &container{Container: spec, ended: &ended})
	}
	close(p.ended)
}

func (p *pod) fail(why string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why, p.message, p.over = why, err.Error(), true
}

// report writes the status, until it is written, the pod is gone, or the node is
// lost. A pod that is over and being deleted is removed after that.
func (p *pod) report(live context.Context) {
	go func() {
		for live.Err() == nil {
			p.reports.Lock()
			err := p.n.c.Do(live, http.MethodPatch, path(p.spec)+"/status", map[string]any{"metadata": map[string]any{"uid": p.spec.UID}, "status": p.status()}, nil)
			p.reports.Unlock()
			if err == nil && p.isRemovable() {
				p.n.remove(live, p.spec)
			}
			if err == nil || cluster.IsStatus(err, http.StatusNotFound) || cluster.IsStatus(err, http.StatusConflict) {
				return
			}
			pause(live, heartbeat/4)
		}
	}()
}

func (p *pod) isRemovable() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over && (p.stopping || p.spec.DeletionTimestamp != nil)
}

// status is what a kubelet would write.
func (p *pod) status() corev1.PodStatus {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := corev1.PodStatus{Phase: corev1.PodRunning, HostIP: "127.0.0.1", Reason: p.why, Message: p.message}
	failed, running := p.why != "", 0
	for _, c := range p.containers {
		state := c.state()
		if state.Running != nil {
			running++
		} else if state.Terminated.ExitCode != 0 {
			failed = true
		}
		s.ContainerStatuses = append(s.ContainerStatuses, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, State: state, Ready: state.Running != nil,
		})
	}
	switch {
	case running > 0 || !p.over:
		return p.withReady(s, corev1.ConditionTrue)
	case failed:
		s.Phase = corev1.PodFailed
	default:
		s.Phase = corev1.PodSucceeded
	}
	return p.withReady(s, corev1.ConditionFalse)
}

func (p *pod) withReady(s corev1.PodStatus, is corev1.ConditionStatus) corev1.PodStatus {
	for _, kind := range []corev1.PodConditionType{corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		s.Conditions = append(s.Conditions, corev1.PodCondition{Type: kind, Status: is, LastTransitionTime: metav1.Now()})
	}
	return s
}
