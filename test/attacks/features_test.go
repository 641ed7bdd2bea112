package attacks

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	reconciler = "reconciler@lab.invalid"
	inScope    = "registry.example.test/prod"
)

// switchyard is a site, and the reconciler that made what lies there.
type switchyard struct {
	t      *testing.T
	w      *world
	dir    string
	site   featurestore.Site
	policy policy.Policy
	now    time.Time
	signer string // who signs statements
}

var provenanceKey = feature.Key{Namespace: feature.CoreNamespace, Name: known.RequireProvenance}

// newSwitchyard has RequireProvenance On, at transition 2, for one registry, or
// as somebody turns it.
func newSwitchyard(t *testing.T, turn ...func(*switchyard)) *switchyard {
	t.Helper()
	w := theWorld(t)
	y := &switchyard{t: t, w: w, dir: t.TempDir(), now: time.Now().Add(-48 * time.Hour), signer: reconciler}
	issuer, _ := w.Lab.Identity(lab.RoleRelease)
	text := strings.Replace(string(must[[]byte](t)(os.ReadFile(w.Path("policy.yaml")))), "roles:\n",
		"features:\n  RequireProvenance: {floor: \"off\"}\nroles:\n  reconciler: [{issuer: \""+issuer+"\", subject: "+reconciler+", type: email}]\n", 1)
	y.policy = must[policy.Policy](t)(policy.Parse([]byte(text), nil))
	if err := featurestore.MakeSite(y.dir); err != nil {
		t.Fatal(err)
	}
	y.site = must[featurestore.Site](t)(featurestore.OpenSite(y.dir, func(uri string) (featurestore.Place, error) {
		at, err := store.Open(uri, nil)
		if err != nil {
			return featurestore.Place{}, err
		}
		to, err := store.OpenWriter(uri)
		return featurestore.Place{Place: at, Writer: to}, err
	}))
	for _, do := range turn {
		do(y)
	}
	if len(turn) == 0 {
		y.turn(feature.On)
	}
	return y
}

// Ready implements [reconcile.Signer].
func (y *switchyard) Ready(context.Context) error { return nil }

// Sign implements [reconcile.Signer].
func (y *switchyard) Sign(ctx context.Context, name string, s intoto.Statement) (string, error) {
	raw, err := y.w.Sign(ctx, y.signer, s.Raw())
	if err != nil {
		return "", err
	}
	path := filepath.Join(y.dir, "statements", filepath.FromSlash(name)+".sigstore.json")
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return "", err
	}
	return name + ".sigstore.json", os.WriteFile(path, raw, 0o644)
}

// Sweep implements [reconcile.Sweep]: everything has provenance.
func (y *switchyard) Sweep(context.Context, reconcile.Work) (feature.Outcome, error) {
	return feature.Outcome{Done: true, Message: "all have provenance"}, nil
}

// turn has the feature wanted, and reconciles until it is so.
func (y *switchyard) turn(want feature.State) {
	y.t.Helper()
	for range 12 {
		y.turning(want)
		f := must[feature.Feature](y.t)(y.site.Features.Get(y.t.Context(), provenanceKey))
		if f.Status.State == want && len(f.Status.Tasks) == 0 {
			return
		}
		f = must[feature.Feature](y.t)(feature.Report(f, feature.Use{Identity: "promoter", Version: "v0.1.0", Checked: true, Value: want == feature.On, LastSeen: y.now}))
		must[feature.Feature](y.t)(y.site.Features.Update(y.t.Context(), f))
		y.now = y.now.Add(2 * time.Minute)
	}
	y.t.Fatalf("it is not %s", want)
}

// turning makes one pass with the feature wanted so.
func (y *switchyard) turning(want feature.State) {
	y.t.Helper()
	must[[]reconcile.Pass](y.t)(y.pass(want))
}

// pass makes one pass, which may be refused.
func (y *switchyard) pass(want feature.State) ([]reconcile.Pass, error) {
	y.t.Helper()
	d, _ := known.Registry().Definition(provenanceKey)
	r := must[feature.Registry](y.t)(feature.NewRegistry(feature.Namespace{Name: provenanceKey.Namespace, Features: []feature.Definition{d}}))
	once := must[*reconcile.Reconciler](y.t)(reconcile.New(reconcile.Config{
		Store: y.site.Features, Registry: r, Signer: y, Clock: func() time.Time { return y.now },
		Deeds:  map[feature.Key]reconcile.Deeds{provenanceKey: {Sweeps: map[string]reconcile.Sweep{known.CoverageAudit: y}, Dangling: reconcile.Nothing{}}},
		Expect: map[string]reconcile.Expect{provenanceKey.Namespace: {Reporters: []reconcile.Reporter{{Identity: "promoter", Every: time.Minute}}}},
		Wishes: reconcile.Wishes{Wanted: map[feature.Key]feature.Wanted{provenanceKey: {Desired: want, Scope: feature.Scope{Repositories: []string{inScope}}}}},
		Self: reconcile.Self{
			Identity: "test", Version: known.Newest(),
			Statements: effective.Statements{At: y.site.Statements, Policy: y.policy, Verifier: y.w.verifier},
		},
	}))
	return once.Once(y.t.Context())
}

// mode is how much provenance counts at a place.
func (y *switchyard) mode(places ...string) (string, error) {
	s, err := effective.Read(y.t.Context(), effective.Config{Site: y.site, Policy: y.policy, Verifier: y.w.verifier})
	if err != nil {
		return "", err
	}
	p, err := s.For(y.policy, places...)
	if err != nil {
		return "", err
	}
	if len(p.Features()) == 0 {
		return "as written", nil
	}
	return p.Features()[0].Mode, nil
}

// store puts an object in the place of the one that is there, as somebody can
// who may write to the site.
func (y *switchyard) store(edit func(*feature.Feature)) {
	y.t.Helper()
	f := must[feature.Feature](y.t)(y.site.Features.Get(y.t.Context(), provenanceKey))
	edit(&f)
	raw := must[[]byte](y.t)(f.Bytes())
	if err := os.WriteFile(filepath.Join(y.dir, "features", provenanceKey.String()+".json"), raw, 0o644); err != nil {
		y.t.Fatal(err)
	}
}

// unsign puts back what a transition was before it was signed.
func (y *switchyard) unsign(number int) {
	y.store(func(f *feature.Feature) { f.Status.History[number-1].Statement = "" })
	if err := os.Remove(y.statement(strconv.Itoa(number))); err != nil {
		y.t.Fatal(err)
	}
}

// cut has the site list so many statements, as often as this, and then all.
func (y *switchyard) cut(statements, times int) {
	y.site.Statements.Place = &cutShort{y.site.Statements.Place, statements, times}
}

// cutShort is a place whose listing leaves out the newest objects.
type cutShort struct {
	store.Place
	objects, times int
}

func (c *cutShort) List(ctx context.Context) ([]store.Object, error) {
	all, err := c.Place.List(ctx)
	if c.times--; c.times < 0 || err != nil {
		return all, err
	}
	slices.SortFunc(all, func(a, b store.Object) int { return strings.Compare(a.Name, b.Name) })
	return all[:min(c.objects, len(all))], nil
}

func (y *switchyard) statement(number string) string {
	return filepath.Join(y.dir, "statements", provenanceKey.String(), number+".sigstore.json")
}

// TestFeatureStates attacks a site of features: what is in force is what was
// signed, and nobody lowers it by writing there.
func TestFeatureStates(t *testing.T) {
	before := must[feature.Feature](t)(feature.Announce(provenanceKey, must2(known.Registry().Definition(provenanceKey)), known.Newest()))
	before.Metadata.Generation = 9
	half := newSwitchyard(t, func(y *switchyard) { y.turning(feature.On); y.turning(feature.On); y.unsign(1) })
	first := must[feature.Feature](t)(half.site.Features.Get(t.Context(), provenanceKey))
	if first.Status.State != feature.TurningOn || first.Status.Number != 1 || first.Status.History[0].Statement != "" {
		t.Fatalf("%s at transition %d", first.Status.State, first.Status.Number)
	}
	for _, row := range []struct {
		name   string
		attack func(y *switchyard)
		want   []verdict.Code
		mode   string // where nothing is refused
	}{
		{"nothing is done", func(*switchyard) {}, nil, "require"},
		{"a report is added", func(y *switchyard) {
			y.store(func(f *feature.Feature) { f.Status.Uses, f.Metadata.Generation = nil, f.Metadata.Generation+1 })
		}, nil, "require"},
		{"another scope is stored", func(y *switchyard) {
			y.store(func(f *feature.Feature) {
				elsewhere := feature.Scope{Repositories: []string{"elsewhere.example.test"}}
				f.Status.Enforced, f.Status.History[1].Transition.Enforced = elsewhere, elsewhere
			})
		}, codes(verdict.FeatureState), ""},
		{"the announcement is put back", func(y *switchyard) { y.store(func(f *feature.Feature) { *f = before }) }, codes(verdict.FeatureState), ""},
		{"the object is removed", func(y *switchyard) { os.Remove(filepath.Join(y.dir, "features", provenanceKey.String()+".json")) }, codes(verdict.FeatureState), ""},
		{"everything is removed", func(y *switchyard) {
			os.RemoveAll(filepath.Join(y.dir, "statements", "waybill"))
			os.Remove(filepath.Join(y.dir, "features", provenanceKey.String()+".json"))
		}, nil, "as written"},
		{"the last statement is removed", func(y *switchyard) { os.Remove(y.statement("2")) }, codes(verdict.FeatureState), ""},
		{"the last transition waits for its statement", func(y *switchyard) { y.unsign(2) }, nil, "require"},
		{"a lower state waits for its statement", func(y *switchyard) { y.turning(feature.Off); y.unsign(3) }, nil, "require"},
		{"a lower state, and its statement is removed", func(y *switchyard) { y.turning(feature.Off); os.Remove(y.statement("3")) }, codes(verdict.FeatureState), ""},
		{"the first transition waits for its statement", func(y *switchyard) {
			os.RemoveAll(filepath.Join(y.dir, "statements", "waybill"))
			y.store(func(f *feature.Feature) { *f = first })
		}, nil, "as written"},
		{"an unsigned object beside removed statements", func(y *switchyard) {
			os.RemoveAll(filepath.Join(y.dir, "statements", "waybill"))
			y.store(func(f *feature.Feature) { *f = before })
		}, nil, "as written"},
		{"a listing that is cut short", func(y *switchyard) { y.cut(1, 9) }, codes(verdict.FeatureState), ""},
		{"a listing that is cut short before the first", func(y *switchyard) { y.cut(0, 9) }, codes(verdict.FeatureState), ""},
		{"a listing of before, and then a new one", func(y *switchyard) { y.cut(1, 1) }, nil, "require"},
		{"the statements are removed", func(y *switchyard) { os.RemoveAll(filepath.Join(y.dir, "statements", "waybill")) }, codes(verdict.FeatureState), ""},
		{"an older statement under the next number", func(y *switchyard) {
			raw := must[[]byte](y.t)(os.ReadFile(y.statement("1")))
			if err := os.WriteFile(y.statement("3"), raw, 0o644); err != nil {
				y.t.Fatal(err)
			}
		}, codes(verdict.FeatureState), ""},
		{"the verifier says that it is off", func(y *switchyard) { y.signer = lab.RoleVerifier; y.turning(feature.Off) }, codes(verdict.IdentityRole), ""},
		{"a stranger says that it is off", func(y *switchyard) { y.signer = "mallory@evil.example"; y.turning(feature.Off) }, codes(verdict.Identity), ""},
		{"the reconciler says that it is off", func(y *switchyard) { y.turn(feature.Off) }, nil, "off"},
		{"a statement that is none", func(y *switchyard) {
			if err := os.WriteFile(y.statement("3"), []byte("{}"), 0o644); err != nil {
				y.t.Fatal(err)
			}
		}, codes(verdict.BundleVersion), ""},
		{"a site that is not there", func(y *switchyard) { os.RemoveAll(y.dir) }, codes(verdict.PlaceDown), ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			y := newSwitchyard(t)
			row.attack(y)
			mode, err := y.mode(inScope + "/lantern")
			refused(t, err, row.want...)
			if err == nil && mode != row.mode {
				t.Errorf("provenance counts %q, want %q", mode, row.mode)
			}
		})
	}
}

// TestFeatureRestored: a site that lost a feature, or has an older one, is mended
// by the next pass, from what was signed; statements are never made for what
// was not done.
func TestFeatureRestored(t *testing.T) {
	object := func(y *switchyard) string { return filepath.Join(y.dir, "features", provenanceKey.String()+".json") }
	for name, attack := range map[string]func(y *switchyard, older []byte){
		"lost":     func(y *switchyard, _ []byte) { os.Remove(object(y)) },
		"put back": func(y *switchyard, older []byte) { os.WriteFile(object(y), older, 0o644) },
		"another scope": func(y *switchyard, _ []byte) {
			y.store(func(f *feature.Feature) {
				elsewhere := feature.Scope{Repositories: []string{"elsewhere.example.test"}}
				f.Status.Enforced, f.Status.History[1].Transition.Enforced = elsewhere, elsewhere
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			y := newSwitchyard(t)
			older := must[feature.Feature](t)(feature.Announce(provenanceKey, must2(known.Registry().Definition(provenanceKey)), known.Newest()))
			older.Metadata.Generation = 9
			attack(y, must[[]byte](t)(older.Bytes()))
			_, err := y.mode(inScope)
			refused(t, err, verdict.FeatureState)
			y.turn(feature.On) // which it is, so that the first pass is all that there is to do
			if mode, err := y.mode(inScope); err != nil || mode != "require" {
				t.Fatalf("after a pass provenance counts %q: %v", mode, err)
			}
			if _, err := os.Stat(y.statement("3")); err == nil {
				t.Error("a transition was made up")
			}
			y.turn(feature.Off)
			if mode, err := y.mode(inScope); err != nil || mode != "off" {
				t.Errorf("off again, it counts %q: %v", mode, err)
			}
		})
	}
	t.Run("statements removed", func(t *testing.T) {
		y := newSwitchyard(t)
		os.RemoveAll(filepath.Join(y.dir, "statements", "waybill"))
		if _, err := y.mode(inScope); err == nil {
			t.Error("what nobody signed counts")
		}
	})
	t.Run("the last statement lost", func(t *testing.T) {
		y := newSwitchyard(t)
		os.Remove(y.statement("2"))
		_, err := y.pass(feature.Off)
		refused(t, err, verdict.FeatureState)
		if _, err := os.Stat(y.statement("2")); err == nil {
			t.Error("a statement was signed again that nobody asked for")
		}
		y.store(func(f *feature.Feature) { f.Status.History[1].Statement = "" }) // what the advice says
		y.turning(feature.On)
		if mode, err := y.mode(inScope); err != nil || mode != "require" {
			t.Errorf("signed again it counts %q: %v", mode, err)
		}
		os.RemoveAll(filepath.Join(y.dir, "statements", "waybill"))
		_, err = y.pass(feature.Off)
		refused(t, err, verdict.FeatureState)
	})
	t.Run("an earlier statement lost", func(t *testing.T) {
		y := newSwitchyard(t)
		os.Remove(y.statement("1"))
		if mode, err := y.mode(inScope); err != nil || mode != "require" {
			t.Errorf("it counts %q: %v", mode, err)
		}
		passes := must[[]reconcile.Pass](t)(y.pass(feature.On))
		if did := passes[0].Did; !strings.Contains(did, "transition 1") || !strings.Contains(did, "is missing") {
			t.Errorf("the pass says %q", did)
		}
	})
	t.Run("in the middle of a transition", func(t *testing.T) {
		y := newSwitchyard(t)
		y.signer = reconciler
		y.turning(feature.Off)
		os.Remove(object(y))
		y.turn(feature.Off)
		if mode, err := y.mode(inScope); err != nil || mode != "off" {
			t.Errorf("it counts %q: %v", mode, err)
		}
	})
}

func must2[T any](v T, _ bool) T { return v }

// TestFeatureScopes: a feature counts in its scope and beneath it, and for
// whatever has a part of its scope; where nobody says where, it counts.
func TestFeatureScopes(t *testing.T) {
	y := newSwitchyard(t)
	for _, row := range []struct {
		places []string
		want   string
	}{
		{[]string{inScope}, "require"},
		{[]string{inScope + "/lantern/eu"}, "require"},
		{[]string{"registry.example.test"}, "require"},
		{[]string{"registry.example.test/"}, "require"},
		{[]string{"registry.example.test/production"}, "off"},
		{[]string{"registry.example.test/staging", inScope + "/lantern"}, "require"},
		{[]string{"registry.example.test/staging"}, "off"},
		{[]string{"REGISTRY.example.test/prod/lantern"}, "require"},
		{[]string{"registry.example.test:443/prod/lantern"}, "require"},
		{[]string{"registry.example.test./prod//./lantern"}, "require"},
		{[]string{"registry.example.test./production"}, "off"},
		{[]string{"registry.example.test:5000/prod/lantern"}, "off"}, // another port is another registry
		{[]string{"https://registry.example.test:443/prod/"}, "require"},
		{nil, "require"}, // as anywhere
	} {
		if mode, err := y.mode(row.places...); err != nil || mode != row.want {
			t.Errorf("%v: %q, %v, want %q", row.places, mode, err, row.want)
		}
	}
	for _, place := range []string{"registry.example.test/../prod", "registry.example.test/%70rod", "registry.example.test:0443/prod", "127.1/prod", ""} {
		_, err := y.mode(place)
		refused(t, err, verdict.Usage)
	}
	// A policy that names no feature is asked of nobody.
	if s, err := effective.Read(t.Context(), effective.Config{Policy: y.w.profile.Policy}); err != nil || len(s.States()) != 0 {
		t.Errorf("%v, %v", s, err)
	}
}
