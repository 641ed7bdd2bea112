package gate

import (
	"context"
	"crypto"
	"errors"
	"io/fs"
	"os"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/intotolayout"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// LayoutRequest asks whether files were made as an in-toto layout requires.
type LayoutRequest struct {
	Layout string // its path
	Files  []string
	// Keys are the owners of the layout. Each of them must have signed it.
	Keys []crypto.PublicKey
	// Links is the directory with the files STEP.KEYID.link.
	Links      string
	Parameters map[string]string
	// WithoutInspections accepts a layout with inspections, which are commands
	// to run on the files. They are not run.
	WithoutInspections bool
	Now                time.Time
}

// Layout compares files with an in-toto layout and the links of its steps.
func Layout(ctx context.Context, req LayoutRequest) *verdict.Verdict {
	asked := intotolayout.Request{
		Keys: req.Keys, Parameters: req.Parameters, WithoutInspections: req.WithoutInspections, Now: req.Now,
	}
	v := verdict.New("files against a layout", req.Now)
	v.Counts.Required = max(1, len(req.Files))
	if _, err := os.Stat(req.Layout); errors.Is(err, fs.ErrNotExist) {
		v.AddError(req.Layout, verdict.Refuse(verdict.Usage, req.Layout, "no such layout file"))
		return v
	}
	for _, path := range slice.Unique(req.Files) {
		digests, err := File{Path: path}.hash(ctx)
		if err != nil {
			v.AddError(path, err)
			return v
		}
		asked.Files = append(asked.Files, intotolayout.File{Name: path, Digests: digests})
	}
	var err error
	if asked.Layout, err = (File{Path: req.Layout}).read(req.Layout, intotolayout.MaxSize); err != nil {
		v.AddError(req.Layout, err)
		return v
	}
	directory, err := os.OpenRoot(req.Links)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		v.AddError(req.Links, verdict.Refuse(verdict.Usage, req.Links, "no such directory of links"))
		return v
	case err != nil:
		v.AddError(req.Links, verdict.Wrap(verdict.PlaceDown, req.Links, err))
		return v
	}
	defer directory.Close()
	asked.Links = directory.FS()
	return intotolayout.Judge(asked)
}
