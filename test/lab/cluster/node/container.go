package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// container is one process of a pod, and those that it starts.
type container struct {
	corev1.Container
	log   *os.File
	cmd   *exec.Cmd
	since metav1.Time
	// shared are directories in the container, and those of this machine that get
	// the new files in them.
	shared [][2]string

	mu    sync.Mutex // guards the fields below
	ended *corev1.ContainerStateTerminated
	large bool // it was killed for its memory
}

// prepare writes the root directory, and makes the command.
func (c *container) prepare(p *pod) error {
	repository, _, _ := strings.Cut(c.Image, "@")
	if tag := strings.LastIndex(repository, ":"); tag > strings.LastIndex(repository, "/") {
		repository = repository[:tag]
	}
	program, known := p.n.Images[repository]
	if !known {
		return fmt.Errorf("this node has no image %s", c.Image)
	}
	env, err := c.environment(p.spec, p.n.c.URL)
	if err != nil {
		return err
	}
	args := append(append([]string{}, c.Command...), c.Args...)
	if len(c.Command) == 0 && program != "" {
		args = append([]string{"/usr/local/bin/" + filepath.Base(program)}, args...)
	}
	if len(args) == 0 {
		return errors.New("no command")
	}
	for i := range args {
		args[i] = expand(args[i], env)
	}
	c.cmd = &exec.Cmd{Path: args[0], Args: args, Dir: "/", Stdout: c.log, Stderr: c.log, SysProcAttr: &syscall.SysProcAttr{Setpgid: true}}
	for name, value := range env {
		c.cmd.Env = append(c.cmd.Env, name+"="+value)
	}
	if program == "" {
		c.cmd.Path, err = exec.LookPath(args[0])
		return err
	}
	root := filepath.Join(p.dir, c.Name)
	if err := install(program, filepath.Join(root, "usr", "local", "bin")); err != nil {
		return err
	}
	if err := c.mount(p, root); err != nil {
		return err
	}
	c.cmd.SysProcAttr.Chroot = root
	return c.become(p.spec.Spec.SecurityContext)
}

// environment is what the container's variables are, by name.
func (c *container) environment(p corev1.Pod, server string) (map[string]string, error) {
	host, port, err := net.SplitHostPort(strings.TrimPrefix(server, "https://"))
	if err != nil {
		return nil, err
	}
	env := map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOSTNAME": p.Name, "KUBERNETES_SERVICE_HOST": host, "KUBERNETES_SERVICE_PORT": port}
	for _, v := range c.Env {
		if v.ValueFrom == nil {
			env[v.Name] = expand(v.Value, env)
			continue
		}
		if v.ValueFrom.FieldRef == nil {
			return nil, fmt.Errorf("%s: this node only knows variables from fields", v.Name)
		}
		value, err := field(p, v.ValueFrom.FieldRef.FieldPath)
		if err != nil {
			return nil, err
		}
		env[v.Name] = value
	}
	return env, nil
}

// field is a field of the pod, as the downward API has it.
func field(p corev1.Pod, path string) (string, error) {
	if name, key, is := strings.Cut(strings.TrimSuffix(path, "']"), "['"); is {
		switch name {
		case "metadata.annotations":
			return p.Annotations[key], nil
		case "metadata.labels":
			return p.Labels[key], nil
		}
	}
	fields := map[string]string{
		"metadata.name": p.Name, "metadata.namespace": p.Namespace, "metadata.uid": string(p.UID), "spec.nodeName": p.Spec.NodeName,
		"spec.serviceAccountName": p.Spec.ServiceAccountName, "status.hostIP": "127.0.0.1", "status.podIP": "127.0.0.1",
	}
	value, known := fields[path]
	if !known {
		return "", fmt.Errorf("this node does not know the field %s", path)
	}
	return value, nil
}

// expand replaces $(NAME) by a variable. Those that there are not stay, and $$(
// stands for $(.
func expand(text string, env map[string]string) string {
	var out strings.Builder
	for {
		before, after, is := strings.Cut(text, "$")
		out.WriteString(before)
		if !is {
			return out.String()
		}
		name, rest, closed := strings.Cut(after, ")")
		value, known := env[strings.TrimPrefix(name, "(")]
		switch {
		case strings.HasPrefix(after, "$"):
			out.WriteString("$")
			rest = after[1:]
		case closed && strings.HasPrefix(name, "(") && known:
			out.WriteString(value)
		default:
			out.WriteString("$")
			rest = after
		}
		text = rest
	}
}

// become makes the process run as the user of the container or pod. Without root
// that user is this one, under the other's number.
func (c *container) become(of *corev1.PodSecurityContext) error {
	user, group := int64(0), int64(0)
	if of != nil && of.RunAsUser != nil {
		user, group = *of.RunAsUser, *of.RunAsUser
	}
	if of != nil && of.RunAsGroup != nil {
		group = *of.RunAsGroup
	}
	if own := c.SecurityContext; own != nil && own.RunAsUser != nil {
		user = *own.RunAsUser
	}
	if of != nil && of.RunAsNonRoot != nil && *of.RunAsNonRoot && user == 0 {
		return errors.New("the container would run as root, and its pod does not allow that")
	}
	attr := c.cmd.SysProcAttr
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: uint32(user), Gid: uint32(group)}
		return nil
	}
	attr.Cloneflags = syscall.CLONE_NEWUSER
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: int(user), HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: int(group), HostID: os.Getegid(), Size: 1}}
	return nil
}

// wait waits until the process ends, and ends what it left behind. It kills a
// process that holds more memory than its limit.
func (c *container) wait(p *pod) {
	done := make(chan struct{})
	go c.watchMemory(done)
	err := c.cmd.Wait()
	close(done)
	c.signal(syscall.SIGKILL) // its children
	end := &corev1.ContainerStateTerminated{Reason: "Completed", StartedAt: c.since, FinishedAt: metav1.Now()}
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.Signaled():
		end.ExitCode, end.Signal, end.Reason = 128+int32(status.Signal()), int32(status.Signal()), "Error"
	case err != nil:
		end.ExitCode, end.Reason = int32(c.cmd.ProcessState.ExitCode()), "Error"
	}
	if err := c.giveBack(); err != nil {
		fmt.Fprintln(c.log, "a directory of the node:", err)
	}
	c.mu.Lock()
	if c.large {
		end.Reason = "OOMKilled"
	}
	c.ended = end
	c.mu.Unlock()
	p.n.mu.Lock()
	p.n.cpu += c.cmd.ProcessState.UserTime() + c.cmd.ProcessState.SystemTime()
	p.n.mu.Unlock()
	p.report(p.n.connection())
}

func (c *container) watchMemory(done <-chan struct{}) {
	limit := c.Resources.Limits.Memory().Value()
	for limit > 0 {
		select {
		case <-done:
			return
		case <-time.After(20 * time.Millisecond):
		}
		if resident(c.cmd.Process.Pid) > limit {
			c.mu.Lock()
			c.large = true
			c.mu.Unlock()
			c.signal(syscall.SIGKILL)
			return
		}
	}
}

// resident is the memory of a process that is not in files.
func resident(pid int) int64 {
	raw, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid)) // it may have ended
	for line := range strings.Lines(string(raw)) {
		if text, is := strings.CutPrefix(line, "RssAnon:"); is {
			kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 10, 64)
			return kib << 10
		}
	}
	return 0
}

// signal signals the process and its children. They may have ended.
func (c *container) signal(s syscall.Signal) {
	if c.cmd != nil && c.cmd.Process != nil {
		_ = syscall.Kill(-c.cmd.Process.Pid, s)
	}
}

func (c *container) state() corev1.ContainerState {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended != nil {
		return corev1.ContainerState{Terminated: c.ended}
	}
	return corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: c.since}}
}

// install puts a program into a directory.
func install(program, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	to := filepath.Join(dir, filepath.Base(program))
	if os.Link(program, to) == nil {
		return nil
	}
	from, err := os.Open(program) // of another file system
	if err != nil {
		return err
	}
	defer from.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, from)
	return errors.Join(err, out.Close())
}
