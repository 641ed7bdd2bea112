package stories

import (
	"context"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/scene"
)

// TestPromotePlanOfARelease: a sealed release is planned from its verified
// manifest, and goes only as long as that is what lies there.
func TestPromotePlanOfARelease(t *testing.T) {
	m := mirror{Scene: open(t), t: t}
	plan := func(to string, code int, said ...string) string {
		t.Helper()
		args := []string{"waybill", "promote", "plan", scene.Version, "--profile", "profile.yaml", "--state", "state", "--to", to}
		want(t, m.Run(t.Context(), args...), code, said...)
		if code != 0 {
			return ""
		}
		r := m.Run(t.Context(), append(args, "--output", "json")...)
		want(t, r, 0, `"schema":"waybill/promotion-plan/v1"`)
		m.write(to+"-plan.json", r.Stdout)
		return r.Stdout
	}
	apply := func(to string, code int, said ...string) {
		t.Helper()
		args := []string{"waybill", "promote", "apply", to + "-plan.json", "--profile", "profile.yaml", "--state", "state"}
		want(t, m.Run(t.Context(), append(args, "--confirm")...), code, said...)
	}
	plan("release", 1, "EVIDENCE_MISSING", "the place answers, but has no release manifest", "waybill stage VERSION --confirm")
	want(t, m.Stage(t.Context()), 0)
	plan("staging", 0, "from workspace to staging")
	apply("staging", 0, "nothing extra")
	first := plan("release", 0, "lantern v0.1.0, revision 1, from staging to release", "routes 1, digests to judge 1, moves 1, repositories 1, tags 1, stores 1", "evidence ")
	if plan("release", 0) != first {
		t.Error("the same release gave another plan")
	}

	// Another manifest comes there, as genuine as the first.
	const at = "staging/lantern/" + scene.Version + "/" + releasemanifest.Name
	before := m.get(at)
	m.write("release.token", m.Lab.Token("release"))
	want(t, m.Run(t.Context(), "waybill", "seal", scene.Version, "--amend", "--reason", "a new log", "--profile", "profile.yaml", "--state", "state", "--identity-token", "release=release.token", "--confirm"), 0, "revision 2")
	again, err := os.ReadFile(m.Path("state", "files", releasemanifest.Name))
	if err != nil {
		t.Fatal(err)
	}
	m.set(at, again)
	apply("release", 1, "PLAN_STALE", "the source has another manifest now")
	if m.get("release/lantern/"+scene.Version+"/"+releasemanifest.Name) != nil {
		t.Error("a stale plan was applied")
	}
	m.set(at, before)
	m.replaceAfterTheGate(at, before, again)

	// Bytes that the manifest does not list do not pass the gate.
	const tool = "staging/lantern/" + scene.Version + "/bin/linux/amd64/lantern"
	body := m.get(tool)
	m.set(tool, []byte("malice"))
	apply("release", 1, "TAMPERED           bin/linux/amd64/lantern", "REFUSED")
	m.set(tool, body)
	apply("release", 0, "nothing extra")
	apply("release", 0, "nothing extra")
	want(t, m.Verify(t.Context()), 0)
	want(t, m.Run(t.Context(), "waybill", "promote", "plan", scene.Version, "--profile", "profile.yaml", "--to", "release", "--diff"), 0, "missing 0, other 0, unknown 0")

	m.write("release-plan.json", strings.Replace(first, `"revision":1`, `"revision":2`, 1))
	apply("release", 1, "PLAN_STALE", "planning again gives a different plan")
	m.write("release-plan.json", strings.Replace(first, `"to":"release"`, `"to":"moon"`, 1))
	apply("release", 2, "want staging or release")
}

// replaceAfterTheGate puts another manifest where the gate has just decided
// about one: nothing of it is released. Put back, it would be.
func (m mirror) replaceAfterTheGate(at string, before, after []byte) {
	m.t.Helper()
	v, err := version.Parse(scene.Version)
	if err != nil {
		m.t.Fatal(err)
	}
	by, err := gate.Open(m.t.Context(), m.Path("profile.yaml"), gate.Opening{Transport: http.DefaultTransport})
	if err != nil {
		m.t.Fatal(err)
	}
	p, err := pipeline.New(pipeline.Config{Gate: by, Version: v, RunState: pipeline.RunState{State: m.Path("elsewhere")}, Report: func(context.Context, string, ...any) {}, World: pipeline.World{
		Transport: http.DefaultTransport, Clock: time.Now,
		OpenWriter: func(uri string) (store.Writer, error) { return cloud.OpenWriter(uri, http.DefaultTransport) },
	}})
	if err != nil {
		m.t.Fatal(err)
	}
	decided, err := p.Decide(m.t.Context(), profile.Staging)
	if err != nil || decided.Err() != nil {
		m.t.Fatalf("%v, %v", decided, err)
	}
	m.set(at, after)
	if err := p.After(decided).PromoteToRelease(m.t.Context()); verdict.FindingOf("", err).Code != verdict.PlanStale {
		m.t.Errorf("a manifest that nobody decided about: %v", err)
	}
	if m.get("release/lantern/"+scene.Version+"/"+releasemanifest.Name) != nil {
		m.t.Error("it was released")
	}
	m.set(at, before)
}
