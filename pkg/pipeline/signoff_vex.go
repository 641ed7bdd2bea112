package pipeline

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TokenSignoff is the token name of the identity that signs releases off.
const TokenSignoff = "signoff"

// SignedSource is the subject of a sign-off: the release.yaml of a commit.
type SignedSource struct {
	Config digest.Set
	Source releasesignoff.Source
}

// ReadSignedSource resolves a source and reads its release.yaml. An empty ref
// means HEAD. If release.yaml says that releases are tagged with an empty
// commit, the result has the commit that is built.
func ReadSignedSource(ctx context.Context, from Source) (SignedSource, error) {
	if from.Repository == "" {
		return SignedSource{}, verdict.Refuse(verdict.Usage, "--source", "required: names the repository with the release.yaml to sign off")
	}
	if from.Ref == "" {
		from.Ref = "HEAD"
	}
	repo, err := git.Open(ctx, from.Repository)
	if err != nil {
		return SignedSource{}, err
	}
	defer repo.Close()
	commit, err := repo.Resolve(ctx, from.Ref)
	if err != nil {
		return SignedSource{}, fmt.Errorf("resolving %s of %s: %w", from.Ref, from.Repository, err)
	}
	raw, err := repo.ReadFile(ctx, commit, plan.ConfigName)
	if errors.Is(err, git.ErrNotFound) {
		return SignedSource{}, verdict.Refuse(verdict.Usage, plan.ConfigName, "no such file at %s of %s", from.Ref, from.Repository)
	}
	if err != nil {
		return SignedSource{}, err
	}
	config, err := plan.ParseConfig(raw)
	if err != nil {
		return SignedSource{}, err
	}
	if commit, err = repo.Built(ctx, commit, git.Rule(config.ReleaseCommit())); err != nil {
		return SignedSource{}, err
	}
	return SignedSource{digest.SetOf(raw), releasesignoff.Source{Repository: config.Repository(), Commit: commit.Commit}}, nil
}

// Attribute asks git who ticked each checkbox that has no other evidence, for
// documents in a directory. It returns the documents for which that is
// unknown.
func Attribute(ctx context.Context, dir string, set *signoff.Set, r signoff.Report) (unknown []string) {
	for _, d := range r.Documents {
		lines := d.Ticks()
		if len(lines) == 0 {
			continue
		}
		for _, e := range set.Enhancements {
			if e.Dir != d.Dir {
				continue
			}
			blamed, err := git.Blame(ctx, filepath.Join(dir, filepath.FromSlash(e.File)), e.Readme, lines)
			if err != nil || len(blamed) < len(lines) {
				unknown = append(unknown, d.Dir)
			}
			by := make(map[int]string, len(blamed))
			for n, b := range blamed {
				by[n] = b.Author + " in " + b.Commit
			}
			r.Attribute(d.Dir, by)
		}
	}
	return unknown
}

// DraftSignoff drafts a sign-off, and its summary for policy engines that
// read only summaries.
func (o Officer) DraftSignoff(of SignedSource, p releasesignoff.Predicate) (sign, summary Draft, err error) {
	asked := policy.SignedRelease{Config: of.Config.SHA256, Commit: of.Source.Commit, Milestone: p.Milestone}
	if sign.Statement, err = releasesignoff.New(of.Config, p); err != nil {
		return Draft{}, Draft{}, err
	}
	sign.role, summary.role = policy.Signoffs, policy.Signoffs
	sign.accept = func(e verify.Evidence) (verdict.Proof, error) { return o.Profile.Policy.Signoff(e, asked, o.Clock()) }
	sign.number = func(s intoto.Statement) (int, error) {
		x, err := releasesignoff.Parse(s)
		return int(x.Checked.Unix()), err
	}
	if summary.Statement, err = releasesignoff.SVR(of.Config, p); err != nil {
		return Draft{}, Draft{}, err
	}
	summary.accept = func(e verify.Evidence) (verdict.Proof, error) {
		return o.Profile.Policy.Judge(e, policy.Ask{Role: policy.Signoffs, Kind: releasesignoff.SVRType, Subject: releasesignoff.Summary, Whole: true})
	}
	summary.number = func(s intoto.Statement) (int, error) {
		at, err := releasesignoff.SummaryTime(s)
		return int(at.Unix()), err
	}
	return sign, summary, nil
}

// filesOf is a version, and the place of the files of its public release.
func (o Officer) filesOf(release string) (version.Version, string, error) {
	of, err := version.Parse(release)
	if err != nil {
		return of, "", err
	}
	files, err := o.Profile.Files(profile.Release, of)
	return of, files, err
}

// PublishVEX signs a VEX document, writes it beside the manifest of a release,
// and attaches it to each image that it is about.
func (o Officer) PublishVEX(ctx context.Context, release string, said intoto.Statement, name string) (verdict.Proof, error) {
	of, files, err := o.filesOf(release)
	if err != nil {
		return verdict.Proof{}, err
	}
	prefix, err := o.Profile.Images(profile.Release, of)
	if err != nil {
		return verdict.Proof{}, err
	}
	proof, err := o.Sign(ctx, o.DraftAs(openvex.Role, said), Target{files, name})
	if err != nil {
		return verdict.Proof{}, err
	}
	bundle, err := o.read(ctx, Target{files, name})
	for _, one := range said.Subjects() {
		repository, image := strings.CutPrefix(one.Name, "oci/")
		if !image || err != nil {
			continue
		}
		var images *registry.Remote
		if images, err = registry.OpenRemote(prefix, o.Transport); err != nil {
			return proof, err
		}
		var subject registry.Descriptor
		if subject, err = images.Resolve(ctx, repository, one.Digests.SHA256.String()); err == nil {
			d, raw, blobs := registry.HintedManifest(subject, bundle, openvex.PredicateType, nil)
			err = registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}.PushTo(ctx, images, repository)
		}
	}
	return proof, err
}
