package run

import (
	"context"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// collect hashes the declared outputs. Everything in the output directory
// must be declared and regular; everything declared must exist.
func (r *run) collect(ctx context.Context, step plan.Step, dir string) (list []output, err error) {
	present, err := sandbox.Collect(ctx, dir, sandbox.OutputLimits{Names: append([]string{}, step.Outputs...)})
	if err != nil {
		return nil, err
	}
	found := map[string]sandbox.Output{}
	for _, o := range present {
		found[o.Name] = o
	}
	for _, name := range step.Outputs {
		o, ok := found[name]
		if !ok {
			return nil, verdict.Refuse("OUTPUT_MISSING", name, "step %s declared this output but did not write it", step.Instance)
		}
		path := filepath.Join(dir, name)
		if r.Machine.Mode == sandbox.Unisolated {
			list = append(list, r.products.copied(o, path))
		} else {
			list = append(list, r.products.moved(o, path))
		}
	}
	return list, nil
}
