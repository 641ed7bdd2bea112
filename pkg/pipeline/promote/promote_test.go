package promote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tracing/span"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// closed is a registry that answers a trial push with an error.
type closed struct {
	Registry
	err error
}

func (c closed) ProbePush(context.Context, string) error { return c.err }

// errOpened is the answer of a place whose files somebody begins to copy.
var errOpened = errors.New("a file was opened")

type opened struct{ store.Place }

func (opened) Open(context.Context, string) (io.ReadCloser, int64, error) { return nil, 0, errOpened }

// TestRegistryIsAskedFirst: a registry that will refuse the images is named
// before the first file is copied; one that accepts them is the twin.
func TestRegistryIsAskedFirst(t *testing.T) {
	plan := Plan{Files: []File{{Name: "a"}}, Images: []Image{{Repository: "demo", Tags: []string{"v1"}}}}
	down := &verdict.UnavailableError{Place: "registry.example.test", Op: "beginning an upload", Err: errors.New("no answer")}
	for _, err := range []error{fmt.Errorf("asking: %w", fs.ErrPermission), down} {
		got := apply(t.Context(), plan, From{Files: opened{}}, To{Images: closed{err: err}}, nil)
		if f := verdict.FindingOf("demo", got); f.Code != verdict.PlaceDown || errors.Is(got, errOpened) {
			t.Errorf("%v: %v, want %s before any file", err, got, verdict.PlaceDown)
		}
	}
	var far []gate.Progress
	progress := func(p gate.Progress) { far = append(far, p) }
	if err := apply(t.Context(), plan, From{Files: opened{}}, To{Images: closed{}, Progress: progress}, nil); !errors.Is(err, errOpened) {
		t.Errorf("the twin: %v", err)
	}
	if len(far) == 0 || far[0] != (gate.Progress{What: "copying", Unit: "files", OfFiles: 1}) {
		t.Errorf("the progress before the first file is %+v", far)
	}
}

// TestManifestOfALaterRevision: the manifest is written where there is none, and
// over the one that it may replace; any other is kept (FILE_CONFLICT).
func TestManifestOfALaterRevision(t *testing.T) {
	of := func(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }
	for name, row := range map[string]struct {
		there    string
		replaces digest.Digest
		code     verdict.Code
	}{
		"nothing is there":              {"", digest.Digest{}, ""},
		"the same is there":             {"new", digest.Digest{}, ""},
		"the older one":                 {"old", of("old"), ""},
		"the older one, to be kept":     {"old", digest.Digest{}, verdict.FileConflict},
		"another than the one to go":    {"other", of("old"), verdict.FileConflict},
		"the same, where one was to go": {"new", of("old"), ""},
		"nothing, where one was to go":  {"", of("old"), ""},
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, releasemanifest.Name)
		if row.there != "" {
			if err := os.WriteFile(path, []byte(row.there), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		at, err := store.Open(dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		w, err := store.OpenWriter(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = Apply(t.Context(), Plan{bundle: []byte("new")}, From{}, To{Files: at, Writer: w, Replaces: row.replaces})
		if (err == nil) != (row.code == "") || err != nil && verdict.FindingOf("", err).Code != row.code {
			t.Errorf("%s: %v, want %q", name, err, row.code)
		}
		want := "new"
		if row.code != "" {
			want = row.there
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s: %q is there, want %q: %v", name, got, want, err)
		}
	}
}

// TestImageOfARelease: an image is copied and tagged, in one span; while the
// registry does not say what its tag names, nothing is copied.
func TestImageOfARelease(t *testing.T) {
	src, dst := layout(t), layout(t)
	d := push(t, src, "", "application/vnd.oci.image.layer.v1.tar", "content")
	push(t, dst, "", "application/vnd.oci.image.layer.v1.tar", "something else") // so that there is a registry
	image := Image{Repository: repo, Digest: d.Digest, Size: d.Size, MediaType: d.MediaType, Tags: []string{"v1"}}
	ctx, spans, err := span.Setup(t.Context(), span.Config{Service: "test", Silent: true})
	if err != nil {
		t.Fatal(err)
	}
	down := &verdict.UnavailableError{Place: "registry.example.test", Op: "resolving", Err: io.EOF}
	if err := copyImage(ctx, image, From{Images: src}, To{Images: mute{dst, down}}); !errors.Is(err, down) {
		t.Errorf("a registry that does not answer: %v", err)
	}
	if _, err := dst.Resolve(ctx, repo, d.Digest.String()); !errors.Is(err, registry.ErrNotFound) {
		t.Errorf("it was copied: %v", err)
	}
	to := To{Images: dst}
	if err := errors.Join(copyWhole(ctx, Plan{}, image, From{Images: src}, to), tagImage(ctx, image, to)); err != nil {
		t.Fatal(err)
	}
	if got, err := dst.Resolve(ctx, repo, "v1"); err != nil || !got.Digest.Equal(d.Digest) {
		t.Errorf("the tag names %s: %v", got.Digest, err)
	}
	if by, _ := spans.Tally().All(); len(by) != 1 || by[0].Name != span.PromoteEdge || by[0].Outcome != span.Done {
		t.Errorf("the spans are %v", by)
	}
}

// mute is a registry that does not say what its tags name.
type mute struct {
	Registry
	err error
}

func (m mute) Resolve(context.Context, string, string) (registry.Descriptor, error) {
	return registry.Descriptor{}, m.err
}

// TestPlacesThatFailInARow: a place is given up after three failures in a row; one
// that answers in between is not, and neither is one for the failures of another.
func TestPlacesThatFailInARow(t *testing.T) {
	down := func(place string) error {
		return &verdict.UnavailableError{Place: place + "/demo", Op: "copying", Err: io.EOF}
	}
	for name, row := range map[string]struct {
		steps []error
		down  bool
	}{
		"three in a row":             {[]error{down("eu"), down("eu"), down("eu")}, true},
		"three, then an answer":      {[]error{down("eu"), down("eu"), down("eu"), nil}, true}, // given up for this run
		"an answer after two":        {[]error{down("eu"), down("eu"), nil, down("eu")}, false},
		"the source, not this place": {[]error{down("staging"), down("staging"), down("staging")}, false},
		"refusals":                   {[]error{fs.ErrPermission, fs.ErrPermission, fs.ErrPermission}, false},
	} {
		var r regions
		for _, err := range row.steps {
			r.saw("eu", err)
		}
		if r.down("eu") != row.down {
			t.Errorf("%s: given up: %v", name, !row.down)
		}
	}
}

// TestReportOfManyDecisions: the report of many images has what the decisions
// about them note, each note once, and of notes, proofs and warnings of one code
// no more than its limits.
func TestReportOfManyDecisions(t *testing.T) {
	for _, row := range []struct{ decisions, different, notes, proofs int }{
		{2, 1, 1, 2}, {2, 2, 2, 2}, {maxFindings, maxFindings, maxFindings, maxFindings}, {maxProofs + 1, maxProofs, maxFindings, maxProofs},
	} {
		r := &report{verdict: verdict.New("promotion", time.Time{}), counts: map[verdict.Code]int{}}
		for i := range row.decisions {
			v := verdict.New("image", time.Time{})
			v.Note("note %d", i%row.different)
			v.Warn(verdict.Finding{Code: verdict.Extra})
			v.Proofs = []verdict.Proof{{}}
			r.judged(v)
		}
		if got := r.verdict; len(got.Notes) != row.notes || len(got.Proofs) != row.proofs || len(got.Warnings) != min(row.decisions, maxFindings) {
			t.Errorf("%+v: %d notes, %d proofs, %d warnings", row, len(got.Notes), len(got.Proofs), len(got.Warnings))
		}
	}
}
