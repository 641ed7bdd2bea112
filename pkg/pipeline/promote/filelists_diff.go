package promote

import (
	"context"
	"errors"
	"slices"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// FileState is the state of one file of a plan at one destination.
type FileState struct {
	To    string    `json:"to"` // the destination, as in the plan
	Name  string    `json:"name"`
	State DiffState `json:"state"`
	// Got is the digest of other bytes at the destination.
	Got digest.Digest `json:"got,omitzero"`
	Why string        `json:"why,omitempty"` // if the place does not answer
}

// DiffState is what a destination has under a name.
type DiffState string

// The states of a file. Only the bytes decide: the existing file is read and
// hashed, and its size, time or other checksums do not count.
const (
	Same    DiffState = "same"
	Absent  DiffState = "missing"
	Other   DiffState = "other"   // other bytes, which are never overwritten
	Unknown DiffState = "unknown" // the place does not answer
)

// CompareFiles reads the files of a plan at every destination, in the order
// of [promotionplan.Plan.AllFiles]. It writes nothing, and reads no source.
func CompareFiles(ctx context.Context, p promotionplan.Plan, open func(uri string) (store.Place, error)) ([]FileState, error) {
	var places filePlaces
	if err := places.open(Files{Plan: p, Open: open}); err != nil {
		return nil, err
	}
	moves := slices.Collect(p.AllFiles())
	all := make([]FileState, len(moves))
	atonce.Each(writers, moves, func(i int, m promotionplan.FileMove) {
		all[i] = FileState{To: m.To, Name: m.Name, State: Unknown}
		all[i].compare(ctx, places[m.To], m.Digest)
	})
	return all, context.Cause(ctx)
}

func (f *FileState) compare(ctx context.Context, at *filePlace, want digest.Digest) {
	set, _, there, err := at.sum(ctx, f.Name)
	switch {
	case err != nil:
		f.Why = err.Error()
		at.missed(1, err)
		return
	case !there:
		f.State = Absent
	case set.SHA256.Equal(want):
		f.State = Same
	default:
		f.State, f.Got = Other, set.SHA256
	}
	at.answered()
}

// Compared is a refusal if a destination has other bytes, which no promotion
// overwrites; or an unavailability if a place does not answer.
func Compared(all []FileState) (away error) {
	for _, f := range all {
		switch f.State {
		case Other:
			return &verdict.Error{Finding: verdict.Find(verdict.FileConflict, f.To+f.Name, "the destination has other bytes under this name").
				Differ("the planned bytes, or no file", f.Got.String())}
		case Unknown:
			away = &verdict.UnavailableError{Place: f.To, Op: "comparing " + f.Name, Err: errors.New(f.Why)}
		}
	}
	return away
}
