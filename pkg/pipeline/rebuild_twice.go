package pipeline

import (
	"context"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// BuildTwice builds the plan twice, in other directories, at other times, once
// with all processors and once step by step, and reports what others could not
// reproduce. Nothing is signed, and nothing is kept.
func BuildTwice(ctx context.Context, p *Pipeline) (*verdict.Verdict, error) {
	f := found{}
	var err error
	if f.plan, f.source, err = p.plan(ctx); err != nil {
		return nil, err
	}
	dir, remove, err := scratch(ctx, p.job, &f)
	if err != nil {
		return nil, err
	}
	defer remove()
	v := verdict.NewCheck("whether two builds of "+f.plan.Name+" "+f.plan.Version.String()+" make the same bytes", p.Clock())
	v.Subject, v.Scope.Checks = f.plan.Name+" "+f.plan.Version.String(), []string{"rebuild"}
	c := comparison{tag: f.plan.Version.ImageTag()}
	p.Report(ctx, "build 1 of 2")
	if c.want, err = buildUnsigned(ctx, p.job, filepath.Join(dir, "one"), f, runtime.GOMAXPROCS(0)); err != nil {
		return nil, err
	}
	time.Sleep(time.Second) // archives and programs have times of seconds
	p.Report(ctx, "build 2 of 2")
	if c.got, err = buildUnsigned(ctx, p.job, filepath.Join(dir, "another directory", "two"), f, 1); err != nil {
		return nil, err
	}
	var built []manifest.Artifact
	for _, a := range f.plan.Artifacts {
		if a.Class == plan.ImageChild || !slices.Contains(policy.ChecksOf(a.Class), policy.Provenance) {
			continue // the index lists the children
		}
		first, err := c.first(ctx, a)
		if err != nil {
			return nil, err
		}
		built = append(built, manifest.Artifact{Artifact: a, Digests: digest.Set{SHA256: first}})
	}
	same, err := c.judge(ctx, v, built)
	if err != nil {
		return nil, err
	}
	v.Counts.Required, v.Counts.Verified = len(built), len(same)
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
