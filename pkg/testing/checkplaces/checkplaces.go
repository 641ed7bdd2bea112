// Package checkplaces is the conformance suite of places. Every implementation of
// [store.Place] passes [Read]; one with a [store.Writer] passes [Run], too.
//
//	func TestConformance(t *testing.T) {
//		checkplaces.Run(t, func(t *testing.T) (store.Place, store.Writer) { … })
//	}
//
// Other projects should not import this package: it changes without notice.
package checkplaces

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Run runs the suite. Each call of open must return a place that is empty and
// not yet used, and the writer of the same place.
func Run(t *testing.T, open func(t *testing.T) (store.Place, store.Writer)) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, s suite)
	}{
		{"what was written is read", suiteRoundTrip},
		{"the list is complete and sorted", suiteList},
		{"nothing there is not found", suiteNotFound},
		{"an object is replaced", suiteReplace},
		{"absent means absent", suiteIfAbsent},
		{"only what was looked at is replaced", suiteReplaceTied},
		{"only one of many replaces", suiteReplaceRace},
		{"only one of many wins", suiteRace},
		{"a failed write leaves nothing", suiteFailedWrite},
		{"bad names are refused", suiteNames},
		{"an ended context ends", suiteContext},
	} {
		t.Run(c.name, func(t *testing.T) {
			place, writer := open(t)
			c.test(t, suite{place: place, writer: writer})
		})
	}
}

type suite struct {
	place  store.Place
	writer store.Writer
}

func (s suite) put(t *testing.T, name, content string, opts store.PutOptions) {
	t.Helper()
	if err := s.writer.Put(t.Context(), name, int64(len(content)), strings.NewReader(content), opts); err != nil {
		t.Fatalf("writing %q: %v", name, err)
	}
}

func (s suite) want(t *testing.T, name, content string) {
	t.Helper()
	body, size, err := s.place.Open(t.Context(), name)
	if err != nil {
		t.Fatalf("opening %q: %v", name, err)
	}
	defer body.Close()
	got, err := io.ReadAll(body)
	if err != nil || string(got) != content {
		t.Errorf("%q holds %.40q, %v, want %.40q", name, got, err, content)
	}
	if size != -1 && size != int64(len(content)) {
		t.Errorf("%q is declared with %d bytes, want %d", name, size, len(content))
	}
}

func (s suite) names(t *testing.T) []string {
	t.Helper()
	objects, err := s.place.List(t.Context())
	if err != nil {
		t.Fatalf("listing: %v", err)
	}
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return names
}

func suiteRoundTrip(t *testing.T, s suite) {
	contents := map[string]string{
		"a":                     "",
		"bin/linux/amd64/tool":  "tool",
		"with._+@~-signs":       "signs",
		"large":                 strings.Repeat("0123456789abcdef", 1<<16),
		"bin/linux/tool.sha256": "sum\n",
	}
	for name, content := range contents {
		s.put(t, name, content, store.PutOptions{MediaType: "text/plain"})
	}
	for name, content := range contents {
		s.want(t, name, content)
	}
	if err := s.writer.Put(t.Context(), "unknown", -1, strings.NewReader("size"), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	s.want(t, "unknown", "size")
}

func suiteList(t *testing.T, s suite) {
	want := []string{"a-b", "a.b", "a/b", "a/c/d", "ab", "z"}
	for i := range 40 {
		want = append(want, fmt.Sprintf("many/%03d", i))
	}
	for _, name := range want {
		s.put(t, name, name, store.PutOptions{})
	}
	slices.Sort(want)
	if got := s.names(t); !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	objects, _ := s.place.List(t.Context())
	for _, o := range objects {
		if o.Size != int64(len(o.Name)) {
			t.Errorf("%q is listed with %d bytes", o.Name, o.Size)
		}
	}
}

func suiteNotFound(t *testing.T, s suite) {
	s.put(t, "there/file", "x", store.PutOptions{})
	for _, name := range []string{"there/not", "ther", "there/file/below", "not/there"} {
		if body, _, err := s.place.Open(t.Context(), name); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("opening %q: %v, want ErrNotFound", name, err)
			if err == nil {
				body.Close()
			}
		}
	}
	s.want(t, "there/file", "x")
}

func suiteReplace(t *testing.T, s suite) {
	s.put(t, "f", "a long first content", store.PutOptions{})
	s.put(t, "f", "short", store.PutOptions{})
	s.want(t, "f", "short")
}

func suiteIfAbsent(t *testing.T, s suite) {
	s.put(t, "d/f", "first", store.PutOptions{IfAbsent: true})
	for _, content := range []string{"second", "first"} {
		err := s.writer.Put(t.Context(), "d/f", int64(len(content)), strings.NewReader(content), store.PutOptions{IfAbsent: true})
		if !errors.Is(err, store.ErrExists) {
			t.Errorf("writing %q where something is: %v, want ErrExists", content, err)
		}
	}
	s.want(t, "d/f", "first")
	if got := s.names(t); !slices.Equal(got, []string{"d/f"}) {
		t.Errorf("the refused write left %q", got)
	}
}

func (s suite) replace(t *testing.T, name, old, with string) error {
	return store.Replace(t.Context(), s.place, s.writer, name, store.Replacement{Old: digest.Of(digest.SHA256, []byte(old)), New: []byte(with)})
}

func suiteReplaceTied(t *testing.T, s suite) {
	if err := s.replace(t, "f", "", "first"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("replacing nothing: %v, want ErrNotFound", err)
	}
	s.put(t, "f", "first", store.PutOptions{})
	if err := s.replace(t, "f", "another", "second"); !errors.Is(err, store.ErrChanged) {
		t.Errorf("replacing what is not there: %v, want ErrChanged", err)
	}
	s.want(t, "f", "first")
	if err := s.replace(t, "f", "first", "second"); err != nil {
		t.Errorf("replacing what is there: %v", err)
	}
	s.want(t, "f", "second")
	if got := s.names(t); !slices.Equal(got, []string{"f"}) {
		t.Errorf("left %q", got)
	}
}

// suiteReplaceRace: of many that looked at the same object, one replaces it.
func suiteReplaceRace(t *testing.T, s suite) {
	if _, tied := s.writer.(store.Replacer); !tied {
		t.Skip("the place ties no write to what it replaces")
	}
	s.put(t, "f", "before", store.PutOptions{})
	won := contend(t, store.ErrChanged, func(content string) error { return s.replace(t, "f", "before", content) })
	s.want(t, "f", fmt.Sprintf("writer %d", won))
}

// contend has many writers try the same, of whom one wins; the others lose
// with an error. It returns who won.
func contend(t *testing.T, lost error, write func(content string) error) (winner int) {
	t.Helper()
	errs := make([]error, 8)
	var group sync.WaitGroup
	for i := range errs {
		group.Go(func() { errs[i] = write(fmt.Sprintf("writer %d", i)) })
	}
	group.Wait()
	winner = -1
	for i, err := range errs {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Errorf("writers %d and %d both won", winner, i)
		case !errors.Is(err, lost):
			t.Errorf("writer %d: %v, want %v", i, err, lost)
		}
	}
	if winner < 0 {
		t.Fatal("nobody won")
	}
	return winner
}

func suiteRace(t *testing.T, s suite) {
	won := contend(t, store.ErrExists, func(content string) error {
		return s.writer.Put(t.Context(), "lock", int64(len(content)), strings.NewReader(content), store.PutOptions{IfAbsent: true})
	})
	s.want(t, "lock", fmt.Sprintf("writer %d", won))
}

func suiteFailedWrite(t *testing.T, s suite) {
	s.put(t, "kept", "old", store.PutOptions{})
	broken := errors.New("the source broke")
	for name, c := range map[string]struct {
		size int64
		r    io.Reader
		want error
	}{
		"too short": {10, strings.NewReader("short"), nil},
		"too long":  {3, strings.NewReader("longer"), nil},
		"broken":    {-1, io.MultiReader(bytes.NewReader(make([]byte, 1<<20)), failing{broken}), broken},
	} {
		for _, object := range []string{"kept", "new"} {
			err := s.writer.Put(t.Context(), object, c.size, c.r, store.PutOptions{})
			var down interface{ Unavailable() bool }
			switch {
			case err == nil:
				t.Errorf("%s: writing %q succeeded", name, object)
			case errors.As(err, &down):
				t.Errorf("%s: %v blames the place for its source", name, err)
			case c.want != nil && !errors.Is(err, c.want):
				t.Errorf("%s: %v does not name the cause", name, err)
			}
			c.r = io.MultiReader(failing{broken})
		}
	}
	s.want(t, "kept", "old")
	if got := s.names(t); !slices.Equal(got, []string{"kept"}) {
		t.Errorf("failed writes left %q", got)
	}
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func suiteNames(t *testing.T, s suite) {
	for _, name := range []string{"", "/abs", "../out", "a/../../out", "a//b", "a/", "C:/x", `a\b`, "kube\u212a", "a\x00b"} {
		var coded interface{ Code() string }
		if _, _, err := s.place.Open(t.Context(), name); !errors.As(err, &coded) || coded.Code() != "PATH" {
			t.Errorf("opening %q: %v, want PATH", name, err)
		}
		err := s.writer.Put(t.Context(), name, 1, strings.NewReader("x"), store.PutOptions{})
		if !errors.As(err, &coded) || coded.Code() != "PATH" {
			t.Errorf("writing %q: %v, want PATH", name, err)
		}
	}
}

func suiteContext(t *testing.T, s suite) {
	s.put(t, "f", "x", store.PutOptions{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.place.List(ctx); err == nil {
		t.Error("a list after the end of the context")
	}
	if _, _, err := s.place.Open(ctx, "f"); err == nil {
		t.Error("an open after the end of the context")
	}
	if err := s.writer.Put(ctx, "g", 1, strings.NewReader("x"), store.PutOptions{}); err == nil {
		t.Error("a write after the end of the context")
	}
	if got := s.names(t); !slices.Equal(got, []string{"f"}) {
		t.Errorf("listed %q", got)
	}
}
