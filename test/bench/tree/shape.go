package tree

import (
	"fmt"
	"math"
	"strings"
)

// spread is the sigma of the sizes' logarithms: a few files have most of the
// bytes, as in real releases. The largest of 600 is about seventy times the
// mean.
const spread = 2.0

// Shape is how large the release is. Every output gets a signature and an
// SBOM of its own, so that there are three times as many files and some more.
type Shape struct {
	Outputs int
	Bytes   int64
}

// platforms are the steps; each writes an equal number of outputs.
func platforms() []string {
	return []string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64"}
}

// String names the shape, for the directory that holds it.
func (s Shape) String() string { return fmt.Sprintf("%d-outputs-%d-bytes", s.Outputs, s.Bytes) }

func (s Shape) check() error {
	if n := len(platforms()); s.Outputs < n || s.Outputs%n != 0 || s.Outputs > 1000*n {
		return fmt.Errorf("%d outputs: want a multiple of %d, at most %d", s.Outputs, n, 1000*n)
	}
	if s.Bytes < int64(s.Outputs) {
		return fmt.Errorf("%d bytes: want at least one for each output", s.Bytes)
	}
	return nil
}

// sizes are log-normal without chance: the i-th of n is the quantile
// (i+1/2)/n, and all together are scaled to the wanted number of bytes.
func (s Shape) sizes() []int64 {
	weights, sum := make([]float64, s.Outputs), 0.0
	for i := range weights {
		p := (float64(i) + 0.5) / float64(s.Outputs)
		weights[i] = math.Exp(spread * math.Sqrt2 * math.Erfinv(2*p-1))
		sum += weights[i]
	}
	sizes, left := make([]int64, s.Outputs), s.Bytes
	for i, w := range weights {
		sizes[i] = max(1, int64(w/sum*float64(s.Bytes)))
		left -= sizes[i]
	}
	sizes[s.Outputs-1] += left // what rounding left over
	return sizes
}

// sizesFile lists every output with its size, for the step that writes it.
func (s Shape) sizesFile() string {
	var b strings.Builder
	each := platforms()
	for i, size := range s.sizes() {
		fmt.Fprintf(&b, "bin/%s/tool-%03d %d\n", each[i%len(each)], i/len(each), size)
	}
	return b.String()
}

// releaseYAML is the project's configuration: one step for each platform, with
// all its outputs.
func (s Shape) releaseYAML(repository, files string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `apiVersion: waybill/v1
kind: Release
name: freight
source: {repository: %q}
lists:
  every: [%s]
steps:
- name: fill
  each: {platform: every}
  run: [go, run, ., "bin/{os}/{arch}/", "{out}"]
  env: {CGO_ENABLED: "0"}
  outputs:
`, repository, strings.Join(platforms(), ", "))
	for i := range s.Outputs / len(platforms()) {
		fmt.Fprintf(&b, "  - {class: binary, name: \"bin/{os}/{arch}/tool-%03d\"}\n", i)
	}
	fmt.Fprintf(&b, "places:\n  files: %q\n", files)
	return b.String()
}
