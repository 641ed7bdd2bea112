package gate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// service is a process of waybill gate serve, or of gate proxy.
type service struct {
	cmd            *exec.Cmd
	callers, admin string // addresses
	log            string // path, or nothing
}

// startService starts one, gate serve or gate proxy, in the directory of a scene. A
// quiet one keeps no log.
func startService(ctx context.Context, waybill, dir, verb string, quiet bool) (s *service, err error) {
	s = &service{cmd: exec.CommandContext(ctx, waybill, "gate", verb, verb+".yaml")}
	s.cmd.Dir = dir
	s.cmd.Env = append(os.Environ(), "HOME="+dir, "DOCKER_CONFIG="+dir)
	if !quiet {
		s.log = filepath.Join(dir, "gate.log")
		log, err := os.Create(s.log)
		if err != nil {
			return nil, err
		}
		defer log.Close() // the service has its own
		s.cmd.Stderr = log
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(out)
	for _, to := range []*string{&s.callers, &s.admin} {
		if !lines.Scan() {
			said, _ := os.ReadFile(s.log)
			return nil, errors.Join(fmt.Errorf("the service did not start: %.2000s", said), s.end())
		}
		_, *to, _ = strings.Cut(lines.Text(), " ")
		*to = strings.TrimSpace(*to)
	}
	return s, nil
}

func (s *service) end() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}

// looks is what the service took and did so far.
type looks struct {
	cpu             time.Duration
	peak, resident  int64 // bytes
	heap            int64
	goroutines      int
	descriptors     int
	reloads         int64
	hits, decisions int64
}

// look reads what the system and the service itself say.
func (s *service) look(ctx context.Context) (l looks, err error) {
	if l.cpu, err = spentBy(s.cmd.Process.Pid); err != nil {
		return l, err
	}
	raw, err := os.ReadFile(procOf(s.cmd.Process.Pid, "status"))
	if err != nil {
		return l, err
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		name, value, _ := strings.Cut(line, ":")
		kib, _ := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64) // of other lines, nothing
		switch name {
		case "VmHWM":
			l.peak = kib << 10
		case "VmRSS":
			l.resident = kib << 10
		}
	}
	open, err := os.ReadDir(procOf(s.cmd.Process.Pid, "fd"))
	if l.descriptors = len(open); err != nil {
		return l, err
	}
	return l, s.metrics(ctx, &l)
}

func procOf(pid int, name string) string { return "/proc/" + strconv.Itoa(pid) + "/" + name }

// spentBy is the CPU that the threads of a process took.
func spentBy(pid int) (sum time.Duration, err error) {
	threads, err := filepath.Glob(procOf(pid, "task/*/schedstat"))
	if err != nil || len(threads) == 0 {
		return 0, fmt.Errorf("what the process took is not in %s, where Linux has it: %w", procOf(pid, "task"), errors.ErrUnsupported)
	}
	for _, path := range threads {
		raw, err := os.ReadFile(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // a thread that has ended
		}
		if err != nil {
			return 0, err
		}
		var ran int64
		if _, err := fmt.Sscan(string(raw), &ran); err != nil {
			return 0, fmt.Errorf("reading %s: %w", path, err)
		}
		sum += time.Duration(ran)
	}
	return sum, nil
}

// metrics reads what the service says of itself.
func (s *service) metrics(ctx context.Context, l *looks) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.admin+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	for line := range strings.SplitSeq(string(raw), "\n") {
		series, text, _ := strings.Cut(line, " ")
		value, err := strconv.ParseFloat(text, 64)
		if err != nil {
			continue // what explains a series
		}
		switch name, _, _ := strings.Cut(series, "{"); name {
		case "waybill_gate_reloads_total":
			if strings.Contains(series, `"ok"`) {
				l.reloads = int64(value)
			}
		case "waybill_gate_decisions_total":
			l.decisions += int64(value)
		case "waybill_gate_cached_decisions_total":
			l.hits = int64(value)
		case "go_memstats_heap_alloc_bytes":
			l.heap = int64(value)
		case "go_goroutines":
			l.goroutines = int(value)
		}
	}
	return nil
}

// logged is how much the service has logged.
func (s *service) logged() (int64, error) {
	info, err := os.Stat(s.log)
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// took is what the service says that decisions took, of those that it logged
// after so many bytes.
func (s *service) took(skip int64) ([]time.Duration, error) {
	f, err := os.Open(s.log)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.Seek(skip, io.SeekStart); err != nil {
		return nil, err
	}
	var list []time.Duration
	d := json.NewDecoder(f)
	for {
		var line struct {
			Message string `json:"msg"`
			Took    string `json:"took"`
		}
		if err := d.Decode(&line); errors.Is(err, io.EOF) {
			return list, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading the service's log: %w", err)
		}
		if line.Message != "decision" {
			continue
		}
		one, err := time.ParseDuration(line.Took)
		if err != nil {
			return nil, err
		}
		list = append(list, one)
	}
}
