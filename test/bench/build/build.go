// Package build measures what it costs to run a build's commands behind walls
// and to observe them: the same commands bare, the same commands through
// waybill build against a lab, and the limit of hashing what they wrote.
//
//	err := build.Run(ctx, os.Stdout, build.Request{Work: build.Compile, Way: build.Bare, …})
//
// Each run is made in a scene of its own, with nothing cached, and only the
// commands are measured. Before each of them what others wrote goes to the
// disk, so that nobody pays for it.
package build

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/bench"
	"github.com/waybill-release/waybill/test/scene"
)

// Works are what there is to build.
const (
	Compile = "compile" // the example, of which only what compiles has commands
	Idle    = "idle"    // steps that write a line each
	Tree    = "tree"    // one step that writes zeros
)

// Ways are how it is built.
const (
	Bare    = "bare"     // the commands and nothing else, one after another
	Sync    = "sync"     // nothing but bringing to the disk what the bare commands wrote, file by file
	Waybill = "waybill"  // waybill build, against a lab
	Hash    = "hash"     // nothing but hashing that, file by file
	HashAll = "hash-all" // the same on all processors
)

// Request is one run. Bin has the built commands, Example is the example
// project, and what is written stands below Dir.
type Request struct {
	Work, Way         string
	Bin, Example, Dir string
	// Platforms is how many of the example's platforms are built for.
	Platforms int
	// Steps is how many idle ones there are.
	Steps int
	// Files and Bytes are what a [Tree] consists of.
	Files int
	Bytes int64
}

// Run builds once and says on w what it took.
func Run(ctx context.Context, w io.Writer, req Request) error {
	do, known := map[string]func(context.Context, Request) (bench.Sample, error){
		Bare: bare, Sync: syncEach, Waybill: waybill, Hash: hashEach, HashAll: hashAll,
	}[req.Way]
	if !known {
		return fmt.Errorf("no way to build is called %q", req.Way)
	}
	s, err := do(ctx, req)
	if err != nil {
		return fmt.Errorf("%s, %s: %w", req.Work, req.Way, err)
	}
	return json.NewEncoder(w).Encode(s)
}

// place is where a way leaves what it wrote, until it is taken again.
func (r Request) place(way string) string { return filepath.Join(r.Dir, r.Work+"-"+way) }

// Walls builds something and says behind which walls: what the builder is
// called in the provenance that it signed.
func Walls(ctx context.Context, req Request) (string, error) {
	req.Work, req.Way, req.Steps = Idle, Waybill, 1
	if _, err := waybill(ctx, req); err != nil {
		return "", err
	}
	paths, err := filepath.Glob(filepath.Join(req.place(Waybill), "scene", "state", "files", "provenance", "*.sigstore.json"))
	if err != nil {
		return "", err
	}
	if len(paths) != 1 {
		return "", fmt.Errorf("%d provenances of one step", len(paths))
	}
	raw, err := os.ReadFile(paths[0])
	if err != nil {
		return "", err
	}
	var bundle struct {
		Envelope struct {
			Payload []byte `json:"payload"`
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(raw, &bundle); err != nil {
		return "", err
	}
	s, err := intoto.Parse(bundle.Envelope.Payload)
	if err != nil {
		return "", err
	}
	p, err := provenance.Parse(s)
	if err != nil {
		return "", err
	}
	_, walls, _ := strings.Cut(p.RunDetails.Builder.ID, "#")
	return walls, nil
}

// open sets a fresh scene for a way to build.
func open(ctx context.Context, req Request) (*scene.Scene, error) {
	dir := req.place(req.Way)
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	project := filepath.Join(dir, "project")
	if err := writeProject(req, project); err != nil {
		return nil, err
	}
	return scene.Open(ctx, scene.Options{Bin: req.Bin, Dir: filepath.Join(dir, "scene"), Example: project})
}

// waybill builds as a user does.
func waybill(ctx context.Context, req Request) (took bench.Sample, err error) {
	s, err := open(ctx, req)
	if err != nil {
		return bench.Sample{}, err
	}
	defer func() {
		if errClose := s.Close(); err == nil {
			err = errClose
		}
	}()
	args := []string{"build", scene.Version, "--profile", "profile.yaml", "--state", "state", "--source", "lantern"}
	for _, role := range []string{"builder", "builder-unisolated"} {
		if err := os.WriteFile(s.Path(role+".token"), []byte(s.Lab.Token(role)), 0o600); err != nil {
			return bench.Sample{}, err
		}
		args = append(args, "--identity-token", role+"="+role+".token")
	}
	cmd := exec.CommandContext(ctx, filepath.Join(req.Bin, "waybill"), args...)
	cmd.Dir = s.Dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+s.Path("cache"))
	return measure(ctx, cmd)
}

// measure runs commands one after another. What they say is shown if one of
// them fails.
func measure(ctx context.Context, commands ...*exec.Cmd) (bench.Sample, error) {
	_ = exec.CommandContext(ctx, "sync").Run() // where there is none, it costs precision only
	var s bench.Sample
	start := time.Now()
	for _, c := range commands {
		if out, err := c.CombinedOutput(); err != nil {
			return bench.Sample{}, fmt.Errorf("running %q: %w\n%.4000s", c.Args, err, out)
		}
		s.CPU += c.ProcessState.UserTime() + c.ProcessState.SystemTime()
	}
	s.Wall = time.Since(start)
	return s, nil
}
