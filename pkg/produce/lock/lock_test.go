package lock_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	ggcr "github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const config = `apiVersion: waybill/v1
kind: Release
name: tool
source: {repository: "https://example.test/tool"}
lock: release.lock.yaml
lists: {every: [linux/amd64]}
steps:
- name: compile
  each: {platform: every}
  go: {}
  tools: [sh, cross]
  outputs: [{class: binary, name: "bin/tool"}]
- name: image
  image: {base: static, platforms: every, files: {/bin/tool: bin/tool}, entrypoint: [/bin/tool]}
  outputs: [{class: image, name: tool}]
places: {files: "https://dl.example.test/{version}/", images: registry.example.test}
`

const goSum = "example.test/dep v1.0.0 h1:aaaa=\nexample.test/dep v1.0.0/go.mod h1:bbbb=\n"

// world is a directory with a release.yaml, and a registry with two images.
type world struct {
	dir, host string
	digests   map[string]digest.Digest
	srv       *httptest.Server
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Setenv("DOCKER_CONFIG", t.TempDir()) // nobody's credentials
	srv := httptest.NewServer(ggcr.New(ggcr.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(srv.Close)
	w := &world{dir: t.TempDir(), host: strings.TrimPrefix(srv.URL, "http://"), digests: map[string]digest.Digest{}, srv: srv}
	for _, ref := range []string{"base/static:v1", "base/static:v2", "cross:v1"} {
		w.push(t, ref)
	}
	w.write(t, "release.yaml", config)
	w.write(t, "go.mod", "module example.test/tool\n")
	w.write(t, "go.sum", goSum)
	return w
}

// push puts a new image under a tag.
func (w *world) push(t *testing.T, ref string) {
	t.Helper()
	image, err := random.Image(64, 1)
	if err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag(w.host+"/"+ref, name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(tag, image); err != nil {
		t.Fatal(err)
	}
	h, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	if w.digests[ref], err = digest.Parse(h.String()); err != nil {
		t.Fatal(err)
	}
}

func (w *world) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(w.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// update is what somebody asks the first time.
func (w *world) update(edits ...func(*lock.Update)) lock.Update {
	u := lock.Update{
		Dir: w.dir, Transport: transport.New(transport.Config{Attempts: 1}),
		Bases: map[string]string{"static": w.host + "/base/static:v1"}, Tools: map[string]string{"cross": w.host + "/cross:v1"},
	}
	for _, e := range edits {
		e(&u)
	}
	return u
}

func again(u *lock.Update) { u.Bases, u.Tools = nil, nil }

func find(t *testing.T, u lock.Update) lock.Change {
	t.Helper()
	c, err := u.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestLockIsFoundShownAndWritten(t *testing.T) {
	w := newWorld(t)
	path := filepath.Join(w.dir, "release.lock.yaml")
	first := find(t, w.update())
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Fatalf("finding has written: %v", err)
	}
	c, err := plan.ParseConfig([]byte(config))
	if err != nil {
		t.Fatal(err)
	}
	if err := first.Lock.Covers(c); err != nil || first.IsEmpty() || len(first.Lines) != 6 {
		t.Errorf("covers: %v, lines %q", err, first.Lines)
	}
	static := first.Lock.Bases["static"]
	if static.Image != w.host+"/base/static" || static.Tag != "v1" || static.Digest != w.digests["base/static:v1"] {
		t.Errorf("the base is %+v", static)
	}
	if cross := first.Lock.Tools["cross"]; cross.Program != "" || cross.Digest != w.digests["cross:v1"] {
		t.Errorf("the tool is %+v", cross)
	}
	if sh := first.Lock.Tools["sh"]; sh.Program != "sh" || sh.Digest.IsZero() {
		t.Errorf("the program is %+v", sh)
	}
	if m := first.Lock.Modules["."]; len(m.Require) != 1 || m.Require[0] != "example.test/dep v1.0.0 h1:aaaa=" {
		t.Errorf("the module is %+v", m)
	}
	if err := first.Write(); err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(raw, first.Lock.Encode()) {
		t.Fatalf("written otherwise: %v", err)
	}
	// The second time nothing has to be said: the lock knows where to look.
	second := find(t, w.update(again))
	if !second.IsEmpty() || len(second.Lines) != 0 || !bytes.Equal(second.Lock.Encode(), raw) {
		t.Errorf("the same world gives another lock: %q", second.Lines)
	}
	// A tag that moved, and a dependency that changed, are each a line out and
	// a line in.
	w.push(t, "base/static:v1")
	w.write(t, "go.sum", strings.Replace(goSum, "aaaa", "dddd", 1))
	third := find(t, w.update(again))
	if len(third.Lines) != 6 || third.IsEmpty() || third.Lock.Bases["static"].Digest != w.digests["base/static:v1"] {
		t.Errorf("a moved tag and a changed dependency are %q", third.Lines)
	}
	if now, _ := os.ReadFile(path); !bytes.Equal(now, raw) {
		t.Error("finding has written")
	}
	fourth := find(t, w.update(again, func(u *lock.Update) { u.Bases = map[string]string{"static": w.host + "/base/static:v2"} }))
	if fourth.Lock.Bases["static"].Tag != "v2" {
		t.Errorf("another tag was asked for, got %+v", fourth.Lock.Bases["static"])
	}
}

func TestPinnedByDigestStaysSo(t *testing.T) {
	w := newWorld(t)
	sum := w.digests["base/static:v1"]
	c := find(t, w.update(func(u *lock.Update) { u.Bases["static"] = w.host + "/base/static@" + sum.String() }))
	if b := c.Lock.Bases["static"]; b.Tag != "" || b.Digest != sum {
		t.Errorf("the base is %+v", b)
	}
	if err := c.Write(); err != nil {
		t.Fatal(err)
	}
	if next := find(t, w.update(again)); !next.IsEmpty() {
		t.Errorf("it moved: %q", next.Lines)
	}
}

func TestLayouts(t *testing.T) {
	w := newWorld(t)
	one, two := digest.Of(digest.SHA256, []byte("one")), digest.Of(digest.SHA256, []byte("two"))
	entry := func(d digest.Digest, tag string) string {
		return `{"mediaType":"application/vnd.oci.image.index.v1+json","size":1,"digest":"` + d.String() + `","annotations":{"org.opencontainers.image.ref.name":"` + tag + `"}}`
	}
	w.write(t, "bases/one/index.json", `{"schemaVersion":2,"manifests":[`+entry(one, "v1")+`]}`)
	w.write(t, "bases/two/index.json", `{"schemaVersion":2,"manifests":[`+entry(one, "v1")+`,`+entry(two, "v2")+`]}`)
	for ref, want := range map[string]digest.Digest{"oci:bases/one": one, "oci:bases/two:v2": two, "oci:bases/two": {}, "oci:bases/none": {}, "oci:../bases": {}} {
		c, err := w.update(func(u *lock.Update) { u.Bases["static"] = ref }).Find(t.Context())
		if got := c.Lock.Bases["static"].Digest; got != want || (err == nil) == want.IsZero() {
			t.Errorf("%s: %s, %v, want %s", ref, got, err, want)
		}
	}
}

func TestLockRefuses(t *testing.T) {
	rows := []struct {
		name string
		code verdict.Code
		says string
		edit func(*testing.T, *world, *lock.Update)
	}{
		{"a base that nobody named", verdict.Usage, "--base static=", func(_ *testing.T, _ *world, u *lock.Update) { u.Bases = nil }},
		{"a base without a tag", verdict.Usage, "want a tag", func(_ *testing.T, w *world, u *lock.Update) { u.Bases["static"] = w.host + "/base/static" }},
		{"a base that is not there", verdict.Usage, "no such image", func(_ *testing.T, w *world, u *lock.Update) { u.Bases["static"] = w.host + "/base/static:v9" }},
		{"a base without a host", verdict.Usage, "host", func(_ *testing.T, _ *world, u *lock.Update) { u.Bases["static"] = "static/static:v1" }},
		{"a short digest", verdict.Usage, "sha256", func(_ *testing.T, w *world, u *lock.Update) { u.Bases["static"] = w.host + "/base/static@sha256:abc" }},
		{"a base that nobody uses", verdict.Usage, `uses no "debian"`, func(_ *testing.T, w *world, u *lock.Update) { u.Bases["debian"] = w.host + "/base/static:v1" }},
		{"a tool that nobody uses", verdict.Usage, `uses no "make"`, func(_ *testing.T, _ *world, u *lock.Update) { u.Tools["make"] = "make" }},
		{"a program that is not there", verdict.Usage, "not in PATH", func(_ *testing.T, _ *world, u *lock.Update) { u.Tools["cross"] = "no-such-program" }},
		{"a registry that does not answer", verdict.PlaceDown, "", func(_ *testing.T, w *world, _ *lock.Update) { w.srv.Close() }},
		{"no release.yaml", verdict.Usage, "waybill init", func(_ *testing.T, _ *world, u *lock.Update) { u.Dir = filepath.Join(u.Dir, "nowhere") }},
		{"a release.yaml that is broken", verdict.ConfigParse, "kind", func(t *testing.T, w *world, _ *lock.Update) { w.write(t, "release.yaml", "kind: Poem\n") }},
		{"a lock that is broken", verdict.ConfigParse, "kind", func(t *testing.T, w *world, _ *lock.Update) { w.write(t, "release.lock.yaml", "kind: Poem\n") }},
		{"no module", verdict.Usage, "go.mod", func(t *testing.T, w *world, _ *lock.Update) {
			if err := os.Remove(filepath.Join(w.dir, "go.mod")); err != nil {
				t.Fatal(err)
			}
		}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			w := newWorld(t)
			if _, err := w.update().Find(t.Context()); err != nil {
				t.Fatalf("the twin that is right: %v", err)
			}
			u := w.update()
			r.edit(t, w, &u)
			c, err := u.Find(t.Context())
			if err == nil || verdict.FindingOf("", err).Code != r.code || !strings.Contains(err.Error(), r.says) {
				t.Errorf("got %v, want %s and %q", err, r.code, r.says)
			}
			if c.Lock.Bases != nil || c.Lines != nil {
				t.Errorf("an error with a result: %+v", c)
			}
		})
	}
}

func TestContextEnds(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := w.update().Find(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a run that was ended: %v", err)
	}
}
