package simulate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/pipeline"
	kits "github.com/waybill-release/waybill/pkg/pipeline/kit"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// The hosts that each world makes anew: where releases go.
const (
	destBucket   = "127.0.0.1:9001"
	destRegistry = "127.0.0.1:9002"
)

// leases is where actors exclude each other.
const leases = "gs+http://" + destBucket + "/leases/"

// Made is a release that was made once for all worlds: built, and in a copy of its
// workspace also signed, sealed and staged.
type Made struct {
	*scene.Scene
	// Built is its workspace before anything is signed; Staged is it afterwards.
	Built, Staged string
	// Since is a time after all that.
	Since time.Time

	version version.Version
	logged  int               // entries of the log
	files   map[string][]byte // as they are staged
	images  []staged
	tiny    []staged          // more of them, without evidence
	older   []byte            // a kit that has the evidence only
	names   map[string]string // of digests, see [World.Names]
}

// Make makes the release of an example in a directory.
func Make(ctx context.Context, dir, example string) (*Made, error) {
	s, err := scene.Open(ctx, scene.Options{Dir: filepath.Join(dir, "scene"), Example: example})
	if err != nil {
		return nil, err
	}
	m := &Made{Scene: s, Built: s.Path("built"), Staged: s.Path("staged"), files: map[string][]byte{}, names: map[string]string{}}
	if err := m.make(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	http.DefaultClient.CloseIdleConnections() // else the machine's time closes them, within a run
	m.Since = time.Now().Add(time.Minute).Truncate(time.Second)
	_, m.logged = m.Lab.LoggedSince(0)
	return m, nil
}

func (m *Made) make(ctx context.Context) (err error) {
	if m.version, err = version.Parse(scene.Version); err != nil {
		return err
	}
	if err := m.writeProfile(); err != nil {
		return err
	}
	now := process{Transport: http.DefaultTransport, Clock: time.Now, Profile: "profile.yaml"}
	built, err := m.pipeline(ctx, now, m.Built)
	if err != nil {
		return err
	}
	if err := errors.Join(built.Build(ctx), built.SBOM(ctx)); err != nil {
		return err
	}
	if err := os.CopyFS(m.Staged, os.DirFS(m.Built)); err != nil {
		return err
	}
	p, err := m.pipeline(ctx, now, m.Staged)
	if err != nil {
		return err
	}
	for _, act := range []func(context.Context) error{p.Sign, p.Seal, p.PromoteToStaging} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	g, err := m.gate(ctx, now)
	if err == nil {
		err = m.export(ctx, g, now, m.Path("older.kit"), kits.Form{EvidenceOnly: true})
	}
	if err == nil {
		m.older, err = os.ReadFile(m.Path("older.kit"))
	}
	return errors.Join(err, m.read(ctx), m.pushTiny(ctx))
}

// writeProfile sends releases to the hosts of the worlds, and adds a profile for files
// that have a signature only.
func (m *Made) writeProfile() error {
	raw, err := os.ReadFile(m.Path("profile.yaml"))
	if err != nil {
		return err
	}
	text := strings.NewReplacer(
		m.Places.Files+"/release", "gs+http://"+destBucket+"/release", m.Places.Images+"/release", destRegistry+"/release",
		"modules:", "records: {verifier: \"https://verifier.example.test/v1\", policy: \"https://example.test/policy.yaml\"}\nmodules:",
	).Replace(string(raw))
	policy, err := os.ReadFile(m.Path("policy.yaml"))
	if err != nil {
		return err
	}
	signed := strings.Replace(string(policy), "{provenance: require, signature: require, sbom: require}", `{provenance: "off", signature: require, sbom: "off"}`, 1)
	files := strings.Replace(text, "policy: policy.yaml", "policy: signed.yaml", 1)
	issuer, subject := m.Lab.Identity("reconciler@lab.invalid")
	reconciles := strings.Replace(string(policy), "roles:\n", fmt.Sprintf("roles:\n  reconciler: [{issuer: %q, subject: %q, type: email}]\n", issuer, subject), 1)
	features := strings.Replace(text, "policy: policy.yaml", "policy: reconciles.yaml", 1)
	for name, text := range map[string]string{
		"profile.yaml": text, "signed.yaml": signed, "files.yaml": files, "reconciles.yaml": reconciles, "features.yaml": features,
	} {
		if err := os.WriteFile(m.Path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// process is how one process of the product reaches the world.
type process struct {
	Transport http.RoundTripper
	Clock     func() time.Time
	Profile   string
	pipeline.Exclusion
}

// process is how the actor reaches its world.
func (a *Actor) process() process {
	return process{a.Transport, a.Clock, "profile.yaml", pipeline.Exclusion{Lease: leases, Term: term}}
}

// pipeline is the product's own pipeline on a workspace, as the commands make it.
func (m *Made) pipeline(ctx context.Context, in process, state string) (*pipeline.Pipeline, error) {
	by, err := m.gate(ctx, in)
	if err != nil {
		return nil, err
	}
	c := pipeline.Config{
		Gate: by, Version: m.version, Source: pipeline.Source{Repository: m.Path("lantern")},
		RunState: pipeline.RunState{State: state, Exclusion: in.Exclusion},
		Signing:  pipeline.Signing{Tokens: map[string]token.Source{}}, Report: func(context.Context, string, ...any) {},
		World: pipeline.World{
			Transport: in.Transport, Clock: in.Clock, Work: sign.Work{Patience: 10 * time.Minute},
			OpenPlace: func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, in.Transport) },
			OpenWriter: func(uri string) (store.Writer, error) {
				if strings.Contains(uri, "://") {
					return cloud.OpenWriter(uri, in.Transport)
				}
				return store.OpenWriter(uri)
			},
		},
	}
	for _, role := range []string{pipeline.TokenBuilder, pipeline.TokenUnisolated, pipeline.TokenRelease, pipeline.TokenVerifier} {
		c.Tokens[role] = minted{m.Lab, role}
	}
	p, err := pipeline.New(c)
	if err != nil {
		return nil, fmt.Errorf("simulate: %w", err)
	}
	return p, nil
}

// minted are tokens of a role, fresh ones.
type minted struct {
	lab  *lab.Lab
	role string
}

// Token implements [token.Source].
func (m minted) Token(context.Context) (string, error) { return m.lab.Mint(m.role, nil) }

// String implements [token.Source].
func (m minted) String() string { return "the lab" }
