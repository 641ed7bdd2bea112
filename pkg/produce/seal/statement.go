package seal

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// addStatements adds the files about the whole release for other readers to a
// manifest that lists everything else. It signs and writes each that is out of
// date. Without a signer a missing one is a finding.
func addStatements(ctx context.Context, req Request, m *manifest.Manifest) (findings []verdict.Finding, _ error) {
	for _, a := range req.Plan.Statements() {
		slices.SortFunc(m.Artifacts, func(a, b manifest.Artifact) int { return strings.Compare(a.Name, b.Name) })
		content, err := readFile(ctx, req, a.Name)
		if errors.Is(err, store.ErrNotFound) || err == nil && statementIs(req, *m, a, content) != nil { // of another run, or half written
			if req.Signer == nil {
				findings = append(findings, verdict.Find(verdict.SealMissing, a.Name, "this file about the whole release is missing; sealing the manifest writes it"))
				continue
			}
			content, err = newStatement(ctx, req, *m, a)
		}
		if err != nil {
			return nil, err
		}
		m.Artifacts = append(m.Artifacts, manifest.Artifact{Artifact: a, Digests: digest.SetOf(content), Size: int64(len(content))})
	}
	return findings, nil
}

// lacksStatement reports whether a file about the whole release is planned and
// missing: it is written with the manifest.
func lacksStatement(ctx context.Context, req Request) (bool, error) {
	for _, a := range req.Plan.Statements() {
		if _, err := readFile(ctx, req, a.Name); err != nil {
			if errors.Is(err, store.ErrNotFound) {
				return true, nil
			}
			return false, err
		}
	}
	return false, nil
}

// statementIs refuses a file that the release identity did not sign with exactly
// this content.
func statementIs(req Request, m manifest.Manifest, a plan.Artifact, raw []byte) error {
	if a.IsProvenanceLines() {
		return m.CheckLines(a.Name, raw)
	}
	e, err := req.Verifier.Attestation(raw)
	if err != nil {
		return err
	}
	want, err := m.ForReaders(req.Plan, a, e.Statement(), policy.Who(e))
	if err != nil {
		return err
	}
	return checkStatement(req, a.Name, want, raw)
}

// newStatement writes a file about the whole release. What consists of signed
// provenance is not signed again.
func newStatement(ctx context.Context, req Request, m manifest.Manifest, a plan.Artifact) (content []byte, err error) {
	if a.IsProvenanceLines() {
		for _, p := range m.Provenance() {
			raw, err := readFile(ctx, req, p.Name)
			if err != nil {
				return nil, err
			}
			content = append(append(content, raw...), '\n')
		}
	} else if who, err := req.Signer.As(ctx); err != nil {
		return nil, err
	} else if statement, err := m.ForReaders(req.Plan, a, intoto.Statement{}, who); err != nil {
		return nil, err
	} else if content, _, err = req.Signer.Statement(ctx, statement); err != nil {
		return nil, err
	}
	return content, req.Workspace.Writer().Put(ctx, a.Name, int64(len(content)), bytes.NewReader(content), store.PutOptions{})
}

// checkV02 demands that a step's provenance in the legacy form, if planned,
// is the builder's and has exactly the content of the newer one.
func checkV02(ctx context.Context, req Request, step plan.Step, newer provenance.Provenance) error {
	if !req.Plan.ProvenanceV02 {
		return nil
	}
	name := plan.ProvenanceV02Name(step.Instance)
	raw, err := readFile(ctx, req, name)
	if errors.Is(err, store.ErrNotFound) {
		return verdict.Refuse(verdict.SealMissing, name, "step %s has no provenance in the legacy form", step.Instance)
	}
	if err != nil {
		return err
	}
	e, err := req.Verifier.Attestation(raw)
	if err != nil {
		return err
	}
	want, err := provenance.EncodeV02(newer.Subjects, newer.Predicate)
	if err != nil {
		return err
	}
	if !equalStatements(e.Statement(), want) {
		return verdict.Refuse(verdict.NotBound, name, "the content differs from the step's provenance")
	}
	for _, s := range newer.Subjects {
		ask := policy.Ask{Role: policy.Builder, Kind: provenance.PredicateTypeV02, Subject: s.Name, Bytes: s.Digests}
		if _, err := req.Policy.Judge(e, ask); err != nil {
			return err
		}
	}
	return nil
}

func equalStatements(a, b intoto.Statement) bool { return bytes.Equal(a.Raw(), b.Raw()) }
