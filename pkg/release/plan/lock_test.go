package plan_test

import (
	"bytes"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const goSum = `example.test/dep v1.0.0 h1:aaaa=
example.test/dep v1.0.0/go.mod h1:bbbb=
example.test/another v0.3.0 h1:cccc=
`

func sum(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }

// whole is a lock that pins one of everything.
func whole(t testing.TB) plan.Lock {
	t.Helper()
	module, err := plan.LockModule("sub", plan.ModuleFiles{GoMod: []byte("module example.test/sub\n"), GoSum: []byte(goSum)})
	if err != nil {
		t.Fatal(err)
	}
	return plan.Lock{
		Bases: map[string]plan.BaseLock{"static": {Image: "registry.example.test/base/static", Tag: "v1", Digest: sum("static")}},
		Tools: map[string]plan.ToolLock{
			"cross": {Image: "registry.example.test/cross", Tag: "v1.31", Digest: sum("cross")},
			"go":    {Program: "go", Digest: sum("go")},
		},
		Modules: map[string]plan.ModuleLock{"sub": module},
	}
}

// team is a lock that machines of two platforms share.
func team(t testing.TB) plan.Lock {
	t.Helper()
	l := whole(t)
	l.Tools = map[string]plan.ToolLock{
		"go":   {Program: "go", Toolchain: "go1.26.8", Platforms: map[string]string{"linux/amd64": "h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=", "darwin/arm64": "h1:dFjGhY6f8DTsY8/rLchUTDRRfjJP4pCrGCwxvHFT2Fg="}},
		"make": {Program: "make", Platforms: map[string]string{"linux/amd64": sum("make").String()}},
	}
	return l
}

func TestLockForPlatforms(t *testing.T) {
	l := team(t)
	raw := l.Encode()
	again, err := plan.ParseLock(raw)
	if err != nil || !reflect.DeepEqual(l, again) || !bytes.Equal(again.Encode(), raw) {
		t.Fatalf("%v: %+v was read back as %+v\n%s", err, l, again, raw)
	}
	if pin := l.Tools["make"]; pin.PinOn("linux/amd64") != sum("make").String() || pin.PinOn("darwin/arm64") != "" {
		t.Errorf("%+v", pin)
	}
	if pin := whole(t).Tools["go"]; pin.PinOn("darwin/arm64") != sum("go").String() || (plan.ToolLock{}).PinOn("linux/amd64") != "" {
		t.Errorf("%+v", pin)
	}
	is := team(t)
	is.Tools["make"].Platforms["darwin/arm64"] = sum("another").String()
	if lines := l.Difference(is); !slices.Equal(lines, []string{"+ tool make make darwin/arm64 " + sum("another").String()}) {
		t.Errorf("the difference is %q", lines)
	}
	for _, r := range []struct{ name, old, with, says string }{
		{"no platform", `"linux/amd64": "` + sum("make").String() + `"`, "", "at least one platform"},
		{"a digest, too", `program: "make"`, `program: "make", digest: "` + sum("make").String() + `"`, "instead of digest"},
		{"an image", `program: "make"`, `image: "example.test/make"`, "instead of digest"},
		{"a checksum of a program", sum("make").String(), "h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=", "sha256"},
		{"a digest of a toolchain", "h1:ZOmGe1OnfREDMIdb1Qi4G9JSuDPBLGExZMQ4nis1RXM=", sum("go").String(), "checksum of a toolchain"},
		{"a short checksum", "h1:ZOmGe1", "h1:", "checksum of a toolchain"},
		{"no version", "go1.26.8", "1.26", "want a toolchain such as"},
		{"no name of a platform", "darwin/arm64", "darwin", "OS/ARCH"},
		{"a toolchain without platforms", `program: "make", platforms: {"linux/amd64": "` + sum("make").String() + `"}`, `program: "make", toolchain: "go1.26.8", digest: "` + sum("make").String() + `"`, "with platforms"},
	} {
		t.Run(r.name, func(t *testing.T) {
			_, err := plan.ParseLock([]byte(change(t, string(raw), r.old, r.with)))
			refused(t, err, r.says)
		})
	}
}

// stocked is a lock that pins downloads, too.
func stocked(t testing.TB) plan.Lock {
	t.Helper()
	l := whole(t)
	l.Bases, l.Modules["."] = nil, l.Modules["sub"]
	l.Downloads = map[string]plan.DownloadLock{
		"firmware.bin": {URL: "https://dl.example.test:8443/firmware-1.4.bin?a=b", Size: 7, Digest: sum("firmware")},
		"helper-amd64": {URL: "http://127.0.0.1:4711/helper", Size: plan.MaxDownload, Digest: sum("helper")},
	}
	return l
}

func TestLockIsWrittenAndReadBack(t *testing.T) {
	l := whole(t)
	raw := l.Encode()
	again, err := plan.ParseLock(raw)
	if err != nil {
		t.Fatalf("%v\n%s", err, raw)
	}
	if !reflect.DeepEqual(l, again) {
		t.Errorf("%+v was read back as %+v", l, again)
	}
	for range 20 { // map order would show
		if !bytes.Equal(whole(t).Encode(), raw) {
			t.Fatal("equal locks are not equal bytes")
		}
	}
	if want := []string{"example.test/another v0.3.0 h1:cccc=", "example.test/dep v1.0.0 h1:aaaa="}; !slices.Equal(l.Modules["sub"].Require, want) {
		t.Errorf("the module requires %q, want %q", l.Modules["sub"].Require, want)
	}
	if _, err := plan.ParseLock(plan.Lock{}.Encode()); err != nil {
		t.Errorf("a lock of nothing: %v", err)
	}
}

func TestLockRefusesWhatNobodyWrites(t *testing.T) {
	text := string(whole(t).Encode())
	rows := []struct{ name, old, with, says string }{
		{"another algorithm", sum("go").String(), "sha512:" + strings.Repeat("a", 128), "sha256"},
		{"a tool that is both", `program: "go"`, `program: "go", image: "example.test/go"`, "a program, or an image"},
		{"a tool that is neither", `program: "go", `, "", "a program, or an image"},
		{"a tag of a program", `program: "go"`, `program: "go", tag: "v1"`, "a program, or an image"},
		{"a module without go.mod", `    goMod: "` + sum("module example.test/sub\n").String() + "\"\n", "", "goMod"},
		{"requirements of nowhere", `    goSum: "` + sum(goSum).String() + "\"\n", "", "goSum"},
		{"requirements out of order", "example.test/another", "zzz.test/another", "require sorted"},
		{"a hash of another kind", "h1:aaaa=", "h2:aaaa=", "h1: hash"},
		{"a base twice", "bases:\n", "bases:\n  static: {image: a, digest: \"" + sum("a").String() + "\"}\n", "YAML_DUP_KEY"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := plan.ParseLock([]byte(change(t, text, r.old, r.with)))
			refused(t, err, r.says)
		})
	}
}

// staleness demands LOCK_STALE, with the name of what is wrong and of the way
// out.
func staleness(t *testing.T, err error, says string) {
	t.Helper()
	f := verdict.FindingOf("", err)
	if err == nil || f.Code != verdict.LockStale || !strings.Contains(err.Error(), says) || !strings.Contains(f.Fix, "waybill lock") {
		t.Errorf("got %v, want LOCK_STALE and %q", err, says)
	}
}

func TestLockCoversExactly(t *testing.T) {
	c, err := plan.ParseConfig([]byte(full))
	if err != nil {
		t.Fatal(err)
	}
	if err := whole(t).Covers(c); err != nil {
		t.Errorf("the twin that covers: %v", err)
	}
	if needs := c.Needs(); !slices.Equal(needs.Bases, []string{"static"}) || !slices.Equal(needs.Tools, []string{"cross", "go"}) || !slices.Equal(needs.Modules, []string{"sub"}) {
		t.Errorf("it needs %+v", needs)
	}
	rows := []struct {
		name, says string
		edit       func(*plan.Lock)
	}{
		{"a base that is not pinned", `does not pin base "static"`, func(l *plan.Lock) { delete(l.Bases, "static") }},
		{"a tool that is not pinned", `does not pin tool "go"`, func(l *plan.Lock) { delete(l.Tools, "go") }},
		{"a module that is not pinned", `does not pin module "sub"`, func(l *plan.Lock) { delete(l.Modules, "sub") }},
		{"a base of nobody", `pins base "debian"`, func(l *plan.Lock) { l.Bases["debian"] = l.Bases["static"] }},
		{"a tool of nobody", `pins tool "make"`, func(l *plan.Lock) { l.Tools["make"] = l.Tools["go"] }},
		{"a module of nobody", `pins module "."`, func(l *plan.Lock) { l.Modules["."] = l.Modules["sub"] }},
		{"nothing at all", `does not pin tool "cross"`, func(l *plan.Lock) { *l = plan.Lock{} }},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			l := whole(t)
			r.edit(&l)
			staleness(t, l.Covers(c), r.says)
		})
	}
}

func TestLockIsOfTheModulesThatAreBuilt(t *testing.T) {
	l := whole(t)
	files := plan.ModuleFiles{GoMod: []byte("module example.test/sub\n"), GoSum: []byte(goSum)}
	check := func(files plan.ModuleFiles, err error) error {
		return l.CheckModules(func(dir string) (plan.ModuleFiles, error) {
			if dir != "sub" {
				t.Errorf("asked for %q", dir)
			}
			return files, err
		})
	}
	if err := check(files, nil); err != nil {
		t.Errorf("the twin that fits: %v", err)
	}
	staleness(t, check(plan.ModuleFiles{GoMod: append(files.GoMod, '\n'), GoSum: files.GoSum}, nil), "go.mod or go.sum changed")
	staleness(t, check(plan.ModuleFiles{GoMod: files.GoMod, GoSum: []byte(strings.Replace(goSum, "aaaa", "dddd", 1))}, nil), "go.mod or go.sum changed")
	staleness(t, check(plan.ModuleFiles{GoMod: files.GoMod}, nil), "go.mod or go.sum changed")
	staleness(t, check(plan.ModuleFiles{GoMod: files.GoMod, GoSum: []byte("what is this\n")}, nil), "go.sum:1")
	down := errors.New("no answer")
	if err := check(files, down); !errors.Is(err, down) {
		t.Errorf("a source that does not answer: %v", err)
	}
}

func TestLockDifference(t *testing.T) {
	was, is := whole(t), whole(t)
	if lines := was.Difference(is); len(lines) != 0 {
		t.Errorf("equal locks differ: %q", lines)
	}
	is.Bases["static"] = plan.BaseLock{Image: "registry.example.test/base/static", Tag: "v2", Digest: sum("newer")}
	delete(is.Tools, "cross")
	is.Modules["."] = plan.ModuleLock{GoMod: sum("top")}
	want := []string{
		"- base static registry.example.test/base/static:v1 " + sum("static").String(),
		"+ base static registry.example.test/base/static:v2 " + sum("newer").String(),
		"+ module . go.mod " + sum("top").String(),
		"- tool cross registry.example.test/cross:v1.31 " + sum("cross").String(),
	}
	got := was.Difference(is)
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the difference is %q, want %q", got, want)
	}
	if n := len(plan.Lock{}.Difference(was)); n != 1+2+2+2 {
		t.Errorf("a new lock has %d lines", n)
	}
}

func FuzzParseLock(f *testing.F) {
	f.Add(whole(f).Encode())
	f.Add(stocked(f).Encode())
	f.Add(team(f).Encode())
	f.Add([]byte("apiVersion: waybill/v1\nkind: Lock\n"))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := plan.ParseLock(raw)
		if err != nil {
			if verdict.FindingOf("", err).Code != verdict.ConfigParse {
				t.Fatalf("refused as something else than CONFIG: %v", err)
			}
			return
		}
		again, err := plan.ParseLock(l.Encode())
		if err != nil || !bytes.Equal(again.Encode(), l.Encode()) {
			t.Fatalf("%q does not survive its own writing: %v", raw, err)
		}
	})
}
