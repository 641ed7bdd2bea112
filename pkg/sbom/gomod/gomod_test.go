package gomod_test

import (
	"bytes"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/sbom/gomod"
)

// TestReadSelf reads the build information of this very test.
func TestReadSelf(t *testing.T) {
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b, err := gomod.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	if b.Main.Path != "github.com/waybill-release/waybill" || !strings.HasPrefix(b.GoVersion, "go1.") || len(b.Settings) == 0 {
		t.Errorf("%+v", b)
	}
	for _, m := range b.Deps {
		if m.PURL() != gomod.PURL(m.Path, m.Version) || m.Path == "" {
			t.Errorf("%+v", m)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing": "", "a script": "#!/bin/sh\n", "a head": "\x7fELF\x02\x01\x01", "a Mach-O that lies": "\xca\xfe\xba\xbe\xff\xff\xff\xff",
		"the words alone": "\xff Go buildinf:" + strings.Repeat("\xff", 64),
	} {
		if _, err := gomod.Read(bytes.NewReader([]byte(raw))); !errors.Is(err, gomod.ErrNoBuildInfo) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

const mod = `module example.org/lantern

go 1.24

toolchain go1.26.0

require (
	example.org/wick v1.2.3
	example.org/oil v0.1.0 // indirect
	example.org/glass v2.0.0+incompatible
)

replace example.org/oil v0.1.0 => example.org/better/oil v0.2.0

replace example.org/glass => ./glass
`

const sum = `example.org/wick v1.2.3 h1:wick=
example.org/wick v1.2.3/go.mod h1:other=
example.org/better/oil v0.2.0 h1:oil=
`

func tree(files map[string]string) map[string][]byte {
	texts := map[string][]byte{}
	for name, text := range files {
		texts[name] = []byte(text)
	}
	return texts
}

func TestTree(t *testing.T) {
	got, err := gomod.ReadTree(tree(map[string]string{
		"go.mod": mod, "go.sum": sum, "go.work": "go 1.24\n\nuse (\n\t.\n\t./old\n)\n\nreplace example.org/wick => ./wick\n",
		"old/go.mod": "module example.org/old\n\ngo 1.16\n\nrequire example.org/wick v1.0.0\n",
		"bad/go.mod": "modul example.org/bad\n",
	}), []string{"."}, []string{".", "old", "bad"})
	if err != nil || len(got.Modules) != 2 || len(got.Faults) != 1 || got.Modules[1].Work != "go.work" {
		t.Fatalf("%+v %v", got, err)
	}
	m := got.Modules[0]
	want := []gomod.Module{
		{Path: "./glass", Replaces: "example.org/glass v2.0.0+incompatible", Dir: "./glass"},
		{Path: "./wick", Replaces: "example.org/wick v1.2.3", Dir: "./wick"},
		{Path: "example.org/better/oil", Version: "v0.2.0", Sum: "h1:oil=", Replaces: "example.org/oil v0.1.0"},
	}
	if m.Path != "example.org/lantern" || m.Toolchain != "go1.26.0" || m.Incomplete != "" || len(m.Deps) != 3 {
		t.Fatalf("%+v", m)
	}
	for i := range want {
		if m.Deps[i] != want[i] {
			t.Errorf("got  %+v\nwant %+v", m.Deps[i], want[i])
		}
	}
	if got.Modules[1].Incomplete == "" {
		t.Error("a go.mod before 1.17 is called complete")
	}
}

func TestVendor(t *testing.T) {
	got, err := gomod.ReadTree(tree(map[string]string{
		"go.mod": mod, "go.sum": sum,
		"vendor/modules.txt": "# example.org/wick v1.2.3\n## explicit; go 1.20\nexample.org/wick\n" +
			"# example.org/oil v0.1.0 => example.org/better/oil v0.2.0\n## explicit\nexample.org/oil\n" +
			// Required and not copied, and a replacement of whatever version.
			"# example.org/glass v2.0.0+incompatible => ./glass\n## explicit\n# example.org/glass => ./glass\n",
	}), nil, []string{"."})
	if err != nil || len(got.Modules) != 1 || got.Modules[0].Vendor != "vendor" || len(got.Faults) > 0 {
		t.Fatalf("%+v %v", got, err)
	}
	deps := got.Modules[0].Deps
	if len(deps) != 2 || deps[0].Sum != "h1:oil=" || deps[1] != (gomod.Module{Path: "example.org/wick", Version: "v1.2.3", Sum: "h1:wick="}) {
		t.Errorf("%+v", deps)
	}
}

func TestSumsRefuses(t *testing.T) {
	for _, raw := range []string{"a v1\n", "a v1 h1:x=\na v1 h1:y=\n"} {
		if _, err := gomod.ParseSums([]byte(raw)); err == nil {
			t.Errorf("%q is taken", raw)
		}
	}
}

func FuzzTree(f *testing.F) {
	f.Add(mod, sum, "go 1.24\n\nuse .\n")
	f.Fuzz(func(_ *testing.T, mod, sum, work string) {
		_, _ = gomod.ReadTree(tree(map[string]string{"go.mod": mod, "go.sum": sum, "go.work": work, "vendor/modules.txt": sum}), []string{"."}, []string{"."})
	})
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x7fELF\x02\x01\x01"))
	f.Add([]byte("MZ"))
	f.Add([]byte("\xca\xfe\xba\xbe\x00\x00\x00\x01"))
	f.Fuzz(func(_ *testing.T, raw []byte) { _, _ = gomod.Read(bytes.NewReader(raw)) })
}
