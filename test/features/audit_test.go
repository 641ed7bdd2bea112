package features

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/coverage"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/feature/reconcile"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/lab"
)

func work(repositories ...string) reconcile.Work {
	w := reconcile.Work{Key: feature.Key{Namespace: feature.CoreNamespace, Name: known.RequireProvenance}, State: feature.TurningOn}
	w.Scope = feature.Scope{Everything: len(repositories) == 0, Repositories: repositories}
	return w
}

// outcome is what a pass of an audit says, or why it says nothing.
func outcome(t *testing.T, s reconcile.Sweep, w reconcile.Work) (feature.Outcome, string) {
	t.Helper()
	o, err := s.Sweep(t.Context(), w)
	if err != nil {
		if o.Done || o.Message != "" {
			t.Errorf("an error and an outcome: %+v", o)
		}
		return o, err.Error()
	}
	return o, o.Message + ": " + strings.Join(o.Names, ", ")
}

// TestProvenanceAudit: the gate itself judges what is public, by the policy as it
// is written. Each row differs from the one that is done in one fact.
func TestProvenanceAudit(t *testing.T) {
	w := openWorld(t)
	proxy := faults.Before(t, "http://"+w.Lab.Registry)
	good := w.image("prod/good", "v0.1.0")
	w.attest("prod/good", good)
	if err := w.Remote.Tag(t.Context(), "prod/good", "latest", good); err != nil {
		t.Fatal(err)
	}
	bare := w.image("prod/bare", "v0.1.0")
	other := w.image("prod/other", "v0.1.0")
	w.attest("prod/other", good) // of another image
	for name, row := range map[string]struct {
		public []string
		by     func(*gate.PolicyRequest)
		fault  faults.Fault
		done   bool
		remain int
		says   []string
	}{
		"one with provenance":       {public: []string{"good"}, done: true, says: []string{"all of 1 image would be accepted"}},
		"one with none beside it":   {public: []string{"good", "bare"}, remain: 1, says: []string{"1 of 2 images would be refused: ", "/prod/bare:v0.1.0@" + bare.Digest.String() + " (NO_PROVENANCE)"}},
		"provenance of another":     {public: []string{"good", "other"}, remain: 1, says: []string{"/prod/other:v0.1.0@" + other.Digest.String()}},
		"a repository with nothing": {public: []string{"good", "none"}, says: []string{"the audit needs a complete list", "/prod/none"}},
		"no answer about evidence": {
			public: []string{"good"}, says: []string{"judging ", "/prod/good:latest@"},
			fault: faults.Fault{Path: "/referrers/", Do: faults.Status(503)},
		},
		"no answer about tags": {
			public: []string{"good"}, says: []string{"the audit needs a complete list", "/prod/good"},
			fault: faults.Fault{Path: "/tags/list", Do: faults.Status(503)},
		},
		"a policy of another day": {public: []string{"good"}, by: func(r *gate.PolicyRequest) { r.Now = time.Now().AddDate(-1, 0, 0) }, says: []string{"judging ", "CLOCK"}},
	} {
		t.Run(name, func(t *testing.T) {
			proxy.Heal()
			if row.fault.Do != nil {
				proxy.Spoil(row.fault)
			}
			by := w.asked()
			if row.by != nil {
				row.by(&by)
			}
			public := coverage.Registries{Transport: w.rt}
			for _, r := range row.public {
				public.Repositories = append(public.Repositories, proxy.Host+"/prod/"+r)
			}
			o, said := outcome(t, coverage.Provenance(public, by), work())
			if o.Done != row.done || o.Remaining != row.remain {
				t.Errorf("%+v: %s", o, said)
			}
			for _, s := range row.says {
				if !strings.Contains(said, s) {
					t.Errorf("%q does not say %q", said, s)
				}
			}
		})
	}
}

// TestProvenanceAuditMends: a second pass sees what was mended since the first,
// and a scope leaves out what it does not cover.
func TestProvenanceAuditMends(t *testing.T) {
	w := openWorld(t)
	images := map[string]registry.Descriptor{"a": w.image("prod/a", "v0.1.0"), "b": w.image("prod/b", "v0.1.0")}
	audit := coverage.Provenance(coverage.Registries{Repositories: []string{w.Host + "/prod/a", w.Host + "/prod/b"}, Transport: w.rt}, w.asked())
	if o, said := outcome(t, audit, work()); o.Remaining != 2 {
		t.Errorf("%+v: %s", o, said)
	}
	w.attest("prod/a", images["a"])
	if o, said := outcome(t, audit, work()); o.Remaining != 1 || strings.Contains(said, "/a:v0.1.0@") {
		t.Errorf("%+v: %s", o, said)
	}
	if o, said := outcome(t, audit, work(w.Host+"/prod/a")); !o.Done {
		t.Errorf("%+v: %s", o, said)
	}
	w.attest("prod/b", images["b"])
	if o, said := outcome(t, audit, work()); !o.Done {
		t.Errorf("%+v: %s", o, said)
	}
}

// silent is a place that does not answer about sign-offs.
type silent struct{ store.Place }

func (s silent) Open(ctx context.Context, name string) (io.ReadCloser, int64, error) {
	if name == releasesignoff.Name {
		return nil, 0, &verdict.UnavailableError{Place: s.URI(), Op: "reading " + name, Err: errors.New("no answer")}
	}
	return s.Place.Open(ctx, name)
}

func parse(t *testing.T, text string) version.Version {
	t.Helper()
	return must[version.Version](t)(version.Parse(text))
}

// TestSignoffAudit: every release that is listed has a sign-off that the gate
// would take. Each row differs from the one that is done in one fact.
func TestSignoffAudit(t *testing.T) {
	w := openWorld(t)
	v := func(text string) version.Version { return parse(t, text) }
	for _, text := range []string{"v0.1.0", "v0.2.0", "v0.3.0", "v0.4.0", "v0.5.0", "v0.6.0"} {
		w.release(v(text))
	}
	w.signOff(v("v0.1.0"), signatory)
	w.signOff(v("v0.3.0"), lab.RoleRelease)
	if err := os.CopyFS(filepath.Join(w.dir, "other"), os.DirFS(filepath.Join(w.dir, "public", "v0.1.0"))); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(w.dir, "other", releasesignoff.Name), filepath.Join(w.dir, "public", "v0.4.0", releasesignoff.Name)); err != nil {
		t.Fatal(err)
	}
	w.release(v("v0.5.0"), func(m *manifest.Manifest) { m.Withdrawn = &manifest.Withdrawal{Reason: "it flickers", Use: "v0.1.0"} })
	w.signOff(v("v0.5.0"), signatory)
	w.write(filepath.Join("public", "v0.6.0", releasemanifest.Name), []byte("{}"))
	w.signOff(v("v0.6.0"), signatory)
	w.write(filepath.Join("public", "v0.9.0", "README.md"), nil)
	for _, text := range []string{"v0.1.1", "v0.7.0"} { // of the release.yaml and commit of v0.1.0, with its sign-off
		config := digest.SetOf([]byte("release: v0.1.0"))
		w.release(v(text), func(m *manifest.Manifest) { m.Config, m.Artifacts[0].Digests = config.SHA256, config })
		w.write(filepath.Join("public", text, releasesignoff.Name), must[[]byte](t)(os.ReadFile(filepath.Join(w.dir, "public", "v0.1.0", releasesignoff.Name))))
	}
	down := errors.New("no route to the place")
	for name, row := range map[string]struct {
		releases []string
		open     func(string) (store.Place, error)
		done     bool
		remain   int
		says     string
	}{
		"one that is signed off":       {releases: []string{"v0.1.0"}, done: true, says: "all of 1 release signed off"},
		"one that is not":              {releases: []string{"v0.1.0", "v0.2.0"}, remain: 1, says: "1 of 2 releases have no sign-off that counts: v0.2.0 (SIGNOFF_MISSING)"},
		"one by another role":          {releases: []string{"v0.3.0"}, remain: 1, says: "v0.3.0 (IDENTITY_ROLE)"},
		"that of another release":      {releases: []string{"v0.4.0"}, remain: 1, says: "v0.4.0 (SIGNOFF_OTHER_RELEASE)"},
		"that of its own milestone":    {releases: []string{"v0.1.1"}, done: true},
		"that of another milestone":    {releases: []string{"v0.1.0", "v0.7.0"}, remain: 1, says: "v0.7.0 (SIGNOFF_OTHER_RELEASE)"},
		"one that was withdrawn":       {releases: []string{"v0.1.0", "v0.5.0"}, remain: 1, says: "v0.5.0 (WITHDRAWN)"},
		"one that is not there":        {releases: []string{"v0.1.0", "v0.9.0"}, remain: 1, says: "v0.9.0 (EVIDENCE_MISSING)"},
		"one that nobody sealed":       {releases: []string{"v0.1.0", "v0.6.0"}, remain: 1, says: "v0.6.0 (BUNDLE_VERSION)"},
		"a place that is not there":    {releases: []string{"v0.1.0", "v0.8.0"}, says: "judging release v0.8.0"},
		"none":                         {remain: 1, says: "no release is listed"},
		"a place that does not answer": {releases: []string{"v0.1.0"}, open: func(string) (store.Place, error) { return nil, down }, says: down.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			of := coverage.Releases{Open: w.open}
			if row.open != nil {
				of.Open = row.open
			}
			for _, r := range row.releases {
				of.Versions = append(of.Versions, v(r))
			}
			o, said := outcome(t, coverage.Signoffs(of, w.by()), work())
			if o.Done != row.done || o.Remaining != row.remain || !strings.Contains(said, row.says) {
				t.Errorf("%+v: %s", o, said)
			}
		})
	}
}

// TestSignoffAuditUnavailable: a place that gives no answer about the sign-off
// leaves the release undecided, and one whose releases have no manifest has none
// that could be signed off.
func TestSignoffAuditUnavailable(t *testing.T) {
	w := openWorld(t)
	w.release(parse(t, "v0.1.0"))
	w.signOff(parse(t, "v0.1.0"), signatory)
	of := coverage.Releases{Versions: []version.Version{parse(t, "v0.1.0")}, Open: func(uri string) (store.Place, error) {
		place, err := w.open(uri)
		return silent{place}, err
	}}
	_, err := coverage.Signoffs(of, w.by()).Sweep(t.Context(), work())
	if verdict.OutcomeOf(err) != verdict.Unavailable || !strings.Contains(err.Error(), "judging release v0.1.0") {
		t.Errorf("%v", err)
	}
	of.Open, w.profile.Unsealed = w.open, &profile.Unsealed{Layout: "kubernetes"}
	if _, err := coverage.Signoffs(of, w.by()).Sweep(t.Context(), work()); err == nil || !strings.Contains(err.Error(), "have no manifest") {
		t.Errorf("%v", err)
	}
}
