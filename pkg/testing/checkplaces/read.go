package checkplaces

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/store"
)

// Contents is what [Read] wants to find, name by name. Among the names are
// those that one language or another has its own way to write.
func Contents() map[string]string {
	return map[string]string{
		"a":                    "",
		"a-b":                  "sorted before a/b",
		"bin/linux/amd64/tool": "tool",
		"bin/linux/amd64/x+1":  "a sum",
		"deep/er/and/deep/er":  "down",
		"with._+@~-signs":      "signs",
		"z":                    string(make([]byte, 70_000)),
	}
}

// Read is the suite of places that are only read, or read by other means than
// they are written. Each call of open returns a place that holds [Contents]
// and nothing else.
func Read(t *testing.T, open func(t *testing.T) store.Place) {
	for _, c := range []struct {
		name string
		test func(t *testing.T, place store.Place)
	}{
		{"everything is listed, sorted, with its size", readList},
		{"everything is read, in any order and at once", readAll},
		{"nothing there is not found", readNotFound},
		{"bad names are refused", readNames},
		{"an ended context ends", readContext},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open(t)) })
	}
}

func readList(t *testing.T, place store.Place) {
	objects, err := place.List(t.Context())
	if errors.Is(err, store.ErrNotListable) {
		return // and says so
	}
	if err != nil {
		t.Fatal(err)
	}
	var want []store.Object
	for name, content := range Contents() {
		want = append(want, store.Object{Name: name, Size: int64(len(content))})
	}
	slices.SortFunc(want, func(a, b store.Object) int { return compare(a.Name, b.Name) })
	for i := range objects {
		objects[i].Generation = ""
	}
	if !slices.Equal(objects, want) {
		t.Errorf("listed %v, want %v", objects, want)
	}
}

func compare(a, b string) int {
	if a < b {
		return -1
	}
	return 1
}

func readAll(t *testing.T, place store.Place) {
	done := make(chan struct{})
	for name, content := range Contents() {
		go func() {
			defer func() { done <- struct{}{} }()
			body, size, err := place.Open(t.Context(), name)
			if err != nil {
				t.Errorf("opening %q: %v", name, err)
				return
			}
			defer body.Close()
			got, err := io.ReadAll(body)
			if err != nil || string(got) != content || size != -1 && size != int64(len(content)) {
				t.Errorf("%q holds %.40q (%d), %v, want %.40q", name, got, size, err, content)
			}
		}()
	}
	for range Contents() {
		<-done
	}
}

func readNotFound(t *testing.T, place store.Place) {
	for _, name := range []string{"b", "bin/linux/amd64/too", "a/b", "bin/linux/amd64/x%2B1"} {
		body, _, err := place.Open(t.Context(), name)
		if err == nil {
			body.Close()
		}
		if name == "bin/linux/amd64/x%2B1" { // outside the grammar: refused before it is asked for
			if code(err) != "PATH" {
				t.Errorf("opening %q: %v, want PATH", name, err)
			}
			continue
		}
		if !errors.Is(err, store.ErrNotFound) {
			t.Errorf("opening %q: %v, want ErrNotFound", name, err)
		}
	}
}

func readNames(t *testing.T, place store.Place) {
	for _, name := range []string{"", "/abs", "../out", "a/../../out", "a//b", "a/", "C:/x", `a\b`, "kube\u212a", "a\x00b"} {
		if _, _, err := place.Open(t.Context(), name); code(err) != "PATH" {
			t.Errorf("opening %q: %v, want PATH", name, err)
		}
	}
}

func readContext(t *testing.T, place store.Place) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := place.List(ctx); err == nil {
		t.Error("a list after the end of the context")
	}
	if _, _, err := place.Open(ctx, "a"); err == nil {
		t.Error("an open after the end of the context")
	}
}

func code(err error) string {
	var coded interface{ Code() string }
	if errors.As(err, &coded) {
		return coded.Code()
	}
	return ""
}
