package gate

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// front is a process that answers clients of a registry: the registry itself, or
// what is in front of it.
type front struct {
	name    string // as a row is called
	address string
	cmd     *exec.Cmd
	ended   chan struct{} // closed when the process has ended; nil if the scene ends it
}

func (f *front) pid() int { return f.cmd.Process.Pid }

func (f *front) end() {
	if f.ended != nil {
		_ = f.cmd.Process.Kill() // it may have ended
		<-f.ended
	}
}

// startRegistry starts a registry of distribution on the files of a directory.
func startRegistry(ctx context.Context, program, dir string) (*front, error) {
	return startFront(ctx, "the registry alone", func(address string) ([]string, error) {
		config := filepath.Join(dir, "registry.yaml")
		text := fmt.Sprintf("version: 0.1\nstorage: {filesystem: {rootdirectory: %q}}\nhttp: {addr: %q}\nlog: {level: error, accesslog: {disabled: true}}\n", filepath.Join(dir, "registry"), address)
		return []string{program, "serve", config}, os.WriteFile(config, []byte(text), 0o600)
	})
}

// startPass starts [Pass] in a process of its own.
func startPass(ctx context.Context, to, _ string) (*front, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return startFront(ctx, "httputil.ReverseProxy", func(address string) ([]string, error) {
		return []string{self, "-pass", address, "-to", to}, nil
	})
}

// Pass is the least reverse proxy that Go has.
func Pass(address, to string) error {
	proxy := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: to})
	return (&http.Server{Addr: address, Handler: proxy, ReadHeaderTimeout: time.Minute}).ListenAndServe()
}

// startNginx starts nginx.
func startNginx(ctx context.Context, to, dir string) (*front, error) {
	return startFront(ctx, "nginx", func(address string) ([]string, error) {
		config := filepath.Join(dir, "nginx.conf")
		text := strings.NewReplacer("DIR", dir, "ADDRESS", address, "REGISTRY", to).Replace(`daemon off; master_process off; pid DIR/nginx.pid; error_log stderr warn;
events {}
http {
  access_log off;
  client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; fastcgi_temp_path DIR/fastcgi; uwsgi_temp_path DIR/uwsgi; scgi_temp_path DIR/scgi;
  upstream registry { server REGISTRY; keepalive 4; }
  server {
    listen ADDRESS;
    location / {
      proxy_pass http://registry; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
      proxy_buffering off; proxy_buffers 4 128k; proxy_buffer_size 128k; proxy_busy_buffers_size 128k;
    }
  }
}
`)
		return []string{"nginx", "-p", dir, "-e", "stderr", "-c", config}, os.WriteFile(config, []byte(text), 0o600)
	})
}

// startFront starts a process that listens at an address, and waits until it does.
func startFront(ctx context.Context, name string, prepare func(address string) ([]string, error)) (*front, error) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		return nil, err
	}
	args, err := prepare(address)
	if err != nil {
		return nil, err
	}
	said := &strings.Builder{}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stderr = append(os.Environ(), "OTEL_TRACES_EXPORTER=none"), said
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	f := &front{name: name, address: address, cmd: cmd, ended: make(chan struct{})}
	go func() {
		_ = cmd.Wait() // the error says that it was killed
		close(f.ended)
	}()
	for {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return f, conn.Close()
		}
		select {
		case <-f.ended:
			return nil, fmt.Errorf("%s ended: %w\n%.2000s", name, err, said)
		case <-time.After(10 * time.Millisecond):
		}
	}
}
