package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// writeProject writes the project of a work to dir.
func writeProject(req Request, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var config string
	var err error
	switch req.Work {
	case Compile:
		config, err = example(req, dir)
	case Idle:
		config, err = idle(req)
	case Tree:
		config, err = tree(req)
	default:
		err = fmt.Errorf("there is no work %q", req.Work)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, plan.ConfigName), []byte(config), 0o644)
}

// every is what the example is built for.
var every = regexp.MustCompile(`(?m)^  every: \[(.*)\]$`)

// example copies the example, for the first of its platforms only.
func example(req Request, dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(req.Example, plan.ConfigName))
	if err != nil {
		return "", err
	}
	list := every.FindSubmatch(raw)
	if list == nil {
		return "", errors.New("the example has no list of every platform")
	}
	platforms := strings.Split(string(list[1]), ", ")
	if n := req.Platforms; n < 1 || n > len(platforms) {
		return "", fmt.Errorf("%d platforms, want 1 to %d", n, len(platforms))
	}
	if err := os.CopyFS(dir, os.DirFS(req.Example)); err != nil {
		return "", err
	}
	if err := os.Remove(filepath.Join(dir, plan.ConfigName)); err != nil {
		return "", err
	}
	return every.ReplaceAllString(string(raw), "  every: ["+strings.Join(platforms[:req.Platforms], ", ")+"]"), nil
}

// idle has steps that write a line each.
func idle(req Request) (string, error) {
	if req.Steps < 1 || req.Steps > 1000 {
		return "", fmt.Errorf("%d idle steps, want 1 to 1000", req.Steps)
	}
	return fmt.Sprintf(`apiVersion: waybill/v1
kind: Release
name: freight
source: {repository: "https://example.test/freight"}
lists:
  parts: [%s]
steps:
- name: idle
  each: {part: parts}
  run: [sh, -c, "echo idle > {out}/part-{part}"]
  outputs: [{class: file, name: "part-{part}"}]
places:
  files: "https://dl.example.test/freight/{version}/"
`, numbered(req.Steps)), nil
}

// numbered are the names of so many parts.
func numbered(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("\"%03d\"", i)
	}
	return strings.Join(names, ", ")
}

// tree is a step that writes zeros to so many files. One program does, and
// computes nothing: the less the bare command takes, the more is seen of what
// comes on top.
func tree(req Request) (string, error) {
	if req.Files < 1 || req.Files > 1000 || req.Bytes < int64(req.Files) {
		return "", fmt.Errorf("%d bytes in %d files: want 1 to 1000 files, a byte in each", req.Bytes, req.Files)
	}
	each := req.Bytes / int64(req.Files)
	return fmt.Sprintf(`apiVersion: waybill/v1
kind: Release
name: freight
source: {repository: "https://example.test/freight"}
lists:
  parts: [%s]
steps:
- name: fill
  run: [sh, -c, "head -c %d /dev/zero | split -d -a 3 -b %d - {out}/part-"]
  outputs: [{class: file, each: {part: parts}, name: "part-{part}"}]
places:
  files: "https://dl.example.test/freight/{version}/"
`, numbered(req.Files), each*int64(req.Files), each), nil
}
