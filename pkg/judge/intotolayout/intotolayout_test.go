package intotolayout_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/in-toto/in-toto-golang/in_toto"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/intotolayout"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestJudge changes one fact of a world in which all is well. What is accepted
// is accepted by the library's own verification, too.
func TestJudge(t *testing.T) {
	p := people()
	for _, row := range []struct {
		name   string
		change func(w *world)
		code   verdict.Code // empty: accepted
		left   string       // what the verdict says is left out
		alone  bool         // the library does not accept it, or would run something
	}{
		{name: "all is well", change: func(*world) {}},
		{name: "another signer of the second step", change: func(w *world) { w.links[1].by = p["carol"] }},
		{name: "two links where two are asked for", change: func(w *world) {
			w.step(1).Threshold = 2
			w.links = append(w.links, one{link: w.links[1].link, by: p["carol"]})
		}},
		{name: "one link where two are asked for", change: func(w *world) { w.step(1).Threshold = 2 }, code: verdict.Threshold},
		{name: "one key under two names", code: verdict.Threshold, change: func(w *world) {
			again := p["bob"]
			again.KeyID = strings.Repeat("ab", 32)
			w.layout.Keys[again.KeyID] = again.Key
			w.step(1).Threshold, w.step(1).PubKeys = 2, []string{p["bob"].KeyID, again.KeyID}
			w.links = append(w.links, one{link: w.links[1].link, by: again})
		}},
		{name: "one key named twice", code: verdict.Threshold, change: func(w *world) {
			w.step(1).Threshold, w.step(1).PubKeys = 2, []string{p["bob"].KeyID, p["bob"].KeyID}
		}},
		{name: "a threshold of nought", code: verdict.StatementParse, change: func(w *world) { w.step(1).Threshold = 0 }},
		{name: "a threshold below nought", code: verdict.StatementParse, change: func(w *world) { w.step(1).Threshold = -1 }},
		{name: "two links that differ", code: verdict.Conflict, change: func(w *world) {
			w.links = append(w.links, one{link: link("package", artifacts{"lantern": object("program")}, artifacts{"lantern.tar.gz": object("other")}), by: p["carol"]})
		}},
		{name: "a step without a link", code: verdict.Threshold, change: func(w *world) { w.links = w.links[1:] }},
		{name: "a link by a key of another step", code: verdict.Threshold, change: func(w *world) { w.links[0].by = p["bob"] }},
		{name: "a link by a stranger under the name of a key", code: verdict.Threshold, change: func(w *world) {
			forger := p["stranger"]
			forger.KeyID = p["alice"].KeyID
			w.links[0].by = forger
		}},
		{name: "a link of another step under the name of this", code: verdict.Threshold, change: func(w *world) {
			w.links[0].name = fmt.Sprintf(in_toto.LinkNameFormat, "build", p["alice"].KeyID)
			w.set(0, func(l *in_toto.Link) { l.Name = "test" })
		}},
		{name: "a link that is changed after it was signed", code: verdict.Threshold, change: func(w *world) {
			raw := signed(t, true, w.links[1].link, p["bob"])
			w.links[1].name = fmt.Sprintf(in_toto.LinkNameFormat, "package", p["bob"].KeyID)
			w.links[1].link = bytes.Replace(raw, []byte(`"make"`), []byte(`"fake"`), 1)
		}},
		{name: "a link that is no JSON", code: verdict.Threshold, change: func(w *world) {
			w.links[1].name = fmt.Sprintf(in_toto.LinkNameFormat, "package", p["bob"].KeyID)
			w.links[1].link = []byte("{")
		}},
		{name: "a link without digests", code: verdict.Threshold, change: func(w *world) {
			w.set(0, func(l *in_toto.Link) { l.Products["lantern"] = in_toto.HashObj{} })
			w.set(1, func(l *in_toto.Link) { l.Materials["lantern"] = in_toto.HashObj{} })
		}},
		{name: "a link with a weak digest alone", code: verdict.Threshold, change: func(w *world) {
			w.set(0, func(l *in_toto.Link) { l.Products["lantern"] = in_toto.HashObj{"md5": strings.Repeat("0", 32)} })
		}},
		{name: "a link that names one file twice", code: verdict.Threshold, change: func(w *world) {
			w.set(0, func(l *in_toto.Link) { l.Products["./lantern"] = object("other") })
		}},
		{name: "names that are not clean", change: func(w *world) {
			w.set(0, func(l *in_toto.Link) {
				l.Products = artifacts{"./src/main.go": object("source"), "./lantern": object("program")}
			})
		}, alone: true},
		{name: "another command", change: func(w *world) { w.set(0, func(l *in_toto.Link) { l.Command = []string{"true"} }) }},
		{name: "a material that was changed between the steps", code: "LAYOUT_RULE", change: func(w *world) {
			w.set(1, func(l *in_toto.Link) { l.Materials["lantern"] = object("other") })
		}},
		{name: "a material from nowhere", code: "LAYOUT_RULE", change: func(w *world) {
			w.set(1, func(l *in_toto.Link) { l.Materials["more"] = object("more") })
		}},
		{name: "a product that is not allowed", code: "LAYOUT_RULE", change: func(w *world) {
			w.set(1, func(l *in_toto.Link) { l.Products["more"] = object("more") })
		}},
		{name: "a product that was required", code: "LAYOUT_RULE", change: func(w *world) {
			w.step(1).ExpectedProducts = slices.Insert(w.step(1).ExpectedProducts, 0, []string{"REQUIRE", "lantern.sum"})
		}},
		{name: "a rule without words", code: verdict.StatementParse, change: func(w *world) { w.step(0).ExpectedProducts = [][]string{{}} }},
		{name: "a rule of an unknown kind", code: verdict.StatementParse, change: func(w *world) { w.step(0).ExpectedProducts = [][]string{{"PERMIT", "*"}} }},
		{name: "a rule that matches with nothing", code: verdict.StatementParse, change: func(w *world) {
			w.step(1).ExpectedMaterials[0][3] = "THINGS"
		}},
		{name: "a class of characters", change: func(w *world) { w.step(1).ExpectedProducts[0][1] = `lantern.t[!b-z]r.*` }},
		{name: "a pattern that nothing can match", code: verdict.StatementParse, change: func(w *world) {
			w.step(1).ExpectedProducts[1][1] = `[`
			w.set(1, func(l *in_toto.Link) { l.Products["more"] = object("more") })
		}},
		{name: "a pattern that ends in a backslash", code: verdict.StatementParse, change: func(w *world) { w.step(1).ExpectedProducts[1][1] = `*\` }},
		{name: "a range without an end", code: verdict.StatementParse, change: func(w *world) { w.step(1).ExpectedProducts[1][1] = `[a-]*` }},
		{name: "a class that begins with a hyphen", code: verdict.StatementParse, change: func(w *world) { w.step(1).ExpectedProducts[1][1] = `[-a]*` }},
		{name: "no steps", code: verdict.StatementParse, change: func(w *world) { w.layout.Steps = []in_toto.Step{} }},
		{name: "a step with the name of a file", code: verdict.StatementParse, change: func(w *world) { w.step(0).Name = "../build" }},
		{name: "a step with the name of many files", code: verdict.StatementParse, change: func(w *world) { w.step(0).Name = "build*" }},
		{name: "two steps of one name", code: verdict.StatementParse, change: func(w *world) { w.step(1).Name = "build" }},
		{name: "a step for whoever has a certificate", code: verdict.StatementParse, change: func(w *world) {
			w.step(0).CertificateConstraints = []in_toto.CertificateConstraint{{CommonName: "*"}}
			w.step(0).PubKeys = []string{}
		}},
		{name: "a step for a key, and for whoever has a certificate", change: func(w *world) {
			w.step(0).CertificateConstraints = []in_toto.CertificateConstraint{{CommonName: "*"}}
		}},
		{name: "a key that is called another kind", code: verdict.Threshold, change: func(w *world) {
			k := w.layout.Keys[p["alice"].KeyID]
			k.KeyType, k.Scheme = "ecdsa", "ecdsa-sha2-nistp256"
			w.layout.Keys[k.KeyID] = k
		}},
		{name: "a key of half its length", code: verdict.Threshold, change: func(w *world) {
			k := w.layout.Keys[p["alice"].KeyID]
			k.KeyVal.Public = k.KeyVal.Public[:32]
			w.layout.Keys[k.KeyID] = k
		}},
		{name: "a key that the layout does not have", code: verdict.Threshold, change: func(w *world) { delete(w.layout.Keys, p["alice"].KeyID) }},
		{name: "a layout by a stranger", code: verdict.SignatureBad, change: func(w *world) { w.owners = []pair{p["stranger"]} }},
		{name: "a layout by two owners", change: func(w *world) {
			w.owners, w.asked = []pair{p["owner"], p["carol"]}, []pair{p["owner"], p["carol"]}
		}},
		{name: "a layout by one of two owners", code: verdict.SignatureBad, change: func(w *world) { w.asked = []pair{p["owner"], p["carol"]} }},
		{name: "a layout that nobody signed", code: verdict.SignatureBad, change: func(w *world) { w.owners = nil }},
		{name: "a layout on the day that it expires", code: verdict.Expired, change: func(w *world) { w.layout.Expires = noon.Format(time.RFC3339) }},
		{name: "a layout of a moment before it expires", change: func(w *world) {
			w.layout.Expires = "2099-01-01T00:00:00Z"
			w.req.Now = time.Date(2098, 12, 31, 23, 59, 59, 0, time.UTC)
		}},
		{name: "a layout that does not say when it expires", code: verdict.StatementParse, change: func(w *world) { w.layout.Expires = "never" }},
		{name: "a link in place of the layout", code: verdict.MaterialKind, change: func(w *world) {
			w.edit = func([]byte) []byte { return signed(t, false, w.links[0].link, p["owner"]) }
		}},
		{name: "a layout that is no JSON", code: verdict.StatementParse, change: func(w *world) { w.edit = func([]byte) []byte { return []byte("layout") } }},
		{name: "no key", code: verdict.Usage, change: func(w *world) { w.asked = nil }},
		{name: "no file", code: verdict.Usage, change: func(w *world) { w.files = nil }},
		{name: "a file of other bytes", code: verdict.Tampered, change: func(w *world) { w.files[0] = file("lantern.tar.gz", "other") }},
		{name: "a file under another name", code: verdict.NameSwap, change: func(w *world) { w.files[0].Name = "lantern-2.tar.gz" }},
		{name: "a file of an earlier step", code: verdict.NotBound, change: func(w *world) { w.files = append(w.files, file("lantern", "program")) }},
		{name: "a file in a directory", change: func(w *world) { w.files[0].Name = "dist/lantern.tar.gz" }},
		{name: "two files of one base name", change: func(w *world) { twoPlatforms(w, "linux/app", "darwin/app") }},
		{name: "one of them, without its directory", change: func(w *world) { twoPlatforms(w, "app") }, left: "product darwin/app"},
		{name: "one of them under the other's name", code: verdict.NameSwap, change: func(w *world) { twoPlatforms(w, "darwin/app") }},
		{name: "one of them, changed", code: verdict.Tampered, change: func(w *world) {
			twoPlatforms(w, "linux/app")
			w.files[0] = file("dist/linux/app", "other")
		}},
		{name: "a product that is not given", left: "product lantern.sum", change: func(w *world) {
			w.step(1).ExpectedProducts = [][]string{{"ALLOW", "*"}}
			w.set(1, func(l *in_toto.Link) { l.Products["lantern.sum"] = object("sum") })
		}},
		{name: "a parameter", change: func(w *world) {
			w.step(1).ExpectedProducts[0][1] = "{NAME}.tar.gz"
			w.req.Parameters = map[string]string{"NAME": "lantern"}
		}},
		{name: "a parameter of another value", code: "LAYOUT_RULE", change: func(w *world) {
			w.step(1).ExpectedProducts[0][1] = "{NAME}.tar.gz"
			w.req.Parameters = map[string]string{"NAME": "lamp"}
		}},
		{name: "a parameter without a value", code: verdict.Usage, change: func(w *world) { w.step(1).ExpectedProducts[0][1] = "{NAME}.tar.gz" }},
		{name: "a parameter that is nowhere", code: verdict.Usage, change: func(w *world) { w.req.Parameters = map[string]string{"NAME": "lantern"} }},
		{name: "a parameter that makes a pattern nothing", code: verdict.Usage, change: func(w *world) {
			w.step(1).ExpectedProducts[1][1] = "{REST}"
			w.req.Parameters = map[string]string{"REST": "["}
		}},
		{name: "an inspection", code: "LAYOUT_INSPECTION", change: func(w *world) { w.layout.Inspect = []in_toto.Inspection{inspection} }},
		{name: "an inspection that is left out", left: `inspection untar of the layout ("touch run" was not run)`, change: func(w *world) {
			w.layout.Inspect, w.req.WithoutInspections = []in_toto.Inspection{inspection}, true
		}, alone: true},
	} {
		for _, legacy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/legacy=%v", row.name, legacy), func(t *testing.T) {
				w := newWorld()
				row.change(w)
				r := w.request(t, legacy)
				v := intotolayout.Judge(r)
				wants(t, v, row.code)
				if row.left != "" && !strings.Contains(strings.Join(v.Scope.Left, "\n"), row.left) {
					t.Errorf("left out %q, want %q", v.Scope.Left, row.left)
				}
				if row.code == "" && !row.alone {
					w.askLibrary(t, r)
				}
			})
		}
	}
}

// twoPlatforms has the last step make a program for two platforms. The files have
// the bytes of linux/app and darwin/app, in this order, under the names given.
func twoPlatforms(w *world, names ...string) {
	made := artifacts{"linux/app": object("linux"), "darwin/app": object("darwin")}
	w.step(1).ExpectedProducts = [][]string{{"CREATE", "*"}}
	w.set(1, func(l *in_toto.Link) { l.Products = made })
	w.files = nil
	for i, name := range names {
		w.files = append(w.files, file(name, []string{"linux", "darwin"}[i]))
	}
}

var inspection = in_toto.Inspection{
	Type: "inspection", Run: []string{"touch", "run"},
	SupplyChainItem: in_toto.SupplyChainItem{Name: "untar", ExpectedMaterials: [][]string{}, ExpectedProducts: [][]string{}},
}

// wants checks that a verdict refuses for one reason, or accepts.
func wants(t *testing.T, v *verdict.Verdict, code verdict.Code) {
	t.Helper()
	if code == "" {
		if v.Outcome() != verdict.Accepted || !v.Proven() {
			t.Fatalf("outcome %v, proven %v: %v", v.Outcome(), v.Proven(), v.Findings)
		}
		return
	}
	if v.Outcome() == verdict.Accepted || len(v.Findings) != 1 || v.Findings[0].Code != code {
		t.Fatalf("outcome %v with %v, want only %s", v.Outcome(), v.Findings, code)
	}
}

// askLibrary has in-toto-golang verify the same.
func (w *world) askLibrary(t *testing.T, r intotolayout.Request) {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, r.Links); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "root.layout")
	if err := os.WriteFile(path, r.Layout, 0o644); err != nil {
		t.Fatal(err)
	}
	layout, err := in_toto.LoadMetadata(path)
	if err != nil {
		t.Fatal(err)
	}
	keys := map[string]in_toto.Key{}
	for _, p := range w.asked {
		keys[p.KeyID] = p.Key
	}
	if _, err := in_toto.InTotoVerify(layout, keys, dir, "", r.Parameters, nil, false); err != nil {
		t.Errorf("the library says %v", err)
	}
}

// TestNested is a layout in which a step is a layout itself.
func TestNested(t *testing.T) {
	p := people()
	build := func(change func(w, below *world)) (*world, func(legacy bool) intotolayout.Request) {
		w, below := newWorld(), newWorld()
		below.layout.Steps = below.layout.Steps[:1]
		below.owners = []pair{p["alice"]}
		below.step(0).PubKeys = []string{p["carol"].KeyID}
		below.links[0].by = p["carol"]
		change(w, below)
		return w, func(legacy bool) intotolayout.Request {
			name := fmt.Sprintf(in_toto.LinkNameFormat, "build", p["alice"].KeyID)
			w.links[0] = one{link: signed(t, legacy, below.layout, below.owners...), name: name, by: p["alice"]}
			for _, l := range below.links[:1] {
				raw := signed(t, legacy, l.link, l.by)
				w.more[fmt.Sprintf("build.%.8s/build.%.8s.link", p["alice"].KeyID, l.by.KeyID)] = &fstest.MapFile{Data: raw, Mode: 0o644}
			}
			return w.request(t, legacy)
		}
	}
	for _, row := range []struct {
		name   string
		change func(w, below *world)
		code   verdict.Code
		alone  bool
	}{
		{name: "all is well", change: func(_, _ *world) {}},
		{name: "the layout below by a stranger", code: verdict.Threshold, change: func(_, b *world) { b.owners = []pair{p["stranger"]} }},
		{name: "the layout below has expired", code: verdict.Threshold, change: func(_, b *world) { b.layout.Expires = "2026-01-01T00:00:00Z" }},
		{name: "a link below by a stranger", code: verdict.Threshold, change: func(_, b *world) { b.links[0].by = p["stranger"] }},
		{name: "a product below that the layout above does not allow", code: "LAYOUT_RULE", change: func(_, b *world) {
			b.step(0).ExpectedProducts = [][]string{{"ALLOW", "*"}}
			b.set(0, func(l *in_toto.Link) { l.Products["more"] = object("more") })
		}},
		{name: "an inspection below", code: "LAYOUT_INSPECTION", change: func(_, b *world) { b.layout.Inspect = []in_toto.Inspection{inspection} }},
		{name: "an inspection below that is left out", alone: true, change: func(w, b *world) {
			b.layout.Inspect, w.req.WithoutInspections = []in_toto.Inspection{inspection}, true
		}},
	} {
		for _, legacy := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/legacy=%v", row.name, legacy), func(t *testing.T) {
				w, make := build(row.change)
				r := make(legacy)
				wants(t, intotolayout.Judge(r), row.code)
				if row.code == "" && !row.alone {
					w.askLibrary(t, r)
				}
			})
		}
	}
	t.Run("layouts within layouts without end", func(t *testing.T) {
		w, make := build(func(w, _ *world) { w.step(0).PubKeys = []string{p["alice"].KeyID} })
		r := make(false)
		again := signed(t, false, w.layout, p["alice"])
		path, files := "", fstest.MapFS{}
		for range 8 {
			files[path+fmt.Sprintf(in_toto.LinkNameFormat, "build", p["alice"].KeyID)] = &fstest.MapFile{Data: again, Mode: 0o644}
			path += fmt.Sprintf("build.%.8s/", p["alice"].KeyID)
		}
		r.Links = files
		v := intotolayout.Judge(r)
		wants(t, v, verdict.Threshold)
		if !strings.Contains(v.Findings[0].Message, string(verdict.Limit)) {
			t.Errorf("the finding does not say why: %v", v.Findings)
		}
	})
}

// unreadable is a directory that fails.
type unreadable struct{}

// Open implements [fs.FS].
func (unreadable) Open(name string) (fs.File, error) {
	return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrPermission}
}

// TestUnreadableLinks: a directory that cannot be read is no refusal.
func TestUnreadableLinks(t *testing.T) {
	r := newWorld().request(t, false)
	r.Links = unreadable{}
	if v := intotolayout.Judge(r); v.Outcome() != verdict.Unavailable {
		t.Errorf("outcome %v: %v", v.Outcome(), v.Findings)
	}
	r.Links = fstest.MapFS{}
	if v := intotolayout.Judge(r); v.Outcome() != verdict.Refused || !strings.Contains(fmt.Sprint(v.Findings), "not found") {
		t.Errorf("without links: %v: %v", v.Outcome(), v.Findings)
	}
}

// TestCommands: a step that ran another command than the layout expects is noted;
// a layout that expects none is content with any.
func TestCommands(t *testing.T) {
	w := newWorld() // of the two steps, the second expects no command
	if v := intotolayout.Judge(w.request(t, false)); strings.Contains(fmt.Sprint(v.Notes), "the layout expects") {
		t.Errorf("notes %q", v.Notes)
	}
	w.set(0, func(l *in_toto.Link) { l.Command = []string{"true"} })
	if v := intotolayout.Judge(w.request(t, false)); !slices.Contains(v.Notes, `step build ran "true", but the layout expects "make build"`) {
		t.Errorf("notes %q", v.Notes)
	}
}

// TestParse reads what others write, and refuses what has two readings.
func TestParse(t *testing.T) {
	p := people()
	good := signed(t, true, newWorld().links[0].link, p["alice"])
	if d, err := intotolayout.Parse(good); err != nil || d.IsLayout() || !bytes.Contains(d.Payload(), []byte(`"name":"build"`)) || !slices.Equal(d.KeyIDs(), []string{p["alice"].KeyID}) || d.Form() != "signed and signatures" {
		t.Errorf("read %+v, %v", d, err)
	}
	if d, err := intotolayout.Parse(signed(t, false, newWorld().layout, p["owner"])); err != nil || !d.IsLayout() || d.Form() != "DSSE envelope" || !intotolayout.Is(d.Payload()) {
		t.Errorf("read %+v, %v", d, err)
	}
	edit := func(old, new string) []byte {
		if !bytes.Contains(good, []byte(old)) {
			t.Fatalf("no %s in %s", old, good)
		}
		return bytes.Replace(good, []byte(old), []byte(new), 1)
	}
	for name, raw := range map[string][]byte{
		"a field twice":       edit(`"name":"build"`, `"name":"build","name":"build"`),
		"an unknown field":    edit(`"name":"build"`, `"name":"build","Name":"build"`),
		"no name":             edit(`"name":"build"`, `"name":""`),
		"no materials":        edit(`"materials":`, `"environment":{},"x":`),
		"another type":        edit(`"_type":"link"`, `"_type":"root"`),
		"a broken number":     edit(`"return-value":0`, `"return-value":0.5`),
		"a broken signature":  edit(`"sig":"`, `"sig":"zz`),
		"nothing signed":      []byte(`{"signatures":[]}`),
		"more after the end":  append(slices.Clone(good), '{', '}'),
		"a digest that isn't": edit(`"sha256":"`, `"sha256":"zz`),
	} {
		if _, err := intotolayout.Parse(raw); verdict.OutcomeOf(err) != verdict.Refused {
			t.Errorf("%s: %v", name, err)
		}
	}
	for code, what := range map[verdict.Code]any{verdict.StatementParse: []string{"link"}, verdict.StatementType: map[string]any{"_type": "root"}} {
		if _, err := intotolayout.Parse(signed(t, false, what, p["alice"])); verdict.FindingOf("", err).Code != code {
			t.Errorf("%v: %v, want %s", what, err, code)
		}
	}
	layout := signed(t, true, newWorld().layout, p["owner"])
	if _, err := intotolayout.Parse(bytes.Replace(layout, []byte(`"readme":`), []byte(`"more":1,"readme":`), 1)); verdict.FindingOf("", err).Code != verdict.StatementParse || !strings.Contains(err.Error(), `"more"`) {
		t.Errorf("a layout with an unknown field: %v", err)
	}
	many := slices.Repeat([]pair{p["alice"]}, intoto.MaxSignatures+1)
	if _, err := intotolayout.Parse(signed(t, true, newWorld().links[0].link, many[1:]...)); err != nil {
		t.Errorf("as many signatures as may be: %v", err)
	}
	if _, err := intotolayout.Parse(signed(t, true, newWorld().links[0].link, many...)); verdict.FindingOf("", err).Code != verdict.StatementParse {
		t.Errorf("more signatures than may be: %v", err)
	}
	if _, err := intotolayout.Parse(append(good, bytes.Repeat([]byte(" "), intotolayout.MaxSize-len(good))...)); err != nil {
		t.Errorf("as large as may be: %v", err)
	}
	if _, err := intotolayout.Parse(make([]byte, intotolayout.MaxSize+1)); verdict.FindingOf("", err).Code != verdict.Limit {
		t.Errorf("too much: %v", err)
	}
}

// TestLayoutLimits: a layout has at most so many rules and steps.
func TestLayoutLimits(t *testing.T) {
	for _, row := range []struct {
		rules, steps int
		code         verdict.Code
	}{{2000, 2, ""}, {2001, 2, verdict.Limit}, {9, 256, ""}, {9, 257, verdict.Limit}} {
		w := newWorld()
		for len(w.layout.Steps) < row.steps {
			w.layout.Steps = append(w.layout.Steps, in_toto.Step{Type: "step", Threshold: 1, SupplyChainItem: in_toto.SupplyChainItem{Name: fmt.Sprint(len(w.layout.Steps))}})
		}
		for range row.rules - 9 {
			w.step(0).ExpectedMaterials = append(w.step(0).ExpectedMaterials, []string{"ALLOW", "*"})
		}
		if _, err := intotolayout.Parse(signed(t, false, w.layout, people()["owner"])); err == nil != (row.code == "") || err != nil && verdict.FindingOf("", err).Code != row.code {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// TestEmptyFields: others sign the empty fields that they write, which the
// library's own reading of the legacy form leaves out.
func TestEmptyFields(t *testing.T) {
	w := newWorld()
	raw, err := json.Marshal(w.layout)
	if err != nil {
		t.Fatal(err)
	}
	var loose any
	if err := json.Unmarshal(bytes.ReplaceAll(raw, []byte(`"keyval":{`), []byte(`"keyval":{"private":"",`)), &loose); err != nil {
		t.Fatal(err)
	}
	w.edit = func([]byte) []byte { return signed(t, true, loose, w.owners...) }
	wants(t, intotolayout.Judge(w.request(t, true)), "")
}

// FuzzParse: whatever is read as a document has one of the two kinds, and is
// read again as the same.
func FuzzParse(f *testing.F) {
	w := newWorld()
	for _, legacy := range []bool{true, false} {
		f.Add(signed(f, legacy, w.links[0].link, people()["alice"]))
		f.Add(signed(f, legacy, w.layout, people()["owner"]))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		d, err := intotolayout.Parse(raw)
		if err != nil {
			if verdict.OutcomeOf(err) == verdict.Internal {
				t.Errorf("refused as a bug: %v", err)
			}
			return
		}
		if !intotolayout.Is(d.Payload()) {
			t.Errorf("neither a link nor a layout: %s", d.Payload())
		}
		intotolayout.Judge(intotolayout.Request{Layout: raw, Keys: newWorld().request(t, true).Keys, Links: fstest.MapFS{}, Files: []intotolayout.File{file("x", "x")}, Now: noon})
	})
}
