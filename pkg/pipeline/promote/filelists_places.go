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

// maxChecksum limits the size of a checksum file.
const maxChecksum = 4096

// filePlaces are the places of a plan, by address.
type filePlaces map[string]*filePlace

// filePlace is a source or a destination of files.
type filePlace struct {
	uri    string // as in the plan
	files  store.Place
	writer store.Writer

	silent regions // by address: this place alone

	mu   sync.Mutex // owns the rest
	left int        // files not copied because of this place
	why  error      // the first error
}

// open opens every place of a plan, without contacting any.
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

// unavailable is a finding for each place that did not answer, with the
// number of files affected.
func (ps filePlaces) unavailable() (found []verdict.Finding) {
	for _, at := range ps {
		if at.left > 0 {
			f := verdict.FindingOf(at.uri, at.why)
			f.Code, f.Subject = verdict.PlaceDown, at.uri
			f.Message = fmt.Sprintf("the place did not answer about %s: %s", plural.Of(at.left, "file"), f.Message)
			found = append(found, f)
		}
	}
	slices.SortFunc(found, func(a, b verdict.Finding) int { return strings.Compare(a.Subject, b.Subject) })
	return found
}

// isSourceOf reports whether it was this place that did not answer.
func (f *filePlace) isSourceOf(err error) bool {
	var down *verdict.UnavailableError
	return errors.As(err, &down) && strings.HasPrefix(strings.TrimSuffix(down.Place, "/"), strings.TrimSuffix(f.files.URI(), "/"))
}

// missed counts files for which this place did not answer.
func (f *filePlace) missed(files int, err error) {
	f.silent.count(f.uri, true)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.left += files
	if f.why == nil {
		f.why = err
	}
}

func (f *filePlace) answered() { f.silent.count(f.uri, false) }

// sum hashes a file of this place. A missing file is no error.
func (f *filePlace) sum(ctx context.Context, name string) (set digest.Set, size int64, there bool, err error) {
	if f.silent.down(f.uri) {
		return digest.Set{}, 0, false, &verdict.UnavailableError{Place: f.files.URI(), Op: "promoting", Err: errDown}
	}
	body, _, err := f.files.Open(ctx, name)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, fs.ErrNotExist) { // of a directory that does not exist yet
		return digest.Set{}, 0, false, nil
	}
	if err != nil {
		return digest.Set{}, 0, false, err
	}
	defer body.Close()
	set, size, err = digest.Sum(body)
	return set, size, err == nil, err
}

type fileTarget struct {
	place   *filePlace
	digests digest.Set // of the existing file; zero if there is none
	size    int64
}

// checkTargets reads the file at each destination, and returns the
// destinations where it is correct or missing.
func (a *filing) checkTargets(ctx context.Context, p fileJob) (targets []fileTarget) {
	for _, to := range p.to {
		t := fileTarget{place: a.places[to]}
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
	return &verdict.Error{Finding: verdict.Find(verdict.FileConflict, name, "the destination has other bytes under this name").
		Differ(want.String(), got.String())}
}

// filePayload is what is written to each destination.
type filePayload struct {
	name    string
	digests digest.Set
	size    int64
	beside  []written
}

// written is a small file in memory.
type written struct {
	name, media string
	raw         []byte
}

// readSource hashes a file at its source, and reads its companions. A file
// that every destination has already need not exist at the source.
func (a *filing) readSource(ctx context.Context, src *filePlace, p fileJob, targets []fileTarget) (filePayload, error) {
	g := filePayload{name: p.Name, digests: targets[0].digests, size: targets[0].size}
	if slices.ContainsFunc(targets, func(t fileTarget) bool { return t.digests.IsZero() }) {
		set, size, there, err := src.sum(ctx, p.Name)
		switch {
		case err != nil:
			return filePayload{}, err
		case !there:
			return filePayload{}, verdict.Refuse(verdict.Missing, src.uri+p.Name, "the plan lists this file, but the place does not have it")
		case !set.SHA256.Equal(p.Digest):
			return filePayload{}, &verdict.Error{Finding: verdict.Find(verdict.Tampered, src.uri+p.Name, "the digest differs from the plan").
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
		return filePayload{}, err
	}
	if said := strings.Fields(string(sum.raw)); len(said) == 0 || said[0] != p.Digest.Hex() {
		return filePayload{}, verdict.Refuse(verdict.Conflict, src.uri+sum.name, "the checksum file has a different digest than %s", p.Name)
	}
	g.beside = append(g.beside, sum)
	return g, nil
}

// small reads a small file, and compares it with its listed digest, if any. A
// missing file has no bytes; it is an error if the plan lists it.
func (f *filePlace) small(ctx context.Context, w written, listed digest.Digest, limit int64) (written, error) {
	raw, err := store.Read(ctx, f.files, w.name, limit)
	switch {
	case errors.Is(err, store.ErrNotFound) && listed.IsZero():
		return w, nil
	case errors.Is(err, store.ErrNotFound):
		return w, verdict.Refuse(verdict.Missing, f.uri+w.name, "the plan lists this file, but the place does not have it")
	case err != nil:
		return w, err
	}
	if got := digest.Of(digest.SHA256, raw); !listed.IsZero() && !got.Equal(listed) {
		return w, &verdict.Error{Finding: verdict.Find(verdict.Tampered, f.uri+w.name, "the digest differs from the plan").
			Differ(listed.String(), got.String())}
	}
	w.raw = raw
	return w, nil
}

// deliver writes a file to one destination, after its companions. The bytes
// of the source are verified again while they are written, so a file that
// changed since it was judged cannot get through.
func (a *filing) deliver(ctx context.Context, src *filePlace, t fileTarget, g filePayload) error {
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

// write writes one file, unless the same file is there.
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

// create writes a file that does not exist yet, and reads it back.
func (f *filePlace) create(ctx context.Context, what File, open func() (io.ReadCloser, error)) error {
	if err := put(ctx, what, To{Files: f.files, Writer: f.writer}, open); err != nil {
		return err
	}
	got, _, _, err := f.sum(ctx, what.Name)
	if err == nil && !got.SHA256.Equal(what.Digests.SHA256) {
		err = &verdict.Error{Finding: verdict.Find("REPLICA_DRIFT", what.Name, "the bytes read back differ from the bytes written").
			Differ(what.Digests.SHA256.String(), got.SHA256.String())}
	}
	return err
}
