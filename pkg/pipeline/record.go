package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxRecords limits how many summaries of a release are read.
const maxRecords = 100

// recordersAtOnce limits how many images are recorded at once.
const recordersAtOnce = 8

// unsummarized says why there is no summary.
const unsummarized = "no summary was written: the feature EmitVSA is off"

// Maker describes this program and the job that runs it in records.
type Maker struct {
	promotionrecord.Promoter
	Job promotionrecord.Job
}

// records are what the verifier writes about a public release.
type records struct{ *job }

// writeRecords writes the verification result of the release, signed by the
// verifier: one summary of everything that was built, beside the manifest and
// attached to every image, and a promotion record for each image. It reports
// what it wrote, or why it wrote nothing.
func writeRecords(ctx context.Context, t tools, in facts) (_ facts, err error) {
	r := records{t.job}
	if why := r.unwritten(); why != "" {
		in.lines = []string{"no record was written: " + why}
		return in, nil
	}
	at, err := t.place(profile.Release)
	if err != nil {
		return in, err
	}
	m, _, err := t.ownManifest(ctx, at.files)
	if err != nil {
		return in, err
	}
	ctx = t.inTraceOf(ctx, traceOf(m))
	j, err := journal.Open(r.journal(m))
	if err != nil {
		return in, err
	}
	defer func() { err = errors.Join(err, j.Close()) }()
	made, signer, err := r.recorder(j)
	if err != nil {
		return in, err
	}
	if !made.Summarizes() {
		in.omitted = leftSummaries
	}
	began := t.Clock()
	in.lines, err = recording{t.job, made, m, at, in.verdict}.all(ctx)
	in.lines = append(in.lines, t.addSummary(Summary{Act: stepRecord}, signer, began).String())
	return in, err
}

// recorder prepares to sign records as the verifier, and keeps the signatures
// in the journal.
func (p records) recorder(j *journal.Journal) (*attest.Records, *sign.Signer, error) {
	kept, err := sign.Keep(j)
	if err != nil {
		return nil, nil, err
	}
	work := p.Work
	work.Kept = kept
	signer, err := p.signer(signs{role: policy.Verifier, token: TokenVerifier}, work, false)
	if err != nil {
		return nil, nil, err
	}
	records, err := attest.New(attest.Config{
		Signer: signer, Journal: j, Verifier: p.verifier, Policy: p.Profile.Policy, Job: p.Maker.Job, Clock: p.Clock, Options: p.RecordOptions,
		As: attest.As{ID: p.Profile.Records.Verifier, Policy: p.Profile.Records.Policy, Promoter: p.Maker.Promoter},
	})
	return records, signer, err
}

// unwritten says why no record is written; empty if one is.
func (p records) unwritten() string {
	switch {
	case p.Profile.Records.Verifier == "":
		return "the profile has no records: section that names the verifier"
	case !p.Profile.Policy.AllowsLate(vsa.PredicateType, policy.Verifier, policy.Published):
		return "the policy's late: section does not let the verifier add a summary to a public release"
	case p.Tokens[TokenVerifier] == nil && p.Keys[TokenVerifier] == nil:
		return "no verifier identity was given; use --identity-token " + TokenVerifier + "=FILE"
	}
	return ""
}

// journal is where the signatures of records are kept: with the release's
// other signatures, or in a file for the version if there is no workspace of
// the release.
func (p records) journal(m manifest.Manifest) string {
	if w, err := workspace.Open(p.State); err == nil && w.Identity().Version == p.Version && isOf(m, w.Identity().Invocation) {
		return w.Signatures()
	}
	return filepath.Join(p.State, "records", p.Version.String()+".jsonl")
}

type recording struct {
	*job
	records  *attest.Records
	manifest manifest.Manifest
	at       place
	v        *verdict.Verdict
}

// all writes every record. The one beside the manifest is last, so its
// presence means that the others are complete.
func (r recording) all(ctx context.Context) (said []string, err error) {
	var promoted int
	if promoted, err = r.promotions(ctx); err != nil {
		return nil, err
	}
	if promoted > 0 {
		said = append(said, "recorded: the promotion of "+plural.Of(promoted, "image"))
	}
	if !r.records.Summarizes() {
		return append(said, unsummarized), nil
	}
	there, err := summariesAt(ctx, r.at.files)
	if err != nil {
		return said, err
	}
	subjects := summarized(r.manifest)
	if len(subjects) == 0 {
		return append(said, "no summary was written: the release contains no built artifacts"), nil
	}
	signed, err := r.records.Summary(ctx, r.v, r.manifest.FilesURI, subjects, there)
	if err != nil {
		return said, err
	}
	for _, s := range signed {
		if err := r.attachAll(ctx, s); err != nil {
			return said, err
		}
		name, err := r.write(ctx, s, there)
		if err != nil {
			return said, err
		}
		said = append(said, "recorded: "+name)
	}
	return said, nil
}

// summarized are the subjects of a summary: the artifacts for which a policy
// can require one.
func summarized(m manifest.Manifest) (subjects []intoto.Subject) {
	for _, a := range m.Artifacts {
		if slices.Contains(policy.ChecksOf(a.Class), policy.Summary) {
			subjects = append(subjects, intoto.Subject{Name: a.Name, Digests: a.Digests})
		}
	}
	return subjects
}

// summariesAt are the summaries beside a manifest.
func summariesAt(ctx context.Context, at store.Place) (all [][]byte, _ error) {
	for n := 1; n <= maxRecords; n++ {
		raw, err := store.Read(ctx, at, vsa.Name(n), verify.MaxBundle)
		if errors.Is(err, store.ErrNotFound) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return nil, verdict.Refuse(verdict.Limit, at.URI(), "the place has %d summaries already, which is the limit", maxRecords)
}

// write writes a summary under the next free name, unless the same one
// exists.
func (r recording) write(ctx context.Context, s attest.Signed, there [][]byte) (string, error) {
	if i := slices.IndexFunc(there, func(raw []byte) bool { return bytes.Equal(raw, s.Bundle) }); i >= 0 {
		return vsa.Name(i+1) + ", which existed already", nil
	}
	for n := len(there) + 1; n <= maxRecords; n++ {
		name := vsa.Name(n)
		err := r.at.writer.Put(ctx, name, int64(len(s.Bundle)), bytes.NewReader(s.Bundle), store.PutOptions{IfAbsent: true, MediaType: plan.MediaBundle})
		if !errors.Is(err, store.ErrExists) {
			return name, err
		}
		raw, err := store.Read(ctx, r.at.files, name, verify.MaxBundle)
		if err != nil {
			return "", err
		}
		if bytes.Equal(raw, s.Bundle) {
			return name + ", which existed already", nil
		}
	}
	return "", verdict.Refuse(verdict.Limit, r.at.files.URI(), "the place has %d summaries already, which is the limit", maxRecords)
}

// attachAll attaches a summary to each image that it covers.
func (r recording) attachAll(ctx context.Context, s attest.Signed) error {
	st, err := r.verifier.Attestation(s.Bundle)
	if err != nil {
		return err
	}
	spoken := slice.Set(st.Statement().Subjects(), func(sub intoto.Subject) string { return sub.Name })
	for _, a := range r.manifest.Images() {
		if !spoken[a.Name] {
			continue
		}
		if err := attach(ctx, r.at.images, a, s); err != nil {
			return fmt.Errorf("attaching the summary to %s: %w", a.Name, err)
		}
	}
	return nil
}

// attach makes a record refer to an image, unless it does already.
func attach(ctx context.Context, to promote.Registry, a manifest.Artifact, s attest.Signed) error {
	if s.Found { // perhaps with other trace annotations, which do not justify a second copy
		there, err := registry.Bundles(ctx, to, a.Repository, a.Digests.SHA256)
		switch {
		case err != nil && !errors.Is(err, registry.ErrNotFound):
			return err
		case slices.ContainsFunc(there, func(raw []byte) bool { return bytes.Equal(raw, s.Bundle) }):
			return nil
		}
	}
	subject := registry.Descriptor{MediaType: a.MediaType, Digest: a.Digests.SHA256, Size: a.Size}
	d, raw, blobs := registry.HintedManifest(subject, s.Bundle, s.Kind, s.IDs.Annotations())
	return registry.Parcel{Descriptor: d, Raw: raw, Blobs: blobs}.PushTo(ctx, to, a.Repository)
}

// promotions records how each image came here from staging, and returns the
// number of images.
func (r recording) promotions(ctx context.Context) (int, error) {
	from, err := r.Profile.Images(profile.Staging, r.Version)
	if err != nil {
		return 0, err
	}
	images := slices.DeleteFunc(r.manifest.Images(), func(a manifest.Artifact) bool { return a.Class != plan.Image })
	return len(images), atonce.Try(ctx, recordersAtOnce, images, func(ctx context.Context, _ int, a manifest.Artifact) error {
		if err := r.promotion(ctx, from, a); err != nil {
			return fmt.Errorf("recording the promotion of %s: %w", a.Name, err)
		}
		return nil
	})
}

func (r recording) promotion(ctx context.Context, from string, a manifest.Artifact) error {
	there, err := registry.Bundles(ctx, r.at.images, a.Repository, a.Digests.SHA256)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return err
	}
	name := func(prefix string) string { return strings.TrimSuffix(prefix, "/") + "/" + a.Repository }
	s, err := r.records.Promotion(ctx, attest.Promoted{
		Source: name(from), Digest: a.Digests.SHA256, Verdict: r.v, There: there,
		Destinations: []attest.Destination{{Ref: name(r.manifest.ImagesURI), Tags: a.Tags}},
		Manifest:     promotionrecord.Resource{Name: r.manifest.Name + " " + r.Version.String(), Digest: map[string]string{"gitCommit": r.manifest.Source.Commit}, URI: r.manifest.Source.Repository},
	})
	if err != nil || s.Found {
		return err
	}
	return attach(ctx, r.at.images, a, s)
}

// progress looks beside the manifest for a summary that the verifier signed
// and that covers only what the manifest lists.
func (p records) progress(ctx context.Context, m manifest.Manifest, at store.Place) Stage {
	stage := Stage{Name: stepRecord, Of: 1, Note: "no summary by the verifier: " + at.URI()}
	all, err := summariesAt(ctx, at)
	if err != nil {
		stage.Down, stage.Note = verdict.OutcomeOf(err) == verdict.Unavailable, fmt.Sprintf("cannot be read: %v", err)
		return stage
	}
	for i, raw := range all {
		e, err := p.verifier.Attestation(raw)
		if err != nil || !p.Profile.Policy.IsLate(e, policy.Question{Subject: "late evidence", Stage: policy.Published}) {
			continue
		}
		said, err := vsa.Parse(e.Statement())
		if err != nil || !speaksOf(e.Statement(), m) {
			continue
		}
		stage.Done, stage.Note = 1, fmt.Sprintf("%s by %s, %s: %s", said.Result, said.Verifier.ID, said.Verified.Format("2006-01-02 15:04"), vsa.Name(i+1))
	}
	return stage
}

// speaksOf reports whether the manifest lists every subject with these
// digests.
func speaksOf(s intoto.Statement, m manifest.Manifest) bool {
	for _, sub := range s.Subjects() {
		a, listed := m.Find(sub.Name)
		if !listed || !sub.Binds(a.Digests) {
			return false
		}
	}
	return true
}
