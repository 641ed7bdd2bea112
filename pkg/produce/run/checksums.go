package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/release/plan"
)

// checksums lists the digests of earlier outputs, as hashed by the control
// plane, in the format of sha256sum -c.
func (r *run) checksums(step plan.Step, scratch string) (outputs, error) {
	var list bytes.Buffer
	for _, name := range step.Checksums.Take {
		m, err := r.products.taken(name)
		if err != nil {
			return outputs{}, err
		}
		sum := m.digests.SHA256
		if step.Checksums.Algorithm == "sha512" {
			sum = m.digests.SHA512
		}
		fmt.Fprintf(&list, "%s  %s\n", sum.Hex(), name)
	}
	target := filepath.Join(scratch, "checksums")
	if err := os.WriteFile(target, list.Bytes(), 0o644); err != nil {
		return outputs{}, fmt.Errorf("writing checksums: %w", err)
	}
	o, err := r.products.fileOutput(step.Outputs[0], target)
	if err != nil {
		return outputs{}, err
	}
	inputs, err := r.products.resources(step.Checksums.Take)
	return outputs{list: []output{o}, inputs: inputs, inside: ourselves()}, err
}
