package seal

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/release/manifest"
)

// draftLife is how long an interrupted run can be continued with its original
// time.
const draftLife = 24 * time.Hour

// draft stores the manifest that is about to be signed until it is written,
// and returns what to sign. An interrupted run may have logged the same
// manifest with another time and run; then that one is signed, so the log
// gets no second one. An attacker who can write to the state directory cannot
// choose time or runs: both must be those of an act in the journal.
func draft(ctx context.Context, req Request, m manifest.Manifest) (manifest.Manifest, intoto.Statement, error) {
	fresh, err := m.Statement()
	if err != nil {
		return manifest.Manifest{}, intoto.Statement{}, err
	}
	if raw, err := os.ReadFile(filepath.Join(drafts(req), releasemanifest.Name)); err == nil {
		if before, s, same := redrafted(req.History, m, raw); same {
			return before, s, nil
		}
	}
	if _, err := req.Signer.As(ctx); err != nil {
		return manifest.Manifest{}, intoto.Statement{}, err // without permission to sign, no draft is left
	}
	if err := req.Workspace.Keep("drafts/"+releasemanifest.Name, fresh.Raw()); err != nil {
		return manifest.Manifest{}, intoto.Statement{}, fmt.Errorf("keeping the draft of the manifest: %w", err)
	}
	return m, fresh, nil
}

// redrafted is the manifest with the time and the runs of a draft, if the
// draft is otherwise equal.
func redrafted(h History, m manifest.Manifest, raw []byte) (manifest.Manifest, intoto.Statement, bool) {
	said, err := intoto.Parse(raw)
	if err != nil {
		return manifest.Manifest{}, intoto.Statement{}, false
	}
	before, err := manifest.ParseRoot(said)
	if age := m.SealedOn.Sub(before.Head().SealedOn); err != nil || age < 0 || age > draftLife || !h.explains(before.Head(), m) {
		return manifest.Manifest{}, intoto.Statement{}, false
	}
	m = asBefore(m, before.Head())
	m.SealedOn = before.Head().SealedOn
	again, err := m.Statement()
	return m, again, err == nil && bytes.Equal(again.Raw(), raw)
}

// drafts is the directory of drafts, outside of the files.
func drafts(req Request) string { return filepath.Join(req.Workspace.Dir(), "drafts") }

// dropDraft removes the draft of a manifest that is written. If that fails,
// the draft does no harm.
func dropDraft(req Request) { _ = os.RemoveAll(drafts(req)) }
