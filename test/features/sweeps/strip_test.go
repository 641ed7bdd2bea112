// Package sweeps holds what pkg/govern/feature/cleanup does to registries against the
// rules that it names: evidence can be found at any moment, nothing is written
// outside the scope, and what is not ours stays.
package sweeps

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/cleanup"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/features/field"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	repo     = "prod/lantern"
	another  = "prod/other"
	stranger = "mallory@example.test"
)

// everywhere is work in the whole scope.
var everywhere = reconcile.Work{Scope: feature.Scope{Everything: true}}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// outcome runs a sweep that is to be possible.
func outcome(t *testing.T, s reconcile.Sweep) feature.Outcome {
	t.Helper()
	o, err := s.Sweep(t.Context(), everywhere)
	must(t, err)
	return o
}

func count(t *testing.T, c reconcile.Counter) reconcile.Found {
	t.Helper()
	f, err := c.Count(t.Context(), everywhere)
	must(t, err)
	return f
}

func done(t *testing.T, s reconcile.Sweep) {
	t.Helper()
	if o := outcome(t, s); !o.Done || o.Remaining != 0 {
		t.Fatalf("%+v", o)
	}
}

func remains(t *testing.T, s reconcile.Sweep, n int, says string) {
	t.Helper()
	if o := outcome(t, s); o.Done || o.Remaining != n || !strings.Contains(strings.Join(o.Names, "\n"), says) {
		t.Fatalf("want %d and %q: %+v", n, says, o)
	}
}

func counts(t *testing.T, c reconcile.Counter, n int, says string) {
	t.Helper()
	if f := count(t, c); f.Count != n || !strings.Contains(strings.Join(f.Sample, "\n"), says) {
		t.Fatalf("want %d and %q: %+v", n, says, f)
	}
}

// used is a repository in which some evidence names its run, some does not, and
// some is a stranger's.
type used struct {
	*field.Field
	image   registry.Descriptor
	bundles [][]byte // ours
	foreign [][]byte
	before  []byte // as it was before anything named a run
}

// evidence is signed once for all tests: only where it is attached differs.
type evidence struct {
	lab     *lab.Lab
	ours    [][]byte
	foreign []byte
}

func prepare(t *testing.T) *evidence {
	t.Helper()
	e := &evidence{lab: lab.New(t)}
	f := field.On(t, e.lab, field.Referrers)
	of := f.Image(t, repo, "v1").Digest
	for n := range 2 {
		s := field.About(t, of, provenance.PredicateType, map[string]int{"n": n})
		e.ours = append(e.ours, f.Sign(t, lab.RoleRelease, field.Log2, s))
	}
	e.foreign = f.Sign(t, stranger, field.Log2, field.About(t, of, provenance.PredicateType, map[string]string{}))
	return e
}

// use attaches the evidence at a registry of a kind.
func (e *evidence) use(t *testing.T, kind field.Kind) *used {
	t.Helper()
	u := &used{Field: field.On(t, e.lab, kind), bundles: e.ours, foreign: [][]byte{e.foreign}}
	u.image = u.Image(t, repo, "v1")
	u.Attach(t, repo, u.image, field.Evidence{Kind: provenance.PredicateType, Bundle: u.foreign[0], Hints: field.Hints()})
	for _, b := range u.bundles {
		u.Attach(t, repo, u.image, field.Evidence{Kind: provenance.PredicateType, Bundle: b})
	}
	var err error
	u.before, err = u.Snapshot(t.Context(), repo)
	must(t, err)
	u.Attach(t, repo, u.image, field.Evidence{Kind: provenance.PredicateType, Bundle: u.bundles[0], Hints: field.Hints()})
	return u
}

// fresh attaches evidence that was never there without naming its run.
func (e *evidence) fresh(t *testing.T, kind field.Kind) *used {
	t.Helper()
	u := &used{Field: field.On(t, e.lab, kind), bundles: e.ours, foreign: [][]byte{e.foreign}}
	u.image = u.Image(t, repo, "v1")
	for _, b := range slices.Concat(u.bundles, u.foreign) {
		u.Attach(t, repo, u.image, field.Evidence{Kind: provenance.PredicateType, Bundle: b, Hints: field.Hints()})
	}
	return u
}

// all demands that every bundle can be found by a client that just came.
func (u *used) all(t *testing.T, when string) {
	t.Helper()
	found, err := registry.Bundles(t.Context(), u.Open(t, http.DefaultTransport), repo, u.image.Digest)
	must(t, err)
	for i, b := range slices.Concat(u.bundles, u.foreign) {
		if !slices.ContainsFunc(found, func(o []byte) bool { return bytes.Equal(o, b) }) {
			t.Fatalf("%s: bundle %d cannot be found", when, i)
		}
	}
}

// TestStrip: what is ours names no run any more, and the repository is as if it
// never had; a stranger's is left as it is. Done again, nothing is written.
func TestStrip(t *testing.T) {
	e := prepare(t)
	for _, kind := range []field.Kind{field.Referrers, field.Listless} {
		u := e.use(t, kind)
		s := u.Sweeps(t, repo)
		counts(t, s.Annotated(), 1, repo)
		done(t, s.StripAnnotations())
		counts(t, s.Annotated(), 0, "")
		u.all(t, "afterwards")
		after, err := u.Snapshot(t.Context(), repo)
		must(t, err)
		if !bytes.Equal(u.before, after) {
			t.Errorf("kind %d: before\n%s\nafter\n%s", kind, u.before, after)
		}
		if !bytes.Contains(after, []byte(field.Hints()["dev.waybill.trace-id"])) {
			t.Errorf("kind %d: the stranger's annotations are gone", kind)
		}
		c, life := u.Config(t, repo), field.NewMortal(0)
		c.Open = field.Through(life)
		again, err := cleanup.New(c)
		must(t, err)
		done(t, again.StripAnnotations())
		if life.Died() {
			t.Errorf("kind %d: done again it wrote something", kind)
		}
	}
}

// TestStripUndeleted: where nothing is deleted the old one remains and is named,
// and the evidence is there without the annotations.
func TestStripUndeleted(t *testing.T) {
	u := prepare(t).fresh(t, field.Undeleted)
	s := u.Sweeps(t, repo)
	remains(t, s.StripAnnotations(), 2, "delete it with an account that may")
	remains(t, s.StripAnnotations(), 2, u.Host+"/"+repo+"@sha256:")
	counts(t, s.Annotated(), 2, repo)
	u.all(t, "afterwards")
	list, err := u.Remote.Referrers(t.Context(), repo, u.image.Digest)
	must(t, err)
	if len(list) != 5 {
		t.Errorf("%d referrers, want two of each of ours, and the stranger's", len(list))
	}
}

// TestStripCrash ends the program after every number of writes. Whenever that
// is, all evidence is found; and the next run ends as one that was never
// disturbed.
func TestStripCrash(t *testing.T) {
	t.Setenv(transport.PatienceVariable, "600ms")
	e := prepare(t)
	for name, kind := range field.Kinds() {
		t.Run(name, func(t *testing.T) {
			var want []byte
			for n := 0; ; n++ {
				u := e.fresh(t, kind)
				c, life := u.Config(t, repo), field.NewMortal(n)
				c.Open = field.Through(life)
				mortal, err := cleanup.New(c)
				must(t, err)
				_, _ = mortal.StripAnnotations().Sweep(t.Context(), everywhere)
				u.all(t, fmt.Sprintf("after %d writes", n))
				outcome(t, u.Sweeps(t, repo).StripAnnotations())
				u.all(t, "after the next run")
				got, err := u.Snapshot(t.Context(), repo)
				must(t, err)
				got = bytes.ReplaceAll(got, []byte(u.Host), nil)
				if want == nil && !life.Died() || want != nil && !bytes.Equal(want, got) {
					t.Fatalf("after %d writes it ends as\n%s\nwant\n%s", n, got, want)
				}
				want = got
				if !life.Died() {
					if n < 2 {
						t.Fatalf("it made %d writes only: %v", n, life.Writes)
					}
					return
				}
			}
		})
	}
}

// TestStripTwice: two sweeps at once come to the same end as one.
func TestStripTwice(t *testing.T) {
	e := prepare(t)
	for _, kind := range []field.Kind{field.Referrers, field.Listless} {
		u := e.fresh(t, kind)
		var both sync.WaitGroup
		for range 2 {
			s := u.Sweeps(t, repo)
			both.Go(func() { _, _ = s.StripAnnotations().Sweep(context.WithoutCancel(t.Context()), everywhere) })
		}
		both.Wait()
		u.all(t, "after both")
		s := u.Sweeps(t, repo)
		done(t, s.StripAnnotations()) // what one undid of the other
		counts(t, s.Annotated(), 0, "")
		u.all(t, "afterwards")
	}
}

// TestScope: a repository outside is not written, whether it is not public or
// not in the scope; and a scope in which nothing is public is no sweep at all.
func TestScope(t *testing.T) {
	u := prepare(t).fresh(t, field.Referrers)
	image := u.Image(t, another, "v1")
	u.Attach(t, another, image, field.Evidence{Kind: provenance.PredicateType, Bundle: u.Sign(t, lab.RoleRelease, field.Log2, field.About(t, image.Digest, provenance.PredicateType, map[string]int{})), Hints: field.Hints()})
	before, err := u.Snapshot(t.Context(), another)
	must(t, err)
	unchanged := func(what string) {
		t.Helper()
		after, err := u.Snapshot(t.Context(), another)
		must(t, err)
		if !bytes.Equal(before, after) {
			t.Errorf("%s: it was written", what)
		}
	}
	done(t, u.Sweeps(t, repo).StripAnnotations())
	unchanged("not public")
	both := u.Sweeps(t, repo, another)
	o, err := both.StripAnnotations().Sweep(t.Context(), reconcile.Work{Scope: feature.Scope{Repositories: []string{u.Host + "/" + repo}}})
	if err != nil || !o.Done {
		t.Errorf("%+v, %v", o, err)
	}
	unchanged("not in the scope")
	for _, scope := range [][]string{{u.Host + "/nowhere"}, {u.Host + "/" + repo, u.Host + "/prod/lanterns"}} {
		if o, err := both.StripAnnotations().Sweep(t.Context(), reconcile.Work{Scope: feature.Scope{Repositories: scope}}); err == nil {
			t.Errorf("%v: %+v", scope, o)
		}
		if found, err := both.Annotated().Count(t.Context(), reconcile.Work{Scope: feature.Scope{Repositories: scope}}); err == nil {
			t.Errorf("%v: %+v", scope, found)
		}
	}
	counts(t, both.Annotated(), 1, another)
	done(t, both.StripAnnotations())
	counts(t, both.Annotated(), 0, "")
}

// TestStripFlood: whatever strangers attach, what is ours is found and theirs
// stays.
func TestStripFlood(t *testing.T) {
	e := prepare(t)
	for _, kind := range []field.Kind{field.Referrers, field.Listless} {
		u := e.fresh(t, kind)
		for n := range 60 {
			junk := fmt.Appendf(nil, "%s%*s", u.foreign[0], n+1, "")
			u.foreign = append(u.foreign, junk)
			u.Attach(t, repo, u.image, field.Evidence{Kind: provenance.PredicateType, Bundle: junk, Hints: field.Hints()})
		}
		// One of ours that is of another image is not of this one.
		elsewhere := u.Sign(t, lab.RoleRelease, field.Log2, field.About(t, digest.Of(digest.SHA256, nil), provenance.PredicateType, map[string]int{}))
		u.foreign = append(u.foreign, elsewhere)
		kept := u.Attach(t, repo, u.image, field.Evidence{Kind: provenance.PredicateType, Bundle: elsewhere, Hints: field.Hints()})
		s := u.Sweeps(t, repo)
		counts(t, s.Annotated(), 2, repo)
		done(t, s.StripAnnotations())
		counts(t, s.Annotated(), 0, "")
		u.all(t, "afterwards")
		list, err := u.Remote.Referrers(t.Context(), repo, u.image.Digest)
		must(t, err)
		if !slices.ContainsFunc(list, func(d registry.Descriptor) bool { return d.Digest.Equal(kept.Digest) }) || len(list) != 64 {
			t.Errorf("%d referrers, want 64", len(list))
		}
	}
}

// TestStripHeld: a referrer that a tag names, or that something refers to, is
// not taken away.
func TestStripHeld(t *testing.T) {
	u := prepare(t).fresh(t, field.Referrers)
	list, err := u.Remote.Referrers(t.Context(), repo, u.image.Digest)
	must(t, err)
	d, raw, _ := registry.HintedManifest(u.image, u.bundles[0], provenance.PredicateType, field.Hints())
	must(t, u.Remote.TagManifest(t.Context(), repo, "kept", d, raw))
	s := u.Sweeps(t, repo)
	remains(t, s.StripAnnotations(), 1, "remove the tag first")
	must(t, u.Remote.Delete(t.Context(), repo, d.Digest)) // the tag goes with it
	u.Attach(t, repo, u.image, field.Evidence{Kind: provenance.PredicateType, Bundle: u.bundles[0], Hints: field.Hints()})
	u.Attach(t, repo, d, field.Evidence{Kind: provenance.PredicateType, Bundle: []byte("about it")})
	remains(t, s.StripAnnotations(), 1, "other manifests refer to this referrer")
	if len(list) != 3 {
		t.Errorf("%d referrers", len(list))
	}
}

// TestStripListedElsewhere: what a list names, and what refers to something
// else, is left as it is, even where it is ours and of both.
func TestStripListedElsewhere(t *testing.T) {
	f := field.New(t, field.Listless)
	one, two := f.Image(t, repo, "v1"), f.Image(t, another, "v1")
	subjects := []intoto.Subject{{Digests: digest.Set{SHA256: one.Digest}}, {Digests: digest.Set{SHA256: two.Digest}}}
	s, err := intoto.New(provenance.PredicateType, subjects, map[string]int{})
	must(t, err)
	e := field.Evidence{Kind: provenance.PredicateType, Bundle: f.Sign(t, lab.RoleRelease, field.Log2, s), Hints: field.Hints()}
	d := f.Attach(t, another, one, e) // into the repository of the other
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[{"mediaType":%q,"digest":%q,"size":%d,"artifactType":%q}]}`,
		registry.MediaTypeIndex, d.MediaType, d.Digest, d.Size, "application/vnd.dev.sigstore.bundle.v0.3+json")
	list := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	must(t, f.Remote.TagManifest(t.Context(), another, registry.AttachedTag(two.Digest, ""), list, raw))
	sweep := f.Sweeps(t, another)
	counts(t, sweep.Annotated(), 0, "")
	done(t, sweep.StripAnnotations())
	if now, err := f.Remote.Resolve(t.Context(), another, registry.AttachedTag(two.Digest, "")); err != nil || !now.Digest.Equal(list.Digest) {
		t.Errorf("the list was written: %v", err)
	}
}
