package promote_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/pipeline/promote"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const shards = 4

// sharded is a plan whose shards write results into a directory.
type sharded struct {
	t    *testing.T
	plan promotionplan.Plan
	dir  string
}

// newSharded plans so many images to two or three regions.
func newSharded(t *testing.T, images int) *sharded {
	t.Helper()
	s := &sharded{t: t, dir: t.TempDir(), plan: promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{
		{Manifest: "a", Source: "staging.test/a", Destinations: []string{"us.test/prod", "eu.test/prod"}}, // a plan need not sort them
		{Manifest: "b", Source: "staging.test/b", Destinations: []string{"asia.test/prod", "eu.test/prod", "us.test/prod"}},
	}}}
	for i := range images {
		s.plan.Edges = append(s.plan.Edges, promotionplan.Edge{Route: i * 2 / images, Image: "demo", Digest: digest.Of(digest.SHA256, fmt.Append(nil, i)), Tags: []string{fmt.Sprint("v", i)}})
	}
	return s
}

func (s *sharded) place() store.Place {
	s.t.Helper()
	at, err := store.Open(promote.ResultsPlace(s.dir, s.plan.Digest()), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return at
}

// items are what a shard has to account for, all of it done.
func (s *sharded) items(of promotionplan.Shard) []promote.Item {
	var items []promote.Item
	for i, e := range s.plan.Edges {
		if !of.Takes(e.Digest) {
			continue
		}
		for _, to := range slices.Sorted(slices.Values(s.plan.Routes[e.Route].Destinations)) {
			items = append(items, promote.Item{Edge: i, To: to, State: promote.Done})
		}
	}
	return items
}

// write writes an attempt of a shard.
func (s *sharded) write(of promotionplan.Shard, items []promote.Item) string {
	s.t.Helper()
	w, err := store.OpenWriter(promote.ResultsPlace(s.dir, s.plan.Digest()))
	if err != nil {
		s.t.Fatal(err)
	}
	v := verdict.New("a shard", time.Now())
	v.Policy = digest.Of(digest.SHA256, []byte("the policy"))
	name, err := promote.Applied{Verdict: v, Items: items}.WriteResults(s.t.Context(), w, s.plan, of)
	if err != nil {
		s.t.Fatal(err)
	}
	return name
}

// writeAll writes what every shard but some did.
func (s *sharded) writeAll(but ...int) {
	for i := range shards {
		if of := (promotionplan.Shard{Index: i, Of: shards}); !slices.Contains(but, i) {
			s.write(of, s.items(of))
		}
	}
}

func (s *sharded) path(name string) string {
	return filepath.Join(promote.ResultsPlace(s.dir, s.plan.Digest()), name)
}

// mend changes the bytes of an object that is there.
func (s *sharded) mend(name string, change func(string) string) {
	s.t.Helper()
	raw, err := os.ReadFile(s.path(name))
	if err != nil {
		s.t.Fatal(err)
	}
	changed := change(string(raw))
	if changed == string(raw) {
		s.t.Fatal("nothing was changed")
	}
	if err := os.WriteFile(s.path(name), []byte(changed), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func (s *sharded) merge() *verdict.Verdict {
	s.t.Helper()
	v, err := promote.Shards{Plan: s.plan, Results: s.place(), Again: "waybill promote apply plan.json", Now: time.Now()}.Merge(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

// with is items with another state at one place.
func with(items []promote.Item, at int, state promote.State, code verdict.Code) []promote.Item {
	items = slices.Clone(items)
	items[at].State, items[at].Code = state, code
	return items
}

// TestMergeOfLab: what was judged by a lab's keys says so also when it is merged.
func TestMergeOfLab(t *testing.T) {
	for _, lab := range []string{"The trust root is an INSECURE LAB.", ""} {
		s := newSharded(t, 20)
		s.writeAll()
		if lab != "" {
			s.mend("shard-001-of-004.attempt-0001.jsonl", func(text string) string { return strings.Replace(text, `"items":`, `"lab":"`+lab+`","items":`, 1) })
		}
		if v := s.merge(); v.Lab() != lab || v.Outcome() != verdict.Accepted || slices.Contains(v.Sentences, "") {
			t.Errorf("%q, %s", v.Sentences, v.Headline())
		}
	}
}

func TestMerge(t *testing.T) {
	one := promotionplan.Shard{Index: 1, Of: shards}
	const file = "shard-001-of-004.attempt-0001.jsonl"
	for _, c := range []struct {
		name   string
		make   func(s *sharded)
		want   string
		verify int // fewer than all are good
	}{
		{"all of it", func(s *sharded) { s.writeAll() }, "", 0},
		{"nothing", func(*sharded) {}, "MISSING", 100},
		{"a shard is missing", func(s *sharded) { s.writeAll(1) }, "MISSING", -1},
		{"an image is missing", func(s *sharded) { s.writeAll(1); s.write(one, s.items(one)[1:]) }, "MISSING", 1},
		{"a second attempt has it", func(s *sharded) { s.writeAll(1); s.write(one, s.items(one)[1:]); s.write(one, s.items(one)) }, "", 0},
		{"two attempts have it together", func(s *sharded) { s.writeAll(1); s.write(one, s.items(one)[1:]); s.write(one, s.items(one)[:1]) }, "", 0},
		{"one is refused", func(s *sharded) {
			s.writeAll(1)
			s.write(one, with(s.items(one), 2, promote.Refused, verdict.TagConflict))
		}, "TAG_CONFLICT", 1},
		{"one had no answer", func(s *sharded) {
			s.writeAll(1)
			s.write(one, with(s.items(one), 2, promote.Failed, verdict.PlaceDown))
		}, "UNAVAILABLE", 1},
		{"no answer, then done", func(s *sharded) {
			s.writeAll(1)
			s.write(one, with(s.items(one), 2, promote.Failed, verdict.PlaceDown))
			s.write(one, with(s.items(one), 2, promote.Present, ""))
		}, "", 0},
		{"done, then no answer", func(s *sharded) { s.writeAll(); s.write(one, with(s.items(one), 2, promote.Failed, verdict.PlaceDown)) }, "", 0},
		{"done, then refused", func(s *sharded) {
			s.writeAll()
			s.write(one, with(s.items(one), 2, promote.Refused, verdict.TagConflict))
		}, "TAG_CONFLICT", 1},
		{"refused, then done", func(s *sharded) {
			s.writeAll(1)
			s.write(one, with(s.items(one), 2, promote.Refused, verdict.TagConflict))
			s.write(one, s.items(one))
		}, "", 0},
		{"another division", func(s *sharded) { s.writeAll(); s.write(promotionplan.Shard{Index: 0, Of: 2}, nil) }, "EXTRA", 100},
		{"something else", func(s *sharded) { s.writeAll(); write(s, "notes.txt", "") }, "EXTRA", 0},
		{"a shard that there is not", func(s *sharded) { s.writeAll(); write(s, "shard-004-of-004.attempt-0001.jsonl", "") }, "EXTRA", 0},
		{"an attempt by another name", func(s *sharded) { s.writeAll(); write(s, "shard-0001-of-004.attempt-0001.jsonl", "") }, "EXTRA", 0},
		{"what was never whole", func(s *sharded) { s.writeAll(); write(s, ".waybill-tmp-X", "") }, "", 0},
		{"the results of another shard", func(s *sharded) { s.writeAll(1); copyTo(s, "shard-002-of-004.attempt-0001.jsonl", file) }, "EXTRA MISSING", -1},
		{"the results of another plan", func(s *sharded) {
			s.writeAll()
			s.mend(file, func(raw string) string {
				return strings.Replace(raw, s.plan.Digest().Hex(), strings.Repeat("0", 64), 1)
			})
		}, "EXTRA MISSING", -1},
		{"an image of another shard", func(s *sharded) {
			s.writeAll(1)
			s.write(one, append(s.items(promotionplan.Shard{Index: 0, Of: shards})[:1], s.items(one)...))
		}, "EXTRA MISSING", -1},
		{"an image that the plan has not", func(s *sharded) {
			s.writeAll(1)
			s.write(one, append(s.items(one), promote.Item{Edge: len(s.plan.Edges), To: "eu.test/prod", State: promote.Done}))
		}, "EXTRA", 0},
		{"a destination that the plan has not", func(s *sharded) {
			items := s.items(one)
			items[0].To = "mars.test/prod"
			s.writeAll(1)
			s.write(one, items)
		}, "EXTRA MISSING", -1},
		{"an image twice", func(s *sharded) { s.writeAll(1); s.write(one, append(s.items(one)[:1], s.items(one)...)) }, "CONFIG MISSING", -1},
		{"a state that there is not", func(s *sharded) { s.writeAll(1); s.write(one, with(s.items(one), 0, "great", "")) }, "CONFIG MISSING", -1},
		{"a code that there is not", func(s *sharded) { s.writeAll(1); s.write(one, with(s.items(one), 0, promote.Refused, "LAZY")) }, "CONFIG MISSING", -1},
		{"done, with a code", func(s *sharded) { s.writeAll(1); s.write(one, with(s.items(one), 0, promote.Done, verdict.Tampered)) }, "CONFIG MISSING", -1},
		{"an unknown key", func(s *sharded) {
			s.writeAll()
			s.mend(file, func(raw string) string { return strings.Replace(raw, `{"edge"`, `{"more":1,"edge"`, 1) })
		}, "CONFIG MISSING", -1},
		{"another schema", func(s *sharded) {
			s.writeAll()
			s.mend(file, func(raw string) string { return strings.Replace(raw, "results/v1", "results/v2", 1) })
		}, "CONFIG MISSING", -1},
		{"the end is cut off", func(s *sharded) {
			s.writeAll()
			s.mend(file, func(raw string) string { return raw[:strings.LastIndex(strings.TrimSpace(raw), "\n")+1] })
		}, "CONFIG MISSING", 1},
		{"empty", func(s *sharded) { s.writeAll(); s.mend(file, func(string) string { return "" }) }, "CONFIG MISSING", -1},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSharded(t, 40)
			c.make(s)
			v := s.merge()
			if got := codesOf(v); got != c.want || (v.Err() == nil) != (c.want == "") {
				t.Errorf("%s: %v; want %s", got, v.Err(), c.want)
			}
			if c := v.Counts; c.Required != 20*2+20*3 {
				t.Errorf("%d are required", c.Required)
			}
			switch lacks := v.Counts.Required - v.Counts.Verified; {
			case c.verify >= 0 && lacks != c.verify, c.verify < 0 && lacks == 0:
				t.Errorf("%v: %d lack", v.Counts, lacks)
			}
		})
	}
}

// TestMergePolicies: an image that only an earlier attempt promoted was accepted by
// the policy of that attempt, so the verdict does not name that of a later one.
func TestMergePolicies(t *testing.T) {
	one, the := promotionplan.Shard{Index: 1, Of: shards}, digest.Of(digest.SHA256, []byte("the policy"))
	for _, c := range []struct {
		name          string
		first, second promote.State
		want          digest.Digest
	}{
		{"promoted, then no answer", promote.Done, promote.Failed, digest.Digest{}},
		{"refused, then promoted (twin)", promote.Refused, promote.Done, the},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newSharded(t, 40)
			all := func(state promote.State) (items []promote.Item) {
				for _, i := range s.items(one) {
					if i.State = state; !state.Good() {
						i.Code = verdict.PlaceDown
					}
					items = append(items, i)
				}
				return items
			}
			s.writeAll(1)
			s.mend(s.write(one, all(c.first)), func(raw string) string {
				return strings.Replace(raw, the.String(), digest.Of(digest.SHA256, []byte("another policy")).String(), 1)
			})
			s.write(one, all(c.second))
			v := s.merge()
			if told := strings.Contains(strings.Join(v.Notes, "\n"), "2 different policies"); v.Err() != nil || v.Policy != c.want || told == (c.want == the) {
				t.Errorf("%v, policy %s, %q", v.Err(), v.Policy, v.Notes)
			}
		})
	}
}

func write(s *sharded, name, text string) {
	s.t.Helper()
	if err := os.WriteFile(s.path(name), []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

func copyTo(s *sharded, from, to string) {
	s.t.Helper()
	raw, err := os.ReadFile(s.path(from))
	if err != nil {
		s.t.Fatal(err)
	}
	write(s, to, string(raw))
}

// TestMergeNamesTheNextCommand: whoever reads that a shard is missing can type
// what is to be done.
func TestMergeNamesTheNextCommand(t *testing.T) {
	s := newSharded(t, 40)
	s.writeAll(3)
	v := s.merge()
	if f := v.Findings[0]; f.Subject != "shard 3/4" || f.Fix != "run waybill promote apply plan.json --shard 3/4 --confirm" {
		t.Errorf("%+v", f)
	}
	if v.Counts.Missing != v.Counts.Required-v.Counts.Verified {
		t.Errorf("%v", v.Counts)
	}
	for _, g := range v.Groups {
		if g.Verified == 0 || g.Verified >= g.Required {
			t.Errorf("%+v", g)
		}
	}
	if len(v.Groups) != 3 {
		t.Errorf("%v", v.Groups)
	}
	// A shard with a refused image runs again, too, and four files were read.
	one := promotionplan.Shard{Index: 1, Of: shards}
	s.write(one, with(s.items(one), 2, promote.Refused, verdict.TagConflict))
	for _, want := range []string{
		"shards to run again: 2 of 4; existing images are kept. The first: waybill promote apply plan.json --shard 1/4 --confirm",
		"based on unsigned result files: 4; no registry was read",
	} {
		if notes := s.merge().Notes; !slices.Contains(notes, want) {
			t.Errorf("%q, want %q", notes, want)
		}
	}
}

// TestMergeOfTwoPolicies: the note says how many policies the shards used, and
// which the first shard used.
func TestMergeOfTwoPolicies(t *testing.T) {
	s := newSharded(t, 40)
	s.writeAll()
	policy := digest.Of(digest.SHA256, []byte("the policy"))
	s.mend("shard-003-of-004.attempt-0001.jsonl", func(text string) string { return strings.Replace(text, policy.Hex(), strings.Repeat("0", 64), 1) })
	if v := s.merge(); !slices.Contains(v.Notes, "the shards used 2 different policies, the first is "+policy.String()) {
		t.Errorf("%q", v.Notes)
	}
}

// TestMergeKeepsWhatWasSetAside: what a shard set aside is part of the answer.
func TestMergeKeepsWhatWasSetAside(t *testing.T) {
	s := newSharded(t, 40)
	s.writeAll(1)
	w, err := store.OpenWriter(promote.ResultsPlace(s.dir, s.plan.Digest()))
	if err != nil {
		t.Fatal(err)
	}
	v := verdict.New("a shard", time.Now())
	v.Waived = []verdict.Waiver{{Finding: verdict.Find(verdict.TagConflict, "eu.test/prod/demo:v1", "another"), Kind: verdict.ByException, ID: "x", Reason: "broken", By: "officer"}}
	v.Note("no record was written")
	one := promotionplan.Shard{Index: 1, Of: shards}
	for range 2 {
		if _, err := (promote.Applied{Verdict: v, Items: s.items(one)}).WriteResults(t.Context(), w, s.plan, one); err != nil {
			t.Fatal(err)
		}
	}
	merged := s.merge()
	if merged.Err() != nil || merged.Complete() || len(merged.Waived) != 1 || !slices.Contains(merged.Notes, "no record was written") {
		t.Errorf("%s, %v, %v", merged.Headline(), merged.Waived, merged.Notes)
	}
}

// TestResultsAreNeverWrittenOver: each attempt has an object of its own.
func TestResultsAreNeverWrittenOver(t *testing.T) {
	s := newSharded(t, 40)
	of := promotionplan.Shard{Index: 1, Of: shards}
	first := s.write(of, s.items(of))
	before, err := os.ReadFile(s.path(first))
	if err != nil {
		t.Fatal(err)
	}
	if second := s.write(of, nil); second == first {
		t.Error("the second attempt has the name of the first")
	}
	if after, err := os.ReadFile(s.path(first)); err != nil || !bytes.Equal(after, before) {
		t.Error("the first attempt was written over")
	}
}

// BenchmarkMerge merges the results of 8 shards for 46 000 images at 21
// destinations.
func BenchmarkMerge(b *testing.B) {
	s := &sharded{t: &testing.T{}, dir: b.TempDir(), plan: promotionplan.Plan{Schema: promotionplan.Schema, Routes: []promotionplan.Route{{Manifest: "a", Source: "staging.test/a"}}}}
	for i := range 21 {
		s.plan.Routes[0].Destinations = append(s.plan.Routes[0].Destinations, fmt.Sprintf("region-%02d.example.test/prod/images", i))
	}
	for i := range 46_000 {
		s.plan.Edges = append(s.plan.Edges, promotionplan.Edge{Image: fmt.Sprintf("demo-%05d", i), Digest: digest.Of(digest.SHA256, fmt.Append(nil, i)), Tags: []string{"v1"}})
	}
	w, err := store.OpenWriter(promote.ResultsPlace(s.dir, s.plan.Digest()))
	if err != nil {
		b.Fatal(err)
	}
	for i := range 8 {
		of := promotionplan.Shard{Index: i, Of: 8}
		if _, err := (promote.Applied{Verdict: verdict.New("a shard", time.Now()), Items: s.items(of)}).WriteResults(b.Context(), w, s.plan, of); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		v, err := promote.Shards{Plan: s.plan, Results: s.place(), Now: time.Now()}.Merge(b.Context())
		if err != nil || v.Err() != nil {
			b.Fatal(err, v.Err())
		}
	}
}

// brokenPlace breaks off one object after some bytes.
type brokenPlace struct {
	store.Place
	name  string
	after int64
	with  error // nil ends it as if it were whole
}

func (b brokenPlace) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	body, size, err := b.Place.Open(ctx, name)
	if err != nil || name != b.name {
		return body, size, err
	}
	end := io.Reader(strings.NewReader(""))
	if b.with != nil {
		end = iotest.ErrReader(b.with)
	}
	return struct {
		io.Reader
		io.Closer
	}{io.MultiReader(io.LimitReader(body, b.after), end), body}, size, nil
}

// TestMergeOfResultsThatBreakOff: half of a file that did not arrive is not a malformed
// file; one that is stored like this is.
func TestMergeOfResultsThatBreakOff(t *testing.T) {
	s := newSharded(t, 40)
	s.writeAll(1)
	one := promotionplan.Shard{Index: 1, Of: shards}
	name := s.write(one, s.items(one))
	raw, err := os.ReadFile(s.path(name))
	if err != nil {
		t.Fatal(err)
	}
	down := &verdict.UnavailableError{Place: "results", Op: "reading " + name, Err: io.ErrUnexpectedEOF}
	head := int64(bytes.IndexByte(raw, '\n'))
	for at, after := range map[string]int64{"in the head": head / 2, "after the head": head + 1, "in an item": head + 20} {
		for code, with := range map[verdict.Code]error{verdict.PlaceDown: down, verdict.ConfigParse: nil} {
			broken := brokenPlace{s.place(), name, after, with}
			v, err := promote.Shards{Plan: s.plan, Results: broken, Again: "again", Now: time.Now()}.Merge(t.Context())
			if err != nil || len(v.Findings) == 0 || v.Findings[0].Code != code {
				t.Errorf("%s, %v: %v, %v, want %s", at, with, v.Findings, err, code)
			}
		}
	}
	if v := s.merge(); v.Err() != nil {
		t.Error("all of it:", v.Err())
	}
}
