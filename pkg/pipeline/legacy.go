package pipeline

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/sign"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// legacyName is the file of a workspace that says that its release is signed in
// the legacy forms, too: what was signed so is listed, whoever seals it.
const legacyName = "legacy"

// inForms is the plan with the forms in which the release is signed.
func (p *Pipeline) inForms(planned plan.Plan, w *workspace.Workspace) (plan.Plan, error) {
	if !p.Legacy {
		_, err := os.Stat(filepath.Join(w.Dir(), legacyName))
		if errors.Is(err, fs.ErrNotExist) {
			return planned, nil
		}
		if err != nil {
			return plan.Plan{}, err
		}
	}
	return planned.WithLegacy()
}

// needLegacy refuses to begin what could not be signed in the legacy forms. It
// asks nobody.
func (p *Pipeline) needLegacy() error {
	if !p.Legacy {
		return nil
	}
	services, err := p.services(p.Profile)
	if err != nil {
		return err
	}
	return sign.NeedLegacy(services)
}

// withLegacy is a plan of which nothing is there yet, with the forms that are
// asked for.
func (p *Pipeline) withLegacy(planned plan.Plan) (plan.Plan, error) {
	if !p.Legacy {
		return planned, nil
	}
	if err := p.needLegacy(); err != nil {
		return plan.Plan{}, err
	}
	return planned.WithLegacy()
}

// noteLegacy remembers the forms in which a workspace's release is signed.
func (p *Pipeline) noteLegacy(w *workspace.Workspace) error {
	if !p.Legacy {
		return nil
	}
	return w.Keep(legacyName, []byte("sha256-<digest>.sig, .att; <file>.sig, .cert\n"))
}
