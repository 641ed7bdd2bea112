package simulate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/scene"
)

// pushTiny makes images that are always the same, for promotions of many.
func (m *Made) pushTiny(ctx context.Context) error {
	from, err := registry.OpenRemote(m.Lab.Registry+"/tiny", http.DefaultTransport)
	for i := 0; i < 6 && err == nil; i++ {
		called := fmt.Sprintf("tiny-%02d", i)
		image, wrong := mutate.AppendLayers(empty.Image, static.NewLayer([]byte(called), types.OCILayer))
		to, unnamed := name.ParseReference(m.Lab.Registry+"/tiny/"+called+":"+scene.Version, name.Insecure)
		if err = errors.Join(wrong, unnamed); err == nil {
			err = remote.Write(to, image)
		}
		var s staged
		if err == nil {
			s, err = readStaged(ctx, from, called)
			m.tiny = append(m.tiny, s)
		}
	}
	return err
}

// division is a plan in shards.
type division struct {
	*World
	plan   promotionplan.Plan
	images []staged
	of     int
	parts  []int // the shards that have images
	late   int   // one of them that is applied at the end only, or -1
	calm   bool  // all of them are applied, whoever has them
}

// divided is the promotion of many images in shards, by several processes of which each
// applies some, and sometimes those of others, and then merges the results. The merge
// accepts only if all is there: not if a shard is missing, nor if results are of another
// division, shard or plan.
func divided(m *Made, w *World) error {
	dice := w.dice("shards")
	d := &division{World: w, of: 1 + dice.IntN(16), late: -1}
	if dice.IntN(4) == 0 {
		d.of = 1000
	}
	route := promotionplan.Route{Manifest: "tiny", Source: m.Lab.Registry + "/tiny", Destinations: []string{destRegistry + "/region-0", destRegistry + "/region-1"}[:1+dice.IntN(2)]}
	d.plan = promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{route}}
	for _, image := range m.tiny[:2+dice.IntN(len(m.tiny)-1)] {
		d.images = append(d.images, image)
		d.plan.Edges = append(d.plan.Edges, promotionplan.Edge{Image: image.name, Digest: image.digest, Tags: []string{scene.Version}})
		d.parts = append(d.parts, promotionplan.ShardOf(image.digest, d.of))
	}
	slices.Sort(d.parts)
	d.parts = slices.Compact(d.parts)
	if dice.IntN(2) == 0 {
		d.late = d.parts[dice.IntN(len(d.parts))]
	}
	h := &holders{w: w, by: map[string]*Actor{}}
	w.Check = func(by *Actor, req *http.Request) error { return d.check(h, by, req) }
	all := w.together(w.actors(15), d.run)
	return d.end(all[0])
}

// check is made after each request: who writes a tag has the lease of its shard.
func (d *division) check(h *holders, by *Actor, req *http.Request) error {
	if _, lease, is := strings.Cut(req.URL.String(), "promotion-"); is {
		lease, _, _ = strings.Cut(lease, ".lease.json")
		return h.check(by, req, "promotion-"+lease+".lease.json", false)
	}
	for i, image := range d.images {
		if publishes(req) && strings.Contains(req.URL.Path, "/"+image.name+"/") {
			s := promotionplan.Shard{Index: promotionplan.ShardOf(image.digest, d.of), Of: d.of}
			return errors.Join(h.check(by, req, leaseOf(s), true), d.goal(i).sound())
		}
	}
	return nil
}

func (d *division) goal(image int) regions {
	return regions{d.World, d.images[image], d.plan.Routes[0].Destinations}
}

// run is one process: it applies its shards, some of others, and merges.
func (d *division) run(ctx context.Context, a *Actor) error {
	var me int
	_, _ = fmt.Sscanf(a.name, "actor-%d", &me)
	dice := d.dice(fmt.Sprintf("%s shards %d", a.name, a.life))
	for _, i := range dice.Perm(len(d.parts)) {
		part := d.parts[i]
		if part == d.late || !d.calm && i%len(d.disks) != me && dice.IntN(4) > 0 {
			continue
		}
		s := promotionplan.Shard{Index: part, Of: d.of}
		done, err := d.copy(ctx, a, d.plan, s)
		if verdict.FindingOf("", err).Code == verdict.Busy && !d.calm {
			continue
		}
		if err != nil {
			return err
		}
		to, err := cloud.OpenWriter(d.results(), a.Transport)
		if err == nil {
			_, err = done.WriteResults(ctx, to, d.plan, s)
		}
		if err != nil {
			return err
		}
	}
	return d.merge(ctx, a)
}

func (d *division) results() string {
	return promote.ResultsPlace("gs+http://"+destBucket+"/results/", d.plan.Digest())
}

// merge merges the results. If they are accepted, everything is there.
func (d *division) merge(ctx context.Context, a *Actor) error {
	at, err := cloud.OpenPlace(d.results(), a.Transport)
	if err != nil {
		return err
	}
	v, err := promote.Shards{Plan: d.plan, Results: at, Again: "again", Now: a.Clock()}.Merge(ctx)
	if err != nil {
		return err
	}
	if err := v.Err(); err != nil {
		for _, f := range v.Findings {
			if d.calm || f.Code != verdict.Missing && f.Code.Outcome() != verdict.Unavailable {
				return err
			}
		}
		return &verdict.UnavailableError{Place: "shards", Op: "merging", Err: errors.New(err.Error())} // others are not done
	}
	for i := range d.images {
		if err := errors.Join(d.goal(i).tagged(), d.goal(i).sound()); err != nil {
			d.Wrongf("the shards were merged, and %v", err)
		}
	}
	return nil
}

// end demands that the merge is refused while a shard is missing, accepted when it is
// there, and refused again with results that do not belong there.
func (d *division) end(a *Actor) error {
	d.calm = true
	if d.late >= 0 {
		if err := d.settle(a, d.run); verdict.FindingOf("", err).Code != verdict.Missing {
			return fmt.Errorf("shard %d was not applied, and the merge ends with: %w", d.late, err)
		}
		d.late = -1
	}
	if err := d.settle(a, d.run); err != nil {
		return err
	}
	at := func(part, of, attempt int) string {
		return fmt.Sprintf("%s/shard-%03d-of-%03d.attempt-%04d.jsonl", strings.TrimSuffix(strings.TrimPrefix(d.results(), "gs+http://"+destBucket), "/"), part, of, attempt)
	}
	raw := string(d.look(destBucket, at(d.parts[0], d.of, 1)))
	stale := strings.Replace(raw, d.plan.Digest().String(), promotionplan.Plan{}.Digest().String(), 1)
	wrong := map[string]string{at(d.parts[0], d.of+1, 1): raw, at(d.parts[0], d.of, 9000): stale}
	if d.of > 1 {
		wrong[at((d.parts[0]+1)%d.of, d.of, 9000)] = raw
	}
	for _, name := range slices.Sorted(maps.Keys(wrong)) {
		raw := wrong[name]
		d.ask(http.MethodPut, destBucket, name, raw)
		if code := verdict.FindingOf("", a.Do(0, func(ctx context.Context) error { return d.merge(ctx, a) })).Code; code != verdict.Extra {
			return fmt.Errorf("%s is no result of this shard and plan, and the merge ends with %q", name, code)
		}
		d.ask(http.MethodDelete, destBucket, name, "")
	}
	return a.Do(0, func(ctx context.Context) error { return d.merge(ctx, a) })
}

// ask sends a request to a host past the network.
func (w *World) ask(method, host, path, body string) *httptest.ResponseRecorder {
	rec := httptest.NewRecorder()
	w.Hosts[host].ServeHTTP(rec, httptest.NewRequest(method, path, strings.NewReader(body)))
	return rec
}

// leaseOf is the lease of a shard.
func leaseOf(s promotionplan.Shard) string {
	if s.Of == 0 {
		return "copies.lease.json"
	}
	return fmt.Sprintf("promotion-%03d-of-%03d.lease.json", s.Index, s.Of)
}
