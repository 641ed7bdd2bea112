// Package process runs servers that others wrote, as processes on loopback, for
// the tests of package servers; others take addresses from it.
//
//	s := process.Start(t, process.Server{
//		Name: "distribution", Version: "v3.1.2", Args: []string{process.Peer(t, "registry"), "serve", config},
//		Ready: "http://" + address + "/v2/",
//	})
//	s.Kill(t)    // as kill -9 does
//	s.Restart(t) // with the same arguments
package process

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Server is a server and how it is started.
type Server struct {
	Name    string // as its makers call it
	Version string
	Args    []string // program and arguments
	Env     []string // added to PATH and HOME
	Dir     string   // where it runs; a temporary directory if unset
	// Ready is an address that answers, with any status, as soon as the server
	// does: http://…, https://… (any certificate), or host:port.
	Ready string
}

// Process is a server that runs.
type Process struct {
	Server

	log  *log
	cmd  *exec.Cmd
	done chan struct{} // closed when it ended; nil if it does not run
	err  error         // how it ended
}

// Start starts a server, waits until it answers, and ends it with the test.
func Start(t testing.TB, s Server) *Process {
	t.Helper()
	if s.Dir == "" {
		s.Dir = t.TempDir()
	}
	p := &Process{Server: s, log: &log{}}
	t.Cleanup(func() {
		p.Kill(t)
		if t.Failed() {
			t.Logf("the last words of %s:\n%s", s.Name, p.Log())
		}
	})
	p.Restart(t)
	return p
}

// Restart starts the server again, after [Process.Kill] or [Process.Stop].
func (p *Process) Restart(t testing.TB) {
	t.Helper()
	p.cmd = exec.Command(p.Args[0], p.Args[1:]...)
	p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = p.Dir, p.log, p.log
	p.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + p.Dir}, p.Env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatalf("starting %s: %v", p.Name, err)
	}
	cmd, done := p.cmd, make(chan struct{})
	p.done = done
	go func() {
		p.err = cmd.Wait()
		close(done)
	}()
	if err := p.answers(); err != nil {
		t.Fatalf("%s does not answer at %s: %v\n%s", p.Name, p.Ready, err, p.Log())
	}
}

// Kill ends the server and its children at once, as kill -9 does.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.end(t, syscall.SIGKILL)
}

// Stop asks the server to end, and waits until it did.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.end(t, syscall.SIGTERM)
}

func (p *Process) end(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if p.done == nil {
		return
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, signal) // it may have ended by itself
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		<-p.done
		t.Errorf("%s did not end in a minute", p.Name)
	}
	p.done = nil
}

// Log is the end of what the server printed.
func (p *Process) Log() string { return p.log.String() }

// answers waits until the server answers, or has ended.
func (p *Process) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	client := &http.Client{
		Transport:     &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for {
		err := ask(ctx, client, p.Ready)
		if err == nil {
			return nil
		}
		select {
		case <-p.done:
			p.done = nil
			return fmt.Errorf("it ended: %w", p.err)
		case <-ctx.Done():
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func ask(ctx context.Context, client *http.Client, address string) error {
	if !strings.Contains(address, "://") {
		c, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
		if err != nil {
			return err
		}
		return c.Close()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

// given are the ports that [Address] returned.
var given sync.Map

// Address is a free address of loopback, which no other call returns. It lies
// below the ports that Linux gives to clients and to those who ask for any
// port, so that none of them takes it before the server does.
func Address(t testing.TB) string {
	t.Helper()
	for range 1000 {
		port := 20000 + rand.IntN(12000)
		if _, before := given.LoadOrStore(port, true); before {
			continue
		}
		if l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			_ = l.Close()
			return l.Addr().String()
		}
	}
	t.Fatal("no port of loopback is free")
	return ""
}

// Peer is a program that make servers builds. Without it the test skips, but
// not in CI.
func Peer(t testing.TB, name string) string {
	t.Helper()
	dir := os.Getenv("WAYBILL_PEERS")
	if dir == "" {
		dir = filepath.Join("..", "bin")
	}
	path, err := filepath.Abs(filepath.Join(dir, name))
	if err == nil {
		_, err = os.Stat(path)
	}
	if err != nil {
		absent(t, fmt.Errorf("no %s: make servers builds it: %w", name, err))
	}
	return path
}

// Program is a program of a Debian package, also where only root has it in the
// PATH. Without it the test skips, but not in CI.
func Program(t testing.TB, name, debian string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	for _, dir := range []string{"/usr/sbin", "/usr/local/sbin", "/sbin"} {
		if err != nil {
			path, err = exec.LookPath(filepath.Join(dir, name))
		}
	}
	if err != nil {
		absent(t, fmt.Errorf("no %s: apt-get install %s: %w", name, debian, err))
	}
	return path
}

// absent skips a test for want of a server, where that may be.
func absent(t testing.TB, err error) {
	t.Helper()
	if os.Getenv("CI") != "" || os.Getenv("WAYBILL_REQUIRE_PEERS") == "1" {
		t.Fatalf("%v, and it is required here", err)
	}
	t.Skip(err)
}

// log keeps the last bytes that a server printed.
type log struct {
	mu  sync.Mutex
	end []byte
}

const kept = 16 << 10

func (l *log) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end = append(l.end, b...); len(l.end) > 2*kept {
		l.end = bytes.Clone(l.end[len(l.end)-kept:])
	}
	return len(b), nil
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.end[max(0, len(l.end)-kept):])
}
