package rekorv1

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/legacy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Evidence is a directory of a log's answers, one a file, named by the
// signature that it is of. What is in it is as little believed as the log.
type Evidence struct {
	place  store.Place
	writer store.Writer
}

// OpenEvidence returns the directory at a path, and makes it if need be.
func OpenEvidence(dir string) (*Evidence, error) {
	if dir == "" || strings.Contains(dir, "://") {
		return nil, verdict.Refuse(verdict.Usage, "evidence", "%q is no path of a directory", dir)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, "evidence", err)
	}
	place, err := store.Open(dir, nil)
	if err != nil {
		return nil, err
	}
	writer, err := store.OpenWriter(dir)
	if err != nil {
		return nil, err
	}
	return &Evidence{place: place, writer: writer}, nil
}

func fileOf(m legacy.Material) string { return m.Name().Hex() + ".rekor.json" }

// read returns the kept answer; [store.ErrNotFound] if none was.
func (e *Evidence) read(ctx context.Context, m legacy.Material) ([]byte, error) {
	body, _, err := e.place.Open(ctx, fileOf(m))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, legacy.MaxBundle+1))
}

func (e *Evidence) keep(ctx context.Context, m legacy.Material, answer []byte) error {
	return e.writer.Put(ctx, fileOf(m), int64(len(answer)), bytes.NewReader(answer), store.PutOptions{MediaType: "application/json"})
}

// Finder proves legacy signatures, with a log entry from wherever there is one:
// carried along, kept, or asked for, in this order.
type Finder struct {
	// Log is asked for what nobody has. Nil asks nobody.
	Log *Log
	// Evidence is where answers are kept. Nil keeps none.
	Evidence *Evidence
}

// Prove completes a signature and has it proven. Where an entry is needed and
// there is nobody to ask, that is no refusal: nothing was decided.
func (f Finder) Prove(ctx context.Context, m legacy.Material, prove func(bundle []byte) (verify.Evidence, error)) (verify.Evidence, error) {
	if m.IsZero() {
		return verify.Evidence{}, verdict.Refuse(verdict.NoArtifact, "signature", "there is none")
	}
	whole, answer, err := f.complete(ctx, m)
	if err != nil {
		return verify.Evidence{}, err
	}
	bundle, err := whole.Bundle()
	if err != nil {
		return verify.Evidence{}, err
	}
	e, err := prove(bundle)
	if err != nil {
		return verify.Evidence{}, err
	}
	if answer != nil && f.Evidence != nil {
		if err := f.Evidence.keep(ctx, m, answer); err != nil {
			return verify.Evidence{}, err
		}
	}
	return e, nil
}

// complete adds the entry, to a signature that holds for what it is of: of
// another no log need be asked. It returns the answer that is to be kept, nil if
// none is new.
func (f Finder) complete(ctx context.Context, m legacy.Material) (whole legacy.Material, answer []byte, err error) {
	if m.Logged() {
		return m, nil, nil
	}
	if err := m.Check(); err != nil {
		return legacy.Material{}, nil, err
	}
	if f.Evidence != nil {
		kept, err := f.Evidence.read(ctx, m)
		if err == nil {
			whole, err = withAnswer(m, kept)
		}
		if !errors.Is(err, store.ErrNotFound) {
			return whole, nil, err
		}
	}
	if f.Log == nil {
		return legacy.Material{}, nil, verdict.Refuse(verdict.LogUnasked, "signature", "it carries no log entry that says when it was made, and no log may be asked")
	}
	answer, whole, err = f.Log.Find(ctx, m)
	return whole, answer, err
}

func withAnswer(m legacy.Material, answer []byte) (legacy.Material, error) {
	_, entry, err := legacy.ParseAnswer(answer)
	if err != nil {
		return legacy.Material{}, err
	}
	return m.With(entry)
}
