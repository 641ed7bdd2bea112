package seal

import (
	"bytes"
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
