package stories

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/test/scene"
)

// TestVersionIsPublic: what another run would make of a version that is public
// is refused before anything is built, and the run that made it goes on working;
// what was withdrawn is told, and that it takes a new version.
func TestVersionIsPublic(t *testing.T) {
	s := openProject(t, project(t, map[string]string{"release.yaml": scene.Quick}))
	k := keeper{&desk{&workshop{Scene: s.Scene}}}
	stage := func(version, state string) scene.Result {
		args := []string{"waybill", "stage", version, "--profile", "profile.yaml", "--state", state, "--source", "lantern", "--confirm"}
		return k.Run(t.Context(), append(args, k.tokens(t)...)...)
	}
	version, state := scene.Version, "state "+scene.Version
	at := []string{version, "--profile", "profile.yaml", "--state", state, "--confirm"}
	want(t, stage(version, state), 0, "nothing extra")
	want(t, k.Run(t.Context(), append([]string{"waybill", "promote", "--to", "release"}, at...)...), 0)
	if s := k.status(t, version); !strings.HasPrefix(s.Last, "promote to release, ") || s.Public != pipeline.IsPublic {
		t.Errorf("promoted: %+v", s)
	}
	want(t, k.Run(t.Context(), append([]string{"waybill", "release"}, at...)...), 0)
	if s := k.status(t, version); !strings.HasPrefix(s.Last, "release, ") {
		t.Errorf("released: %+v", s)
	}
	_, e := s.doctor(t, "stage", s.flags(t)...)
	if strings.Join(e.codes(), " ") != "FILE_CONFLICT" || e.state("version") != "bad" {
		t.Errorf("%+v", e)
	}
	want(t, stage(version, "another"), 1, "FILE_CONFLICT", "release a new version")
	k.absent(t, "another")
	want(t, stage(version, state), 0, "sealed already", "nothing extra")

	want(t, k.revises(t, "release", "--withdraw", "--reason", "it flickers", "--confirm"), 0)
	want(t, stage(version, state), 1, "WITHDRAWN", "it flickers", "release a new version")
	if s := k.status(t, version); s.Public != pipeline.Revoked || strings.Contains(s.Next, " stage ") || !strings.Contains(s.Why, "release a new version") {
		t.Errorf("withdrawn: %+v", s)
	}
	k.tag(t, "v0.3.0")
	want(t, stage("v0.3.0", "state v0.3.0"), 0, "nothing extra")
}

// TestSealRefusesNames: a name that is none is wrong use, said with the name.
func TestSealRefusesNames(t *testing.T) {
	s := openProject(t, project(t, map[string]string{"release.yaml": scene.Quick}))
	seal := func(flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "seal", scene.Version, "--profile", "profile.yaml", "--source", "lantern"}, flags...)...)
	}
	want(t, seal("--channel", "rubbish"), 2, "USAGE", `"rubbish"`, "latest, stable")
	want(t, seal("--from", "nodist"), 2, "USAGE", "nodist", "no such directory")
	want(t, seal("--from", "lantern"), 2, "release.yaml has steps") // which is there
}
