package attacks

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Destinations in and out of the scope of the feature.
const (
	toScope = inScope + "/lantern"
	toOther = "prod.example.test/lantern"
)

// unproven is the image of the world's release without its provenance, in the
// lab's registry, once.
var unproven struct {
	once sync.Once
	name string
	err  error
}

// withoutProvenance is where the image lies, and nothing about how it was built.
type withoutProvenance struct{ *registry.Layout }

// Referrers implements [registry.Source].
func (w withoutProvenance) Referrers(ctx context.Context, repo string, of digest.Digest) ([]registry.Descriptor, error) {
	all, err := w.Layout.Referrers(ctx, repo, of)
	return slices.DeleteFunc(all, func(d registry.Descriptor) bool {
		return strings.Contains(d.Annotations["dev.sigstore.bundle.predicateType"], "provenance")
	}), err
}

func unprovenImage(t *testing.T, w *world) string {
	t.Helper()
	r := w.attacked(t)
	unproven.once.Do(func() {
		var to *registry.Remote
		var d registry.Descriptor
		if to, unproven.err = registry.OpenRemote(w.Lab.Registry+"/gated/unproven", http.DefaultTransport); unproven.err != nil {
			return
		}
		if d, unproven.err = r.images.Resolve(context.Background(), repository, r.version.String()); unproven.err != nil {
			return
		}
		_, unproven.err = registry.Copy(context.Background(), to, withoutProvenance{r.images}, repository, d)
		unproven.name = w.Lab.Registry + "/gated/unproven/" + repository + "@" + d.Digest.String()
	})
	if unproven.err != nil {
		t.Fatal(unproven.err)
	}
	return unproven.name
}

// switchedGate is a gate that goes by a switchyard, and a clock that is put
// forward.
type switchedGate struct {
	*gatehouse
	yard  *switchyard
	ahead atomic.Int64 // of the clock
	bare  string       // the image without provenance
}

func openSwitched(t *testing.T, edits ...func(*switchedGate)) *switchedGate {
	t.Helper()
	s := &switchedGate{yard: newSwitchyard(t)}
	s.bare = unprovenImage(t, s.yard.w)
	openGatehouse(t, func(g *gatehouse) {
		s.gatehouse = g
		g.policy.Store(&s.yard.policy)
		g.clock = func() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())) }
		g.limits.Follow = time.Hour // what is not asked for does not happen
		g.features = &serve.Features{
			Site: s.yard.dir, Store: s.yard.site.Features, Version: known.Newest().String(),
			Read: func(ctx context.Context, b serve.Basis) (serve.Switches, error) {
				read, err := effective.Read(ctx, effective.Config{Site: s.yard.site, Policy: b.Policy, Verifier: b.Verifier})
				if err != nil {
					return nil, err
				}
				return read, nil
			},
		}
		for _, edit := range edits {
			edit(s)
		}
	})
	return s
}

// may asks whether an image may go somewhere.
func (s *switchedGate) may(image, to string) (int, api.Decision) {
	s.t.Helper()
	q := api.Request{Schema: api.SchemaRequest, Decisions: []api.Question{{Verb: api.Promote, Image: image, To: to, Channel: "stable", Version: s.w.version.String()}}}
	req := s.request()
	body(req, string(must[[]byte](s.t)(json.Marshal(q))))
	req.Header.Set("Authorization", "Bearer "+s.token(map[string]any{"exp": time.Now().Add(time.Hour).Unix()}))
	status, _, raw := s.do(req)
	var a api.Answer
	if err := json.Unmarshal([]byte(raw), &a); err != nil || len(a.Decisions) != 1 {
		s.t.Fatalf("%d %s", status, raw)
	}
	return status, a.Decisions[0]
}

// admin reads one of the pages of those who look after the service.
func (s *switchedGate) admin(path string, accept ...string) (int, string) {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, nil)
	r.Header["Accept"] = accept
	s.server.Admin().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// step has the reconciler make passes until the feature is in a state.
func (s *switchedGate) step(want, until feature.State, scope ...string) {
	s.t.Helper()
	y := s.yard
	d, _ := known.Registry().Definition(provenanceKey)
	r := must[*reconcile.Reconciler](s.t)(reconcile.New(reconcile.Config{
		Store: y.site.Features, Signer: y, Clock: func() time.Time { return y.now },
		Registry: must[feature.Registry](s.t)(feature.NewRegistry(feature.Namespace{Name: provenanceKey.Namespace, Features: []feature.Definition{d}})),
		Deeds:    map[feature.Key]reconcile.Deeds{provenanceKey: {Sweeps: map[string]reconcile.Sweep{known.CoverageAudit: y}, Dangling: reconcile.Nothing{}}},
		Expect:   map[string]reconcile.Expect{provenanceKey.Namespace: {Reporters: []reconcile.Reporter{{Identity: "promoter", Every: time.Minute}}}},
		Wishes:   reconcile.Wishes{Wanted: map[feature.Key]feature.Wanted{provenanceKey: {Desired: want, Scope: feature.Scope{Repositories: scope}}}},
		Self:     reconcile.Self{Identity: "test", Version: known.Newest()},
	}))
	for range 12 {
		must[[]reconcile.Pass](s.t)(r.Once(s.t.Context()))
		f := must[feature.Feature](s.t)(y.site.Features.Get(s.t.Context(), provenanceKey))
		if f.Status.State == until {
			return
		}
		f = must[feature.Feature](s.t)(feature.Report(f, feature.Use{Identity: "promoter", Version: "v0.1.0", Checked: true, Value: want == feature.On, LastSeen: y.now}))
		must[feature.Feature](s.t)(y.site.Features.Update(s.t.Context(), f))
		y.now = y.now.Add(2 * time.Minute)
	}
	s.t.Fatalf("it is not %s", until)
}

// TestGatewayFeatures: an image without provenance is refused where the feature
// is On, warned about while it is turned, and nobody looks where it is Off;
// decisions of one state are none of another, and the image that has provenance
// is accepted in all of them.
func TestGatewayFeatures(t *testing.T) {
	s := openSwitched(t)
	on := []string{inScope}
	for i, row := range []struct {
		want, until feature.State
		status      int
		mode        string
	}{
		{feature.On, feature.On, 403, "require"},
		{feature.Off, feature.TurningOff, 200, "warn"},
		{feature.Off, feature.Off, 200, "off"},
		{feature.On, feature.TurningOn, 200, "warn"},
		{feature.On, feature.On, 403, "require"},
	} {
		s.step(row.want, row.until, on...)
		accepted(t, s.server.Follow(t.Context()))
		for range 2 { // the second time it is remembered
			status, d := s.may(s.bare, toScope)
			v := d.Verdict
			if status != row.status || len(v.Features) != 1 || v.Features[0] != (verdict.Feature{Name: "waybill/RequireProvenance", State: string(row.until), Number: 2 + i, Mode: row.mode}) {
				t.Errorf("%s: %d by %+v, want %d, %s", row.until, status, v.Features, row.status, row.mode)
			}
			if (len(v.Findings) > 0) != (row.mode == "require") || (len(v.Warnings) > 0) != (row.mode == "warn") {
				t.Errorf("%s: findings %v, warnings %v", row.until, v.Findings, v.Warnings)
			}
			if lowered := !verdict.InForce(v.Policy, v.Features).Equal(s.yard.policy.Digest()); lowered != (row.mode != "require") {
				t.Errorf("%s: a summary would be of the policy as it is written: %v", row.until, !lowered)
			}
		}
		if status, d := s.may(s.bare, toOther); status != 200 || d.Verdict.Features[0].Mode != "off" {
			t.Errorf("%s: out of scope: %d by %+v", row.until, status, d.Verdict.Features)
		}
		if status, _ := s.may(s.image, toScope); status != 200 {
			t.Errorf("%s: with provenance: %d", row.until, status)
		}
		if _, metrics := s.admin("/metrics"); !strings.Contains(metrics, fmt.Sprintf("waybill_feature_state{name=\"RequireProvenance\",state=%q} 1\n", string(row.until))) {
			t.Errorf("%s: the metrics say another state:\n%s", row.until, metrics)
		}
		if _, page := s.admin("/statusz"); !strings.Contains(page, fmt.Sprintf("%s (transition %d)", row.until, 2+i)) || strings.Contains(page, row.mode+" in "+inScope) == (row.until == feature.Off) {
			t.Errorf("%s: the page says another state:\n%s", row.until, page)
		}
	}
	if log := s.log.String(); !strings.Contains(log, `"features":[{"name":"waybill/RequireProvenance","state":"TurningOn"`) {
		t.Errorf("the record does not say what counted:\n%s", log)
	}
}

// TestGatewayFloor: what the policy demands at least is demanded whatever the
// feature is, wherever it is asked.
func TestGatewayFloor(t *testing.T) {
	s := openSwitched(t, func(s *switchedGate) {
		text := strings.Replace(s.yard.text(), `{floor: "off"}`, "{floor: warn}", 1)
		s.yard.policy = must[policy.Policy](s.yard.t)(policy.Parse([]byte(text), nil))
		s.policy.Store(&s.yard.policy)
	})
	s.step(feature.Off, feature.Off, inScope)
	accepted(t, s.server.Follow(t.Context()))
	for _, to := range []string{toScope, toOther} {
		if status, d := s.may(s.bare, to); status != 200 || len(d.Verdict.Warnings) == 0 || d.Verdict.Features[0].Mode != "warn" {
			t.Errorf("%s: %d, warnings %v by %+v", to, status, d.Verdict.Warnings, d.Verdict.Features)
		}
	}
}

// text is the policy of the yard as it is written.
func (y *switchyard) text() string {
	issuer, _ := y.w.Lab.Identity("release")
	return strings.Replace(string(must[[]byte](y.t)(os.ReadFile(y.w.Path("policy.yaml")))), "roles:\n",
		"features:\n  RequireProvenance: {floor: \"off\"}\nroles:\n  reconciler: [{issuer: \""+issuer+"\", subject: "+reconciler+", type: email}]\n", 1)
}

// away takes the site away, and returns what puts it back.
func (s *switchedGate) away() (back func()) {
	s.t.Helper()
	move := func(from, to string) func() {
		return func() {
			s.t.Helper()
			if err := os.Rename(from, to); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	move(s.yard.dir, s.yard.dir+".away")()
	return move(s.yard.dir+".away", s.yard.dir)
}

// TestGatewayFeaturesUnknown: where the site does not answer the last states
// count for a while, and that is said; after that nothing is decided, whatever
// the image.
func TestGatewayFeaturesUnknown(t *testing.T) {
	s := openSwitched(t)
	stands := func(when string, image string, status int) {
		t.Helper()
		got, d := s.may(image, toScope)
		_, page := s.admin("/statusz")
		_, metrics := s.admin("/metrics")
		ready, _ := s.admin("/readyz")
		known := status != http.StatusServiceUnavailable
		if got != status || known != (ready == 200) || known != strings.Contains(metrics, "waybill_features_known 1\n") || strings.Contains(page, "so no decisions are made") == known {
			t.Errorf("%s: %d %v, ready %d, %s", when, got, d.Verdict.Findings, ready, page)
		}
	}
	stands("at first", s.bare, 403)
	back := s.away()
	if err := s.server.Follow(t.Context()); verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("a site that is not there: %v", err)
	}
	s.ahead.Store(int64(9 * time.Minute))
	stands("after 9 minutes", s.bare, 403)
	stands("after 9 minutes", s.image, 200)
	if _, page := s.admin("/statusz"); !strings.Contains(page, "could not be read at") || !strings.Contains(s.log.String(), "features could not be read") {
		t.Errorf("nobody is told:\n%s", page)
	}
	if err := s.server.Reload(t.Context()); err != nil {
		t.Errorf("the same policy is read anew: %v", err)
	}
	stands("after a reload", s.bare, 403)
	stricter := must[policy.Policy](t)(policy.Parse([]byte(s.yard.text()+"thresholds: {logs: 1}\n"), nil))
	s.policy.Store(&stricter)
	if err := s.server.Reload(t.Context()); err == nil {
		t.Error("another policy counts without its features")
	}
	s.ahead.Store(int64(11 * time.Minute))
	stands("after 11 minutes", s.image, 503)
	back()
	stands("before it is read again", s.image, 503)
	accepted(t, s.server.Follow(t.Context()))
	stands("when it is read again", s.image, 200)
	stands("when it is read again", s.bare, 403)
}

// TestGatewayFeaturesNeverRead: without one reading nothing is decided.
func TestGatewayFeaturesNeverRead(t *testing.T) {
	var back func()
	s := openSwitched(t, func(s *switchedGate) { back = s.away() })
	if status, _ := s.may(s.image, toScope); status != 503 {
		t.Errorf("%d", status)
	}
	if ready, _ := s.admin("/readyz"); ready != 503 {
		t.Errorf("ready: %d", ready)
	}
	if _, page := s.admin("/statusz"); !strings.Contains(page, "Never read") {
		t.Errorf("the page does not say it:\n%s", page)
	}
	if err := s.server.Check(t.Context()); verdict.OutcomeOf(err) != verdict.Unavailable {
		t.Errorf("checked: %v", err)
	}
	back()
	accepted(t, s.server.Follow(t.Context()))
	if status, _ := s.may(s.image, toScope); status != 200 {
		t.Errorf("when it is read: %d", status)
	}
	accepted(t, s.server.Check(t.Context()))
}

// TestGatewayFeaturesBackwards: a state that was in force is not taken back by
// whoever can write to the site, not even with what was signed before.
func TestGatewayFeaturesBackwards(t *testing.T) {
	for _, row := range []struct {
		name   string
		attack func(s *switchedGate)
		want   []verdict.Code
	}{
		{"nothing", func(*switchedGate) {}, nil},
		{"the next transition", func(s *switchedGate) {
			s.step(feature.Off, feature.TurningOff, inScope)
			s.step(feature.On, feature.On, inScope)
		}, nil},
		{"the last statement is removed", func(s *switchedGate) { os.Remove(s.yard.statement("2")) }, codes(verdict.FeatureState)},
		{"everything is removed", func(s *switchedGate) {
			os.RemoveAll(filepath.Join(s.yard.dir, "statements", "waybill"))
			os.Remove(filepath.Join(s.yard.dir, "features", provenanceKey.String()+".json"))
		}, codes(verdict.FeatureState)},
		{"an older site", func(s *switchedGate) {
			young := newSwitchyard(s.t)
			s.step(feature.Off, feature.TurningOff, inScope)
			s.step(feature.On, feature.On, inScope) // transition 4 and on
			accepted(s.t, s.server.Follow(s.t.Context()))
			accepted(s.t, os.RemoveAll(s.yard.dir))
			accepted(s.t, os.CopyFS(s.yard.dir, os.DirFS(young.dir)))
		}, codes(verdict.FeatureState)},
		{"another transition of the same number", func(s *switchedGate) {
			other := &switchedGate{gatehouse: s.gatehouse, yard: newSwitchyard(s.t)}
			s.step(feature.On, feature.TurningOn, "registry.example.test/more", inScope)
			accepted(s.t, s.server.Follow(s.t.Context()))
			other.step(feature.Off, feature.TurningOff, inScope) // is transition 3, too
			accepted(s.t, os.RemoveAll(s.yard.dir))
			accepted(s.t, os.CopyFS(s.yard.dir, os.DirFS(other.yard.dir)))
		}, codes(verdict.FeatureState)},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := openSwitched(t)
			row.attack(s)
			refused(t, s.server.Follow(t.Context()), row.want...)
			if status, _ := s.may(s.bare, toScope); status != 403 {
				t.Errorf("without provenance: %d", status)
			}
			if status, _ := s.may(s.image, toScope); status != 200 {
				t.Errorf("with provenance: %d", status)
			}
		})
	}
}
