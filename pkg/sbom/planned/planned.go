// Package planned describes the images of a promotion plan: one SBOM for each
// digest, named after it, in a place that several workers share. The SBOMs are
// unsigned: anyone who can write to the place can change them.
//
//	v := planned.Images{Plan: plan, Shard: shard, Place: place, Make: make, To: writer}.Run(ctx, now)
//
// Other projects should not import this package: it changes without notice.
package planned

import (
	"bytes"
	"context"
	"errors"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Images are the images of a plan, of which one worker describes a shard.
type Images struct {
	Plan  promotionplan.Plan
	Shard promotionplan.Shard
	Place store.Place
	// Make makes an SBOM, which is written to To; nil to make none.
	Make func(context.Context, promotionplan.Edge) ([]byte, error)
	To   store.Writer
}

func nameOf(e promotionplan.Edge) string { return e.Digest.Hex() + ".spdx.json" }

// Run makes the SBOMs of the shard that the place lacks. An image without one, or
// with one about other bytes, is a finding; for the whole plan, also another file.
func (i Images) Run(ctx context.Context, now time.Time) *verdict.Verdict {
	mine, meant := []promotionplan.Edge{}, map[string]bool{}
	for _, e := range i.Plan.Edges {
		if !meant[nameOf(e)] && i.Shard.Takes(e.Digest) {
			mine = append(mine, e)
		}
		meant[nameOf(e)] = true
	}
	v := verdict.NewCheck("does each image of the plan have an SBOM", now)
	v.Subject, v.Counts.Required = "SBOMs of "+plural.Of(len(mine), "image")+i.Shard.Suffix(), len(mine)
	v.Scope.Checks, v.Scope.Left = []string{"one SBOM for each image"}, i.Shard.Others()
	v.Inputs = []verdict.Input{{Name: "plan", Digest: i.Plan.Digest()}}
	errs, left := make([]error, len(mine)), make([][]string, len(mine))
	atonce.Each(4, mine, func(n int, e promotionplan.Edge) { left[n], errs[n] = i.one(ctx, e) })
	for n, e := range mine {
		if len(left[n]) > 0 {
			v.Scope.Left = append(v.Scope.Left, plural.Of(len(left[n]), "part")+" of "+e.Image+"@"+e.Digest.String()+", such as: "+left[n][0])
		}
		if v.AddError(e.Image+"@"+e.Digest.String(), errs[n]); errs[n] == nil {
			v.Counts.Verified++
		}
	}
	there, err := i.Place.List(ctx)
	v.AddError(i.Place.URI(), err)
	for _, o := range there {
		if i.Shard.Of <= 1 && !meant[o.Name] && !store.IsStaging(o.Name) {
			v.AddError(o.Name, verdict.Refuse(verdict.Extra, o.Name, "not the SBOM of an image of the plan").
				Advise("find out who wrote this file to "+i.Place.URI()+", and remove it; each plan needs a place of its own"))
		}
	}
	return v
}

// one makes the SBOM of an image, unless it is there, and returns what it omits.
func (i Images) one(ctx context.Context, e promotionplan.Edge) ([]string, error) {
	raw, err := store.Read(ctx, i.Place, nameOf(e), spdx.MaxSize)
	if errors.Is(err, store.ErrNotFound) && i.Make != nil {
		if raw, err = i.Make(ctx, e); err == nil {
			err = i.To.Put(ctx, nameOf(e), int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: "application/spdx+json"})
		}
		if errors.Is(err, store.ErrExists) { // another worker was faster
			raw, err = store.Read(ctx, i.Place, nameOf(e), spdx.MaxSize)
		}
	}
	switch {
	case errors.Is(err, store.ErrNotFound):
		return nil, verdict.Refuse(verdict.Missing, nameOf(e), "no SBOM of this image was written").
			Advise("run waybill sbom images without --merge, for every shard or without --shard; it makes what is missing")
	case err != nil:
		return nil, err
	}
	d, err := spdx.Parse(raw)
	_, about := d.Describes()
	f := verdict.Find(verdict.SBOMSubject, nameOf(e), "the SBOM describes other bytes").Differ(about.String(), e.Digest.String())
	if err != nil {
		f = verdict.FindingOf(nameOf(e), err)
	} else if about.Equal(e.Digest) {
		return sbomcheck.Omitted(d), nil
	}
	f.Fix = "find out who wrote the file, and remove it; waybill sbom images then makes it again"
	return nil, &verdict.Error{Finding: f}
}
