package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/report/lineage"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/test/scene"
)

// week is a release that four runs touched: it was staged, let out, and its
// image promoted to two regions, each by a run of its own.
type week struct {
	night
	image registry.Descriptor
	// logs are what each run said, in JSON, and runs their traces.
	logs map[string]string
	runs map[string]trace.ID
}

// theRuns are the runs of a week, in their order.
func theRuns() []string { return []string{"stage", "release", "eu", "us"} }

func openWeek(t *testing.T) week {
	t.Helper()
	w := week{night: evening(t), logs: map[string]string{}, runs: map[string]trace.ID{}}
	w.keeps(t, "stage", w.Stage(t.Context(), "--log-format", "json"))
	w.keeps(t, "release", w.releases(t, "--confirm", "--log-format", "json"))
	remote, err := registry.OpenRemote(w.Lab.Registry+"/staging/lantern", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if w.image, err = remote.Resolve(t.Context(), "lantern", scene.Version); err != nil {
		t.Fatal(err)
	}
	for _, region := range []string{"eu", "us"} {
		manifest := fmt.Sprintf("registries:\n- {name: %[1]s/staging/lantern, src: true}\n- {name: %[1]s/%[2]s/lantern}\nimages:\n- name: lantern\n  dmap: {%[3]q: [%[4]s]}\n",
			w.Lab.Registry, region, w.image.Digest.String(), scene.Version)
		w.write(t, "m.yaml", []byte(manifest))
		planned := w.Run(t.Context(), "waybill", "promote", "plan", "m.yaml", "-o", "json")
		want(t, planned, 0)
		w.write(t, "plan.json", []byte(planned.Stdout))
		w.write(t, "verifier.token", []byte(w.Lab.Token("verifier")))
		w.keeps(t, region, w.Run(t.Context(), "waybill", "promote", "apply", "plan.json", "--profile", "profile.yaml", "--state", "promotions-"+region,
			"--identity-token", "verifier=verifier.token", "--confirm", "--log-format", "json"))
	}
	return w
}

// keeps keeps what a run said, and in which trace it said so.
func (w week) keeps(t *testing.T, name string, r scene.Result) {
	t.Helper()
	want(t, r, 0)
	w.logs[name] = r.Stderr
	found, err := lineage.ReadLog(strings.NewReader(r.Stderr))
	if err != nil || len(found) == 0 {
		t.Fatalf("%s names no trace: %v\n%s", name, err, r.Stderr)
	}
	for _, l := range found {
		if l.Trace != found[0].Trace {
			t.Fatalf("%s speaks of two traces: %v", name, found)
		}
	}
	w.runs[name] = found[0].Trace
}

// trace runs waybill trace with some text on stdin.
func (w week) trace(t *testing.T, stdin io.Reader, args ...string) scene.Result {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), append([]string{"trace"}, args...)...)
	cmd.Dir, cmd.Stdin = w.Dir, stdin
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+w.Path("cache"))
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err := cmd.Run()
	r := scene.Result{Args: append([]string{"waybill", "trace"}, args...), Stdout: out.String(), Stderr: said.String(), Code: cmd.ProcessState.ExitCode()}
	if err != nil && r.Code <= 0 {
		t.Fatal(err)
	}
	return r
}

// finds is what waybill trace finds.
func (w week) finds(t *testing.T, stdin io.Reader, args ...string) lineage.Lineage {
	t.Helper()
	r := w.trace(t, stdin, append(args, "-o", "json")...)
	want(t, r, 0)
	var l lineage.Lineage
	if err := json.Unmarshal([]byte(r.Stdout), &l); err != nil {
		t.Fatalf("%s: %v\n%s", r, err, r.Stdout)
	}
	if l.Schema != "waybill/lineage/v1" {
		t.Errorf("%s says that it is %q", r, l.Schema)
	}
	return l
}

// at are the ways to a release: the machine that made it, the places where it
// is published, and these with the registries that it was promoted to.
func (w week) at() map[string][]string {
	published := []string{scene.Version, "--profile", "profile.yaml"}
	return map[string][]string{
		"state":     {"--state", "state", "--policy", "policy.yaml", "--trusted-root", "trusted_root.json"},
		"published": published,
		"promoted":  append(slices.Clone(published), "--images", w.Lab.Registry+"/eu/lantern", "--images", w.Lab.Registry+"/us/lantern"),
	}
}

// has reports whether a lineage has a run in a trace, and that it is verified.
func has(l lineage.Lineage, id trace.ID, mark lineage.Mark) bool {
	return slices.ContainsFunc(l.Runs, func(r lineage.Run) bool { return r.IDs.Trace == id && (mark == "" || r.Mark == mark) })
}

// TestT11: from any line of a log to the run and what it made, and from any
// artifact of a release to every run that touched it, and back.
func TestT11(t *testing.T) {
	w := openWeek(t)
	t.Run("from a log line to its run, its artifacts, and back", func(t *testing.T) { fromLine(t, w) })
	t.Run("from an image to every run", func(t *testing.T) { fromImage(t, w) })
	t.Run("from a mirror", func(t *testing.T) { fromMirror(t, w) })
	t.Run("any artifact leads to its run and back", func(t *testing.T) { anyArtifact(t, w) })
	t.Run("what is asked wrongly, or of nobody", func(t *testing.T) { askedWrongly(t, w) })
	t.Run("a hint that contradicts what is signed", func(t *testing.T) { contradicted(t, w) })
	t.Run("older than the ids", func(t *testing.T) { older(t, w) })
	t.Run("what is refused is a hint", func(t *testing.T) { hinted(t, w) })
	t.Run("evidence that does not hold", func(t *testing.T) { doesNotHold(t, w) }) // last: it spoils the place
}

// fromLine takes a line of each log by chance.
func fromLine(t *testing.T, w week) {
	for _, name := range theRuns() {
		lines := strings.Split(strings.TrimSpace(w.logs[name]), "\n")
		line := lines[rand.IntN(len(lines))]
		l := w.finds(t, strings.NewReader("make: noise\n"+line+"\n"), append([]string{"-"}, w.at()["promoted"]...)...)
		if len(l.Target.Lines) != 1 || l.Target.Lines[0].Line != 2 || l.Target.Lines[0].Trace != w.runs[name] {
			t.Fatalf("%s: %s\nis read as %+v", name, line, l.Target)
		}
		if len(l.Runs) == 0 || !has(l, w.runs[name], lineage.Verified) || len(l.Artifacts) == 0 {
			t.Fatalf("%s: %s\nleads to %+v", name, line, l.Runs)
		}
		for _, r := range l.Runs {
			if r.IDs.Initial != w.runs["stage"] {
				t.Errorf("%s: a run began in %s, not where the release did", name, r.IDs.Initial)
			}
		}
		a := l.Artifacts[rand.IntN(len(l.Artifacts))]
		if back := w.finds(t, nil, append([]string{a.SHA256.String()}, w.at()["promoted"]...)...); !has(back, w.runs[name], lineage.Verified) {
			t.Errorf("%s: %s does not lead back to %s", name, a.Name, w.runs[name])
		}
	}
	r := w.trace(t, strings.NewReader(w.logs["stage"]), append([]string{"-"}, w.at()["state"]...)...)
	want(t, r, 0, w.runs["stage"].String(), "verified", "step ", "sealed lantern v0.1.0", "state/logs/compile")
	if strings.Contains(r.Stdout, "origin unknown") || strings.Contains(r.Stdout, "hint\n   │     by") {
		t.Errorf("something of a run has no trace:\n%s", r.Stdout)
	}
}

// fromImage asks by digest, and by each name that the image has.
func fromImage(t *testing.T, w week) {
	by := func(region string) []string {
		return []string{w.Lab.Registry + "/" + region + "/lantern/lantern:" + scene.Version, "--policy", "policy.yaml", "--trusted-root", "trusted_root.json"}
	}
	for _, c := range []struct {
		name string
		args []string
		runs []string
	}{
		{"digest", append([]string{w.image.Digest.String()}, w.at()["promoted"]...), theRuns()},
		{"name in the release", append([]string{"oci/lantern"}, w.at()["promoted"]...), theRuns()},
		{"published", append([]string{w.image.Digest.String()}, w.at()["published"]...), []string{"stage", "release"}},
		{"eu", by("eu"), []string{"stage", "eu"}},
		{"eu, believing the profile", []string{by("eu")[0], "--profile", "profile.yaml"}, []string{"stage", "eu"}},
		{"us", by("us"), []string{"stage", "us"}},
	} {
		l := w.finds(t, nil, c.args...)
		for _, name := range theRuns() {
			if asked := slices.Contains(c.runs, name); has(l, w.runs[name], "") != asked {
				t.Errorf("by %s: that the run %s is found is not %t: %+v", c.name, name, asked, l.Runs)
			}
		}
		promoted := 0
		for _, r := range l.Runs {
			for _, a := range r.Acts {
				if a.Kind == lineage.Promotion {
					promoted++
					if a.Mark != lineage.Verified || a.By == "" || a.Entry == nil || a.Began.IsZero() || !strings.Contains(a.Route.From, "staging") {
						t.Errorf("by %s: a promotion without its signer, time, log entry or way: %+v", c.name, a)
					}
				}
			}
		}
		if promoted != len(c.runs)-1 {
			t.Errorf("by %s: %d promotions", c.name, promoted)
		}
	}
	r := w.trace(t, nil, append([]string{w.image.Digest.String()}, w.at()["promoted"]...)...)
	want(t, r, 0, "promoted 1 image", "to   "+w.Lab.Registry+"/eu/lantern/lantern "+scene.Version, "PASSED by "+verifierID)
	for _, line := range strings.Split(r.Stdout, "\n") {
		if n := len([]rune(line)); n > 120 {
			t.Errorf("a line of %d characters: %s", n, line)
		}
	}
}

// fromMirror reads a copy of what is published, and not what it is a copy of.
func fromMirror(t *testing.T, w week) {
	args := append([]string{w.image.Digest.String()}, w.at()["published"]...)
	l := w.finds(t, nil, append(args, "--place", "https://dl.example.test/lantern/"+scene.Version+"/=state/files", "--place", "registry.example.test/lantern=state/images")...)
	said := strings.Join(l.Notes, "\n")
	if !has(l, w.runs["stage"], lineage.Verified) || !strings.Contains(said, "read from state/files instead of ") || !strings.Contains(said, "read from state/images instead of ") {
		t.Errorf("a mirror leads to %+v, and says %s", l.Runs, said)
	}
	if has(l, w.runs["release"], "") {
		t.Errorf("what was added where it is public was read there: %+v", l.Runs)
	}
}

// anyArtifact asks for everything that the release lists, at the machine that
// made it and where it is published.
func anyArtifact(t *testing.T, w week) {
	m := w.published(t)
	for place, at := range w.at() {
		made := map[trace.ID]lineage.Lineage{}
		for _, a := range m.Artifacts {
			text := a.Name
			if place == "published" {
				text = a.Digests.SHA256.String()
			}
			l := w.finds(t, nil, append([]string{text}, at...)...)
			if !has(l, w.runs["stage"], lineage.Verified) {
				t.Errorf("%s: %s does not lead to the run that made it", place, a.Name)
			}
			for _, r := range l.Runs {
				id := r.IDs.Trace
				if id.IsZero() {
					t.Errorf("%s: %s was touched by something without a trace: %+v", place, a.Name, r)
					continue
				}
				if _, asked := made[id]; !asked {
					made[id] = w.finds(t, nil, append([]string{id.String()}, at...)...)
				}
				if !slices.ContainsFunc(made[id].Artifacts, func(o lineage.Artifact) bool { return o.SHA256.Equal(a.Digests.SHA256) }) {
					t.Errorf("%s: %s was touched by %s, which does not lead back to it", place, a.Name, id)
				}
			}
		}
		if len(made) == 0 {
			t.Errorf("%s: no artifact was touched by any run", place)
		}
	}
}

func askedWrongly(t *testing.T, w week) {
	none := strings.Repeat("9", 32)
	closed := "gs+http://127.0.0.1:1/bucket/" // nobody listens
	for _, c := range []struct {
		why   string
		args  []string
		stdin string
		code  int
		said  string
	}{
		{"an unknown trace", append([]string{none}, w.at()["published"]...), "", 1, "EVIDENCE_MISSING"},
		{"an unknown digest", append([]string{digest.Of(digest.SHA256, nil).String()}, w.at()["state"]...), "", 1, "no run is known"},
		{"an unknown line", append([]string{"-"}, w.at()["state"]...), "trace_id=" + none, 1, "no run is known"},
		{"a file of nobody", append([]string{"policy.yaml"}, w.at()["published"]...), "", 1, "no run is known"},
		{"no id in any line", append([]string{"-"}, w.at()["state"]...), "nothing\nto see\n", 1, "no line contains a trace id"},
		{"an image that is not there", []string{w.Lab.Registry + "/eu/lantern/lantern:v9.9.9"}, "", 1, "MISSING"},
		{"a digest that is none", []string{"sha256:abc", "--state", "state"}, "", 2, "TARGET"},
		{"a trace of zeros", []string{strings.Repeat("0", 32), "--state", "state"}, "", 2, "all digits are zero"},
		{"a trace in capitals", []string{strings.Repeat("AB", 16), "--state", "state"}, "", 2, "lower-case"},
		{"a directory", []string{"./state", "--state", "state"}, "", 2, "not a regular file"},
		{"no place to look at", []string{none}, "", 2, "no other place to search"},
		{"a state directory that is none", []string{none, "--state", "nowhere"}, "", 2, "no release has been started here"},
		{"no version", []string{none, "--profile", "profile.yaml"}, "", 2, "VERSION"},
		{"a mirror of no place", append([]string{none, "--place", "https://elsewhere.example.test/=state/files"}, w.at()["published"]...), "", 2, "--place"},
		{"a mirror without a profile", []string{none, "--place", "https://dl.example.test/=state/files"}, "", 2, "needs --profile"},
		{"another format", []string{none, "--state", "state", "-o", "xml"}, "", 2, "want table or json"},
		{"a place that does not answer", append([]string{w.image.Digest.String(), "--files", closed}, w.at()["published"]...), "", 3, "unavailable"},
		{"a registry that does not answer", append([]string{w.image.Digest.String(), "--images", "127.0.0.1:1/eu"}, w.at()["published"]...), "", 3, "unavailable"},
	} {
		r := w.trace(t, strings.NewReader(c.stdin), c.args...)
		if r.Code != c.code || !strings.Contains(r.Stderr, c.said) || !strings.Contains(r.Stderr, "→ ") {
			t.Errorf("%s: %s\nended with %d, want %d and %q and what to do\n%s%s", c.why, r, r.Code, c.code, c.said, r.Stdout, r.Stderr)
		}
		if c.code == 3 && !strings.Contains(r.Stdout, w.runs["stage"].String()) {
			t.Errorf("%s: what the other places hold is not shown:\n%s", c.why, r.Stdout)
		}
	}
}

// refer makes a bundle refer to the image at a place of the lab's registry.
func (w week) refer(t *testing.T, prefix string, bundle []byte, kind string, hints trace.IDs) {
	t.Helper()
	remote, err := registry.OpenRemote(w.Lab.Registry+"/"+prefix, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	_, raw, blobs := registry.BundleManifest(w.image, bundle, kind)
	for _, b := range blobs {
		if err := remote.PushBlob(t.Context(), "lantern", b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }); err != nil {
			t.Fatal(err)
		}
	}
	var manifest map[string]any
	if err := json.Unmarshal(raw, &manifest); err != nil {
		t.Fatal(err)
	}
	for key, value := range hints.Annotations() {
		manifest["annotations"].(map[string]any)[key] = value
	}
	if raw, err = json.Marshal(manifest); err != nil {
		t.Fatal(err)
	}
	d := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	if err := remote.PushManifest(t.Context(), "lantern", d, raw); err != nil {
		t.Fatal(err)
	}
}

// provenanceOf is the provenance of the image, as it was published.
func (w week) provenanceOf(t *testing.T) (manifest.Artifact, []byte) {
	t.Helper()
	m := w.published(t)
	image, _ := m.Find("oci/lantern")
	a, is := m.Find(image.Provenance)
	if !is {
		t.Fatalf("the image has no provenance: %+v", image)
	}
	return a, []byte(w.object(t, "lantern/"+scene.Version+"/"+a.Name))
}

// contradicted attaches the image's own provenance once more, with hints that
// lead to another run.
func contradicted(t *testing.T, w week) {
	ask := []string{w.Lab.Registry + "/eu/lantern/lantern@" + w.image.Digest.String(), "--policy", "policy.yaml", "--trusted-root", "trusted_root.json"}
	before := w.finds(t, nil, ask...)
	if len(before.Findings) != 0 {
		t.Fatalf("findings before anything is wrong: %+v", before.Findings)
	}
	_, raw := w.provenanceOf(t)
	other := trace.IDs{Trace: trace.ID{9}, Span: trace.SpanID{9}, Initial: trace.ID{9}}
	said := trace.URN + strings.Join([]string{other.Trace.String(), other.Span.String(), other.Initial.String()}, ":")
	w.refer(t, "eu/lantern", raw, provenance.PredicateType, other)
	after := w.finds(t, nil, ask...)
	if has(after, other.Trace, "") || !has(after, w.runs["stage"], lineage.Verified) || len(after.Runs) != len(before.Runs) {
		t.Errorf("a hint was believed: %+v", after.Runs)
	}
	if len(after.Findings) != 1 || after.Findings[0].Code != "TRACE_CONFLICT" || after.Findings[0].Got != said || after.Findings[0].Fix == "" {
		t.Errorf("findings %+v", after.Findings)
	}
	want(t, w.trace(t, nil, ask...), 0, "TRACE_CONFLICT", "ignored other ids from ", "not   "+said)
}

// older attaches provenance to an image that nothing else refers to: without the
// ids, as before there were any, and once by a stranger.
func older(t *testing.T, w week) {
	at := func(prefix string) *registry.Remote {
		r, err := registry.OpenRemote(w.Lab.Registry+"/"+prefix, http.DefaultTransport)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	from := at("staging/lantern")
	node, err := registry.Graph(t.Context(), from, "lantern", w.image)
	if err != nil {
		t.Fatal(err)
	}
	to := at("old/lantern")
	err = node.Walk(func(n *registry.Node) error {
		for _, b := range n.Blobs() {
			if err := to.PushBlob(t.Context(), "lantern", b, func() (io.ReadCloser, error) { return from.Fetch(t.Context(), "lantern", b) }); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range append(node.Children, node) {
		if err := to.PushManifest(t.Context(), "lantern", n.Descriptor, n.Raw); err != nil {
			t.Fatal(err)
		}
	}
	_, raw := w.provenanceOf(t)
	w.write(t, "provenance.json", raw)
	said, err := provenance.Parse(w.evidence(t, "provenance.json").Statement())
	if err != nil {
		t.Fatal(err)
	}
	invocation := said.RunDetails.Metadata.InvocationID
	said.RunDetails.Byproducts = slices.DeleteFunc(said.RunDetails.Byproducts, func(r provenance.Resource) bool { return r.URI != "" })
	statement, err := provenance.Encode(said.Subjects, said.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	ask := []string{w.Lab.Registry + "/old/lantern/lantern@" + w.image.Digest.String(), "--policy", "policy.yaml", "--trusted-root", "trusted_root.json"}
	for _, by := range []struct {
		role string
		mark lineage.Mark
	}{{"builder", lineage.Verified}, {"builder-unisolated", lineage.Hint}, {"stranger@example.test", lineage.Hint}} {
		w.refer(t, "old/lantern", w.signs(t, by.role, statement), provenance.PredicateType, trace.IDs{})
		l := w.finds(t, nil, ask...)
		if len(l.Runs) != 1 || !l.Runs[0].IDs.IsZero() || l.Runs[0].Mark != "" || !slices.Equal(l.Runs[0].Invocations, []string{invocation}) {
			t.Fatalf("by %s: %+v", by.role, l.Runs)
		}
		if !slices.ContainsFunc(l.Runs[0].Acts, func(a lineage.Act) bool { return a.Mark == by.mark }) {
			t.Errorf("by %s: nothing is %s: %+v", by.role, by.mark, l.Runs[0].Acts)
		}
	}
	want(t, w.trace(t, nil, ask...), 0, "INSECURE LAB", "origin unknown", "invocation "+invocation, "the signer is not listed in the policy (IDENTITY)", "may not sign provenance for this builder (BUILDER)")
	// The invocation leads there, too, for whoever has no trace.
	if l := w.finds(t, nil, invocation, "--state", "state"); !has(l, w.runs["stage"], "") {
		t.Errorf("the invocation does not lead to its run: %+v", l.Runs)
	}
}

// signs signs a statement as somebody, without the checks that the product makes.
func (w week) signs(t *testing.T, role string, s intoto.Statement) []byte {
	t.Helper()
	raw, err := w.Sign(t.Context(), role, s.Raw())
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// doesNotHold changes a provenance where it is published: the rest is shown, and
// it is no success.
func doesNotHold(t *testing.T, w week) {
	a, raw := w.provenanceOf(t)
	changed := bytes.Replace(raw, []byte(`"payload"`), []byte(`"payload" `), 1)
	writer, err := cloud.OpenWriter(strings.Replace(w.Lab.Bucket, "http://", "gs+http://", 1)+"/release/", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	name := "lantern/" + scene.Version + "/" + a.Name
	if err := writer.Put(t.Context(), name, int64(len(changed)), bytes.NewReader(changed), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
	r := w.trace(t, nil, append([]string{"oci/lantern"}, w.at()["published"]...)...)
	want(t, r, 1, "TAMPERED", a.Name, w.runs["stage"].String())
}
