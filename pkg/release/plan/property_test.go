package plan_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"path"
	"reflect"
	"slices"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// holds checks what is true of every plan: it is the same each time, its names
// are unique and in order, steps take only what earlier steps make, each output
// is of the step that makes it, and its own encoding reads back as itself.
func holds(t *testing.T, c plan.Config, p plan.Plan) {
	t.Helper()
	again, err := c.ExpandWith(p.Version, p.Parameters)
	if err != nil || !reflect.DeepEqual(p, again) || p.Digest() != again.Digest() {
		t.Fatalf("expanded twice, two plans, %v", err)
	}
	made := map[string]string{}
	for _, s := range p.Steps {
		for _, in := range s.Inputs() {
			if made[in] == "" {
				t.Fatalf("step %s takes %q from nowhere", s.Instance, in)
			}
		}
		for _, out := range s.Outputs {
			if made[out] != "" {
				t.Fatalf("%q is made by %s and %s", out, made[out], s.Instance)
			}
			made[out] = s.Instance
		}
		seen(t, p, s)
	}
	for i, a := range p.Artifacts {
		if releasemanifest.CheckName(a.Name) != nil || i > 0 && a.Name <= p.Artifacts[i-1].Name {
			t.Fatalf("artifact %d has name %q", i, a.Name)
		}
		if got, ok := p.Find(a.Name); !ok || !reflect.DeepEqual(got, a) {
			t.Fatalf("%q is not found", a.Name)
		}
		if a.IsBuilt() != (made[a.Name] != "") || a.IsBuilt() && made[a.Name] != a.Step {
			t.Fatalf("%q is planned of %q and made by %q", a.Name, a.Step, made[a.Name])
		}
		if a.Of != "" {
			if _, ok := p.Find(a.Of); !ok {
				t.Fatalf("%q is about %q, which is not planned", a.Name, a.Of)
			}
		}
	}
	raw, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	read, err := plan.Parse(raw)
	if err != nil || read.Digest() != p.Digest() {
		t.Fatalf("the plan does not survive its own encoding: %v", err)
	}
	if d := plan.Compare(p, read); !d.IsEmpty() {
		t.Fatalf("a plan differs from itself: %+v", d)
	}
}

// seen checks what a step has below its input directory: files that are where
// they are said to be, and none of them where another needs a directory.
func seen(t *testing.T, p plan.Plan, s plan.Step) {
	t.Helper()
	files := map[string]bool{}
	for _, name := range slices.Concat(s.Take, s.Downloads) {
		if files[name] {
			t.Fatalf("step %s takes %q twice", s.Instance, name)
		}
		files[name] = true
		if a, ok := p.Find(name); ok && a.IsImage() {
			t.Fatalf("step %s takes the image %q", s.Instance, name)
		}
	}
	for name := range files {
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			if files[dir] || dir == "/" || dir == ".." {
				t.Fatalf("step %s takes %q and %q", s.Instance, dir, name)
			}
		}
	}
	for _, name := range s.Downloads {
		if _, artifact := p.Find(name); artifact || p.Downloads[name] == "" {
			t.Fatalf("step %s takes the download %q, which is %q", s.Instance, name, p.Downloads[name])
		}
	}
	if s.Image != nil && (s.Image.Base == "") == (s.Image.Import == "") {
		t.Fatalf("step %s makes an image of %+v", s.Instance, s.Image)
	}
}

// draw writes a configuration of random shape that is meant to be accepted.
func draw(r *rand.Rand) string {
	pick := func(from []string) []string {
		list := slices.Clone(from)
		r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		return list[:1+r.IntN(len(list))]
	}
	quoted := func(list []string) string { return strings.Join(list, ", ") }
	platforms := pick([]string{"linux/amd64", "linux/arm64", "darwin/arm64", "windows/amd64", "windows/386"})
	bins := pick([]string{"a", "b-c", "d.e", "f_g"})
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: waybill/v1\nkind: Release\nname: drawn\nsource: {repository: \"https://example.test/drawn\"}\nlock: release.lock.yaml\n")
	fmt.Fprintf(&b, "lists:\n  half: [%s]\n  all: [+half, %s]\n  bins: [%s]\n", platforms[0], quoted(append(platforms[1:], "plan9/amd64")), quoted(bins))
	fmt.Fprintf(&b, "steps:\n- name: one\n  each: {platform: all}\n  run: [make]\n  outputs:\n")
	fmt.Fprintf(&b, "  - {class: binary, each: {bin: bins}, name: \"bin/{platform}/{bin}{exe}\"}\n")
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "  - {class: file, on: half, name: \"share/{os}-{arch}\"}\n")
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "- name: two\n  archive: {format: tar.gz, root: drawn}\n  outputs:\n  - {class: archive, each: {platform: all}, name: \"{os}-{arch}.tar.gz\", take: [+bins]}\n  - {class: archive, name: src.tar.gz, take: source}\n")
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "- name: three\n  each: {bin: bins}\n  image: {base: static, platforms: half, files: {\"/{bin}\": \"bin/{platform}/{bin}{exe}\"}, entrypoint: [x]}\n  outputs: [{class: image, name: \"{bin}\", alsoPerArch: \"{bin}-{os}-{arch}\"}]\n")
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "- name: four\n  each: {platform: half}\n  run: [link, \"{in}/x\"]\n  take: [%s]\n  limits: {disk: %dMi}\n  outputs: [{class: archive, name: \"box-{arch}.tar\"}]\n",
			quoted(pick([]string{"+bins", "x", "y.bin"})), 1+r.IntN(9))
		fmt.Fprintf(&b, "- name: five\n  image: {import: %s, platforms: half}\n  outputs: [{class: image, name: box, alsoPerArch: \"box-{os}-{arch}\"}]\n",
			pick([]string{"box-" + path.Base(platforms[0]) + ".tar", "y.bin"})[0])
		fmt.Fprintf(&b, "downloads: {x: \"https://dl.example.test/x\", y.bin: \"http://localhost/y\"}\n")
	}
	if r.IntN(2) == 0 {
		fmt.Fprintf(&b, "provenance: [v0.2, v1]\nmodules: [sub, .]\n")
	}
	sidecars := quoted(pick([]string{"sha256", "sha512"}))
	fmt.Fprintf(&b, "places:\n  files: {uri: \"https://dl.example.test/{version}/\", sidecars: [%s]}\n  images: registry.example.test\n", sidecars)
	return b.String()
}

func TestDrawnConfigurations(t *testing.T) {
	for seed := range uint64(300) {
		text := draw(rand.New(rand.NewPCG(seed, 0)))
		c, err := plan.ParseConfig([]byte(text))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		p, err := c.Expand(ver(t, "v1.2.3"))
		if err != nil {
			t.Fatalf("seed %d: %v\n%s", seed, err, text)
		}
		holds(t, c, p)
	}
}

// TestBounds: a small file that asks for much is refused, soon and without
// memory.
func TestBounds(t *testing.T) {
	items := func(prefix string, n int) string {
		list := make([]string, 0, n)
		for i := range n {
			list = append(list, fmt.Sprintf("%s%d", prefix, i))
		}
		return strings.Join(list, ", ")
	}
	with := func(lists, step string) string {
		head, rest, _ := strings.Cut(small, "lists:\n")
		_, places, _ := strings.Cut(rest, "places:")
		return head + "lists:\n" + lists + "steps:\n" + step + "places:" + places
	}
	lists := "  a: [" + items("a", 400) + "]\n  b: [" + items("b", 400) + "]\n"
	output := "  run: [make]\n  outputs: [{class: file, name: \"{u}/{v}\"}]\n"
	many := with("  a: ["+items("a", 150)+"]\n  b: ["+items("b", 140)+"]\n", "- name: s\n  each: {u: a, v: b}\n"+output) // 21 000 of 4 artifacts each
	rows := []struct{ name, text, says string }{
		{"within", with("  a: [a, b]\n  b: [c, d]\n", "- name: s\n  each: {u: a, v: b}\n"+output), ""},
		{"turns of a step", with(lists, "- name: s\n  each: {u: a, v: b}\n"+output), "too large"},
		{"turns of an output", with(lists, "- name: s\n  run: [make]\n  outputs: [{class: file, each: {u: a, v: b}, name: \"{u}/{v}\"}]\n"), "too large"},
		{"outputs of many turns", with("  a: ["+items("a", 200)+"]\n  b: ["+items("b", 400)+"]\n",
			"- name: s\n  each: {u: a}\n  run: [make]\n  outputs: [{class: file, each: {v: b}, name: \"{u}/{v}\"}, {class: file, each: {v: b}, name: \"{u}-{v}\"}]\n"), "artifacts"},
		{"evidence of what is within", with("  a: ["+items("a", 200)+"]\n  b: ["+items("b", 200)+"]\n",
			"- name: s\n  each: {u: a}\n  run: [make]\n  outputs: [{class: file, each: {v: b}, name: \"{u}/{v}\"}]\n"), "with their evidence"},
		{"many steps", many, ""},
		{"many steps with provenance twice", many + "provenance: [v1, v0.2]\n", "with their evidence"},
		{"text of many turns", with("  a: ["+items("a", 300)+"]\n",
			"- name: s\n  each: {u: a}\n  run: [make, \"{u}"+strings.Repeat("x", 400_000)+"\"]\n  outputs: [{class: file, name: \"{u}\"}]\n"), "MiB of text"},
		{"a list that is too long", with("  a: ["+items("a", 10_001)+"]\n", "- name: s\n  run: [make]\n  outputs: [{class: file, name: f}]\n"), "too long"},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			_, err := expand(t, r.text)
			if r.says == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			refused(t, err, r.says)
		})
	}
}

func FuzzParseConfig(f *testing.F) {
	for _, text := range []string{small, full, taking, exampleText(f), strings.ReplaceAll(small, "{", "{{"), draw(rand.New(rand.NewPCG(1, 0)))} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := plan.ParseConfig(raw)
		if err == nil {
			var p plan.Plan
			if p, err = c.Expand(ver(t, "v0.1.0")); err == nil {
				holds(t, c, p)
				return
			}
		}
		if code := verdict.FindingOf("", err).Code; code != verdict.ConfigParse && code != verdict.Usage {
			t.Fatalf("refused as %s: %v", code, err)
		}
	})
}

func FuzzParsePlan(f *testing.F) {
	c, err := plan.ParseConfig([]byte(small))
	if err != nil {
		f.Fatal(err)
	}
	p, err := c.Expand(ver(f, "v0.1.0"))
	if err != nil {
		f.Fatal(err)
	}
	raw, err := json.Marshal(p)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	if p, err = expand(f, taking); err != nil {
		f.Fatal(err)
	}
	if raw, err = json.Marshal(p); err != nil {
		f.Fatal(err)
	}
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		p, err := plan.Parse(raw)
		if err != nil {
			if verdict.FindingOf("", err).Code != verdict.ConfigParse {
				t.Fatalf("refused as something else than CONFIG: %v", err)
			}
			return
		}
		if d := plan.Compare(p, p); !d.IsEmpty() {
			t.Fatalf("a plan differs from itself: %+v", d)
		}
		for _, a := range p.Artifacts {
			if releasemanifest.CheckName(a.Name) != nil {
				t.Fatalf("%q is accepted", a.Name)
			}
		}
		for _, s := range p.Steps {
			seen(t, p, s)
		}
	})
}
