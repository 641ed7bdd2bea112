package stories

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/test/scene"
)

// Traces of runs on different days.
var (
	tonight  = strings.Repeat("1", 32)
	nextWeek = strings.Repeat("2", 32)
	inMarch  = strings.Repeat("3", 32)
	another  = strings.Repeat("9", 32) // the beginning of something else
)

// within has the commands that follow run in a trace, as a process does that
// was started in it. It comes with the beginning of an object, if there is one.
func within(t *testing.T, id, initial string) {
	t.Helper()
	t.Setenv("TRACEPARENT", "00-"+id+"-00f067aa0ba902b7-00")
	t.Setenv("BAGGAGE", "")
	if initial != "" {
		t.Setenv("BAGGAGE", "initial-trace-id="+initial)
	}
}

// acts are what the runs of a manifest did, each with its trace, if all say the
// same beginning.
func acts(t *testing.T, m manifest.Manifest, origin string) (all []string) {
	t.Helper()
	for _, r := range m.Runs {
		if got := manifest.IDsOf(r).Initial.String(); got != origin {
			t.Errorf("%s says that the release began in %q, want %q", r.Kind, got, origin)
		}
		all = append(all, r.Kind+" in "+r.TraceID[:1]+" by "+manifest.CommandOf(r))
	}
	return all
}

// sealedNow is the manifest in the state directory.
func (d *desk) sealedNow(t *testing.T) manifest.Manifest {
	t.Helper()
	m, err := manifest.ReadManifest(d.evidence(t, filepath.Join("state", "files", filepath.Base(d.manifestPath()))).Statement(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// ran is where a step says that it ran.
func ran(t *testing.T, bundle []byte) trace.IDs {
	t.Helper()
	s, err := intoto.Parse(payload(t, bundle))
	if err != nil {
		t.Fatal(err)
	}
	p, err := provenance.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	ids, err := provenance.TraceOf(p.Predicate)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// TestT09 is whoever promotes what is staged: the promoter reads where it began
// before it acts, from what was signed. A run that came with the beginning of
// something else is told so, and writes nothing over.
func TestT09PromoterActsInTheLifeOfWhatIsStaged(t *testing.T) {
	within(t, tonight, "")
	n := openNight(t)
	if all := acts(t, n.sealedNow(t), tonight); !slices.Equal(all, []string{"build in 1 by waybill stage", "sign in 1 by waybill stage", "seal in 1 by waybill stage"}) {
		t.Errorf("the release was made by %q", all)
	}
	if s := n.stands(t); s.Trace.Trace.String() != tonight || s.Trace.Initial.String() != tonight {
		t.Errorf("status says %+v", s.Trace)
	}
	within(t, nextWeek, another)
	want(t, n.releases(t, "--confirm"), 0, "WARNING: ", tonight, another)
	summary := n.records(t, nextWeek)
	within(t, inMarch, "")
	want(t, n.releases(t, "--confirm"), 0, vsa.Name(1)+", which existed already")
	if again := n.records(t, nextWeek); !bytes.Equal(again, summary) {
		t.Error("another run wrote another summary")
	}
}

// records holds every record against the run that made it, and returns the
// summary.
func (n night) records(t *testing.T, by string) []byte {
	t.Helper()
	check := func(what string, ids trace.IDs) {
		if ids.Trace.String() != by || ids.Initial.String() != tonight || ids.Span.IsZero() {
			t.Errorf("%s names %+v", what, ids)
		}
	}
	raw := []byte(n.object(t, "lantern/"+scene.Version+"/"+vsa.Name(1)))
	n.write(t, "summary.json", raw)
	said, err := vsa.Parse(n.evidence(t, "summary.json").Statement())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := vsa.TraceOf(said)
	if err != nil {
		t.Fatal(err)
	}
	check("the summary", ids)
	remote, err := registry.OpenRemote(n.Lab.Registry+"/release/lantern", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range n.published(t).Images() {
		list, err := remote.Referrers(t.Context(), a.Repository, a.Digests.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list {
			kind, ids := d.Annotations["dev.sigstore.bundle.predicateType"], trace.FromAnnotations(d.Annotations)
			if kind == vsa.PredicateType || kind == promotionrecord.PredicateType {
				check("the referrer of "+a.Name+" "+path.Base(path.Dir(kind)), ids)
			} else if ids.Trace.String() != tonight || ids.Initial.String() != tonight {
				t.Errorf("the referrer of %s of %s has %+v", a.Name, kind, ids)
			}
		}
		if len(list) < 4 {
			t.Errorf("%s has %d referrers", a.Name, len(list))
		}
	}
	return raw
}

// TestRevisionsKeepTheBeginning: whoever amends or withdraws adds his own run,
// and the release keeps the trace in which it came to be.
func TestRevisionsKeepTheBeginning(t *testing.T) {
	within(t, tonight, "")
	d := publishedDesk(t)
	within(t, inMarch, another)
	want(t, d.seals(t, "release", "--amend", "--reason", "again", "--confirm"), 0, "revision 2 is sealed", "WARNING: ")
	first := []string{"build in 1 by waybill stage", "sign in 1 by waybill stage", "seal in 1 by waybill stage"}
	if all := acts(t, d.sealedNow(t), tonight); !slices.Equal(all, append(slices.Clone(first), "amend in 3 by waybill seal")) {
		t.Errorf("the amendment was made by %q", all)
	}
	within(t, nextWeek, "")
	want(t, d.seals(t, "release", "--withdraw", "--reason", "it flickers", "--confirm"), 0, "revision 3 is sealed")
	if all := acts(t, d.sealedNow(t), tonight); !slices.Equal(all, append(slices.Clone(first), "amend in 3 by waybill seal", "withdraw in 2 by waybill seal")) {
		t.Errorf("the withdrawal was made by %q", all)
	}
	// Where it is public, and from a machine that has nothing of it.
	within(t, inMarch, another)
	want(t, d.revises(t, "release", "--withdraw", "--reason", "it flickers", "--confirm"), 0, "revision 2 is sealed", "WARNING: ")
	d.write(t, "public.json", d.bucketed(t))
	m, err := manifest.ReadManifest(d.evidence(t, "public.json").Statement(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if all := acts(t, m, tonight); !slices.Equal(all, append(first, "withdraw in 3 by waybill seal")) {
		t.Errorf("the withdrawal where it is public was made by %q", all)
	}
}

// bucketed is the manifest that is public.
func (d *desk) bucketed(t *testing.T) []byte {
	t.Helper()
	return []byte(night{keeper{d}}.object(t, "lantern/"+scene.Version+"/"+filepath.Base(d.manifestPath())))
}

// TestNoIDInImageDigests builds the same commit in two runs: what they sign
// names them, and what they made is the same to the byte.
func TestNoIDInImageDigests(t *testing.T) {
	n := night{keeper{&desk{&workshop{Scene: open(t)}}}}
	made := map[string]map[string]digest.Digest{}
	for _, id := range []string{tonight, nextWeek} {
		within(t, id, "")
		for _, verb := range []string{"build", "sbom", "sign", "seal"} {
			args := []string{"waybill", verb, scene.Version, "--profile", "profile.yaml", "--state", id}
			switch verb {
			case "build":
				args = append(append(args, "--source", "lantern"), n.tokens(t)...)
			case "sign", "seal":
				n.write(t, "release.token", []byte(n.Lab.Token("release")))
				args = append(args, "--identity-token", "release=release.token", "--confirm")
			}
			want(t, n.Run(t.Context(), args...), 0)
		}
		made[id] = n.productsOf(t, id)
	}
	if first, second := made[tonight], made[nextWeek]; len(first) != len(second) || len(first) < 10 {
		t.Fatalf("one run made %d things, the other %d", len(first), len(second))
	}
	for name, d := range made[tonight] {
		if other := made[nextWeek][name]; !other.Equal(d) {
			t.Errorf("%s is %s in one run and %s in the other", name, d, other)
		}
	}
}

// productsOf are the digests of everything that a run made, but for evidence,
// which must name the run: files, indexes, manifests, configurations and layers.
func (n night) productsOf(t *testing.T, state string) map[string]digest.Digest {
	t.Helper()
	m, err := manifest.ReadManifest(n.evidence(t, filepath.Join(state, "files", filepath.Base(n.manifestPath()))).Statement(), nil)
	if err != nil {
		t.Fatal(err)
	}
	layout, err := registry.OpenLayout(n.Path(state, "images"))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]digest.Digest{}
	for _, a := range m.Artifacts {
		switch a.Class {
		case plan.Provenance:
			if ids := ran(t, n.read(t, filepath.Join(state, "files", a.Name))); ids.Trace.String() != state || ids.Initial.String() != state {
				t.Errorf("%s says that it is of the run %+v, want %s", a.Name, ids, state)
			}
			continue
		case plan.Signature, plan.ProvenanceV02, plan.Sums, plan.Checksum:
			continue // of it, and of provenance
		case plan.Image:
			node, err := registry.Graph(t.Context(), layout, a.Repository, registry.Descriptor{MediaType: a.MediaType, Digest: a.Digests.SHA256, Size: a.Size})
			if err != nil {
				t.Fatal(err)
			}
			_ = node.Walk(func(p *registry.Node) error {
				for i, l := range p.Layers {
					all[fmt.Sprintf("%s %s layer %d", a.Name, p.Descriptor.Platform, i)] = l.Digest
				}
				if len(p.Children) == 0 {
					all[a.Name+" "+p.Descriptor.Platform+" configuration"] = p.Config.Digest
				}
				if bytes.Contains(p.Raw, []byte(state)) {
					t.Errorf("%s holds the id of its run", a.Name)
				}
				return nil
			})
		}
		all[a.Name] = a.Digests.SHA256
	}
	return all
}

// TestReuseKeepsTheRun: a step that is done is taken over with the run that did
// it, by whatever run goes on.
func TestReuseKeepsTheRun(t *testing.T) {
	k := keeper{&desk{&workshop{Scene: open(t)}}}
	build := func() scene.Result {
		args := append([]string{"waybill", "build", scene.Version, "--profile", "profile.yaml", "--state", "state", "--source", "lantern"}, k.tokens(t)...)
		return k.Run(t.Context(), args...)
	}
	within(t, tonight, "")
	want(t, build(), 0)
	const dir = "provenance"
	files := filepath.Join(k.Dir, "state", "files", dir)
	before := tree(t, files)
	within(t, nextWeek, another)
	want(t, build(), 0, "is done already", "WARNING: ")
	if after := tree(t, files); !maps.Equal(before, after) || len(before) < 2 {
		t.Errorf("%d provenances, and some were written anew", len(before))
	}
	leaf := filepath.Join(files, "image.sigstore.json") // which nothing takes
	if err := os.Remove(leaf); err != nil {
		t.Fatal(err)
	}
	within(t, inMarch, another)
	want(t, build(), 0, "WARNING: ")
	if now := ran(t, k.bytes(t, leaf)); now.Trace.String() != inMarch || now.Initial.String() != tonight {
		t.Errorf("the step that ran again says %+v", now)
	}
}
