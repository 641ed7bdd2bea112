// Package sign measures what it takes to sign many things: files with a bundle
// and a log entry for each, files with one statement about all of them, and
// images of two platforms each, with waybill's signer and with cosign.
//
//	err := sign.Run(ctx, os.Stdout, sign.Request{What: sign.Files, Way: sign.Waybill, N: 500, …})
//
// Each run has a lab of its own, whose log may take as long as a public one
// does. Whoever signs is a process of its own, or one for each thing where that
// is the only way; the processes are measured, and not the lab. Every request
// to the lab goes past a counter.
package sign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/test/bench"
)

// Whats are what there is to sign.
const (
	Files     = "files"     // a bundle and a log entry for each
	Statement = "statement" // one statement about all files
	Images    = "images"    // of two platforms: the index and both are signed
)

// Ways are who signs.
const (
	Waybill = "waybill"
	Cosign2 = "cosign2"
	Cosign3 = "cosign3"
)

// Request is one run.
type Request struct {
	What, Way string
	N         int
	// Batch is how often the log is through with a batch; 0 for at once.
	Batch time.Duration
	// Rate is how many entries a second the log takes; the others are told to
	// come again. 0 for all.
	Rate int
	// Abreast is how many processes of a peer are under way at a time.
	Abreast int
	// Peer is the command that [Cosign2] and [Cosign3] name, Self is the one
	// that calls [Child].
	Peer, Self string
	Dir        string // of scenes
	// Registry is where images are, for a child.
	Registry string
}

// Run signs once and says on w what that took.
func Run(ctx context.Context, w io.Writer, req Request) (err error) {
	dir, err := os.MkdirTemp(req.Dir, "sign-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	at, err := openWorld(ctx, dir, req.Batch, req.Rate)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, at.close()) }()
	commands, err := at.commands(ctx, req)
	if err != nil {
		return err
	}
	at.requests.Store(0)
	at.entries.Store(0)
	s, err := Processes(ctx, commands, max(1, req.Abreast))
	if err != nil {
		return fmt.Errorf("%s, %s: %w", req.What, req.Way, err)
	}
	s.Requests, s.Entries = int(at.requests.Load()), int(at.entries.Load())
	s.Refused, s.Busiest = at.log.refused, at.log.busiest
	if err := at.check(ctx, req); err != nil {
		return fmt.Errorf("%s, %s, what was signed: %w", req.What, req.Way, err)
	}
	return json.NewEncoder(w).Encode(s)
}

// commands makes what is to be signed, and says who does it.
func (w *world) commands(ctx context.Context, req Request) ([]*exec.Cmd, error) {
	var err error
	if req.What == Images {
		err = w.pushImages(ctx, req.N, imageName)
	} else {
		err = w.writeFiles(req.N)
	}
	switch {
	case err != nil:
		return nil, err
	case req.Way == Waybill:
		cmd := exec.CommandContext(ctx, req.Self, "-child", "-what", req.What, "-n", fmt.Sprint(req.N), "-dir", w.dir, "-registry", w.registry)
		return []*exec.Cmd{cmd}, nil
	case req.Way == Cosign3:
		return w.cosign3(ctx, req)
	case req.Way == Cosign2:
		return w.cosign2(ctx, req)
	}
	return nil, fmt.Errorf("no way to sign is called %q", req.Way)
}

// writeFiles makes small files: large ones take as long as their hash does,
// whoever signs them.
func (w *world) writeFiles(n int) error {
	if err := errors.Join(os.Mkdir(w.path(filesDir), 0o755), os.Mkdir(w.path(bundlesDir), 0o755)); err != nil {
		return err
	}
	for i := range n {
		if err := os.WriteFile(w.path(filesDir, fileName(i)), fmt.Appendf(nil, "%0*d", 1024, i), 0o644); err != nil {
			return err
		}
	}
	return nil
}

func fileName(i int) string { return fmt.Sprintf("file-%04d", i) }

// Processes runs commands, some at a time, and adds up what they took.
func Processes(ctx context.Context, commands []*exec.Cmd, abreast int) (s bench.Sample, err error) {
	var mu sync.Mutex // guards s
	group, _ := errgroup.WithContext(ctx)
	group.SetLimit(abreast)
	began := time.Now()
	for _, cmd := range commands {
		group.Go(func() error {
			said, err := cmd.CombinedOutput()
			if err != nil {
				return fmt.Errorf("%s: %w\n%.2000s", filepath.Base(cmd.Path), err, said)
			}
			mu.Lock()
			defer mu.Unlock()
			s.CPU += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
			s.Peak = max(s.Peak, bench.Peak(cmd.ProcessState))
			return nil
		})
	}
	err = group.Wait()
	s.Wall = time.Since(began)
	return s, err
}
