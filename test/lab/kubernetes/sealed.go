package kubernetes

import (
	"cmp"
	"context"
	"embed"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/policies"
	"github.com/waybill-release/waybill/test/lab"
)

// project is the source from which a release is built and sealed: the names of
// Kubernetes, and steps that write lines of text under them.
//
//go:embed source
var project embed.FS

// The accounts of the policy that is shipped for sealed releases, whose files
// and images [Trust] signs.
const (
	Builder  = "builder@kubernetes.example.test"
	Verifier = "verifier@kubernetes.example.test"
)

// Sealed is a release of the same names in Waybill's own layout: built from a
// repository of its own, with provenance, SBOMs, signatures and a manifest,
// by the stages that every release goes through. A process that publishes one
// must begin with checkout.Serve: the steps run in it.
type Sealed struct {
	Lab     *lab.Lab
	Version version.Version
	// Dir has the profile, and what the release was made from.
	Dir string
	// Source is the address of Dir/source, if a server serves it; empty to build
	// from the directory.
	Source string
}

// Publish makes the release, seals it, and publishes it in the lab's bucket and
// registry.
func (s Sealed) Publish(ctx context.Context) (err error) {
	if s.Dir, err = filepath.Abs(s.Dir); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{s.writeProfile, s.commit, s.run} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// Path is a file below the directory.
func (s Sealed) Path(name ...string) string {
	return filepath.Join(append([]string{s.Dir}, name...)...)
}

// State is where the release is made.
func (s Sealed) State() string { return s.Path("state-" + s.Version.String()) }

// writeProfile writes the profile with the policy that is shipped, changed in
// who vouches for the accounts and since when, in that a lab's keys do, in
// where the source is, and in that the list of known defects need not count.
// A machine that keeps no step apart is another builder, of a lower level.
func (s Sealed) writeProfile(ctx context.Context) error {
	shipped, err := policies.Read("kubernetes-release")
	if err != nil {
		return err
	}
	changes := []string{
		"https://accounts.google.com", s.Lab.Issuer, `, from: "2026-11-01"`, "", `expires: "2027-12-31"` + "\n", "",
		`trustRoot: {lab: "off"}`, "trustRoot: {lab: warn}", "defects: {atLeast: 1}\n", "",
		"git+https://github.com/kubernetes/kubernetes", cmp.Or(s.Source, "git+file://"+filepath.ToSlash(s.Path("source"))),
	}
	if sandbox.Examine(ctx).Mode != sandbox.Isolated {
		changes = append(changes, provenance.BuilderIsolated, provenance.BuilderUnisolated, "level: 3", "level: 1")
	}
	bucket := strings.Replace(s.Lab.Bucket, "http://", "gs+http://", 1)
	profile := fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: kubernetes-sealed-in-a-lab
policy: policy.yaml
trustedRoot: trusted_root.json
signingConfig: signing_config.json
places:
  files:
    canonical: "https://dl.k8s.io/release/{version}/"
    staging: "%[1]s/staging/kubernetes/{version}/"
    release: "%[1]s/%[2]s/{version}/"
  images: {canonical: registry.k8s.io, staging: "%[3]s/staging/kubernetes", release: "%[3]s/%[2]s"}
channels: {markers: "%[1]s/release/{channel}.txt"}
`, bucket, prefix, s.Lab.Registry)
	for name, body := range map[string]string{
		"policy.yaml": strings.NewReplacer(changes...).Replace(string(shipped)), "profile.yaml": profile,
		"trusted_root.json": string(s.Lab.TrustedRoot), "signing_config.json": string(s.Lab.SigningConfig),
		"builder.token": s.Lab.Token(Builder), "release.token": s.Lab.Token(Trust),
	} {
		if err := os.WriteFile(s.Path(name), []byte(body), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// commit makes a repository of the source, with the tag of the version. One
// that is there is taken as it is.
func (s Sealed) commit(ctx context.Context) error {
	if _, err := os.Stat(s.Path("source", ".git")); err != nil {
		tree, err := fs.Sub(project, "source")
		if err != nil {
			return err
		}
		if err := os.CopyFS(s.Path("source"), tree); err != nil {
			return err
		}
		for _, args := range [][]string{{"init", "-q", "-b", "main"}, {"add", "."}, {"commit", "-q", "-m", "SYNTHETIC Kubernetes"}} {
			if err := s.git(ctx, args...); err != nil {
				return err
			}
		}
	}
	tag := s.Version.String()
	if s.git(ctx, "rev-parse", "-q", "--verify", "refs/tags/"+tag) == nil {
		return nil
	}
	return s.git(ctx, "tag", "-a", "-m", tag, tag)
}

func (s Sealed) git(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir = s.Path("source")
	at := written.Format(time.RFC3339)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull,
		"GIT_AUTHOR_NAME=lab", "GIT_AUTHOR_EMAIL=lab@example.test", "GIT_AUTHOR_DATE="+at,
		"GIT_COMMITTER_NAME=lab", "GIT_COMMITTER_EMAIL=lab@example.test", "GIT_COMMITTER_DATE="+at)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("git %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}

// run takes the release its whole way.
func (s Sealed) run(ctx context.Context) error {
	by, err := gate.Open(ctx, s.Path("profile.yaml"), gate.Opening{Transport: http.DefaultTransport})
	if err != nil {
		return err
	}
	tokens := map[string]token.Source{
		pipeline.TokenBuilder: token.File(s.Path("builder.token")), pipeline.TokenUnisolated: token.File(s.Path("builder.token")),
		pipeline.TokenRelease: token.File(s.Path("release.token")),
	}
	line, err := pipeline.New(pipeline.Config{
		Gate: by, Version: s.Version, RunState: pipeline.RunState{State: s.State()}, Source: pipeline.Source{Repository: cmp.Or(s.Source, s.Path("source"))},
		Signing: pipeline.Signing{Tokens: tokens}, Report: func(context.Context, string, ...any) {},
		World: pipeline.World{Transport: http.DefaultTransport, Clock: time.Now, OpenWriter: func(uri string) (store.Writer, error) {
			return cloud.OpenWriter(uri, http.DefaultTransport)
		}},
	})
	if err != nil {
		return err
	}
	if _, err := line.Stage(ctx); err != nil {
		return err
	}
	_, err = line.Release(ctx)
	return err
}
