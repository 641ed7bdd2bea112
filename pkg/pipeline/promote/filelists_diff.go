package promote

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// FileState is how one file of a plan stands at one destination.
type FileState struct {
	To    string `json:"to"` // the destination, as the plan has it
	Name  string `json:"name"`
	State Stand  `json:"state"`
	// Got is the digest of other bytes that are there.
	Got digest.Digest `json:"got,omitzero"`
	Why string        `json:"why,omitempty"` // of a place that does not answer
}

// Stand is what a destination has under a name.
type Stand string

// What can be under a name. Only the bytes say so: what is there is read and
// hashed, and no size, time or other sum is taken for that.
const (
	Same    Stand = "same"
	Absent  Stand = "missing"
	Other   Stand = "other"   // other bytes, which are never written over
	Unknown Stand = "unknown" // the place does not answer
)

// CompareFiles looks at every destination of a plan for the files that it has
// already, in the order of [promotionplan.Plan.AllFiles]. Nothing is written, and no
// source is asked.
func CompareFiles(ctx context.Context, p promotionplan.Plan, open func(uri string) (store.Place, error)) ([]FileState, error) {
	places, err := placesOf(p, open)
	if err != nil {
		return nil, err
	}
	all := make([]FileState, 0, p.Extent().Copies)
	group := errgroup.Group{}
	group.SetLimit(writers)
	for m := range p.AllFiles() {
		all = append(all, FileState{To: m.To, Name: m.Name, State: Unknown})
		one := &all[len(all)-1] // all never grows beyond what it was made for
		group.Go(func() error {
			one.compare(ctx, places[m.To], m.Digest)
			return nil
		})
	}
	_ = group.Wait() // each failure is that of its file
	return all, context.Cause(ctx)
}

// placesOf opens the destinations of a plan.
func placesOf(p promotionplan.Plan, open func(uri string) (store.Place, error)) (filePlaces, error) {
	places := filePlaces{}
	for _, s := range p.Stores {
		for _, to := range s.Destinations {
			files, err := open(to)
			if err != nil {
				return nil, err
			}
			places[to] = &filePlace{uri: to, files: files}
		}
	}
	return places, nil
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

// Compared is what states amount to: a refusal if a destination holds other
// bytes, which no promotion would write over, and no answer where one is away.
func Compared(all []FileState) error {
	var away error
	for _, f := range all {
		switch f.State {
		case Other:
			return &verdict.Error{Finding: verdict.Find(verdict.FileConflict, f.To+f.Name, "the destination holds other bytes under this name").
				Differ("what is planned, or nothing", f.Got.String())}
		case Unknown:
			away = &verdict.UnavailableError{Place: f.To, Op: "comparing " + f.Name, Err: errFilesAway(f.Why)}
		}
	}
	return away
}

// errFilesAway is why a place did not answer, in its own words.
type errFilesAway string

func (e errFilesAway) Error() string { return string(e) }
