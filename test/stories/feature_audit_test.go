package stories

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/test/scene"
)

// registrar keeps releases, and switches the requirement on that each is signed
// off.
type registrar struct {
	lodge
	switchroom
}

func openRegistrar(t *testing.T) registrar {
	t.Helper()
	l := openLodge(t)
	r := registrar{l, switchroom{l.desk, t}}
	issuer, _ := l.Lab.Identity("release")
	changes := l.asked("[staging, release]")
	changes[1] += fmt.Sprintf("  reconciler: [{issuer: %q, subject: %q, type: email}]\n", issuer, switcher)
	changes[3] += "features: {RequireSignoff: {floor: \"off\"}, RequireProvenance: {floor: warn}}\n"
	bench{l.Scene}.policy(t, "mine.yaml", l.policy, changes...)
	r.token("reconciler.token", switcher)
	if err := os.Mkdir(l.Path("site"), 0o755); err != nil {
		t.Fatal(err)
	}
	return r
}

// wants writes what is wanted of the requirement, and which releases there are.
func (r registrar) wants(state feature.State, releases string) {
	r.t.Helper()
	r.demand(fmt.Sprintf("desired: {RequireSignoff: {state: %q}}\nreleases: [%s]\n", state, releases))
}

func (r registrar) demand(text string) {
	r.t.Helper()
	r.file("FEATURES.yaml", text)
	raw := r.lodge.read(r.t, "FEATURES.yaml")
	r.lodge.write(r.t, "FEATURES.yaml", []byte(strings.Replace(string(raw), "profile: profile.yaml", "profile: mine-profile.yaml", 1)))
}

// asks asks the gate about the release where it is staged, as the promoter.
func (r registrar) asks(flags ...string) scene.Result {
	r.t.Helper()
	args := []string{"waybill", "gate", "check", scene.Version, "--profile", "mine-profile.yaml", "--features", "site", "--report-as", "promoter"}
	return r.lodge.Run(r.t.Context(), append(args, flags...)...)
}

// says makes passes until one prints some words. The promoter runs all the time.
func (r registrar) says(words string) scene.Result {
	r.t.Helper()
	var last scene.Result
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline); {
		last = r.pass()
		want(r.t, last, 0)
		if strings.Contains(last.Stdout, words) {
			return last
		}
		r.asks()
	}
	r.t.Fatalf("nobody says %q:\n%s", words, last.Stdout)
	return last
}

// TestFeatureRequireSignoff: that releases are signed off is switched on where
// one is public without: it is named while it is only warned about, and so is one
// that is not there; signed off, it is required of the next.
func TestFeatureRequireSignoff(t *testing.T) {
	r := openRegistrar(t)
	r.wants(feature.Off, scene.Version)
	want(t, r.pass(), 0, "announced")
	want(t, r.asks(), 1, "SIGNOFF_MISSING") // an announcement is not signed, and lowers nothing

	r.wants(feature.On, scene.Version+", v0.9.0")
	want(t, r.pass(), 0, "RequireSignoff", "Off to TurningOn")
	want(t, r.asks(), 0, "SIGNOFF_MISSING", "TurningOn")
	want(t, r.lodge.Run(t.Context(), "waybill", "release", scene.Version, "--profile", "mine-profile.yaml", "--state", "state",
		"--features", "site", "--report-as", "promoter", "--confirm"), 0, "SIGNOFF_MISSING")
	verifies := func(flags ...string) scene.Result {
		return r.lodge.Run(t.Context(), append([]string{"waybill", "verify", "release", scene.Version, "--profile", "mine-profile.yaml"}, flags...)...)
	}
	want(t, verifies(), 1, "SIGNOFF_MISSING") // where it is public, as the policy is written
	want(t, verifies("--features", "site"), 0, "OK ", "SIGNOFF_MISSING", "waybill/RequireSignoff is TurningOn", "it counts as warn")
	r.says("2 of 2 releases have no sign-off that counts\n    v0.1.0 (SIGNOFF_MISSING)\n    v0.9.0 (EVIDENCE_MISSING)\n")

	public := strings.Replace(r.lodge.Lab.Bucket, "http://", "gs+http://", 1) + "/release/lantern/" + scene.Version + "/"
	want(t, r.attest(t, "--confirm", "--to", public), 0, releasesignoff.Name, "read back and verified")
	want(t, r.pass(), 0, "1 of 2 releases have no sign-off that counts\n    v0.9.0 (EVIDENCE_MISSING)\n")
	r.wants(feature.On, scene.Version)
	r.until(known.RequireSignoff, feature.On)
	want(t, r.asks(), 1, "SIGNOFF_MISSING") // it was signed off where it is public, and not where it is staged
	want(t, r.attest(t, "--confirm", "--to", strings.Replace(public, "/release/", "/staging/", 1)), 0)
	want(t, r.asks(), 0, "OK ")
	r.undecided()
}

// undecided asks for provenance of a repository that is not there: what cannot be
// listed proves nothing and stops nobody. It is named, the command says that
// nothing was decided, and the requirement is warned about until that is mended.
func (r registrar) undecided() {
	r.t.Helper()
	const list = "desired: {RequireProvenance: {state: \"On\", scope: [%[1]s/release]}, RequireSignoff: {state: \"On\"}}\npublic: [%[1]s/release/%[2]s]\nreleases: [%[3]s]\n"
	host := r.lodge.Lab.Registry
	r.demand(fmt.Sprintf(list, host, "none", scene.Version))
	var last scene.Result
	for deadline := time.Now().Add(2 * time.Minute); time.Now().Before(deadline) && last.Code == 0; {
		last = r.pass()
		r.asks()
	}
	want(r.t, last, 3, "the audit needs a complete list", "UNAVAILABLE", host+"/release/none", "does not exist", "leave it out until")
	if f := r.get(known.RequireProvenance); f.Status.State != feature.TurningOn || !strings.Contains(f.Status.Tasks[0].Message, "/release/none") {
		r.t.Errorf("%s: %+v", f.Status.State, f.Status.Tasks)
	}
	want(r.t, r.asks(), 0, "OK ")
}
