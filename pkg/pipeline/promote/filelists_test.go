package promote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// said accepts what has a bundle, and whatever of it one likes to be told.
type said func(f gate.PlacedFile)

func (s said) Placed(f gate.PlacedFile) *verdict.Verdict {
	if s != nil {
		s(f)
	}
	v := verdict.New(f.Name, time.Unix(0, 0))
	v.Counts.Required++
	if string(f.Bundle) != "signed "+f.Digests.SHA256.Hex() {
		v.Add(verdict.Find(verdict.EvidenceMissing, f.Name, "nobody signed it"))
		return v
	}
	v.Counts.Verified++
	v.Proofs = []verdict.Proof{{Subject: f.Name, Bundle: digest.Of(digest.SHA256, f.Bundle)}}
	return v
}

// yard is a source and two destinations, of files that are signed.
type yard struct {
	dir   string
	files map[string]string
	judge FileJudge
	open  func(uri string) (store.Place, error)
	write func(uri string) (store.Writer, error)
}

func newYard(t *testing.T) *yard {
	y := &yard{dir: t.TempDir(), files: map[string]string{"v1/tool": "tool", "v1/tool.exe": "tool for windows", "v1/notes": ""}, judge: said(nil)}
	for name, text := range y.files {
		sum := digest.Of(digest.SHA256, []byte(text)).Hex()
		y.put(t, "from/"+name, text)
		y.put(t, "from/"+name+gate.BundleSuffix, "signed "+sum)
	}
	y.files["v1/tool.sha256"] = digest.Of(digest.SHA256, []byte("tool")).Hex() + "\n"
	y.put(t, "from/v1/tool.sha256", y.files["v1/tool.sha256"])
	y.open = func(uri string) (store.Place, error) { return store.Open(uri, nil) }
	y.write = store.OpenWriter
	return y
}

func (y *yard) put(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(y.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// plan lists the files as they are in y.files, whatever lies at the source.
func (y *yard) plan(t *testing.T) promotionplan.Plan {
	t.Helper()
	text := "filestores:\n- {base: \"file://" + y.dir + "/from\", src: true}\n- {base: \"file://" + y.dir + "/east\"}\n- {base: \"file://" + y.dir + "/west\"}\nfiles:\n"
	for name, body := range y.files {
		text += fmt.Sprintf("- {name: %s, sha256: %q}\n", name, digest.Of(digest.SHA256, []byte(body)).Hex())
	}
	m, err := promoterfile.ParseFiles("yard", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	p, err := promotionplan.MakeFiles([]promoterfile.FileManifest{m})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (y *yard) apply(t *testing.T) *verdict.Verdict {
	t.Helper()
	v, err := Files{Plan: y.plan(t), Judge: y.judge, Open: y.open, OpenWriter: y.write, Now: time.Unix(0, 0)}.Apply(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// at are the files of a destination.
func (y *yard) at(t *testing.T, place string) map[string]string {
	t.Helper()
	all := map[string]string{}
	root := filepath.Join(y.dir, place)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		all[filepath.ToSlash(strings.TrimPrefix(path, root+string(filepath.Separator)))] = string(raw)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return all
}

func codesOf(v *verdict.Verdict) (codes []verdict.Code) {
	for _, f := range v.Findings {
		codes = append(codes, f.Code)
	}
	slices.Sort(codes)
	return codes
}

func TestFiles(t *testing.T) {
	y := newYard(t)
	v := y.apply(t)
	if err := v.Err(); err != nil || v.Counts.Verified != 8 || v.Counts.Required != 8 {
		t.Fatalf("%v, %+v", err, v.Counts)
	}
	if said := strings.Join(v.Sentences, "\n"); strings.Count(said, "Copied to ") != 6 || !strings.Contains(said, "/west/v1/tool.") {
		t.Errorf("it does not say what was copied where: %s", said)
	}
	for _, place := range []string{"east", "west"} {
		there := y.at(t, place)
		for name, text := range y.files {
			if there[name] != text {
				t.Errorf("%s of %s is %q", name, place, there[name])
			}
		}
		if len(there) != 7 || there["v1/tool.sigstore.json"] == "" {
			t.Errorf("%s has %d files, want four and three bundles", place, len(there))
		}
	}
	writes := atomic.Int32{}
	y.write = func(uri string) (store.Writer, error) {
		w, err := store.OpenWriter(uri)
		return watched{w, func(string) error { writes.Add(1); return nil }}, err
	}
	if v := y.apply(t); v.Err() != nil || writes.Load() != 0 || strings.Contains(strings.Join(v.Sentences, "\n"), "Copied") {
		t.Errorf("again: %v, %d writes, %q", v.Err(), writes.Load(), v.Sentences)
	}
	// What lacks at one destination is mended, and what came there stays.
	if err := os.Remove(filepath.Join(y.dir, "west", "v1", "tool.sigstore.json")); err != nil {
		t.Fatal(err)
	}
	y.put(t, "west/v1/theirs", "theirs")
	if v := y.apply(t); v.Err() != nil || writes.Load() != 1 || y.at(t, "west")["v1/theirs"] != "theirs" {
		t.Errorf("mended: %v, %d writes", v.Err(), writes.Load())
	}
}

// watched is a writer that asks before each write.
type watched struct {
	store.Writer
	before func(name string) error
}

func (w watched) Put(ctx context.Context, name string, size int64, r io.Reader, o store.PutOptions) error {
	if err := w.before(name); err != nil {
		return err
	}
	return w.Writer.Put(ctx, name, size, r, o)
}

// TestFilesAreRefused: each row changes one fact; the rest goes its way.
func TestFilesAreRefused(t *testing.T) {
	away := func(uri string) error {
		return &verdict.UnavailableError{Place: uri, Op: "reading", Err: errors.New("no answer")}
	}
	for name, c := range map[string]struct {
		change   func(t *testing.T, y *yard)
		codes    []verdict.Code
		verified int
		absent   string // from both destinations
	}{
		"as it is (twin)":        {func(*testing.T, *yard) {}, nil, 8, ""},
		"no bundle":              {func(t *testing.T, y *yard) { remove(t, y, "from/v1/tool.sigstore.json") }, []verdict.Code{verdict.EvidenceMissing}, 4, "v1/tool"},
		"the bundle of another":  {func(t *testing.T, y *yard) { y.put(t, "from/v1/tool.sigstore.json", "signed otherwise") }, []verdict.Code{verdict.EvidenceMissing}, 4, "v1/tool"},
		"other bytes at source":  {func(t *testing.T, y *yard) { y.put(t, "from/v1/tool.exe", "malice") }, []verdict.Code{verdict.Tampered}, 6, "v1/tool.exe"},
		"as long, and otherwise": {func(t *testing.T, y *yard) { y.put(t, "from/v1/tool.exe", "tool for Windows") }, []verdict.Code{verdict.Tampered}, 6, "v1/tool.exe"},
		"gone from the source":   {func(t *testing.T, y *yard) { remove(t, y, "from/v1/tool.exe") }, []verdict.Code{verdict.Missing}, 6, "v1/tool.exe"},
		"a checksum of another": {func(t *testing.T, y *yard) {
			y.files["v1/tool.sha256"] = strings.Repeat("0", 64) + "\n"
			y.put(t, "from/v1/tool.sha256", y.files["v1/tool.sha256"])
		}, []verdict.Code{verdict.Conflict}, 4, "v1/tool"},
		"an empty checksum": {func(t *testing.T, y *yard) {
			y.files["v1/tool.sha256"] = "\n"
			y.put(t, "from/v1/tool.sha256", "\n")
		}, []verdict.Code{verdict.Conflict}, 4, "v1/tool"},
		"another checksum":   {func(t *testing.T, y *yard) { y.put(t, "from/v1/tool.sha256", "0") }, []verdict.Code{verdict.Tampered}, 4, "v1/tool"},
		"other bytes there":  {func(t *testing.T, y *yard) { y.put(t, "east/v1/tool.exe", "theirs") }, []verdict.Code{verdict.FileConflict}, 7, ""},
		"other bytes beside": {func(t *testing.T, y *yard) { y.put(t, "east/v1/tool.exe.sigstore.json", "theirs") }, []verdict.Code{verdict.FileConflict}, 7, ""},
		"a destination that is away": {func(_ *testing.T, y *yard) {
			y.open = instead(y.open, "/east/", func(p store.Place) store.Place { return silentPlace{p, away} })
		}, []verdict.Code{verdict.PlaceDown}, 4, ""},
		"a source that is away": {func(_ *testing.T, y *yard) {
			y.open = instead(y.open, "/from/", func(p store.Place) store.Place { return silentPlace{p, away} })
		}, []verdict.Code{verdict.PlaceDown}, 0, "v1/tool"},
		"a write that is lost": {func(_ *testing.T, y *yard) {
			y.write = func(uri string) (store.Writer, error) { return lost{}, nil }
		}, []verdict.Code{"REPLICA_DRIFT", "REPLICA_DRIFT", "REPLICA_DRIFT", "REPLICA_DRIFT", "REPLICA_DRIFT", "REPLICA_DRIFT"}, 0, "v1/tool"},
	} {
		y := newYard(t)
		c.change(t, y)
		v := y.apply(t)
		if got := codesOf(v); !slices.Equal(got, c.codes) || v.Counts.Verified != c.verified || (v.Err() == nil) != (c.codes == nil) {
			t.Errorf("%s: %v, %+v: %v, want %v and %d verified", name, got, v.Counts, v.Err(), c.codes, c.verified)
		}
		for _, place := range []string{"east", "west"} {
			if _, there := y.at(t, place)[c.absent]; there {
				t.Errorf("%s: %s is at %s", name, c.absent, place)
			}
		}
	}
}

func remove(t *testing.T, y *yard, name string) {
	t.Helper()
	if err := os.Remove(filepath.Join(y.dir, name)); err != nil {
		t.Fatal(err)
	}
}

func instead(open func(string) (store.Place, error), part string, by func(store.Place) store.Place) func(string) (store.Place, error) {
	return func(uri string) (store.Place, error) {
		p, err := open(uri)
		if err == nil && strings.Contains(uri, part) {
			p = by(p)
		}
		return p, err
	}
}

// silentPlace does not answer.
type silentPlace struct {
	store.Place
	away func(uri string) error
}

func (s silentPlace) Open(context.Context, string) (io.ReadCloser, int64, error) {
	return nil, 0, s.away(s.URI())
}

// lost takes everything and keeps nothing.
type lost struct{}

func (lost) Put(_ context.Context, _ string, _ int64, r io.Reader, _ store.PutOptions) error {
	_, err := io.Copy(io.Discard, r)
	return err
}

// TestFileSwappedAfterTheDecision: what changes at the source between the
// decision and the copy does not get through, and leaves nothing of it.
func TestFileSwappedAfterTheDecision(t *testing.T) {
	for name, swap := range map[string]string{"other bytes": "malice, which is longer", "as many": "t00l", "nothing": ""} {
		y := newYard(t)
		y.judge = said(func(f gate.PlacedFile) {
			if f.Name == "v1/tool" {
				y.put(t, "from/v1/tool", swap)
			}
		})
		v := y.apply(t)
		if got := codesOf(v); len(got) != 2 || v.Counts.Verified != 4 || v.Outcome() != verdict.Refused {
			t.Errorf("%s: %v, %+v, %v", name, got, v.Counts, v.Findings)
		}
		for _, place := range []string{"east", "west"} {
			if _, there := y.at(t, place)["v1/tool"]; there {
				t.Errorf("%s: it is at %s", name, place)
			}
		}
		y.judge = said(nil)
		y.put(t, "from/v1/tool", "tool")
		if err := y.apply(t).Err(); err != nil {
			t.Errorf("%s, put back (twin): %v", name, err)
		}
	}
}

// TestFilesInterrupted ends the promotion at each write. No file is ever there
// without its evidence, and the next run finishes.
func TestFilesInterrupted(t *testing.T) {
	for until := range 15 {
		y := newYard(t)
		left := atomic.Int32{}
		left.Store(int32(until))
		y.write = func(uri string) (store.Writer, error) {
			w, err := store.OpenWriter(uri)
			return watched{w, func(string) error {
				if left.Add(-1) < 0 {
					return &verdict.UnavailableError{Place: uri, Op: "writing", Err: errors.New("the machine went away")}
				}
				return nil
			}}, err
		}
		v := y.apply(t)
		if (v.Err() == nil) != (until == 14) || v.Err() != nil && v.Outcome() != verdict.Unavailable {
			t.Errorf("after %d writes: %v", until, v.Err())
		}
		for _, place := range []string{"east", "west"} {
			there := y.at(t, place)
			for name := range there {
				if _, is := companionOf(name); !is && there[name+gate.BundleSuffix] == "" {
					t.Errorf("after %d writes %s has %s without evidence", until, place, name)
				}
			}
		}
		y.write = store.OpenWriter
		if err := y.apply(t).Err(); err != nil {
			t.Errorf("after %d writes, again: %v", until, err)
		}
	}
}

func TestFilesThatCannotBegin(t *testing.T) {
	y := newYard(t)
	good := Files{Plan: y.plan(t), Judge: y.judge, Open: y.open, OpenWriter: y.write}
	for name, change := range map[string]func(*Files){
		"nobody decides":         func(f *Files) { f.Judge = nil },
		"nothing to move":        func(f *Files) { f.Plan.Files = nil },
		"nowhere to go":          func(f *Files) { f.Plan.Stores[0].Destinations = nil },
		"a release":              func(f *Files) { f.Plan.Release = &promotionplan.Release{} },
		"a place that is no":     func(f *Files) { f.Plan.Stores[0].Destinations = []string{"ftp://x/"} },
		"a place without writer": func(f *Files) { f.Plan.Stores[0].Destinations = []string{"https://x/"} },
	} {
		p := good
		p.Plan = y.plan(t)
		change(&p)
		if v, err := p.Apply(t.Context()); err == nil {
			t.Errorf("%s: %v", name, v)
		}
	}
	one, another := digest.Of(digest.SHA256, []byte("one")), digest.Of(digest.SHA256, []byte("another"))
	stale := good
	stale.Judge = under{said(nil), one}
	stale.Plan.Policy = another
	if v, err := stale.Apply(t.Context()); err != nil || !slices.Contains(codesOf(v), verdict.PlanStale) || len(y.at(t, "east")) != 0 {
		t.Errorf("another policy: %v, %v", v, err)
	}
	stale.Plan.Policy = one
	if v, err := stale.Apply(t.Context()); err != nil || v.Err() != nil || len(y.at(t, "east")) == 0 {
		t.Errorf("the same policy: %v, %v", v, err)
	}
}

// under decides by a policy.
type under struct {
	said
	policy digest.Digest
}

func (u under) Placed(f gate.PlacedFile) *verdict.Verdict {
	v := u.said.Placed(f)
	v.Policy = u.policy
	return v
}

func TestCompareFiles(t *testing.T) {
	y := newYard(t)
	y.put(t, "east/v1/tool", "tool")
	y.put(t, "east/v1/tool.exe", "tool for Windows") // as long
	all, err := CompareFiles(t.Context(), y.plan(t), y.open)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]DiffState{}
	for _, f := range all {
		got[strings.TrimPrefix(f.To, "file://"+y.dir+"/")+f.Name] = f.State
	}
	for name, want := range map[string]DiffState{"east/v1/tool": Same, "east/v1/tool.exe": Other, "east/v1/notes": Absent, "west/v1/tool": Absent} {
		if got[name] != want || len(got) != 8 {
			t.Errorf("%s is %s, want %s", name, got[name], want)
		}
	}
	if err := Compared(all); verdict.FindingOf("", err).Code != verdict.FileConflict {
		t.Errorf("other bytes: %v", err)
	}
	remove(t, y, "east/v1/tool.exe")
	y.open = instead(y.open, "/west/", func(p store.Place) store.Place {
		return silentPlace{p, func(uri string) error {
			return &verdict.UnavailableError{Place: uri, Op: "reading", Err: errors.New("no answer")}
		}}
	})
	if all, err = CompareFiles(t.Context(), y.plan(t), y.open); err != nil || verdict.OutcomeOf(Compared(all)) != verdict.Unavailable {
		t.Errorf("a place that is away: %v, %v", err, Compared(all))
	}
	if err := Compared(all[:1]); err != nil {
		t.Errorf("twin: %v", err)
	}
}

// TestFilesPromotedByMany: promoters that know nothing of each other do the same
// work, and none disturbs another.
func TestFilesPromotedByMany(t *testing.T) {
	y := newYard(t)
	p := y.plan(t)
	errs := make(chan error, 8)
	for range cap(errs) {
		go func() {
			v, err := Files{Plan: p, Judge: y.judge, Open: y.open, OpenWriter: y.write, Now: time.Unix(0, 0)}.Apply(context.WithoutCancel(t.Context()))
			if err == nil {
				err = v.Err()
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
	for _, place := range []string{"east", "west"} {
		if there := y.at(t, place); len(there) != 7 || there["v1/tool"] != "tool" {
			t.Errorf("%s has %d files", place, len(there))
		}
	}
}

// TestFilesDecided: the decision is that of the promotion, and nothing is
// written for it.
func TestFilesDecided(t *testing.T) {
	y := newYard(t)
	decide := func() *verdict.Verdict {
		t.Helper()
		v, err := Files{Plan: y.plan(t), Judge: y.judge, Open: y.open, Now: time.Unix(0, 0)}.Decide(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	if v := decide(); v.Err() != nil || v.Counts.Verified != 4 || v.Complete() {
		t.Errorf("%v, %+v", v.Err(), v.Counts)
	}
	y.put(t, "from/v1/tool.exe", "malice")
	remove(t, y, "from/v1/tool.sigstore.json")
	if v := decide(); !slices.Equal(codesOf(v), []verdict.Code{verdict.EvidenceMissing, verdict.Tampered}) || v.Counts.Verified != 1 {
		t.Errorf("%v, %+v", v.Err(), v.Counts)
	}
	if len(y.at(t, "east"))+len(y.at(t, "west")) != 0 {
		t.Error("a decision wrote something")
	}
}
