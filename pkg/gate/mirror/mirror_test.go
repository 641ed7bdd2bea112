package mirror

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func sum(text string) digest.Digest { return digest.Of(digest.SHA256, []byte(text)) }

func of(t *testing.T, text string) version.Version {
	t.Helper()
	v, err := version.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// TestJudge: each row changes one answer of a whole image.
func TestJudge(t *testing.T) {
	image, other := sum("image"), sum("other")
	a := artifact{
		name: "/demo", version: of(t, "v1.2.0"), others: map[digest.Digest]version.Version{image: of(t, "v1.2.0"), sum("old"): of(t, "v1.1.0"), sum("new"): of(t, "v1.3.0"), sum("unversioned"): {}},
		parts: []part{{Name: "@image", Want: image, lost: missing}, {Name: ":v1.2.0", Want: image, lost: missing}, {Name: "@evidence", Want: sum("evidence"), Of: image}},
	}
	for name, c := range map[string]struct {
		part string
		is   answer
		want state
	}{
		"whole (twin)":                       {":v1.2.0", answer{Kind: got, Got: image}, whole},
		"a tag of nothing":                   {":v1.2.0", answer{Kind: none}, missing},
		"a tag of an unknown image":          {":v1.2.0", answer{Kind: got, Got: other}, changed},
		"a tag of an older image":            {":v1.2.0", answer{Kind: got, Got: sum("old")}, stale},
		"a tag of a newer image":             {":v1.2.0", answer{Kind: got, Got: sum("new")}, changed},
		"a tag of one without a version":     {":v1.2.0", answer{Kind: got, Got: sum("unversioned")}, stale},
		"a tag without an answer":            {":v1.2.0", answer{Why: "timeout"}, silent},
		"no evidence":                        {"@evidence", answer{Kind: none}, dropped},
		"other evidence":                     {"@evidence", answer{Kind: got, Got: other}, changed},
		"evidence without an answer":         {"@evidence", answer{}, silent},
		"no image":                           {"@image", answer{Kind: none}, missing},
		"another image":                      {"@image", answer{Kind: got, Got: other}, changed},
		"bytes that are other, unknown ones": {"@image", answer{Kind: got}, changed},
		"an older revision":                  {"@image", answer{Kind: older, Got: other}, stale},
		"access denied":                      {"@image", answer{Kind: refused}, denied},
		"access to the evidence denied":      {"@evidence", answer{Kind: refused}, denied},
		"an answer of an unknown kind":       {"@image", answer{Kind: "whole", Got: image}, silent},
		"no answer":                          {"@image", answer{}, silent},
	} {
		seen := map[string]answer{"@image": {Kind: got, Got: image}, ":v1.2.0": {Kind: got, Got: image}, "@evidence": {Kind: got, Got: sum("evidence")}}
		seen[c.part] = c.is
		var found []state
		counts := a.judge(seen, func(p part, s state) {
			if p.Name != c.part {
				t.Errorf("%s: %s is %s", name, p.Name, s)
			}
			found = append(found, s)
		})
		if c.want == whole && (found != nil || counts[whole] != 3) || c.want != whole && (!slices.Equal(found, []state{c.want}) || counts[whole] != 2) {
			t.Errorf("%s: %v %v, want %s", name, found, counts, c.want)
		}
		t1 := &tally{place: "p", counts: map[state]int{}}
		t1.add(7, a, seen)
		v := Report{places: []*tally{t1}}.Verdict(time.Unix(0, 0))
		want := map[state]verdict.Outcome{whole: verdict.Accepted, silent: verdict.Unavailable, denied: verdict.Unavailable}
		if o, is := want[c.want]; is && v.Outcome() != o || !is && v.Outcome() != verdict.Refused {
			t.Errorf("%s: %s", name, v.Headline())
		}
		if repair := c.want == missing || c.want == dropped || c.want == stale; (len(t1.repairs) > 0) != repair {
			t.Errorf("%s: repairs %v", name, t1.repairs)
		}
	}
	// A missing part is repaired, also where another part was changed.
	both := &tally{place: "p", counts: map[state]int{}}
	both.add(7, a, map[string]answer{"@image": {Kind: got, Got: image}, ":v1.2.0": {Kind: none}, "@evidence": {Kind: got, Got: other}})
	if !slices.Equal(both.repairs, []int{7}) {
		t.Errorf("a tag is missing and evidence changed: repairs %v", both.repairs)
	}
	// The rest of an image that is not there follows it, and is not listed.
	n := 0
	if counts := a.judge(map[string]answer{"@image": {Kind: none}}, func(part, state) { n++ }); counts[missing] != 3 || n != 1 {
		t.Errorf("%v, %d listed", counts, n)
	}
	// Evidence about what is not there is missing too, not dropped.
	if counts := a.judge(map[string]answer{"@image": {Kind: none}, ":v1.2.0": {Kind: none}, "@evidence": {Kind: none}}, func(part, state) {}); counts[missing] != 3 {
		t.Errorf("nothing is there: %v", counts)
	}
	// A part that was not asked about has no answer: it is not whole.
	if counts := a.judge(nil, func(part, state) {}); counts[silent] != 3 {
		t.Errorf("not asked: %v", counts)
	}
	if o := (Report{}).Verdict(time.Unix(0, 0)).Outcome(); o == verdict.Accepted {
		t.Error("no mirror is", o)
	}
}

// TestWanted: an artifact is taken as whole from a record only if the same is wanted.
func TestWanted(t *testing.T) {
	a := part{Name: "@a", Want: sum("a"), Of: sum("of"), Attached: ".sig"}
	other := map[string]part{
		"name": {Name: "@b", Want: a.Want, Of: a.Of, Attached: a.Attached}, "want": {Name: a.Name, Want: sum("b"), Of: a.Of, Attached: a.Attached},
		"of": {Name: a.Name, Want: a.Want, Attached: a.Attached}, "attached": {Name: a.Name, Want: a.Want, Of: a.Of},
	}
	if same := a; wanted([]part{a}) != wanted([]part{same}) || wanted([]part{a}) == wanted([]part{a, a}) {
		t.Error("the same parts, and one part more")
	}
	for what, b := range other {
		if wanted([]part{a}) == wanted([]part{b}) {
			t.Error("another", what)
		}
	}
}

// TestSuffixes: which names are evidence.
func TestSuffixes(t *testing.T) {
	for name, want := range map[string]bool{
		"a.sigstore.json": true, "a.sha256": true, "a.sha512": true, "a.sig": true, "a.cert": true, "a.spdx.json": true,
		"a": false, "a.json": false, "a.sig.txt": false, "sig": false, "asigstore.json": false,
	} {
		if evidenceSuffix().MatchString(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

// BenchmarkRecorded judges what Kubernetes has, 46,000 groups of tags at 21
// registries, from recorded answers, each with a signature, two statements and the
// tag of older clients; a registry lacks the signature of every tenth. It prints the
// peak of memory.
func BenchmarkRecorded(b *testing.B) {
	const projects, images, registries = 230, 200, 21
	debug.SetGCPercent(35) // as the command does
	var manifests []promoterfile.Manifest
	for p := range projects {
		where, what := fmt.Sprintf("registries:\n- {name: staging.example.test/project-%d, src: true}\n", p), ""
		for r := range registries {
			where += fmt.Sprintf("- {name: r%d.example.test/images}\n", r)
		}
		for i := range images {
			what += fmt.Sprintf("- name: p%d-image-%d\n  dmap:\n    %q: [\"v1.%d.0\", \"latest\"]\n", p, i%20, sum(fmt.Sprint(p, i)), i)
		}
		what = strings.ReplaceAll(what, ", \"latest\"", "")
		m, err := promoterfile.ParseThin(fmt.Sprintf("project-%d", p), []byte(where), []byte(merged(what)))
		if err != nil {
			b.Fatal(err)
		}
		manifests = append(manifests, m)
	}
	plan, err := promotionplan.Make(manifests)
	if err != nil || plan.Extent().Moves != projects*images*registries {
		b.Fatal(plan.Extent(), err)
	}
	dir := b.TempDir()
	record(b, dir, plan)
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // the peak of memory starts here
	for b.Loop() {
		report, err := Audit{
			Plan: plan, Record: dir, Progress: func(int, int) {},
			Images: func(at string) (*registry.Remote, error) { return nil, nil }, Files: func(string) (store.Place, error) { return nil, nil },
		}.Run(b.Context())
		if err != nil {
			b.Fatal(err)
		}
		v := report.Verdict(time.Now())
		if v.Counts.Required != projects*images*registries*6 || v.Outcome() != verdict.Refused {
			b.Fatal(v.Headline())
		}
		repair := report.Repairs()["images.json"].Extent()
		b.ReportMetric(float64(v.Counts.Required), "parts")
		b.ReportMetric(float64(repair.Moves), "repairs")
	}
	raw, _ := os.ReadFile("/proc/self/status")
	for line := range strings.Lines(string(raw)) {
		if strings.HasPrefix(line, "VmHWM") {
			b.Log(strings.TrimSpace(line))
		}
	}
}

// merged has one entry for each name.
func merged(list string) string {
	dmaps, names := map[string]string{}, []string{}
	for _, entry := range strings.Split(list, "- name: ")[1:] {
		name, rest, _ := strings.Cut(entry, "\n  dmap:\n")
		if _, there := dmaps[name]; !there {
			names = append(names, name)
		}
		dmaps[name] += rest
	}
	out := ""
	for _, name := range names {
		out += "- name: " + name + "\n  dmap:\n" + dmaps[name]
	}
	return out
}

// record writes the answers: those of all registries are the same.
func record(b *testing.B, dir string, plan promotionplan.Plan) {
	b.Helper()
	write := func(name string, detail func(promotionplan.Edge) any, mine func(promotionplan.Edge) bool) {
		f, err := os.Create(filepath.Join(dir, url.PathEscape(name)+".jsonl"))
		if err != nil {
			b.Fatal(err)
		}
		w := bufio.NewWriter(f)
		fmt.Fprintln(w, `{"journal":"waybill","version":1}`)
		for _, e := range plan.Edges {
			if mine(e) {
				raw, _ := json.Marshal(detail(e))
				fmt.Fprintf(w, "{\"time\":\"2026-11-26T00:00:00Z\",\"act\":\"look\",\"subject\":\"/%s@%s\",\"detail\":%s}\n", e.Image, e.Digest, raw)
			}
		}
		if err := w.Flush(); err != nil || f.Close() != nil {
			b.Fatal(err)
		}
	}
	evidence := func(e promotionplan.Edge) (all []part) {
		for i := range 4 {
			d := sum(fmt.Sprint(e.Digest, i))
			all = append(all, part{Name: "@", Want: d, Of: e.Digest, Attached: map[bool]string{true: ".sig"}[i == 3]})
		}
		return all
	}
	for i, r := range plan.Routes {
		write("evidence of "+r.Source, func(e promotionplan.Edge) any { return evidence(e) }, func(e promotionplan.Edge) bool { return e.Route == i })
	}
	n := 0
	write("r0.example.test/images", func(e promotionplan.Edge) any {
		parts := append([]part{{Name: "@", Want: e.Digest}, {Name: ":" + e.Tags[0], Want: e.Digest}}, evidence(e)...)
		if n++; n%10 != 0 {
			return json.RawMessage(wanted(parts))
		}
		seen := map[string]answer{}
		for i, p := range parts {
			if seen[p.name()] = (answer{Kind: got, Got: p.Want}); i == 2 {
				seen[p.name()] = answer{Kind: none, Why: "clients do not find it"}
			}
		}
		return seen
	}, func(promotionplan.Edge) bool { return true })
	for i := 1; i < 21; i++ {
		if err := os.Link(filepath.Join(dir, url.PathEscape("r0.example.test/images")+".jsonl"), filepath.Join(dir, url.PathEscape(fmt.Sprintf("r%d.example.test/images", i))+".jsonl")); err != nil {
			b.Fatal(err)
		}
	}
}
