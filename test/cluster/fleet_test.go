package cluster_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/cluster"
)

// fleet is a plan to promote many small images, each with a signature of the
// release identity, from one repository to another, and what judges them.
type fleet struct {
	*lab.Lab
	t    *testing.T
	dir  string
	plan promotionplan.Plan
	from string   // the registry and repository of the sources
	to   string   // the registry of the destinations
	door *doorway // before that registry, if it is not nil
	// unsigned leaves the first image without a signature.
	unsigned bool
	pushed   func() // called when the images are pushed, if it is not nil
}

// batch is how many images one signature names.
const batch = 50

// openFleet pushes and signs images, and plans their promotion. Fulcio takes the
// tokens of the cluster's service accounts.
func openFleet(t *testing.T, c *cluster.Cluster, images int, change func(*fleet)) *fleet {
	t.Helper()
	f := &fleet{t: t, dir: t.TempDir(), Lab: lab.NewWith(t, lab.Options{Clusters: []string{c.Issuer}})}
	f.from, f.to = f.Registry, f.Registry
	if change != nil {
		change(f)
	}
	digests := f.push(images)
	if f.pushed != nil {
		f.pushed()
	}
	var manifest strings.Builder
	fmt.Fprintf(&manifest, "registries:\n- {name: %s/staging/fleet, src: true}\n- {name: %s/prod}\nimages:\n- name: demo\n  dmap:\n", f.from, f.to)
	for i, d := range digests {
		fmt.Fprintf(&manifest, "    %q: [v%d]\n", d, i)
	}
	f.write("m.yaml", manifest.String())
	out, code := f.run("promote", "plan", "m.yaml", "-o", "json")
	if code != 0 {
		t.Fatal(out)
	}
	f.write("plan.json", out)
	var err error
	if f.plan, err = promotionplan.Parse([]byte(out)); err != nil {
		t.Fatal(err)
	}
	issuer, subject := f.Identity(lab.RoleRelease)
	f.write("trusted_root.json", string(f.TrustedRoot))
	f.write("signing_config.json", string(f.SigningConfig))
	f.write("policy.yaml", fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: fleet
roles:
  release: [{issuer: %q, subject: %q, type: email}]
  verifier: [{issuer: %q, subject: "https://kubernetes.io/namespaces/default/serviceaccounts/promoter", type: uri}]
  policy: [{issuer: %q, subject: policy@example.test, type: email}]
require:
- {stages: [staging, release], classes: [binary, archive, file, image], checks: {signature: require, provenance: "off", sbom: "off"}}
- {stages: [staging, release], classes: [image-child], checks: {signature: require, provenance: "off"}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: "off"
closed: {files: "off", images: "off"}
`, issuer, subject, c.Issuer, issuer))
	f.profile("")
	return f
}

// profile writes the profile, with records or without.
func (f *fleet) profile(records string) {
	f.t.Helper()
	f.write("profile.yaml", fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: fleet
policy: policy.yaml
trustedRoot: trusted_root.json
signingConfig: signing_config.json
%splaces:
  files: {canonical: "https://dl.example.test/{version}/", release: "https://dl.example.test/{version}/"}
`, records))
}

func (f *fleet) write(name, text string) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), []byte(text), 0o644); err != nil {
		f.t.Fatal(err)
	}
}

// run runs waybill beside the cluster, as the person does who plans and merges. It
// returns what it printed: standard output alone if all is well.
func (f *fleet) run(args ...string) (out string, code int) {
	f.t.Helper()
	cmd := exec.CommandContext(f.t.Context(), filepath.Join(bin, "waybill"), args...)
	cmd.Dir = f.dir
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+filepath.Join(f.dir, "cache"))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return stdout.String() + stderr.String(), exit.ExitCode()
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return stdout.String(), 0
}

// bucket is a place in the lab's bucket.
func (f *fleet) bucket(name string) string {
	return strings.Replace(f.Bucket, "http://", "gs+http://", 1) + "/mirror/" + name
}

// account is what a merge says of every item.
type account struct {
	Outcome string
	Counts  struct{ Verified, Required, Missing int }
}

// merge accounts for every item of the plan. It fails if one is not accounted for.
func (f *fleet) merge(results string) (account, int, string) {
	f.t.Helper()
	out, code := f.run("promote", "merge", "plan.json", "--results", results, "--output", "table", "--output", "json=merged.json")
	raw, err := os.ReadFile(filepath.Join(f.dir, "merged.json"))
	var a account
	if err = errors.Join(err, json.Unmarshal(raw, &a)); err != nil {
		f.t.Fatal(err, out)
	}
	if a.Counts.Required != len(f.plan.Edges) {
		f.t.Errorf("the merge accounts for %d items, and the plan has %d", a.Counts.Required, len(f.plan.Edges))
	}
	return a, code, out
}

// complete fails the test unless the merge accepts and every tag is where the plan
// has it.
func (f *fleet) complete(results string) {
	f.t.Helper()
	a, code, out := f.merge(results)
	if n := len(f.plan.Edges); code != 0 || a.Counts.Verified != n {
		f.t.Fatalf("merge ended with %d, %+v, of %d:\n%s", code, a, n, out)
	}
	f.t.Log(out)
	at, err := registry.OpenRemote(f.to+"/prod", http.DefaultTransport)
	if err != nil {
		f.t.Fatal(err)
	}
	var group errgroup.Group
	group.SetLimit(8)
	for _, e := range f.plan.Edges {
		group.Go(func() error {
			d, err := at.Resolve(f.t.Context(), "demo", e.Tags[0])
			if err != nil || !d.Digest.Equal(e.Digest) {
				return fmt.Errorf("%s: %v, %w", e.Tags[0], d.Digest, err)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		f.t.Error(err)
	}
}

// push pushes images, and a signature of each. It returns their digests.
func (f *fleet) push(n int) []string {
	f.t.Helper()
	to, err := registry.OpenRemote(f.Registry+"/staging/fleet", http.DefaultTransport)
	if err != nil {
		f.t.Fatal(err)
	}
	pushed := make([]registry.Descriptor, n)
	group, ctx := errgroup.WithContext(f.t.Context())
	group.SetLimit(4)
	for i := range pushed {
		group.Go(func() (err error) {
			pushed[i], err = pushImage(ctx, to, fmt.Sprint("image ", i))
			return err
		})
	}
	if err := group.Wait(); err != nil {
		f.t.Fatal(err)
	}
	group, ctx = errgroup.WithContext(f.t.Context())
	group.SetLimit(4)
	first := 0
	if f.unsigned {
		first = 1
	}
	for from := first; from < n; from += batch {
		group.Go(func() error { return f.sign(ctx, to, pushed[from:min(from+batch, n)]) })
	}
	if err := group.Wait(); err != nil {
		f.t.Fatal(err)
	}
	digests := make([]string, n)
	for i, d := range pushed {
		digests[i] = d.Digest.String()
	}
	return digests
}

// pushImage pushes an image of one platform and one small layer.
func pushImage(ctx context.Context, to *registry.Remote, body string) (registry.Descriptor, error) {
	built, err := image.Build(ctx, image.Spec{Base: image.Scratch(), Entrypoint: []string{"/which"}, Created: time.Unix(0, 0), Platforms: []image.Platform{
		{OS: "linux", Arch: "amd64", Files: []image.File{{Path: "/which", Mode: 0o644, Size: int64(len(body)), Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(body)), nil }}}},
	}})
	if err != nil {
		return registry.Descriptor{}, err
	}
	index, err := built.Write(ctx, to, "demo")
	if err != nil {
		return registry.Descriptor{}, err
	}
	node, err := registry.Graph(ctx, to, "demo", index)
	if err != nil {
		return registry.Descriptor{}, err
	}
	return node.Children[0].Descriptor, nil // it goes without the index
}

// sign signs images in one statement, as the release identity, and attaches that to
// each.
func (f *fleet) sign(ctx context.Context, to *registry.Remote, images []registry.Descriptor) error {
	var subjects []string
	for _, d := range images {
		subjects = append(subjects, fmt.Sprintf(`{"name":"demo","digest":{"sha256":%q}}`, d.Digest.Hex()))
	}
	statement := fmt.Appendf(nil, `{"_type":%q,"subject":[%s],"predicateType":%q,"predicate":{}}`, intoto.TypeV1, strings.Join(subjects, ","), intoto.CosignSignature)
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		return err
	}
	made, err := sign.Bundle(&sign.DSSEData{Data: statement, PayloadType: intoto.PayloadType}, pair, sign.BundleOptions{
		Context: ctx, CertificateProvider: sign.NewFulcio(&sign.FulcioOptions{BaseURL: f.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: f.Token(lab.RoleRelease)},
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: f.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: f.Rekor, Version: 2})},
	})
	if err != nil {
		return err
	}
	bundle, err := protojson.Marshal(made)
	if err != nil {
		return err
	}
	for _, d := range images {
		manifest, raw, blobs := registry.BundleManifest(d, bundle, intoto.CosignSignature)
		for _, b := range blobs {
			if err := to.PushBlob(ctx, "demo", b.Descriptor, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(b.Bytes)), nil }); err != nil {
				return err
			}
		}
		if err := to.PushManifest(ctx, "demo", manifest, raw); err != nil {
			return err
		}
	}
	return nil
}

func (f *fleet) read(name string) string {
	f.t.Helper()
	raw, err := os.ReadFile(filepath.Join(f.dir, name))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(raw)
}
