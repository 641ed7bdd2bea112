package k8slayout_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const list = `apiVersion: waybill/v1
kind: ExpectedRelease
project: lantern
minor: "1.2"
sources:
- {name: makefile, repository: "https://example.test/lantern", path: Makefile, commit: 0123456789abcdef0123456789abcdef01234567}
lists:
  server: [linux/amd64, linux/arm64]
  client: [+server, windows/amd64]
files:
- {from: [makefile], name: lantern.tar.gz}
- {from: [makefile], name: "bin/{os}/{arch}/{bin}{exe}", on: client, bins: [lantern, wick]}
images: {from: [makefile], names: [lantern], on: server}
`

func TestList(t *testing.T) {
	l, err := k8slayout.ParseList([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	w := l.Witness()
	if !w.Independent() || w.Len() != 7 || l.Minor() != "1.2" {
		t.Errorf("%+v, %+v", l, w)
	}
	set, err := k8slayout.Of(w)
	if err != nil || !set.Independent() || !slices.Contains(set.Names(), "bin/windows/amd64/wick.exe") || !slices.Equal(set.Images(), []k8slayout.Image{{Name: "lantern", Platform: "linux/amd64"}, {Name: "lantern", Platform: "linux/arm64"}}) {
		t.Errorf("%v, %v", set, err)
	}
	for _, c := range []struct{ name, old, new string }{
		{"another kind", "ExpectedRelease", "Policy"},
		{"a version for a minor", `"1.2"`, `"1.2.3"`},
		{"no project", "lantern\nminor", `""` + "\nminor"},
		{"a commit cut short", "01234567}", "0123456}"},
		{"a branch for a commit", "0123456789abcdef0123456789abcdef01234567", "main"},
		{"a source of nothing", "lists:", "- {name: other, repository: r, path: p, commit: 0123456789abcdef0123456789abcdef01234567}\nlists:"},
		{"a source that is not there", "{from: [makefile], name: lantern.tar.gz}", "{from: [changelog], name: lantern.tar.gz}"},
		{"no source", "{from: [makefile], name: lantern.tar.gz}", "{name: lantern.tar.gz}"},
		{"a list that is not there", "on: client", "on: node"},
		{"a list of nothing", "lists:", "lists:\n  node: [linux/s390x]"},
		{"a list that includes itself", "[+server, windows/amd64]", "[+server, +client]"},
		{"an empty list", "[linux/amd64, linux/arm64]", "[]"},
		{"what is no platform", "linux/arm64", "linux"},
		{"a word that is left open", "lantern.tar.gz}", `"lantern-{os}.tar.gz"}`},
		{"programs that nothing names", "{bin}{exe}", "x"},
		{"a name that leads out", "lantern.tar.gz}", `"../lantern.tar.gz"}`},
		{"a name twice", "name: lantern.tar.gz}", "name: bin/linux/amd64/wick}"},
		{"a key that nobody reads", "minor:", "major: 1\nminor:"},
		{"images of no source", "images: {from: [makefile]", "images: {from: [changelog]"},
		{"images of no list", "names: [lantern], on: server", "names: [lantern], on: clients"},
	} {
		if text := strings.Replace(list, c.old, c.new, 1); text == list {
			t.Errorf("%s: nothing changed", c.name)
		} else {
			_, err := k8slayout.ParseList([]byte(text))
			expect(t, c.name, err, verdict.ConfigParse)
		}
	}
}

// TestCompareImages: witnesses that name images name the same ones; another witness
// says nothing about images.
func TestCompareImages(t *testing.T) {
	l, err := k8slayout.ParseList([]byte(list))
	if err != nil {
		t.Fatal(err)
	}
	other, err := k8slayout.ParseList([]byte(strings.Replace(list, "names: [lantern]", "names: [torch]", 1)))
	if err != nil {
		t.Fatal(err)
	}
	sums, err := k8slayout.ParseSums(k8slayout.SHA256Sums, []byte(strings.Repeat("0", 64)+"  lantern.tar.gz\n"), at(t, "v1.2.3"))
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		beside k8slayout.Witness
		want   int
	}{{l.Witness(), 0}, {sums, 0}, {other.Witness(), 4}} {
		set, err := k8slayout.Of(l.Witness(), row.beside)
		if err != nil {
			t.Fatal(err)
		}
		if got := set.CompareImages(); len(got) != row.want {
			t.Errorf("beside %s: %v, want %d", row.beside.Name(), got, row.want)
		}
	}
}

// TestKubernetesLists reads every list that is carried, and says of which
// versions there is none.
func TestKubernetesLists(t *testing.T) {
	for _, minor := range []string{"1.31", "1.32", "1.33", "1.34", "1.35"} {
		l, known, err := k8slayout.Kubernetes(at(t, "v"+minor+".2"))
		if err != nil || !known {
			t.Fatalf("%s: %t, %v", minor, known, err)
		}
		if w := l.Witness(); l.Minor() != minor || w.Len() != 140 || len(l.Sources()) != 4 {
			t.Errorf("%s: %d files, %d sources", minor, w.Len(), len(l.Sources()))
		}
		set, err := k8slayout.Of(l.Witness())
		if err != nil {
			t.Fatal(err)
		}
		if images := set.Images(); len(images) != 24 || images[0].Alone() != "conformance-amd64" {
			t.Errorf("%s: images %v", minor, images)
		}
		for _, name := range []string{"kubernetes-client-windows-arm64.tar.gz", "bin/darwin/arm64/kubectl", "bin/windows/amd64/kubelet.exe", "bin/linux/s390x/kubectl.tar", "kubernetes-release.spdx"} {
			if !slices.Contains(set.Names(), name) {
				t.Errorf("%s has no %s", minor, name)
			}
		}
	}
	for _, v := range []string{"v1.23.0-alpha.4", "v1.40.0", "v2.31.0"} {
		if l, known, err := k8slayout.Kubernetes(at(t, v)); known || err != nil || !l.IsZero() {
			t.Errorf("%s: %t, %v", v, known, err)
		}
	}
}

func FuzzList(f *testing.F) {
	f.Add([]byte(list))
	f.Fuzz(func(t *testing.T, raw []byte) {
		l, err := k8slayout.ParseList(raw)
		if (err != nil) != l.IsZero() {
			t.Errorf("%v, %+v", err, l)
		}
	})
}

func FuzzSums(f *testing.F) {
	f.Add([]byte("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  /w/gcs-stage/v1.31.2/bin/x\n"))
	v := at(f, "v1.31.2")
	f.Fuzz(func(t *testing.T, raw []byte) {
		if w, err := k8slayout.ParseSums(k8slayout.SHA256Sums, raw, v); err != nil && w.Len() != 0 {
			t.Error("a refusal names files")
		}
	})
}
