package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Origin is where another tool left a release.
type Origin struct {
	Files store.Place
	// Images is a registry or a layout; nil if the release has no images.
	Images registry.Source
}

// Compare holds a place that another tool filled against the plan, both ways:
// every file and image of the plan is there, with exactly its platforms, and
// nothing else but what the plan says is outside of the release. Nothing is
// read but names and manifests.
func Compare(ctx context.Context, req Request, from Origin) error {
	objects, err := from.Files.List(ctx)
	if errors.Is(err, store.ErrNotListable) {
		return verdict.Refuse(verdict.Usage, from.Files.URI(), "the place cannot be listed, so nothing shows that it holds nothing else; name the bucket behind it, or fetch it into a directory")
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", from.Files.URI(), err)
	}
	there, wanted := map[string]bool{}, map[string]bool{}
	for _, o := range objects {
		there[o.Name] = true
	}
	var findings []verdict.Finding
	for _, g := range req.Plan.Given {
		wanted[g.From] = true
		if !there[g.From] {
			findings = append(findings, verdict.Find(verdict.SealMissing, g.From, "release.yaml plans %s from it, and %s does not hold it", g.Name, from.Files.URI()))
		}
	}
	for _, o := range objects {
		if !wanted[o.Name] && !slices.Contains(req.Plan.Outside, o.Name) {
			f := verdict.Find(verdict.SealExtra, o.Name, "%s holds it, but release.yaml neither plans it nor says that it is outside", from.Files.URI())
			f.Fix = "plan it as an output in release.yaml, name it under outside: if it does not belong to the release, or remove it from the place"
			findings = append(findings, f)
		}
	}
	images, err := compareImages(ctx, req, from.Images)
	if err != nil {
		return err
	}
	return all(req, append(findings, images...))
}

// From seals a release that another tool made: what the plan names is taken
// over from the place and hashed in the same pass, and exactly these bytes are
// signed and listed. Evidence that came with it is carried as it is: it counts
// where the policy knows who signed it, and it must not contradict the bytes.
// A difference between plan and place, in either direction, stops it before
// anything is signed.
func From(ctx context.Context, req Request, from Origin, config []byte) (manifest.Manifest, error) {
	if err := Compare(ctx, req, from); err != nil {
		return manifest.Manifest{}, err
	}
	if _, err := SealedFrom(ctx, req, from, config); err != nil {
		return manifest.Manifest{}, err
	}
	var err error
	if req.taken, err = takeOver(ctx, req, from.Files); err != nil {
		return manifest.Manifest{}, err
	}
	if err := takeImages(ctx, req, from.Images); err != nil {
		return manifest.Manifest{}, err
	}
	if err := req.Workspace.Writer().Put(ctx, plan.ConfigName, int64(len(config)), bytes.NewReader(config), store.PutOptions{}); err != nil {
		return manifest.Manifest{}, err
	}
	req.taken[plan.ConfigName] = digest.SetOf(config)
	req.Report(ctx, "took over %s and %s from %s", plural.Of(len(req.Plan.Given), "file"), plural.Of(len(req.Plan.GivenImages), "image"), from.Files.URI())
	if err := inspect(ctx, req); err != nil {
		return manifest.Manifest{}, err
	}
	if _, err := Sign(ctx, req); err != nil {
		return manifest.Manifest{}, err
	}
	return Run(ctx, req)
}

// takeOver copies every file of the plan into the workspace, and returns what
// was read of each.
func takeOver(ctx context.Context, req Request, from store.Place) (map[string]digest.Set, error) {
	var mu sync.Mutex // guards taken
	taken := map[string]digest.Set{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, g := range req.Plan.Given {
		group.Go(func() error {
			body, size, err := from.Open(ctx, g.From)
			if errors.Is(err, store.ErrNotFound) {
				return verdict.Wrap(verdict.SealMissing, g.From, err)
			}
			if err != nil {
				return fmt.Errorf("taking over %q: %w", g.From, err)
			}
			defer body.Close()
			h := digest.NewHasher()
			if err := req.Workspace.Writer().Put(ctx, g.Name, size, io.TeeReader(body, h), store.PutOptions{}); err != nil {
				return fmt.Errorf("taking over %q: %w", g.From, err)
			}
			mu.Lock()
			defer mu.Unlock()
			taken[g.Name] = h.Set()
			return nil
		})
	}
	return taken, group.Wait()
}

// vouches reports whether something must vouch for the bytes of an artifact:
// verified provenance for what was built, and for a release that another tool
// made, the pass in which it was taken over.
func (p proven) vouches(a plan.Artifact) bool {
	_, taken := p.bytes[a.Name]
	return a.IsBuilt() || taken
}

// carried names the evidence that came with a file or image of another tool.
func carried(entry *manifest.Artifact) {
	for _, e := range entry.Evidence {
		switch e.Kind {
		case plan.KindProvenance:
			entry.Provenance = e.Name
		case plan.KindSBOM:
			entry.SBOM = e.Name
		}
	}
}

// takenOver is what a release of another tool is sealed by: its own provenance
// vouches for nothing here, the pass in which it was taken over does.
func takenOver(req Request) (proven, error) {
	if req.taken == nil {
		return proven{}, verdict.Refuse(verdict.Usage, plan.ConfigName, "its outputs are made by another tool; take them over with waybill seal --from PLACE")
	}
	id := req.Workspace.Identity()
	return proven{bytes: req.taken, hashed: map[string]digest.Set{}, commit: id.Commit.Commit, invocation: id.Invocation}, nil
}

// takenBefore is what was taken over for a manifest that is sealed.
func takenBefore(p plan.Plan, m manifest.Manifest) map[string]digest.Set {
	taken := map[string]digest.Set{}
	for _, a := range m.Artifacts {
		isGiven := slices.ContainsFunc(p.Given, func(g plan.Given) bool { return g.Name == a.Name })
		if isGiven || a.IsImage() || a.Name == plan.ConfigName {
			taken[a.Name] = a.Digests
		}
	}
	return taken
}
