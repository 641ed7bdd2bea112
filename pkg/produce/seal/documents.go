package seal

import (
	"context"
	"errors"
	"path"
	"runtime"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// crossCheck compares every planned SBOM with the artifact in the workspace,
// with its provenance, go.sum at the source commit, the images as they will
// be served, and the other artifacts; and the SBOM of the release with all of
// them. Every disagreement is a finding, so nothing contradictory is signed.
func crossCheck(ctx context.Context, req Request, p proven) error {
	if req.Plan.IsGiven() {
		return nil // SBOMs of another tool are published unchanged, without our endorsement
	}
	c, err := newCrossing(ctx, req, p)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	results := make([]crossed, len(c.due))
	for i, a := range c.due {
		group.Go(func() (err error) {
			if results[i], err = c.about(ctx, a); err != nil && verdict.OutcomeOf(err) == verdict.Refused {
				results[i], err = crossed{findings: []verdict.Finding{verdict.FindingOf(a.Name, err)}}, nil
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	var findings []verdict.Finding
	for i, r := range results {
		findings = append(findings, r.findings...)
		if r.image != nil {
			c.served[c.due[i].Name] = r.image
		}
	}
	findings = append(findings, c.compareSaved(ctx, results)...)
	if len(findings) > 0 {
		return findingsError(req, findings)
	}
	whole, err := c.whole(ctx, results)
	if err != nil {
		return err
	}
	return findingsError(req, whole)
}

// crossing is everything with which SBOMs are compared.
type crossing struct {
	Request
	proven  proven
	release sbomcheck.Release
	due     []plan.Artifact // the artifacts with SBOMs
	served  map[string]sbomcheck.Image
	layers  sbom.Layers // shared by images
}

func newCrossing(ctx context.Context, req Request, p proven) (*crossing, error) {
	c := &crossing{Request: req, proven: p, served: map[string]sbomcheck.Image{}}
	for _, a := range req.Plan.Artifacts {
		if a.Has(plan.KindSBOM) {
			c.due = append(c.due, a)
		}
		if a.IsBuilt() && a.Class != plan.ImageChild {
			c.release.Artifacts = append(c.release.Artifacts, sbomcheck.Artifact{
				Name: a.Name, Version: req.Plan.Version.String(), Platform: a.Platform, Bare: a.Class == plan.Binary, Digests: p.bytes[a.Name],
			})
		}
	}
	if !slices.ContainsFunc(c.due, func(a plan.Artifact) bool { return a.Class == plan.Binary }) {
		return c, nil
	}
	var err error
	c.release.GoSum, err = goSums(ctx, req)
	return c, err
}

// goSums are the checksums of go.sum at the commit: at the top, and of every
// module in the lock. If there is none, nothing is compared.
func goSums(ctx context.Context, req Request) (map[string]string, error) {
	dirs := map[string]bool{".": true}
	raw, err := readFile(ctx, req, plan.LockName)
	if err == nil {
		lock, err := plan.ParseLock(raw)
		if err != nil {
			return nil, err
		}
		for dir := range lock.Modules {
			dirs[dir] = true
		}
	} else if !errors.Is(err, store.ErrNotFound) {
		return nil, err
	}
	commit := req.Workspace.Identity().Commit
	source, err := commit.Open(ctx)
	if err != nil {
		return nil, err
	}
	defer source.Close()
	var sums map[string]string
	for dir := range dirs {
		raw, err := source.ReadFile(ctx, commit, path.Join(dir, "go.sum"))
		if errors.Is(err, git.ErrNotFound) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if sums == nil {
			sums = map[string]string{}
		}
		if err := merge(sums, dir, raw); err != nil {
			return nil, err
		}
	}
	return sums, nil
}

func merge(sums map[string]string, dir string, raw []byte) error {
	more, err := gomod.ParseSums(raw)
	if err != nil {
		return verdict.Wrap(verdict.ConfigParse, path.Join(dir, "go.sum"), err)
	}
	for module, sum := range more {
		if held, there := sums[module]; there && held != sum {
			return &verdict.Error{Finding: verdict.Find(verdict.Conflict, path.Join(dir, "go.sum"), "two go.sum files of the source disagree about %.200q", module).Differ(held, sum)}
		}
		sums[module] = sum
	}
	return nil
}

// crossed is the result for one artifact.
type crossed struct {
	artifact sbomcheck.Artifact
	image    sbomcheck.Image
	findings []verdict.Finding
}

// about compares an artifact with its SBOM. Content that was examined earlier
// in this run is not unpacked again: only its bytes are hashed.
func (c *crossing) about(ctx context.Context, a plan.Artifact) (crossed, error) {
	i := slices.IndexFunc(c.release.Artifacts, func(other sbomcheck.Artifact) bool { return other.Name == a.Name })
	about, facts := c.release.Artifacts[i], c.release
	name := plan.SBOMName(a.Name)
	text, err := c.read(ctx, name)
	if errors.Is(err, store.ErrNotFound) {
		return crossed{}, missing(c.Request, name)
	}
	if err != nil {
		return crossed{}, err
	}
	if about.Document, err = spdx.Parse(text); err != nil {
		return crossed{}, verdict.Wrap(verdict.FindingOf(name, err).Code, name, err)
	}
	about.DocumentDigest, about.Namespace = digest.Of(digest.SHA256, text), about.Document.Namespace()
	complete, profile := c.Policy.SBOMs(policy.Published, a.Class)
	facts.Complete = complete
	if a.Class != plan.Binary {
		facts.GoSum = nil
	}
	var found sbomcheck.Found
	var out crossed
	if a.Class == plan.Image {
		out.image, found, err = c.image(ctx, a, about)
		facts.Images = map[string]sbomcheck.Image{a.Name: out.image}
	} else {
		found, err = c.file(ctx, a, about)
	}
	if err != nil {
		return crossed{}, err
	}
	out.findings = slices.Concat(facts.About(about), found.Findings, sbomcheck.Profiled(about, profile))
	if len(found.Findings) == 0 {
		c.Examined.Agree(a.Name, found.Digests.SHA256, about.DocumentDigest)
	}
	if !sbomcheck.HoldsImage(about.Document) {
		about.Document = spdx.Document{} // not needed any more
	}
	out.artifact = about
	return out, nil
}

func (c *crossing) read(ctx context.Context, name string) ([]byte, error) {
	return store.Read(ctx, c.Workspace.Files(), name, spdx.MaxSize)
}

func (c *crossing) file(ctx context.Context, a plan.Artifact, about sbomcheck.Artifact) (sbomcheck.Found, error) {
	if set := c.proven.hashed[a.Name]; set.SHA256.Equal(about.Digests.SHA256) && c.Examined.Agreed(a.Name, set.SHA256, about.DocumentDigest) {
		return sbomcheck.Found{Digests: set}, nil
	}
	body, err := c.Workspace.OpenFile(a.Name)
	if err != nil {
		return sbomcheck.Found{}, verdict.Wrap(verdict.SealMissing, a.Name, err)
	}
	defer body.Close()
	content, done, err := sbom.Readable(body)
	if err != nil {
		return sbomcheck.Found{}, err
	}
	defer done()
	found, err := sbom.Within(ctx, about, content)
	if err == nil && !found.Digests.SHA256.Equal(about.Digests.SHA256) {
		err = unproven(a.Name, about.Digests, found.Digests)
	}
	return found, err
}

func (c *crossing) image(ctx context.Context, a plan.Artifact, about sbomcheck.Artifact) (sbomcheck.Image, sbomcheck.Found, error) {
	d, _, err := findImage(ctx, c.Request, a)
	if err != nil {
		return nil, sbomcheck.Found{}, err
	}
	if !d.Digest.Equal(about.Digests.SHA256) {
		return nil, sbomcheck.Found{}, unproven(a.Name, about.Digests, digest.Set{SHA256: d.Digest})
	}
	node, err := registry.Graph(ctx, c.Workspace.Images(), a.Repository, d)
	if err != nil {
		return nil, sbomcheck.Found{}, err
	}
	content, err := sbom.FromRegistry(ctx, c.Workspace.Images(), a.Repository, node)
	if err != nil {
		return nil, sbomcheck.Found{}, err
	}
	content.Layers = &c.layers
	found := sbomcheck.Found{Digests: content.Index}
	if !c.Examined.Agreed(a.Name, d.Digest, about.DocumentDigest) {
		if found, err = sbom.WithinImage(ctx, about, content); err != nil {
			return nil, sbomcheck.Found{}, err
		}
	}
	more, err := c.children(ctx, a, content)
	found.Findings = append(found.Findings, more...)
	return node.Served(), found, err
}

// compareSaved compares files that contain images with the images.
func (c *crossing) compareSaved(ctx context.Context, results []crossed) (findings []verdict.Finding) {
	for _, r := range results {
		if r.image != nil || r.artifact.Document.IsZero() {
			continue
		}
		more, compared := sbomcheck.Saved(r.artifact, c.served)
		if findings = append(findings, more...); !compared {
			c.Report(ctx, "%s contains an image whose name is not in the release, so it was not compared with a registry", r.artifact.Name)
		}
	}
	return findings
}

// whole compares the SBOM of the release with its artifacts, and with the
// SBOM of the source.
func (c *crossing) whole(ctx context.Context, results []crossed) ([]verdict.Finding, error) {
	name := c.Plan.SBOMs.Release
	document, _, err := c.document(ctx, name)
	if err != nil {
		return nil, err
	}
	if f := sbomcheck.Whole(document, name, c.Plan.Name+" "+c.Plan.Version.String()); len(f) > 0 {
		return f, nil
	}
	artifacts := slices.Clone(c.release.Artifacts)
	for _, r := range results {
		for i, a := range artifacts {
			if a.Name == r.artifact.Name {
				artifacts[i].Namespace, artifacts[i].DocumentDigest = r.artifact.Namespace, r.artifact.DocumentDigest
			}
		}
	}
	findings, err := c.source(ctx, document)
	return append(sbomcheck.Listed(document, artifacts), findings...), err
}
