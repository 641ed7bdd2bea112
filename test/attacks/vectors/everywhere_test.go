package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	manifest "github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/answers"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// TestVectorsAtEveryCommand puts attacked bundles in the place of a release's
// manifest, and asks every command that decides about a release. All must give
// one answer, and for one vector of each code of [answers.ByVector] it must be
// that code. A vector of a signature is made of an attestation here, where its
// change fits one.
func TestVectorsAtEveryCommand(t *testing.T) {
	bin, out := t.TempDir(), t.TempDir()
	for _, pkg := range []string{"waybill", "k8s-verify-release"} {
		if err := os.Rename(command(t, "../../..", "./cmd/"+pkg), filepath.Join(bin, pkg)); err != nil {
			t.Fatal(err)
		}
	}
	l := lab.New(t)
	s, err := newMaker(t.Context(), l)
	if err != nil {
		t.Fatal(err)
	}
	run := (&scene.Scene{Options: scene.Options{Bin: bin, Dir: out}}).Run
	given := map[verdict.Code]bool{}
	for _, v := range vectors() {
		if given[v.code] || len(v.ask) > 0 || v.byKey() || v.from == keyBlob {
			continue
		}
		v.name = fmt.Sprintf("%d-%s", len(given), v.name)
		if !s.asAttestation(out, &v) {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			said := stagedIn(t, filepath.Join(out, v.dir()), scene.Policy(l, "git+https://example.test/lantern"), run).Ask(t.Context())
			if why := answers.Differ(said); why != "" {
				t.Errorf("the commands differ:\n%s", why)
			}
			if said[0].Exit == 0 {
				t.Errorf("accepted:\n%s", said[0].Said)
			}
			for _, c := range said[0].Codes {
				given[c] = true
			}
		})
	}
	for _, c := range answers.ByVector() {
		if !given[c] {
			t.Errorf("no command gave %s", c)
		}
	}
	var more []string
	for c := range given {
		if !slices.Contains(answers.ByVector(), c) {
			more = append(more, string(c))
		}
	}
	slices.Sort(more)
	t.Logf("%d codes; besides those that are expected: %s", len(given), strings.Join(more, " "))
}

// asAttestation writes a vector, made of an attestation where it is one of a
// signature, and reports whether its change fits one.
func (s *maker) asAttestation(out string, v *question) (fits bool) {
	defer func() {
		if recover() != nil { // it changes what an attestation has not
			fits = false
		}
	}()
	switch {
	case v.from == blobInOldLog:
		v.from = attestInOldLog
	case v.isBlob():
		v.from = attestation
	}
	return s.write(out, *v) == nil
}

// stagedIn is a release in the directory of a vector whose manifest is the
// vector's bundle.
func stagedIn(t *testing.T, dir string, policy []byte, run func(ctx context.Context, args ...string) scene.Result) answers.Release {
	t.Helper()
	at := filepath.Join(dir, "place", scene.Version)
	bundle := []byte(contents(t, filepath.Join(dir, "bundle.sigstore.json")))
	end := promotionplan.End{Stage: "staging", Files: "file://" + at + "/"}
	public := end
	public.Stage = "release"
	v, err := version.Parse(scene.Version)
	if err != nil {
		t.Fatal(err)
	}
	plan, err := promotionplan.MakeRelease(manifest.Manifest{Name: "lantern", Version: v}, bundle, end, public)
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string][]byte{
		filepath.Join(at, releasemanifest.Name): bundle,
		filepath.Join(dir, "plan.json"):         plan.JSON(),
		filepath.Join(dir, "policy.yaml"):       policy,
		filepath.Join(dir, "profile.yaml"): fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Profile
name: lantern
policy: policy.yaml
trustedRoot: trusted_root.json
places:
  files:
    canonical: "https://dl.example.test/lantern/{version}/"
    staging: "%[1]s/{version}/"
    release: "%[1]s/{version}/"
`, filepath.Dir(at)),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, body, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return answers.Release{
		Run: run, Profile: filepath.Join(dir, "profile.yaml"), Version: scene.Version, Plan: filepath.Join(dir, "plan.json"),
		State: filepath.Join(dir, "nowhere"), Confirm: true,
	}
}
