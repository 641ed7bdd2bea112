package drill

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// audience is what callers of the gate call it.
const audience = "https://gate.example.test"

// service is the gate, as a service that runs through the incident.
type service struct {
	cmd     *exec.Cmd
	address string // for callers
	admin   string
}

// startGate starts it, with one caller who may ask about published images.
func (d *drill) startGate(ctx context.Context) error {
	issuer, subject := d.Lab.Identity("verifier")
	token, err := d.Lab.Mint("verifier", map[string]any{"aud": audience})
	if err := errors.Join(err, d.write("caller.token", token), d.write("callers.yaml", fmt.Sprintf(`audience: %s
callers:
- {name: admission, token: {issuer: %q, subject: %q}}
grants:
- {caller: admission, verbs: [verify], from: [%[4]s/release/], to: [%[4]s/release/], channels: [none]}
`, audience, issuer, subject, d.Lab.Registry)), d.write("service.yaml", `apiVersion: waybill/v1
kind: GateService
profile: profile.yaml
callers: callers.yaml
listen: 127.0.0.1:0
admin: 127.0.0.1:0
`)); err != nil {
		return err
	}
	log, err := os.Create(d.Path("gate.log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, filepath.Join(d.Bin, "waybill"), "gate", "serve", "service.yaml")
	cmd.Dir, cmd.Stderr = d.Dir, log
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.gate.cmd = cmd
	lines := bufio.NewScanner(out)
	for _, to := range []*string{&d.gate.address, &d.gate.admin} {
		if !lines.Scan() {
			said, _ := os.ReadFile(d.Path("gate.log"))
			return fmt.Errorf("the gate did not start: %s", said)
		}
		*to = "http://" + strings.Fields(lines.Text())[1]
	}
	return nil
}

func (d *drill) stopGate() {
	if d.gate.cmd != nil {
		_ = d.gate.cmd.Process.Kill()
		_ = d.gate.cmd.Wait()
	}
}

// reload has the gate read its files again, and waits until it has. The gate also
// reads them by itself, so it may have done so more than once.
func (s *service) reload(ctx context.Context) error {
	before, _, err := s.reloads(ctx)
	if err != nil {
		return err
	}
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, 2*time.Minute, errors.New("the gate did not read its files again"))
	defer cancel()
	for {
		ok, text, err := s.reloads(ctx)
		switch {
		case err != nil:
			return cmp.Or(context.Cause(ctx), err)
		case ok > before:
			return nil
		case !strings.Contains(text, `reloads_total{result="failed"} 0`):
			return fmt.Errorf("the gate did not take the new policy:\n%s", text)
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// reloads is how often the gate read its files again, and all its metrics.
func (s *service) reloads(ctx context.Context) (ok int, text string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.admin+"/metrics", nil)
	if err != nil {
		return 0, "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	_, count, found := strings.Cut(string(raw), `reloads_total{result="ok"} `)
	if _, no := fmt.Sscan(count, &ok); err == nil && (!found || no != nil) {
		err = fmt.Errorf("the gate does not count its reloads:\n%s", raw)
	}
	return ok, string(raw), err
}
