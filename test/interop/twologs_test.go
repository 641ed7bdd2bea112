package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	trustroot "github.com/sigstore/protobuf-specs/gen/pb-go/trustroot/v1"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// twoLogs is a lab of two operators, each with a log and a timestamp authority,
// and the peers in it.
type twoLogs struct {
	*world
	policy   policy.Policy
	root     trust.Root
	verifier *verify.Verifier // asks for both
}

// TestTwoLogs signs a file with the logs and timestamp authorities of two
// operators, as the selector of the signing configuration says, and asks the
// peers; then cosign 3 signs with the same, and we ask for both.
func TestTwoLogs(t *testing.T) {
	bin, dir := peers(t), t.TempDir()
	l := lab.NewWith(t, lab.Options{Second: true})
	s := &scene.Scene{Options: scene.Options{Dir: dir}, Lab: l}
	w := twoLogs{world: &world{Scene: s, dir: dir}}
	w.write(t, "trusted_root.json", l.TrustedRoot)
	w.write(t, "article", []byte(article))
	w.cosign2, w.cosign3 = openCosign(t, s, filepath.Join(bin, "cosign2")), openCosign(t, s, filepath.Join(bin, "cosign3"))
	w.cosign2.bundles, w.cosign2.offline = []string{"--new-bundle-format"}, []string{"--offline"}
	w.open(t)
	answers := table{head: []string{"signed by", "selector", "log entries", w.cosign2.title(), w.cosign3.title(), "waybill, asking for two"}}
	for _, c := range []struct {
		name    string
		asked   lab.Signing
		entries int
	}{
		{"ANY", lab.Signing{}, 1},
		{"ALL", lab.Signing{Selector: trustroot.ServiceSelector_ALL}, 2},
		{"EXACT 2", lab.Signing{Selector: trustroot.ServiceSelector_EXACT, Count: 2}, 2},
	} {
		config, err := l.SigningConfigFor(c.asked)
		if err != nil {
			t.Fatal(err)
		}
		w.write(t, "signing_config.json", config)
		for _, by := range []struct {
			name string
			sign func(*testing.T, []byte) string
		}{{"waybill", w.signs}, {w.cosign3.title(), w.cosignSigns}} {
			row := answers.row(by.name, c.name, "", "", "", "")
			t.Run(by.name+" "+c.name, func(t *testing.T) { w.judge(t, by.sign(t, config), c.entries, row) })
		}
	}
	onPage(t, "two logs", answers)
}

func (w *twoLogs) open(t *testing.T) {
	t.Helper()
	issuer, subject := w.Lab.Identity(lab.RoleRelease)
	text := fmt.Sprintf(`apiVersion: waybill/v1
kind: Policy
name: signing
roles: {release: [{issuer: %[1]q, subject: %[2]q, type: email}]}
builders:
- {id: https://example.test/builder, level: 1, signers: [{issuer: %[1]q, subject: builder@lab.invalid, type: email}]}
source: {repository: "git+https://example.test/source"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, issuer, subject)
	var err error
	if w.policy, err = policy.Parse([]byte(text), nil); err != nil {
		t.Fatal(err)
	}
	if w.root, err = trust.Parse(w.Lab.TrustedRoot); err != nil {
		t.Fatal(err)
	}
	if w.verifier, err = verify.NewWith(w.root, verify.Rules{Logs: 2, Times: 2, SCTs: 1}); err != nil {
		t.Fatal(err)
	}
}

// signs has Waybill sign the article.
func (w *twoLogs) signs(t *testing.T, config []byte) string {
	t.Helper()
	services, err := sign.ParseServices(config, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	plain, err := verify.New(w.root)
	if err != nil {
		t.Fatal(err)
	}
	s, err := sign.New(sign.Config{
		Role: policy.Release, Policy: w.policy, Verifier: plain, Services: services, Transport: http.DefaultTransport, Clock: time.Now,
		Token: func(context.Context) (string, error) { return w.Lab.Token(lab.RoleRelease), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, _, err := s.Blob(t.Context(), digest.SetOf([]byte(article)))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bundle.json")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// cosignSigns has cosign 3 sign it.
func (w *twoLogs) cosignSigns(t *testing.T, _ []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bundle.json")
	_, err := w.cosign3.run(t.Context(), "sign-blob", "--identity-token", w.Lab.Token(lab.RoleRelease), "--yes",
		"--trusted-root", w.Path("trusted_root.json"), "--signing-config", w.Path("signing_config.json"), "--bundle", path, w.file("article"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// judge asks everybody about a bundle, and counts its entries.
func (w *twoLogs) judge(t *testing.T, path string, want int, row []string) {
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	row[2] = fmt.Sprint(entriesOf(t, raw))
	if row[2] != fmt.Sprint(want) {
		t.Errorf("%s log entries, want %d", row[2], want)
	}
	for i, c := range []cosign{w.cosign2, w.cosign3} {
		err := c.verify(t.Context(), ask{verb: "verify-blob", role: lab.RoleRelease, bundle: path, target: w.file("article")})
		if row[i+3] = answer(err); err != nil {
			t.Error(err)
		}
	}
	_, err = w.verifier.Blob(raw, digest.SetOf([]byte(article)))
	if row[5] = answer(err); (err == nil) != (want == 2) {
		t.Errorf("asking for two logs: %v", err)
	}
}

// entriesOf counts the log entries of a bundle.
func entriesOf(t *testing.T, raw []byte) int {
	t.Helper()
	var b struct {
		VerificationMaterial struct{ TlogEntries []json.RawMessage }
	}
	if err := json.Unmarshal(raw, &b); err != nil {
		t.Fatal(err)
	}
	return len(b.VerificationMaterial.TlogEntries)
}
