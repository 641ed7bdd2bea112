package run

import (
	"context"
	"os"
	"runtime/debug"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
)

// signedBundle is a bundle and its file name.
type signedBundle struct {
	name string
	raw  []byte
}

// attest writes the provenance of a step, from what the control plane itself
// knows and hashed, and lets the builder sign it. The file whose presence
// means that the step is done comes last. A rebuild has no provenance.
func (r *run) attest(ctx context.Context, step plan.Step, out outputs, start time.Time) (list []signedBundle, err error) {
	if r.Rebuild {
		return nil, nil
	}
	if err := r.repo.CheckUnmoved(ctx, r.Source.Commit); err != nil {
		return nil, err
	}
	subjects := slice.Map(out.list, func(o output) intoto.Subject { return intoto.Subject{Name: o.name, Digests: o.digests} })
	said := provenance.Predicate{
		BuildDefinition: r.definition(step, out),
		RunDetails: provenance.RunDetails{
			Builder:    provenance.BuilderID{ID: BuilderID(r.Machine.Mode), Version: r.version()},
			Metadata:   provenance.Metadata{InvocationID: r.Workspace.Identity().Invocation, StartedOn: start.UTC(), FinishedOn: r.Trust.Clock().UTC()},
			Byproducts: append(out.byproducts(), r.traced(ctx)...),
		},
	}
	type form struct {
		name   string
		encode func([]intoto.Subject, provenance.Predicate) (intoto.Statement, error)
	}
	forms := []form{{plan.ProvenanceName(step.Instance), provenance.Encode}}
	if r.Plan.ProvenanceV02 {
		forms = append([]form{{plan.ProvenanceV02Name(step.Instance), provenance.EncodeV02}}, forms...)
	}
	for _, f := range forms {
		statement, err := f.encode(subjects, said)
		if err != nil {
			return nil, err
		}
		bundle, _, err := r.Signer.Statement(ctx, statement)
		if err != nil {
			return nil, err
		}
		list = append(list, signedBundle{f.name, bundle})
	}
	return list, nil
}

// definition is what was requested, how the control plane interpreted it, and
// everything that went into the step.
func (r *run) definition(step plan.Step, out outputs) provenance.BuildDefinition {
	commit := r.Source.Commit
	deps := append(r.Source.resources(), provenance.File(plan.ConfigName, digest.SetOf(r.Source.Config)))
	if r.Plan.Locked {
		deps = append(deps, provenance.File(plan.LockName, digest.SetOf(r.Source.Lock)))
	}
	inside := out.inside
	inside.Tag = r.Source.tag()
	return provenance.BuildDefinition{
		BuildType: provenance.BuildType,
		ExternalParameters: provenance.ExternalParameters{
			Config: provenance.Config{
				Repository: commit.Repository, Ref: commit.AskedFor(), Path: plan.ConfigName,
				SHA256: digest.Of(digest.SHA256, r.Source.Config).Hex(),
			},
			Version: r.Plan.Version.String(), Step: step.Name, Each: step.Each, Parameters: r.Plan.Parameters,
		},
		InternalParameters:   inside,
		ResolvedDependencies: append(deps, out.inputs...),
	}
}

func (o outputs) byproducts() []provenance.Resource {
	if o.log == nil {
		return nil
	}
	return []provenance.Resource{*o.log}
}

// traced names the run and the span in which the step ran, and the trace in
// which the release was made. The outputs do not contain them, so builds are
// reproducible. Without a run it is empty.
func (r *run) traced(ctx context.Context) []provenance.Resource {
	now := carry.From(ctx)
	if now.IsZero() {
		return nil
	}
	ids, _ := trace.Stamp(trace.Update, now, r.Workspace.Identity().Trace)
	return []provenance.Resource{provenance.Traced(ids)}
}

// ourselves describes steps that the control plane performs itself: nothing
// of the source runs, and every input has a digest.
func ourselves() provenance.InternalParameters {
	return provenance.InternalParameters{Isolation: "control-plane", Hermetic: true}
}

// version is the version of this program, as far as it is known, and the
// digest of its executable.
func version() map[string]string {
	said := map[string]string{}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		said["waybill"] = info.Main.Version
	}
	if sum, err := ourselvesSum(); err == nil {
		said["executable"] = sum.String()
	}
	return said
}

// ourselvesSum hashes the running program.
func ourselvesSum() (digest.Digest, error) {
	path, err := os.Executable()
	if err != nil {
		return digest.Digest{}, err
	}
	f, err := os.Open(path)
	if err != nil {
		return digest.Digest{}, err
	}
	defer f.Close()
	sum, _, err := digest.SumSHA256(f)
	return sum, err
}

// BuilderID is the builder ID of an isolation mode. Each has its own signing
// identity.
func BuilderID(m sandbox.Mode) string {
	if m == sandbox.Isolated {
		return provenance.BuilderIsolated
	}
	return provenance.BuilderUnisolated
}

// Source is a commit with its configuration.
type Source struct {
	Commit git.Commit
	Tag    git.Tag // who signed the tag that named the commit
	Config []byte
	Lock   []byte
	Pins   plan.Lock
}

// resources are the source in provenance. The commit that was built comes
// first: readers use that one.
func (s Source) resources() []provenance.Resource {
	c := s.Commit
	list := []provenance.Resource{provenance.Commit(c.Repository, c.AskedFor(), c.Commit, c.Tree)}
	if c.Release != "" {
		list = append(list, provenance.ReleaseCommit(c.Repository, c.AskedFor(), c.Release, c.Tree))
	}
	if c.Tag != "" {
		list = append(list, provenance.Tag(c.Repository, c.AskedFor(), c.Tag))
	}
	return list
}

// tag describes the tag's signer in provenance; nil without a tag.
func (s Source) tag() *provenance.SignedTag {
	if s.Tag == (git.Tag{}) {
		return nil
	}
	return &provenance.SignedTag{Signature: s.Tag.Signature, Signer: s.Tag.Signer, NotVerified: s.Tag.NotVerified}
}
