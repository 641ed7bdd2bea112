package attacks

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// byWorkflow is a policy by which a workflow of the forge signs, at any tag,
// on one kind of runner.
const byWorkflow = `apiVersion: waybill/v1
kind: Policy
name: workflows
roles:
  release:
  - {issuer: %q, pattern: 'https://forge\.example/lantern/lantern/\.ci/release\.yml@refs/tags/v[0-9.]+', type: uri, claims: {runnerEnvironment: hosted}}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: "off", signature: require, sbom: "off"}
- {stages: [staging, release], classes: [image-child], checks: {provenance: "off", signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`

// TestPolicyWorkflows: of an address, all of it counts, and so does what the
// certificate claims besides (C05, C07, C24).
func TestPolicyWorkflows(t *testing.T) {
	w := theWorld(t)
	f := w.forger(t)
	p := must[policy.Policy](t)(policy.Parse(fmt.Appendf(nil, byWorkflow, w.Lab.Issuer), nil))
	const meant = "https://forge.example/lantern/lantern/.ci/release.yml@refs/tags/v0.1.0"
	rows := []struct {
		name, address, issuer, runner string
		codes                         []verdict.Code
	}{
		{"the workflow", meant, w.Lab.Issuer, "hosted", nil},
		{"C05 the address in another's query", "https://evil.example/?ref=" + meant, w.Lab.Issuer, "hosted", codes(verdict.Identity)},
		{"C05 the address in another's path", "https://evil.example/" + strings.TrimPrefix(meant, "https://"), w.Lab.Issuer, "hosted", codes(verdict.Identity)},
		{"C05 the host in another's name", "https://forge.example.evil.example/lantern/lantern/.ci/release.yml@refs/tags/v0.1.0", w.Lab.Issuer, "hosted", codes(verdict.Identity)},
		{"C05 the host as another's user", "https://forge.example@evil.example/lantern/lantern/.ci/release.yml@refs/tags/v0.1.0", w.Lab.Issuer, "hosted", codes(verdict.Identity)},
		{"C02 more behind it", meant + "/../../evil", w.Lab.Issuer, "hosted", codes(verdict.Identity)},
		{"a branch", strings.Replace(meant, "tags", "heads", 1), w.Lab.Issuer, "hosted", codes(verdict.Identity)},
		{"C07 another issuer", meant, "https://evil.example", "hosted", codes(verdict.Identity)},
		{"C24 another runner", meant, w.Lab.Issuer, "self-hosted", codes(verdict.Claim)},
		{"C24 no word on the runner", meant, w.Lab.Issuer, "", codes(verdict.Claim)},
	}
	set := digest.SetOf([]byte(artifact))
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			a := f.author(t, names(noEmail).then(uri(r.address)).then(f.issuer(r.issuer)).then(onRunner(r.runner)))
			e := must[verify.Evidence](t)(w.verifier.Blob(encode(t, a.sign(t, blob())), set))
			v := p.Decide([]verify.Evidence{e}, policy.Question{Stage: policy.Published, Class: plan.Binary, Subject: "bin/a", Bytes: set, At: time.Now()})
			refused(t, v.Err(), r.codes...)
		})
	}
}

// onRunner claims the kind of runner, as the authority would after asking the
// platform.
func onRunner(kind string) names {
	return func(c *x509.Certificate) {
		if kind == "" {
			return
		}
		text, err := asn1.MarshalWithParams(kind, "utf8")
		if err != nil {
			panic("attacks: " + err.Error())
		}
		c.ExtraExtensions = append(c.ExtraExtensions, pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 11}, Value: text})
	}
}
