package seal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// addStatement adds the statement for in-toto's clients to a manifest that lists
// everything else. It signs and writes the statement if it is out of date.
// Without a signer a missing one is a finding.
func addStatement(ctx context.Context, req Request, m *manifest.Manifest) ([]verdict.Finding, error) {
	i := slices.IndexFunc(req.Plan.Artifacts, plan.Artifact.IsStatement)
	if i < 0 {
		return nil, nil
	}
	a := req.Plan.Artifacts[i]
	slices.SortFunc(m.Artifacts, func(a, b manifest.Artifact) int { return strings.Compare(a.Name, b.Name) })
	statement, err := m.InToto(a.Name)
	if err != nil {
		return nil, err
	}
	bundle, err := existingStatement(ctx, req, a.Name, statement)
	if err != nil {
		return nil, err
	}
	if bundle == nil {
		if req.Signer == nil {
			return []verdict.Finding{verdict.Find(verdict.SealMissing, a.Name, "the statement about the whole release is missing; sealing the manifest signs it")}, nil
		}
		if bundle, _, err = req.Signer.Statement(ctx, statement); err != nil {
			return nil, err
		}
		if err := req.Workspace.Writer().Put(ctx, a.Name, int64(len(bundle)), bytes.NewReader(bundle), store.PutOptions{}); err != nil {
			return nil, fmt.Errorf("writing %s: %w", a.Name, err)
		}
	}
	m.Artifacts = append(m.Artifacts, manifest.Artifact{Artifact: a, Digests: digest.SetOf(bundle), Size: int64(len(bundle))})
	return nil, nil
}

// lacksStatement reports whether the statement for in-toto's clients is planned and
// missing: it is signed with the manifest.
func lacksStatement(ctx context.Context, req Request) (bool, error) {
	i := slices.IndexFunc(req.Plan.Artifacts, plan.Artifact.IsStatement)
	if i < 0 {
		return false, nil
	}
	_, err := readFile(ctx, req, req.Plan.Artifacts[i].Name)
	if errors.Is(err, store.ErrNotFound) {
		return true, nil
	}
	return false, err
}

// existingStatement is the existing bundle, if the release identity signed it and it has
// exactly this content; else nil.
func existingStatement(ctx context.Context, req Request, name string, want intoto.Statement) ([]byte, error) {
	raw, err := readFile(ctx, req, name)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if checkStatement(req, name, want, raw) != nil {
		return nil, nil //nolint:nilerr // of another run, or half written: it is made again
	}
	return raw, nil
}
