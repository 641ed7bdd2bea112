package interop

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// oldCosign is cosign 2 signing as it did before bundles, with the log of that
// time.
type oldCosign struct {
	lab   *lab.Lab
	path  string
	dir   string
	env   []string
	flags []string

	answers *table
}

// TestLegacyForms has cosign 2 sign a file and an image in the forms from
// before the Sigstore bundle and asks us; then the same with one fact changed.
func TestLegacyForms(t *testing.T) {
	l := lab.New(t)
	o := openLegacy(t, l, filepath.Join(peers(t), "cosign2"))
	trusted, err := trust.Parse(l.TrustedRoot)
	if err != nil {
		t.Fatal(err)
	}
	v, err := verify.New(trusted)
	if err != nil {
		t.Fatal(err)
	}
	o.answers = &table{head: []string{"what cosign 2 signed", "and how it is asked about", "waybill"}}
	t.Run("file", func(t *testing.T) { o.file(t, v) })
	t.Run("image", func(t *testing.T) { o.image(t, v) })
	onPage(t, "legacy: we verify theirs", *o.answers)
}

func openLegacy(t *testing.T, l *lab.Lab, path string) oldCosign {
	t.Helper()
	o := oldCosign{lab: l, path: path, dir: t.TempDir()}
	var root struct {
		CAs []struct{ CertChain struct{ Certificates []raw } } `json:"certificateAuthorities"`
		CT  []struct{ PublicKey raw }                          `json:"ctlogs"`
		Log []struct {
			BaseURL   string `json:"baseUrl"`
			PublicKey raw
		} `json:"tlogs"`
	}
	if err := json.Unmarshal(l.TrustedRoot, &root); err != nil {
		t.Fatal(err)
	}
	for _, c := range root.CAs[0].CertChain.Certificates {
		o.add(t, "fulcio.pem", "CERTIFICATE", c)
	}
	o.add(t, "ct.pem", "PUBLIC KEY", root.CT[0].PublicKey)
	for _, log := range root.Log {
		if log.BaseURL == l.RekorV1 {
			o.add(t, "rekor.pem", "PUBLIC KEY", log.PublicKey)
		}
	}
	o.env = []string{
		"HOME=" + o.dir, "DOCKER_CONFIG=" + o.dir, "PATH=" + os.Getenv("PATH"), "COSIGN_PASSWORD=",
		"SIGSTORE_ROOT_FILE=" + o.at("fulcio.pem"), "SIGSTORE_CT_LOG_PUBLIC_KEY_FILE=" + o.at("ct.pem"), "SIGSTORE_REKOR_PUBLIC_KEY=" + o.at("rekor.pem"),
	}
	o.flags = []string{
		"--yes", "--new-bundle-format=false", "--fulcio-url", l.Fulcio, "--rekor-url", l.RekorV1,
		"--oidc-issuer", l.Issuer, "--identity-token", l.Token(lab.RoleRelease),
	}
	return o
}

type raw struct {
	RawBytes []byte `json:"rawBytes"`
}

func (o oldCosign) at(name string) string { return filepath.Join(o.dir, name) }

func (o oldCosign) add(t *testing.T, name, kind string, r raw) {
	t.Helper()
	f, err := os.OpenFile(o.at(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := pem.Encode(f, &pem.Block{Type: kind, Bytes: r.RawBytes}); err != nil {
		t.Fatal(err)
	}
}

func (o oldCosign) run(t *testing.T, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), o.path, args...)
	cmd.Env = o.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("cosign %s: %v\n%s", args[0], err, out)
	}
}

// ask is whose word is asked for.
func (o oldCosign) ask(t *testing.T, v *verify.Verifier, role string) gate.Ask {
	t.Helper()
	issuer, subject := o.lab.Identity(role)
	who, err := identity.Exact(identity.Identity{Issuer: issuer, Subject: subject, Type: identity.Email})
	if err != nil {
		t.Fatal(err)
	}
	return gate.Ask{Signer: gate.SignedBy(v, who)}
}

func expectCode(t *testing.T, v *verdict.Verdict, want verdict.Code, row []string) {
	t.Helper()
	var got verdict.Code
	if v.Outcome() != verdict.Accepted && len(v.Findings) > 0 {
		got = v.Findings[0].Code
	}
	if got != want || want == "" && v.Outcome() != verdict.Accepted {
		t.Errorf("%s %s, want %s: %+v", v.Outcome(), got, want, v.Findings)
	}
	if row[2] = string(got); got == "" {
		row[2] = v.Outcome().String()
	}
}

func (o oldCosign) file(t *testing.T, v *verify.Verifier) {
	for _, file := range []string{"a", "b"} {
		if err := os.WriteFile(o.at(file), []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	args := append([]string{"sign-blob"}, o.flags...)
	o.run(t, append(args, "--output-signature", o.at("a.sig"), "--output-certificate", o.at("a.cert"), "--bundle", o.at("a.bundle"), o.at("a"))...)
	log, err := rekorv1.Open(o.lab.RekorV1, http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		file   gate.File
		role   string
		finder rekorv1.Finder
		want   verdict.Code
	}{
		{"signature and certificate", gate.File{Path: o.at("a"), Signature: o.at("a.sig"), Certificate: o.at("a.cert")}, lab.RoleRelease, rekorv1.Finder{Log: log}, ""},
		{"nobody to ask when", gate.File{Path: o.at("a"), Signature: o.at("a.sig"), Certificate: o.at("a.cert")}, lab.RoleRelease, rekorv1.Finder{}, verdict.LogUnasked},
		{"of another file", gate.File{Path: o.at("b"), Signature: o.at("a.sig"), Certificate: o.at("a.cert")}, lab.RoleRelease, rekorv1.Finder{Log: log}, verdict.SignatureBad},
		{"by another identity", gate.File{Path: o.at("a"), Signature: o.at("a.sig"), Certificate: o.at("a.cert")}, lab.RoleBuilder, rekorv1.Finder{Log: log}, verdict.Identity},
		{"bundle", gate.File{Path: o.at("a"), Bundle: o.at("a.bundle")}, lab.RoleRelease, rekorv1.Finder{}, ""},
		{"bundle of another file", gate.File{Path: o.at("b"), Bundle: o.at("a.bundle")}, lab.RoleRelease, rekorv1.Finder{}, verdict.LogEntryUnbound},
	} {
		row := o.answers.row("file", c.name)
		t.Run(c.name, func(t *testing.T) {
			expectCode(t, gate.Files(t.Context(), gate.FileRequest{Files: []gate.File{c.file}, Ask: o.ask(t, v, c.role), Finder: c.finder, Now: time.Now()}), c.want, row)
		})
	}
}

func (o oldCosign) image(t *testing.T, v *verify.Verifier) {
	ref, err := name.NewTag(o.lab.Registry+"/demo:v1", name.Insecure)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, empty.Image); err != nil {
		t.Fatal(err)
	}
	hash, err := empty.Image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	d, err := digest.Parse(hash.String())
	if err != nil {
		t.Fatal(err)
	}
	target := o.lab.Registry + "/demo@" + d.String()
	if err := os.WriteFile(o.at("predicate.json"), []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const kind = "https://example.test/inspected/v1"
	o.run(t, append(append([]string{"sign", "--allow-http-registry"}, o.flags...), target)...)
	o.run(t, append(append([]string{"attest", "--allow-http-registry", "--predicate", o.at("predicate.json"), "--type", kind}, o.flags...), target)...)
	source, err := registry.OpenRemote(strings.TrimSuffix(o.lab.Registry, "/"), http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, role, kind string
		want             verdict.Code
	}{
		{"signature", lab.RoleRelease, "", ""},
		{"signature by another identity", lab.RoleBuilder, "", verdict.Identity},
		{"attestation", lab.RoleRelease, kind, ""},
		{"attestation by another identity", lab.RoleBuilder, kind, verdict.Identity},
		{"attestation of another kind", lab.RoleRelease, "https://example.test/other", verdict.PredicateNone},
	} {
		row := o.answers.row("image", c.name)
		t.Run(c.name, func(t *testing.T) {
			ask := o.ask(t, v, c.role)
			ask.Type = c.kind
			request := gate.ImageRequest{Images: []gate.Image{{Source: source, Name: target, Repository: "demo", Digest: d}}, Ask: ask, Now: time.Now()}
			expectCode(t, gate.Images(t.Context(), request), c.want, row)
		})
	}
}
