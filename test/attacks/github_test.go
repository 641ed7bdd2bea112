package attacks

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// onGitHub is a recorded release on GitHub, which has no attestations.
type onGitHub struct{ store.Place }

func (onGitHub) Evidence(context.Context, []string) ([]string, [][]byte, error) { return nil, nil, nil }

// TestSignersOnGitHub: an asset counts as signed by a workflow of the repository at the
// tag, or by a known builder of level 3 that it called. A bundle that does not count is an
// unsigned asset itself.
func TestSignersOnGitHub(t *testing.T) {
	w := theWorld(t)
	const builder = "builders/actions/.github/workflows/sign.yml@refs/tags/v1"
	for _, row := range []struct {
		name, called, ref string
		level             int // of the known builder
		codes             []verdict.Code
	}{
		{"its workflow", "", "", 0, nil},
		{"its workflow at another tag", "lab/candle/.github/workflows/release.yml@refs/tags/v2.0.0", "", 0, codes(verdict.Identity, verdict.Unsigned)},
		{"its workflow, run at a branch", "", "refs/heads/main", 0, codes(verdict.SourceRef, verdict.Unsigned)},
		{"a known builder of level 3", builder, "", 3, nil},
		{"a known builder of level 2", builder, "", 2, codes(verdict.Identity, verdict.Unsigned)},
		{"an unknown builder", builder, "", 0, codes(verdict.Identity, verdict.Unsigned)},
	} {
		t.Run(row.name, func(t *testing.T) {
			run := lab.Workflow{Repository: "lab/candle", File: "release.yml", Tag: "v2.1.0", Commit: "1111111111111111111111111111111111111111", Called: row.called, Ref: row.ref}
			a := author{lab: w.Lab, pair: newPair(t)}
			token := must[string](t)(run.Token(w.Lab))
			fulcio := sign.NewFulcio(&sign.FulcioOptions{BaseURL: w.Lab.Fulcio})
			a.der = must[[]byte](t)(fulcio.GetCertificate(t.Context(), a.pair, &sign.CertificateProviderOptions{IDToken: token}))
			dir := t.TempDir()
			writeFile(t, filepath.Join(dir, "candle"), []byte(artifact))
			writeFile(t, filepath.Join(dir, "candle.sigstore.json"), encode(t, a.sign(t, blob())))
			issuer, _ := run.Identity(w.Lab)
			r := gate.GitHubRelease{
				Repository: "https://github.com/lab/candle", Tag: run.Tag, Issuer: issuer, Files: onGitHub{must[store.Place](t)(store.Open(dir, nil))},
				Known: func(verify.Evidence) (slsa.Pair, string) { return slsa.Pair{Level: row.level}, "" },
				Roots: []trust.Root{w.profile.TrustRoot}, Now: time.Now(),
			}
			if err := r.Decide(t.Context()).Err(); row.codes == nil {
				accepted(t, err)
			} else {
				refused(t, err, row.codes...)
			}
		})
	}
}
