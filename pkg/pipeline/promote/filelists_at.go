package promote

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// patience is how many files in a row a place may leave without an answer,
// each asked for as long as the transport asks, before it is given up on.
const patience = 3

// maxChecksum bounds a file that says one digest.
const maxChecksum = 4096

// filePlaces are the places of a plan, by address.
type filePlaces map[string]*filePlace

// filePlace is a place that files come from or go to.
type filePlace struct {
	uri    string // as the plan has it
	files  store.Place
	writer store.Writer

	mu   sync.Mutex // owns the rest
	row  int        // files without an answer, one after another
	left int        // files that were given up
	why  error      // the first reason
}

// open opens every place of a plan. Nothing is asked of any.
func (ps *filePlaces) open(p Files) error {
	*ps = filePlaces{}
	for _, s := range p.Plan.Stores {
		for i, uri := range append([]string{s.Source}, s.Destinations...) {
			at := (*ps)[uri]
			if at == nil {
				files, err := p.Open(uri)
				if err != nil {
					return err
				}
				at = &filePlace{uri: uri, files: files}
				(*ps)[uri] = at
			}
			if i == 0 || at.writer != nil || p.OpenWriter == nil {
				continue
			}
			var err error
			if at.writer, err = p.OpenWriter(uri); err != nil {
				return err
			}
		}
	}
	return nil
}

func (ps filePlaces) at(uri string) *filePlace { return ps[uri] }

// away is a finding for each place that did not answer, with what that cost.
func (ps filePlaces) away() (found []verdict.Finding) {
	for _, at := range ps {
		if at.left > 0 {
			f := verdict.FindingOf(at.uri, at.why)
			f.Code, f.Subject = verdict.PlaceDown, at.uri
			f.Message = fmt.Sprintf("it did not answer about %s: %s", plural.Of(at.left, "file"), f.Message)
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b verdict.Finding) int { return strings.Compare(a.Subject, b.Subject) })
	return found
}

// blame reports whether it is this place that did not answer.
func (f *filePlace) blame(err error) bool {
	var down *verdict.UnavailableError
	return errors.As(err, &down) && strings.HasPrefix(strings.TrimSuffix(down.Place, "/"), strings.TrimSuffix(f.files.URI(), "/"))
}

// missed counts files that this place left without an answer.
func (f *filePlace) missed(files int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.row++
	f.left += files
	if f.why == nil {
		f.why = err
	}
}

func (f *filePlace) answered() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.row < patience { // who was given up on is not asked, so it cannot come back
		f.row = 0
	}
}

// isDown is why a place is not asked any more.
func (f *filePlace) isDown() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.row < patience {
		return nil
	}
	return &verdict.UnavailableError{Place: f.files.URI(), Op: "promoting", Err: errors.New("it did not answer several times")}
}

// sum hashes a file of this place. One that is not there is no error.
func (f *filePlace) sum(ctx context.Context, name string) (set digest.Set, size int64, there bool, err error) {
	if err := f.isDown(); err != nil {
		return digest.Set{}, 0, false, err
	}
	body, _, err := f.files.Open(ctx, name)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist) { // of a directory that is yet to be made
		return digest.Set{}, 0, false, nil
	}
	if err != nil {
		return digest.Set{}, 0, false, err
	}
	defer body.Close()
	set, size, err = digest.Sum(body)
	return set, size, err == nil, err
}

// fileTarget is a destination of one file.
type fileTarget struct {
	place   *filePlace
	digests digest.Set // of the file there; zero if it is not
	size    int64
}

// look asks each destination what it has, and returns those where the file is
// as it should be, or is not yet.
func (a *filing) look(ctx context.Context, p parcel) (targets []fileTarget) {
	for _, to := range p.to {
		t := fileTarget{place: a.places.at(to)}
		var there bool
		var err error
		if t.digests, t.size, there, err = t.place.sum(ctx, p.Name); err == nil && there && !t.digests.SHA256.Equal(p.Digest) {
			err = conflict(p.Name, p.Digest, t.digests.SHA256)
		}
		if err != nil {
			a.fail(t.place, p, err)
			continue
		}
		targets = append(targets, t)
	}
	return targets
}

func conflict(name string, want, got digest.Digest) error {
	return &verdict.Error{Finding: verdict.Find(verdict.FileConflict, name, "the destination holds other bytes under this name").
		Differ(want.String(), got.String())}
}

// goods is what is written to each destination.
type goods struct {
	name    string
	digests digest.Set
	size    int64
	beside  []written
}

// written is a small file, whole.
type written struct {
	name, media string
	raw         []byte
}

// pack hashes a file where it lies, and reads what lies beside it. A file that
// is at every destination already needs not be where it came from.
func (a *filing) pack(ctx context.Context, src *filePlace, p parcel, targets []fileTarget) (goods, error) {
	g := goods{name: p.Name, digests: targets[0].digests, size: targets[0].size}
	if slices.ContainsFunc(targets, func(t fileTarget) bool { return t.digests.IsZero() }) {
		set, size, there, err := src.sum(ctx, p.Name)
		switch {
		case err != nil:
			return goods{}, err
		case !there:
			return goods{}, verdict.Refuse(verdict.Missing, src.uri+p.Name, "the plan lists it, and it is not there")
		case !set.SHA256.Equal(p.Digest):
			return goods{}, &verdict.Error{Finding: verdict.Find(verdict.Tampered, src.uri+p.Name, "its bytes are not those that the plan lists").
				Differ(p.Digest.String(), set.SHA256.String())}
		}
		g.digests, g.size = set, size
	}
	bundle, err := src.small(ctx, written{name: p.Name + gate.BundleSuffix, media: plan.MediaBundle}, p.bundle, verify.MaxBundle)
	if err == nil && bundle.raw != nil {
		g.beside = append(g.beside, bundle)
	}
	if err != nil || p.checksum.IsZero() {
		return g, err
	}
	sum, err := src.small(ctx, written{name: p.Name + checksumSuffix, media: "text/plain"}, p.checksum, maxChecksum)
	if err != nil {
		return goods{}, err
	}
	if said := strings.Fields(string(sum.raw)); len(said) == 0 || said[0] != p.Digest.Hex() {
		return goods{}, verdict.Refuse(verdict.Conflict, src.uri+sum.name, "it says another digest than %s has", p.Name)
	}
	g.beside = append(g.beside, sum)
	return g, nil
}

// small reads a small file, held against its listed digest if there is one. One
// that is not there has no bytes, if it is not listed.
func (f *filePlace) small(ctx context.Context, w written, listed digest.Digest, limit int64) (written, error) {
	raw, err := store.Read(ctx, f.files, w.name, limit)
	switch {
	case errors.Is(err, store.ErrNotFound) && listed.IsZero():
		return w, nil
	case errors.Is(err, store.ErrNotFound):
		return w, verdict.Refuse(verdict.Missing, f.uri+w.name, "the plan lists it, and it is not there")
	case err != nil:
		return w, err
	}
	if got := digest.Of(digest.SHA256, raw); !listed.IsZero() && !got.Equal(listed) {
		return w, &verdict.Error{Finding: verdict.Find(verdict.Tampered, f.uri+w.name, "its bytes are not those that the plan lists").
			Differ(listed.String(), got.String())}
	}
	w.raw = raw
	return w, nil
}

// deliver writes a file to one destination, after all that is beside it. What
// the source gives is checked once more while it is written, so one that
// changed since it was judged cannot get through.
func (a *filing) deliver(ctx context.Context, src *filePlace, t fileTarget, g goods) error {
	for _, w := range g.beside {
		f := File{Name: w.name, Digests: digest.SetOf(w.raw), Size: int64(len(w.raw)), MediaType: w.media}
		open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(w.raw)), nil }
		if err := t.place.write(ctx, f, open); err != nil {
			return err
		}
	}
	if !t.digests.IsZero() {
		return nil
	}
	return t.place.create(ctx, File{Name: g.name, Digests: g.digests, Size: g.size}, func() (io.ReadCloser, error) {
		body, _, err := src.files.Open(ctx, g.name)
		return body, err
	})
}

// write writes one file, unless the very same is there.
func (f *filePlace) write(ctx context.Context, what File, open func() (io.ReadCloser, error)) error {
	got, _, there, err := f.sum(ctx, what.Name)
	switch {
	case err != nil:
		return err
	case !there:
		return f.create(ctx, what, open)
	case !got.SHA256.Equal(what.Digests.SHA256):
		return conflict(what.Name, what.Digests.SHA256, got.SHA256)
	}
	return nil
}

// create writes one file that is not there, and reads it back.
func (f *filePlace) create(ctx context.Context, what File, open func() (io.ReadCloser, error)) error {
	if err := put(ctx, what, To{Files: f.files, Writer: f.writer}, open); err != nil {
		return err
	}
	got, _, _, err := f.sum(ctx, what.Name)
	if err == nil && !got.SHA256.Equal(what.Digests.SHA256) {
		err = &verdict.Error{Finding: verdict.Find(verdict.CopyDrift, what.Name, "what was written is not what is there").
			Differ(what.Digests.SHA256.String(), got.SHA256.String())}
	}
	return err
}
