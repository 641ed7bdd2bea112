package pipeline

import (
	"context"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// leftSummaries notes in the journal that no summary of the release was
// wanted.
const leftSummaries = "no summary"

// askGate judges the release at a stage. A refusal is both an error and a
// verdict.
func askGate(s profile.Stage) func(context.Context, tools, facts) (facts, error) {
	return func(ctx context.Context, t tools, in facts) (facts, error) {
		at, _, err := t.Gate.Places(t.Version, s, gate.Elsewhere{})
		if err != nil {
			return in, err
		}
		req := t.Gate.Release(t.Version, s, at, t.Clock())
		req.Options.Progress = t.tell
		req.Options.AllDigests = true // a publisher answers for every digest in the manifest
		out, err := t.Gate.Decide(ctx, req)
		if err != nil {
			return in, err
		}
		v := out.Verdict
		for i, f := range v.Findings {
			if s == profile.Staging && f.Code == verdict.EvidenceMissing && f.Subject == releasemanifest.Name {
				v.Findings[i].Fix = missingManifestAdvice(at.Files, t.State)
			}
		}
		in.verdict, err = v, v.Err()
		if s == profile.Release {
			in.public = err == nil
		} else if err == nil {
			in.accepted = manifestIn(v)
		}
		return in, err
	}
}

func manifestIn(v *verdict.Verdict) digest.Digest {
	return slice.First(v.Inputs, func(in verdict.Input) bool { return in.Name == releasemanifest.Name }).Digest
}

// copyTo copies the release to a stage from the previous one.
func copyTo(s profile.Stage) func(context.Context, tools, facts) (facts, error) {
	return func(ctx context.Context, t tools, in facts) (facts, error) {
		if s == profile.Staging {
			return in, publishing{t.job}.promote(ctx, promote.From{Files: in.w.Files(), Images: in.w.Images()}, s, digest.Digest{}, t.tell)
		}
		staging, err := t.place(profile.Staging)
		if err != nil {
			return in, err
		}
		return in, publishing{t.job}.promote(ctx, promote.From{Files: staging.files, Images: staging.images}, s, in.accepted, t.tell)
	}
}

// Afterwards describes what [Pipeline.Release] would do after publishing what
// is in staging: what it would record, and which markers it would move.
func (p *Pipeline) Afterwards(ctx context.Context) (lines []string, _ error) {
	for _, a := range releaseAct().steps {
		if a.preview == nil {
			continue
		}
		said, err := a.preview(ctx, p.job)
		lines = append(lines, said...)
		if err != nil {
			return lines, err
		}
	}
	return lines, nil
}

func wouldRecord(_ context.Context, j *job) ([]string, error) {
	if why := (records{j}).unwritten(); why != "" {
		return []string{"no record would be written: " + why}, nil
	}
	if !j.RecordOptions.Summarize() {
		return []string{"the verifier would record the release, without a summary"}, nil
	}
	return []string{"the verifier would record the release"}, nil
}

// wouldMark lists which markers would move.
func wouldMark(ctx context.Context, j *job) (lines []string, _ error) {
	at, err := j.place(profile.Staging)
	if err != nil {
		return nil, err
	}
	m, _, err := j.promotable(ctx, at.files)
	if err != nil {
		return nil, err
	}
	all, _, err := markers{j}.read(ctx, m, at.files)
	if err != nil {
		return nil, err
	}
	if len(all) == 0 {
		return []string{"no marker would be moved"}, nil
	}
	for _, one := range all {
		switch {
		case one.Problem != "":
			return lines, verdict.Refuse(verdict.FileConflict, one.Name, "%s", one.Problem)
		case one.Version.IsZero():
			lines = append(lines, "marker "+one.Name+" would be new")
		case one.Version.Less(j.Version):
			lines = append(lines, "marker "+one.Name+" would move from "+one.Version.String())
		default:
			lines = append(lines, "marker "+one.Name+" would stay at "+one.Version.String())
		}
	}
	return lines, nil
}
