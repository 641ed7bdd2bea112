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

// draftLife is how long a run that was interrupted is taken up with the time
// that it had begun at.
const draftLife = 24 * time.Hour

// draft keeps the manifest that is about to be signed until it is written, and
// returns what to sign. A run that was interrupted may have had the very same
// one logged, but for the time and the run that it says; then that one is
// signed, and the log gets no other. Whoever can write to the state directory
// chooses neither time nor runs: both must be those of an act of the journal.
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
		return manifest.Manifest{}, intoto.Statement{}, err // who may not sign leaves no draft
	}
	if err := req.Workspace.Keep("drafts/"+releasemanifest.Name, fresh.Raw()); err != nil {
		return manifest.Manifest{}, intoto.Statement{}, fmt.Errorf("keeping the draft of the manifest: %w", err)
	}
	return m, fresh, nil
}

// redrafted is the manifest at the time and of the runs that a draft says, if the
// draft says exactly that.
func redrafted(h History, m manifest.Manifest, raw []byte) (manifest.Manifest, intoto.Statement, bool) {
	said, err := intoto.Parse(raw)
	if err != nil {
		return manifest.Manifest{}, intoto.Statement{}, false
	}
	before, err := manifest.ParseRoot(said)
	if age := m.SealedOn.Sub(before.Head().SealedOn); err != nil || age < 0 || age > draftLife || !h.tells(before.Head(), m) {
		return manifest.Manifest{}, intoto.Statement{}, false
	}
	m = asBefore(m, before.Head())
	m.SealedOn = before.Head().SealedOn
	again, err := m.Statement()
	return m, again, err == nil && bytes.Equal(again.Raw(), raw)
}

// drafts is where drafts are kept: beside the files, for it is none of them.
func drafts(req Request) string { return filepath.Join(req.Workspace.Dir(), "drafts") }

// dropDraft forgets the draft of a manifest that is written. One that stays
// does no harm: the manifest is there.
func dropDraft(req Request) { _ = os.RemoveAll(drafts(req)) }
