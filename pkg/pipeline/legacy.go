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
// the older forms, too: what was signed so is listed, whoever seals it.
const legacyName = "legacy"

// forms are those in which a release is signed.
type forms struct{ *job }

// of is a plan with the forms of a workspace; without one those that are asked
// for.
func (f forms) of(planned plan.Plan, w *workspace.Workspace) (plan.Plan, error) {
	if f.Legacy {
		return planned.WithLegacy()
	}
	if w == nil {
		return planned, nil
	}
	_, err := os.Stat(filepath.Join(w.Dir(), legacyName))
	if errors.Is(err, fs.ErrNotExist) {
		return planned, nil
	}
	if err != nil {
		return plan.Plan{}, err
	}
	return planned.WithLegacy()
}

// need refuses to begin what could not be signed in the older forms. It asks
// nobody.
func (f forms) need() error {
	if !f.Legacy {
		return nil
	}
	services, err := f.services()
	if err != nil {
		return err
	}
	return sign.NeedOlder(services)
}

// remember writes down in which forms a workspace's release is signed.
func (f forms) remember(w *workspace.Workspace) error {
	if !f.Legacy {
		return nil
	}
	return w.Keep(legacyName, []byte("sha256-<digest>.sig, .att; <file>.sig, .cert\n"))
}
