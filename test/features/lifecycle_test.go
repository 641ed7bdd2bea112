package features

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/coverage"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/testing/lifecycle"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/features/field"
	"github.com/waybill-release/waybill/test/lab"
)

// fixture is how a feature is used in a world of its own.
type fixture struct {
	world *world
	lifecycle.Fixture
}

// TestLifecycle (F10, F11): every feature of Waybill, and one of a third party
// beside them, goes on, is used, and goes off again, over registries that are
// served. A feature that has no fixture here or in package field fails.
func TestLifecycle(t *testing.T) {
	table, err := feature.NewRegistry(known.Namespace(), theirs())
	if err != nil {
		t.Fatal(err)
	}
	key := func(name string) feature.Key { return feature.Key{Namespace: feature.CoreNamespace, Name: name} }
	all := map[feature.Key]fixture{
		key(known.RequireProvenance):                provenanceFixture(t),
		key(known.RequireSignoff):                   signoffFixture(t),
		key(known.TraceAnnotations):                 annotationsFixture(t),
		key(known.StatusPage):                       pageFixture(t),
		key(known.KMSSigning):                       keyFixture(t),
		{Namespace: "example", Name: "NightlyTags"}: theirFixture(t),
	}
	fixtures, used := field.Fixtures(t, lab.New(t), field.Referrers), map[feature.Key][]byte{}
	for k, f := range all {
		use := f.Use
		f.Use = func(ctx context.Context) error {
			if err := use(ctx); err != nil {
				return err
			}
			var err error
			used[k], err = f.world.snapshot(ctx)
			return err
		}
		fixtures[k] = f.Fixture
	}
	lifecycle.Lifecycle(t, table, fixtures)
	for _, name := range []string{known.RequireProvenance, known.RequireSignoff, known.StatusPage, known.KMSSigning} {
		k := key(name)
		after, err := all[k].world.snapshot(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(after, used[k]) {
			t.Errorf("%s: it was only ever to look, and the registry is another one than people left it", k)
		}
	}
}

// one is the deeds of a feature with one task that sweeps.
func one(task string, s reconcile.Sweep) reconcile.Deeds {
	return reconcile.Deeds{Sweeps: map[string]reconcile.Sweep{task: s}, Dangling: reconcile.Nothing{}}
}

// remains demands that a task is not done yet, and names something.
func remains(ctx context.Context, s reconcile.Sweep, n int, named string) error {
	o, err := s.Sweep(ctx, work())
	if err == nil && (o.Done || o.Remaining != n || !slices.ContainsFunc(o.Names, func(n string) bool { return strings.Contains(n, named) })) {
		err = fmt.Errorf("want %d of them, with %q: %+v", n, named, o)
	}
	return err
}

// provenanceFixture is three images of which nobody says how they were built,
// until people do.
func provenanceFixture(t *testing.T) fixture {
	w := openWorld(t)
	images := map[string]registry.Descriptor{}
	var public []string
	for _, name := range []string{"prod/a", "prod/b", "prod/c"} {
		images[name] = w.image(name, "v0.1.0")
		public = append(public, w.Host+"/"+name)
	}
	audit := coverage.Provenance(coverage.Registries{Repositories: public, Transport: w.rt}, w.asked())
	return fixture{w, lifecycle.Fixture{
		Deeds: one(known.CoverageAudit, audit),
		Use: func(ctx context.Context) error {
			if err := remains(ctx, audit, 3, "/prod/b:v0.1.0@"+images["prod/b"].Digest.String()+" (NO_PROVENANCE)"); err != nil {
				return err
			}
			for name, image := range images {
				w.attest(name, image)
			}
			return nil
		},
	}}
}

// signoffFixture is two releases of which one is signed off late.
func signoffFixture(t *testing.T) fixture {
	w := openWorld(t)
	first, second := parse(t, "v0.1.0"), parse(t, "v0.2.0")
	w.release(first)
	w.release(second)
	w.signOff(first, signatory)
	audit := coverage.Signoffs(coverage.Releases{Versions: []version.Version{first, second}, Open: w.open}, w.by())
	return fixture{w, lifecycle.Fixture{
		Deeds: one(known.SignoffAudit, audit),
		Use: func(ctx context.Context) error {
			if err := remains(ctx, audit, 1, "v0.2.0 (SIGNOFF_MISSING)"); err != nil {
				return err
			}
			w.signOff(second, signatory)
			return nil
		},
	}}
}

// dangling demands that so much refers to a feature.
func dangling(ctx context.Context, c reconcile.Counter, n int) error {
	found, err := c.Count(ctx, work())
	if err == nil && found.Count != n {
		err = fmt.Errorf("want %d: %v", n, found)
	}
	return err
}

// annotationsFixture is evidence that is attached as it is, and then once more by
// a run that names itself. Of all manifests and tags that the registry has none
// may be another one in the end, whether something names it or not.
func annotationsFixture(t *testing.T) fixture {
	w := openWorld(t)
	image := w.image("prod/lantern", "v0.1.0")
	deeds := w.Sweeps(t, "prod/lantern").Deeds()[feature.Key{Namespace: feature.CoreNamespace, Name: known.TraceAnnotations}]
	bundle := w.Sign(t, lab.RoleRelease, field.Log2, field.About(t, image.Digest, provenance.PredicateType, map[string]string{}))
	w.Attach(t, "prod/lantern", image, field.Evidence{Kind: provenance.PredicateType, Bundle: bundle})
	return fixture{w, lifecycle.Fixture{
		Deeds: deeds, Snapshot: w.snapshot,
		Use: func(ctx context.Context) error {
			w.Attach(t, "prod/lantern", image, field.Evidence{Kind: provenance.PredicateType, Bundle: bundle, Hints: field.Hints()})
			return dangling(ctx, deeds.Dangling, 1)
		},
	}}
}

// pageFixture is a gate as a service: it has the page while the feature is on,
// and says who took it away when it is not.
func pageFixture(t *testing.T) fixture {
	w := openWorld(t)
	page := func(ctx context.Context, on bool, want int) error {
		newest := known.Newest()
		g, err := componentbase.At(newest.Major(), newest.Minor())
		if err != nil {
			return err
		}
		if err := errors.Join(componentbase.Add(g, known.Registry(), feature.CoreNamespace), g.SetFromMap(map[string]bool{known.StatusPage: on})); err != nil {
			return err
		}
		server, err := serve.New(ctx, serve.World{
			Load: func(context.Context) (serve.Basis, error) {
				return serve.Basis{PolicyRequest: gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.Verifier}}, nil
			},
			Open: field.Through(http.DefaultTransport), Clock: time.Now, Log: slog.New(slog.NewTextHandler(io.Discard, nil)), Record: io.Discard, Gate: g,
			Keys: func(context.Context, string) (caller.Keys, error) { return caller.Keys{}, errors.New("nobody calls") },
		}, serve.Limits{})
		if err != nil {
			return err
		}
		answer := httptest.NewRecorder()
		server.Admin().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/statusz", nil))
		if answer.Code != want {
			return fmt.Errorf("the page answers %d, want %d: %s", answer.Code, want, answer.Body)
		}
		return nil
	}
	return fixture{w, lifecycle.Fixture{
		Deeds:  reconcile.Deeds{Dangling: reconcile.Nothing{}},
		Use:    func(ctx context.Context) error { return page(ctx, true, http.StatusOK) },
		Remove: func(ctx context.Context) error { return page(ctx, false, http.StatusNotFound) },
	}}
}

// keyFixture is a key that stays where it is and signs. What it signed is no less
// signed when no key of a service may sign any more.
func keyFixture(t *testing.T) fixture {
	w := openWorld(t)
	image := w.image("prod/lantern", "v0.1.0")
	kept := must[*ecdsa.PrivateKey](t)(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must[[]byte](t)(x509.MarshalPKIXPublicKey(kept.Public()))
	block := strings.TrimSpace(string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der})))
	named := must[policy.Policy](t)(policy.Parse([]byte(strings.Replace(w.policyText(), "release: [", fmt.Sprintf("release: [{key: %q}, ", block), 1)), nil))
	services := must[sign.Services](t)(sign.ParseServices(w.Lab.SigningConfig, time.Now()))
	return fixture{w, lifecycle.Fixture{
		Deeds: reconcile.Deeds{Dangling: reconcile.Nothing{}},
		Use: func(ctx context.Context) error {
			s, err := sign.NewKeyed(sign.Config{
				Role: policy.Release, Policy: named, Verifier: w.Verifier, Services: services, Transport: http.DefaultTransport, Clock: time.Now,
			}, kept)
			if err != nil {
				return err
			}
			bundle, e, err := s.Statement(ctx, field.About(t, image.Digest, intoto.CosignSignature, map[string]string{}))
			if err != nil {
				return err
			}
			if e.Key().IsZero() {
				return errors.New("an identity signed, and not the key")
			}
			w.Attach(t, "prod/lantern", image, field.Evidence{Kind: intoto.CosignSignature, Bundle: bundle})
			return nil
		},
	}}
}

// theirs is the features of a third party, in a namespace of its own.
func theirs() feature.Namespace {
	return feature.Namespace{Name: "example", Features: []feature.Definition{{
		Name: "NightlyTags", About: "images have a tag for each night", Pristine: true,
		Versions: []feature.Version{{Since: known.Newest(), Stage: feature.Alpha, Default: feature.Off}},
		OffTasks: []feature.Job{{Kind: feature.Sweep, Name: "DropNightly"}},
	}}}
}

// nightly is what they bring along: it finds the tags, and removes one in each
// pass.
type nightly struct{ *world }

func (n nightly) tags(ctx context.Context) ([]string, error) {
	tags, err := n.Remote.Tags(ctx, "prod/lantern")
	return slices.DeleteFunc(tags, func(tag string) bool { return !strings.HasPrefix(tag, "nightly-") }), err
}

func (n nightly) Count(ctx context.Context, _ reconcile.Work) (reconcile.Found, error) {
	tags, err := n.tags(ctx)
	return reconcile.Found{Count: len(tags), Sample: tags}, err
}

func (n nightly) Sweep(ctx context.Context, _ reconcile.Work) (feature.Outcome, error) {
	tags, err := n.tags(ctx)
	if err != nil || len(tags) == 0 {
		return feature.Outcome{Done: err == nil}, err
	}
	err = n.remove(ctx, "prod/lantern", tags[0])
	return feature.Outcome{Done: len(tags) == 1, Remaining: len(tags) - 1, Message: "removed " + tags[0]}, err
}

func theirFixture(t *testing.T) fixture {
	w := openWorld(t)
	image := w.image("prod/lantern", "v0.1.0")
	own := nightly{w}
	return fixture{w, lifecycle.Fixture{
		Deeds:    reconcile.Deeds{Sweeps: map[string]reconcile.Sweep{"DropNightly": own}, Dangling: own},
		Snapshot: w.snapshot,
		Use: func(ctx context.Context) error {
			return errors.Join(w.Remote.Tag(ctx, "prod/lantern", "nightly-1", image), w.Remote.Tag(ctx, "prod/lantern", "nightly-2", image), dangling(ctx, own, 2))
		},
	}}
}

// remove deletes a manifest or a tag, as people do.
func (w *world) remove(ctx context.Context, repository, reference string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+w.Host+"/v2/"+repository+"/manifests/"+reference, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusAccepted {
		return fmt.Errorf("deleting %s: %s", reference, resp.Status)
	}
	return nil
}
