package attacks

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
)

// lax requires neither provenance nor SBOMs, and lets another identity sign
// manifests and files too.
func (w *world) lax(t testing.TB, mode string, more ...string) policy.Policy {
	t.Helper()
	body := string(must[[]byte](t)(os.ReadFile(w.Path("policy.yaml"))))
	for _, check := range []string{"provenance", "sbom"} {
		body = strings.ReplaceAll(body, check+": require", check+": "+mode)
	}
	body = strings.Replace(body, "plan: require\n", "plan: \"off\"\n"+strings.Join(more, ""), 1)
	return must[policy.Policy](t)(policy.Parse([]byte(body), nil))
}

// TestLessThanTheReleaseBefore: a release that its policy accepts lacks what the
// remembered release before it had, or has it by another signer. Each row passes
// if no release is remembered.
func TestLessThanTheReleaseBefore(t *testing.T) {
	w := theWorld(t)
	off, warn := w.lax(t, `"off"`), w.lax(t, "warn")
	deputy := w.policy(t, "]\n  verifier: [", ", {issuer: \""+w.Lab.Issuer+"\", subject: deputy@lab.invalid, type: email}]\n  verifier: [")
	older, newer := must[version.Version](t)(version.Parse("v0.0.9")), must[version.Version](t)(version.Parse("v0.2.0"))
	whole := w.decided(t, w.attacked(t), off, nil)
	had := w.decided(t, w.attacked(t), w.profile.Policy, nil).Evidence
	if !slices.Contains(had, "binary sbom") || !slices.Contains(had, "manifest signature") || len(whole.Evidence) == 0 {
		t.Fatalf("evidence %q", had)
	}
	without := func(check string) func(testing.TB, *attacked) {
		return func(t testing.TB, r *attacked) {
			r.reseal(t, func(m *manifest.Manifest) {
				for i := range m.Artifacts {
					if a := &m.Artifacts[i]; a.Name == binary && check == "provenance" {
						a.Provenance = ""
					} else if a.Name == binary {
						a.SBOM = ""
					}
				}
			})
		}
	}
	for _, row := range []struct {
		name   string
		do     func(testing.TB, *attacked)
		policy policy.Policy
		had    []string
		want   string // of the finding; empty if the release passes
	}{
		{"nothing is missing", func(testing.TB, *attacked) {}, off, had, ""},
		{"an SBOM is dropped", without("sbom"), off, had, `"binary sbom"`},
		{"an SBOM is dropped, which all never had", without("sbom"), off, slices.DeleteFunc(slices.Clone(had), func(l string) bool { return l == "binary sbom" }), ""},
		{"provenance is dropped that is not read", without("provenance"), off, had, `"binary provenance"`},
		{"provenance is dropped of which the policy warns", without("provenance"), warn, had, `"binary provenance"`},
		{"provenance is dropped, which all never had", without("provenance"), off, slices.DeleteFunc(slices.Clone(had), func(l string) bool { return strings.HasPrefix(l, "binary provenance") }), ""},
		{"provenance of a stranger, of which the policy warns", func(t testing.TB, r *attacked) {
			r.write(t, compiled, r.sign(t, "mallory@evil.example", r.statement(t, compiled).Raw()))
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, compiled) })
		}, warn, had, `"binary provenance"`},
		{"a kind that a class never had", func(testing.TB, *attacked) {}, off, append([]string{"document signature"}, had...), ""},
		{"a release identity that is not the former one", func(t testing.TB, r *attacked) {
			r.write(t, releasemanifest.Name, r.sign(t, "deputy@lab.invalid", r.statement(t, releasemanifest.Name).Raw()))
		}, deputy, had, `"manifest signature" is signed by`},
		{"both former signers are known", func(t testing.TB, r *attacked) {
			r.write(t, releasemanifest.Name, r.sign(t, "deputy@lab.invalid", r.statement(t, releasemanifest.Name).Raw()))
		}, deputy, append([]string{"manifest signature by " + w.Lab.Issuer + " deputy@lab.invalid"}, had...), ""},
		{"another signer signed the one before", func(testing.TB, *attacked) {}, off, strings.Split(strings.ReplaceAll(strings.Join(had, "\n"), lab.RoleRelease, "former"), "\n"), `"manifest signature" is signed by`},
		{"allowed by the policy", without("sbom"), w.lax(t, `"off"`, "regression: \"off\"\n"), had, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			r := w.attacked(t)
			row.do(t, r)
			accepted(t, w.decided(t, r, row.policy, nil).Verdict.Err())
			accepted(t, w.decided(t, r, row.policy, map[version.Version][]string{}).Verdict.Err())
			accepted(t, w.decided(t, r, row.policy, map[version.Version][]string{newer: had, w.version: had}).Verdict.Err())
			d := w.decided(t, r, row.policy, map[version.Version][]string{older: row.had, newer: {"binary signature"}})
			if row.want == "" {
				accepted(t, d.Verdict.Err())
				return
			}
			refused(t, d.Verdict.Err(), verdict.Regressed)
			if !slices.ContainsFunc(d.Verdict.Findings, func(f verdict.Finding) bool { return strings.Contains(f.Message, row.want) }) || d.Evidence != nil {
				t.Errorf("%v, remembers %q", d.Verdict.Findings, d.Evidence)
			}
		})
	}
}

// decided is the whole decision about a release after those that are remembered.
func (w *world) decided(t testing.TB, r *attacked, p policy.Policy, earlier map[version.Version][]string, edits ...func(*gate.Request)) gate.Decided {
	t.Helper()
	var req gate.Request
	r.gate(t, append(edits, func(q *gate.Request) { q.Policy, q.Earlier = p, earlier; req = *q })...)
	return gate.Decide(t.Context(), req)
}

// TestExceptionFromTheReleaseBefore: the officer's exception for this artifact
// lets the release pass, which is then not remembered; one for another artifact
// does not. With regression: warn it passes with a warning.
func TestExceptionFromTheReleaseBefore(t *testing.T) {
	w := theWorld(t)
	r, p := w.attacked(t), w.lax(t, `"off"`)
	earlier := map[version.Version][]string{must[version.Version](t)(version.Parse("v0.0.9")): w.decided(t, r, p, nil).Evidence}
	r.reseal(t, func(m *manifest.Manifest) { entry(t, m, binary).SBOM = "" })
	excepted := func(name string) func(*gate.Request) {
		return func(q *gate.Request) {
			at := time.Now().UTC().Truncate(time.Second)
			st := must[intoto.Statement](t)(waiver.NewException(intoto.Subject{Name: name, Digests: digest.Set{SHA256: digest.SetOf(r.read(t, name)).SHA256}}, exception.Predicate{
				Code: verdict.Regressed, Reason: "the scanner was down", Destination: q.Canon.Files, Policy: p.Digest(), Issued: at, Expires: at.Add(time.Hour),
			}))
			e := must[waiver.Exception](t)(waiver.ParseException(must[verify.Evidence](t)(w.verifier.Attestation(r.sign(t, lab.RolePolicy, st.Raw()))), p))
			q.Waivers.Exceptions = []waiver.Exception{e}
		}
	}
	refused(t, w.decided(t, r, p, earlier, excepted(otherBinary)).Verdict.Err(), verdict.Regressed)
	d := w.decided(t, r, p, earlier, excepted(binary))
	accepted(t, d.Verdict.Err())
	if len(d.Verdict.Waived) != 1 || d.Evidence != nil || d.Verdict.Complete() {
		t.Errorf("waived %v, remembers %q", d.Verdict.Waived, d.Evidence)
	}
	d = w.decided(t, r, w.lax(t, `"off"`, "regression: warn\n"), earlier)
	accepted(t, d.Verdict.Err())
	if len(d.Verdict.Warnings) != 1 || d.Evidence != nil {
		t.Errorf("warnings %v, remembers %q", d.Verdict.Warnings, d.Evidence)
	}
}
