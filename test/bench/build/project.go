package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/plan"
)

// writeProject writes the project of a work to dir.
func writeProject(req Request, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	var config string
	var err error
	switch req.Work {
	case Compile, Idle:
		config, err = fromExample(req, dir)
	case Tree:
		config, err = tree(req)
	default:
		return fmt.Errorf("there is no work %q", req.Work)
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, plan.ConfigName), []byte(config), 0o644)
}

// run is what a step of the example does.
var run = regexp.MustCompile(`(?m)^  run: .*$`)

// every is what the example is built for.
var every = regexp.MustCompile(`(?m)^  every: \[(.*)\]$`)

// fromExample is the example without what does not compile. Its idle sister
// has the same steps, and they write a line each.
func fromExample(req Request, dir string) (string, error) {
	raw, err := os.ReadFile(filepath.Join(req.Example, plan.ConfigName))
	if err != nil {
		return "", err
	}
	config, places, ok := strings.Cut(string(raw), "- name: pack\n")
	_, places, also := strings.Cut(places, "places:\n")
	list := every.FindStringSubmatch(config)
	if !ok || !also || list == nil || len(run.FindAllString(config, -1)) != 1 {
		return "", errors.New("the example is not what this was written for: one step that compiles for every platform, then pack")
	}
	platforms := strings.Split(list[1], ", ")
	if n := req.Platforms; n < 1 || n > len(platforms) {
		return "", fmt.Errorf("%d platforms, want 1 to %d", n, len(platforms))
	}
	config = every.ReplaceAllString(config, "  every: ["+strings.Join(platforms[:req.Platforms], ", ")+"]")
	config = strings.Replace(config, "lock: "+plan.LockName+"\n", "", 1) + "places:\n" + places
	if req.Work == Compile {
		return config, sources(req.Example, dir)
	}
	return run.ReplaceAllLiteralString(config, `  run: [sh, -c, "mkdir -p {out}/bin/{os}/{arch} && echo idle > {out}/bin/{os}/{arch}/lantern{exe}"]`), nil
}

// sources copies the example without its configuration.
func sources(example, dir string) error {
	if err := os.CopyFS(dir, os.DirFS(example)); err != nil {
		return err
	}
	return os.Remove(filepath.Join(dir, plan.ConfigName))
}

// tree is a step that writes zeros to so many files. One program does, and
// computes nothing: the less the bare command takes, the more is seen of what
// comes on top.
func tree(req Request) (string, error) {
	if req.Files < 1 || req.Files > 1000 || req.Bytes < int64(req.Files) {
		return "", fmt.Errorf("%d bytes in %d files: want 1 to 1000 files, a byte in each", req.Bytes, req.Files)
	}
	each := req.Bytes / int64(req.Files)
	var names strings.Builder
	for i := range req.Files {
		fmt.Fprintf(&names, ", \"%03d\"", i)
	}
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
`, strings.TrimPrefix(names.String(), ", "), each*int64(req.Files), each), nil
}
