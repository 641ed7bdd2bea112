package pipeline

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// BuildTwice builds the plan twice, in other directories, at other times, once
// with all processors and once step by step, and reports what others could not
// reproduce. Nothing is signed, and nothing is kept.
func BuildTwice(ctx context.Context, p *Pipeline) (*verdict.Verdict, error) {
	planned, source, err := p.plan(ctx)
	if err != nil {
		return nil, err
	}
	v := verdict.NewCheck("whether two builds of "+planned.Name+" "+planned.Version.String()+" make the same bytes", p.Clock())
	v.Subject, v.Scope.Checks = planned.Name+" "+planned.Version.String(), []string{"rebuild"}
	dir, err := os.MkdirTemp("", "waybill-twice-")
	if err != nil {
		return nil, err
	}
	defer sandbox.Remove(context.WithoutCancel(ctx), dir) //nolint:errcheck // it is temporary
	isolation := sandbox.Examine(ctx)
	warnUnisolated(ctx, p.job, isolation)
	var made [2]*workspace.Workspace
	for i, name := range []string{"one", filepath.Join("another directory", "two")} {
		if i > 0 {
			nextSecond(ctx)
		}
		p.Report(ctx, "build %d of 2", i+1)
		if made[i], err = buildUnsigned(ctx, p.job, filepath.Join(dir, name), machine{isolation.Mode, []int{runtime.GOMAXPROCS(0), 1}[i]}, planOf{planned, source}); err != nil {
			return nil, err
		}
	}
	tag := planned.Version.ImageTag()
	c := comparison{want: copyOf{made[0].Files(), made[0].Images()}, got: copyOf{made[1].Files(), made[1].Images()}, tag: tag}
	for _, a := range planned.Artifacts {
		if a.Class == plan.ImageChild || !slices.Contains(policy.ChecksOf(a.Class), policy.Provenance) {
			continue // the index lists the children
		}
		first, err := c.first(ctx, a)
		if err != nil {
			return nil, err
		}
		list, err := c.differences(ctx, a, first)
		if err != nil {
			return nil, err
		}
		if v.Counts.Required++; len(list) == 0 {
			v.Counts.Verified++
		} else {
			v.Add(mismatch(a.Name, list))
		}
	}
	v.Tell("%d of %s built twice with the same bytes.", v.Counts.Verified, plural.Of(v.Counts.Required, "artifact"))
	return v, nil
}

// first is the digest of an artifact of the first build.
func (c comparison) first(ctx context.Context, a plan.Artifact) (digest.Digest, error) {
	if a.IsImage() {
		d, err := c.want.images.Resolve(ctx, a.Repository, c.tag)
		return d.Digest, err
	}
	return sumIn(ctx, c.want.files, a.Name)
}

// nextSecond waits until the clock shows another second: archives and programs
// have times of seconds.
func nextSecond(ctx context.Context) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
}
