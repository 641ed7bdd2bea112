//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// modules starts a module proxy on loopback, which serves the machine's module
// cache and asks the machine's GOPROXY for what is not there. The lock pins
// every module, so neither can change what is built.
func (m *maker) modules() (string, error) {
	settings, err := m.goEnv("GOMODCACHE", "GOPROXY")
	if err != nil {
		return "", err
	}
	cache := filepath.Join(settings[0], "cache", "download")
	upstream, _, _ := strings.Cut(strings.ReplaceAll(settings[1], "|", ","), ",")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := filepath.Join(cache, filepath.FromSlash(r.URL.Path))
		if _, err := os.Stat(name); err == nil {
			http.ServeFile(w, r, name)
			return
		}
		forward(w, r, strings.TrimSuffix(upstream, "/")+r.URL.EscapedPath())
	})}
	go server.Serve(listener) //nolint:errcheck // it ends with this program
	return "http://" + listener.Addr().String(), nil
}

// forward answers with what an address answers.
func forward(w http.ResponseWriter, r *http.Request, address string) {
	request, err := http.NewRequestWithContext(r.Context(), http.MethodGet, address, nil)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // the client sees a body that is cut off
}

// goEnv are settings of the go command on this machine.
func (m *maker) goEnv(names ...string) ([]string, error) {
	cmd := exec.CommandContext(m.ctx, "go", append([]string{"env"}, names...)...)
	out, err := cmd.Output()
	return strings.Split(strings.TrimSpace(string(out)), "\n"), err
}
