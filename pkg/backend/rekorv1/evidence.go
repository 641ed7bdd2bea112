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

// Evidence is a directory of a log's answers, one file for each, named by the
// signature. Like the log, it is not trusted.
type Evidence struct {
	place  store.Place
	writer store.Writer
}

// OpenEvidence returns the directory at a path, and creates it if needed.
func OpenEvidence(dir string) (*Evidence, error) {
	if dir == "" || strings.Contains(dir, "://") {
		return nil, verdict.Refuse(verdict.Usage, "evidence", "%q is not a directory path", dir)
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

// read returns the stored answer, or [store.ErrNotFound].
func (e *Evidence) read(ctx context.Context, m legacy.Material) ([]byte, error) {
	body, _, err := e.place.Open(ctx, fileOf(m))
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(io.LimitReader(body, legacy.MaxBundle+1))
}

// Finder proves legacy signatures. The log entry comes from the signature
// itself, from stored answers, or from the log, in this order.
type Finder struct {
	// Log is asked for missing entries. Nil asks no log.
	Log *Log
	// Evidence stores answers. Nil stores none.
	Evidence *Evidence
}

// Prove completes a signature with its log entry and verifies it. A missing
// entry without a log to ask is unavailable, not refused.
func (f Finder) Prove(ctx context.Context, m legacy.Material, prove func(bundle []byte) (verify.Evidence, error)) (verify.Evidence, error) {
	if m.IsZero() {
		return verify.Evidence{}, verdict.Refuse(verdict.NoArtifact, "signature", "no signature was given")
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
		if err := f.Evidence.writer.Put(ctx, fileOf(m), int64(len(answer)), bytes.NewReader(answer), store.PutOptions{MediaType: "application/json"}); err != nil {
			return verify.Evidence{}, err
		}
	}
	return e, nil
}

// complete adds the log entry. The signature is checked first, so no log is
// asked about an invalid one. answer is what should be stored, nil if nothing
// new.
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
		return legacy.Material{}, nil, verdict.Refuse(verdict.LogUnasked, "signature", "no log entry proves when the signature was made, and no log may be asked")
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
