package journal

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func open(t *testing.T, path string) *Journal {
	t.Helper()
	j, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

func entry(n int) Entry {
	return Entry{
		Time: time.Unix(int64(n), 5).UTC(), Act: "promote", Subject: fmt.Sprintf("bin/%d", n),
		Detail: json.RawMessage(fmt.Sprintf(`{"n":%d}`, n)),
	}
}

// written returns a journal of n entries on disk, and its bytes.
func written(t *testing.T, n int) (path string, raw []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state", "journal.jsonl")
	j := open(t, path)
	for i := range n {
		if err := j.Append(t.Context(), entry(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, raw
}

func TestReopen(t *testing.T) {
	path, _ := written(t, 3)
	j := open(t, path)
	want := []Entry{entry(0), entry(1), entry(2)}
	if got := j.Entries(); !reflect.DeepEqual(got, want) {
		t.Errorf("read %v, want %v", got, want)
	}
	if err := j.Append(t.Context(), entry(3)); err != nil {
		t.Fatal(err)
	}
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path).Entries(); len(got) != 4 {
		t.Errorf("%d entries after another append", len(got))
	}
}

// TestTornAnywhere cuts the file at every byte, as a crash may: all complete
// lines stay, and the journal goes on.
func TestTornAnywhere(t *testing.T) {
	path, raw := written(t, 3)
	for cut := range raw {
		if err := os.WriteFile(path, raw[:cut], 0o600); err != nil {
			t.Fatal(err)
		}
		j := open(t, path)
		want := max(strings.Count(string(raw[:cut]), "\n")-1, 0)
		if got := len(j.Entries()); got != want {
			t.Fatalf("cut at %d: %d entries, want %d", cut, got, want)
		}
		if err := j.Append(t.Context(), entry(9)); err != nil {
			t.Fatalf("cut at %d: %v", cut, err)
		}
		if err := j.Close(); err != nil {
			t.Fatal(err)
		}
		again := open(t, path)
		if got := again.Entries(); len(got) != want+1 || got[want].Subject != "bin/9" {
			t.Fatalf("cut at %d: %v after an append", cut, got)
		}
		_ = again.Close()
	}
}

func TestRefuses(t *testing.T) {
	path, raw := written(t, 2)
	lines := strings.SplitAfter(string(raw), "\n")
	const newer, damaged = "knows version", "reading journal"
	for name, c := range map[string]struct {
		content string
		want    string
	}{
		"a newer version":          {`{"journal":"waybill","version":2,"new":true}` + "\n", newer},
		"version 0":                {`{"journal":"waybill","version":0}` + "\n", damaged},
		"another file":             {"hello\n", damaged},
		"damage in the middle":     {lines[0] + "{\"time\":\n" + lines[1], damaged},
		"an entry of no act":       {lines[0] + `{"time":"2026-01-01T00:00:00Z","act":""}` + "\n", damaged},
		"an unknown field":         {lines[0] + `{"time":"2026-01-01T00:00:00Z","act":"a","x":1}` + "\n", damaged},
		"an empty line":            {lines[0] + "\n" + lines[1], damaged},
		"entries without a header": {lines[1], damaged},
	} {
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(path); verdict.OutcomeOf(err) != verdict.Malformed || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
		if after, _ := os.ReadFile(path); string(after) != c.content {
			t.Errorf("%s: the refused file was changed", name)
		}
	}
}

func TestAppendRefuses(t *testing.T) {
	j := open(t, filepath.Join(t.TempDir(), "journal.jsonl"))
	for name, e := range map[string]Entry{
		"no act":           {Subject: "x"},
		"bad detail":       {Act: "a", Detail: json.RawMessage(`{`)},
		"detail twice":     {Act: "a", Detail: json.RawMessage(`{"a":1,"a":2}`)},
		"much too large":   {Act: "a", Subject: strings.Repeat("x", maxLine)},
		"not UTF-8 at all": {Act: "a", Detail: json.RawMessage("\"\xff\"")},
	} {
		if err := j.Append(t.Context(), e); err == nil {
			t.Errorf("%s was appended", name)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := j.Append(ctx, entry(1)); err == nil {
		t.Error("appended after the end of the context")
	}
	if err := j.Append(t.Context(), entry(1)); err != nil {
		t.Errorf("after refusals: %v", err)
	}
	if got := len(j.Entries()); got != 1 {
		t.Errorf("%d entries", got)
	}
}

func TestConcurrentAppends(t *testing.T) {
	path := filepath.Join(t.TempDir(), "journal.jsonl")
	j := open(t, path)
	var group sync.WaitGroup
	for i := range 200 {
		group.Go(func() {
			if err := j.Append(t.Context(), entry(i)); err != nil {
				t.Error(err)
			}
			// What was appended is there as soon as that is said.
			if !slices.ContainsFunc(j.Entries(), func(e Entry) bool { return e.Subject == entry(i).Subject }) {
				t.Errorf("entry %d was appended and is not there", i)
			}
		})
	}
	group.Wait()
	inMemory := j.Entries()
	if err := j.Close(); err != nil {
		t.Fatal(err)
	}
	if got := open(t, path).Entries(); len(got) != 200 || !reflect.DeepEqual(got, inMemory) {
		t.Errorf("%d entries on disk, or in another order than in memory", len(got))
	}
}

// BenchmarkAppend: as many at once as sign at once.
func BenchmarkAppend(b *testing.B) {
	for _, abreast := range []int{1, 32} {
		b.Run(fmt.Sprint(abreast), func(b *testing.B) {
			j, err := Open(filepath.Join(b.TempDir(), "journal.jsonl"))
			if err != nil {
				b.Fatal(err)
			}
			defer j.Close()
			b.SetParallelism(abreast)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := j.Append(b.Context(), entry(1)); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
