package attacks

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/answers"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	canonical      = "git+https://example.test/lantern"
	sourceVerifier = "https://verifier.example.test/source"
	sourceSummary  = "source.vsa.sigstore.json"
	declaresItself = "declares:\n- {requirement: source.retained, by: SIG Release, until: \"2099-06-30\", reason: mirrored daily, levels: {v0.1: 3}}\n"
)

// leveled is a sealed release whose builder is trusted up to Build level 3, and
// whose source has a canonical address.
type leveled struct {
	*attacked
	text string // of its policy
}

func (w *world) leveled(t *testing.T) leveled {
	t.Helper()
	r := w.attacked(t)
	was := r.manifest(t).Source.Repository
	r.retold(t, func(p *provenance.Provenance) {
		p.RunDetails.Builder.ID = provenance.BuilderIsolated
		p.BuildDefinition.InternalParameters.Isolation = "isolated"
		p.BuildDefinition.ExternalParameters.Config.Repository = canonical
		for i, d := range p.BuildDefinition.ResolvedDependencies {
			p.BuildDefinition.ResolvedDependencies[i].URI = strings.Replace(d.URI, was, canonical, 1)
		}
	}, func(m *manifest.Manifest) { m.Source.Repository = canonical })
	issuer, subject := w.Lab.Identity(lab.RoleVerifier)
	sources := fmt.Sprintf("sources:\n- {id: %q, levels: {source: 3}, signers: [{issuer: %q, subject: %q, type: email}]}\n%s", sourceVerifier, issuer, subject, declaresItself)
	text := string(must[[]byte](t)(os.ReadFile(w.Path("policy.yaml"))))
	for _, change := range [][2]string{
		{fmt.Sprintf("  verifier: [{issuer: %q, subject: %q, type: email}]\n", issuer, subject), ""}, // it is a verifier of sources here
		{"level: 2\n", "level: 3\n"}, {w.Repository(), canonical}, {"source: {", sources + "source: {"},
	} {
		if !strings.Contains(text, change[0]) {
			t.Fatalf("%q is not in the policy", change[0])
		}
		text = strings.Replace(text, change[0], change[1], 1)
	}
	return leveled{r, text}
}

// summary is a summary of the release's revision, signed by a role, with some
// texts replaced.
func (r leveled) summary(t *testing.T, role string, replace ...string) []byte {
	t.Helper()
	text := fmt.Sprintf(`{"_type":%q,"subject":[{"uri":%q,"digest":{"gitCommit":%q}}],"predicateType":%q,"predicate":{"verifier":{"id":%q},"timeVerified":%q,"resourceUri":%q,`+
		`"policy":{"uri":"https://example.test/source-policy","digest":{"sha256":"%064d"}},"verificationResult":"PASSED","verifiedLevels":["SLSA_SOURCE_LEVEL_3"],"slsaVersion":"1.2"}}`,
		intoto.TypeV1, canonical, r.manifest(t).Source.Commit, vsa.PredicateType, sourceVerifier, time.Now().UTC().Add(-time.Hour).Format(time.RFC3339), canonical, 1)
	return r.sign(t, role, []byte(strings.NewReplacer(replace...).Replace(text)))
}

// decide asks the gate for levels.
func (r leveled) decide(t *testing.T, text string, sources [][]byte, require ...string) *verdict.Verdict {
	t.Helper()
	return r.gate(t, func(q *gate.Request) {
		q.Policy = must[policy.Policy](t)(policy.Parse([]byte(text), nil))
		for _, raw := range sources {
			q.Sources = append(q.Sources, must[verify.Evidence](t)(r.verifier.Attestation(raw)))
		}
		for _, one := range require {
			q.Options.Scope.Levels = append(q.Options.Scope.Levels, must[slsa.Demand](t)(slsa.ParseDemand(one)))
		}
	})
}

// TestLevelsOfARelease: with a summary of its source and a declaration a release
// reaches v0.1=3; with one fact removed it is refused, and the requirement that
// it lacks is named.
func TestLevelsOfARelease(t *testing.T) {
	w := theWorld(t)
	r := w.leveled(t)
	good := r.summary(t, lab.RoleVerifier)
	failed := []string{`"PASSED"`, `"FAILED"`, `"SLSA_SOURCE_LEVEL_3"`, `"FAILED"`}
	without := strings.Replace(r.text, declaresItself, "", 1)
	for _, row := range []struct {
		name, text string
		sources    [][]byte
		require    string
		limit      string // the requirement that is named; empty if it is accepted
	}{
		{"nothing required", r.text, nil, "build=1", ""},
		{"every fact", r.text, [][]byte{good}, "v0.1=3", ""},
		{"under the KEP's name", r.text, [][]byte{good}, "kep-3027=3", ""},
		{"the source alone", r.text, [][]byte{good}, "source=3", ""},
		{"the build alone", r.text, nil, "build=3", ""},
		{"no summary", r.text, nil, "v0.1=3", "source.verified-history (not shown): missing: a verification summary of the source revision"},
		{"no summary, where a level of the source is required", r.text, nil, "source=1", "source.level-1 (not shown)"},
		{"no declaration", without, [][]byte{good}, "v0.1=3", "source.retained (not shown): missing: a declaration of the policy"},
		{"a declaration that has ended", strings.Replace(r.text, "2099-", "2020-", 1), [][]byte{good}, "v0.1=3", `source.retained (not shown): missing: a declaration of the policy; that of "SIG Release" ended at 2020-06-30`},
		{"a level that the declaration does not count up to", r.text, [][]byte{good}, "v0.1=4", `source.retained (declared): declared by "SIG Release"`},
		{"a builder of level 2", strings.Replace(r.text, "level: 3\n", "level: 2\n", 1), [][]byte{good}, "v0.1=3", "build.as-code (not met)"},
		{"a level that the verifier may not state", strings.Replace(r.text, "source: 3}", "source: 1}", 1), [][]byte{good}, "v0.1=3", "source.verified-history (not shown): missing: a higher level; the verifier states 3 and is trusted up to 1"},
		{"a summary of another commit", r.text, [][]byte{r.summary(t, lab.RoleVerifier, r.manifest(t).Source.Commit, strings.Repeat("d", 40))}, "v0.1=3", "the given one is of another"},
		{"a summary of another repository", r.text, [][]byte{r.summary(t, lab.RoleVerifier, `"resourceUri":"`+canonical, `"resourceUri":"`+canonical+"-fork")}, "v0.1=3", "the given one is of another"},
		{"a summary by a stranger", r.text, [][]byte{r.summary(t, "mallory@evil.example")}, "v0.1=3", "the signer is not listed in the policy"},
		{"a summary by the release identity", r.text, [][]byte{r.summary(t, lab.RoleRelease)}, "v0.1=3", "signed by the release identity"},
		{"a summary for another verifier", r.text, [][]byte{r.summary(t, lab.RoleVerifier, sourceVerifier, sourceVerifier+"2")}, "v0.1=3", "may not sign for the verifier"},
		{"a lower level", r.text, [][]byte{r.summary(t, lab.RoleVerifier, "LEVEL_3", "LEVEL_1")}, "v0.1=3", "source.verified-history"},
		{"a summary that did not pass", r.text, [][]byte{r.summary(t, lab.RoleVerifier, failed...)}, "v0.1=3", "a passed verification summary"},
		{"one that did not pass at the same time", r.text, [][]byte{good, r.summary(t, lab.RoleVerifier, failed...)}, "v0.1=3", "a passed verification summary"},
		{"a stranger's beside a good one", r.text, [][]byte{r.summary(t, "mallory@evil.example", failed...), good}, "v0.1=3", ""},
		{"a level that the policy requires", strings.Replace(r.text, "sbom: require}\n", "sbom: require}\n  levels: {v0.1: 3}\n", 1), [][]byte{good}, "build=1", ""},
		{"a level that the policy requires, without a summary", strings.Replace(r.text, "sbom: require}\n", "sbom: require}\n  levels: {v0.1: 3}\n", 1), nil, "build=1", "source.verified-history (not shown)"},
	} {
		t.Run(row.name, func(t *testing.T) {
			v := r.decide(t, row.text, row.sources, row.require)
			if row.limit == "" {
				accepted(t, v.Err())
				return
			}
			refused(t, v.Err(), verdict.Level)
			if f := v.Findings[0]; f.Code != verdict.Level || !strings.Contains(f.Message, row.limit) || f.Subject == "" || f.Want == "" {
				t.Errorf("%s: %s (want %s, got %s); want %q", f.Subject, f.Message, f.Want, f.Got, row.limit)
			}
		})
	}
	t.Run("what is declared is shown as declared", func(t *testing.T) {
		v := r.decide(t, r.text, [][]byte{good})
		accepted(t, v.Err())
		for _, l := range v.Levels {
			for _, q := range l.Requirements {
				if q.ID == "source.retained" && (q.State != "declared" || q.DeclaredBy != "SIG Release" || q.Until != "2099-06-30T00:00:00Z" || l.Level != 3) {
					t.Errorf("level %d: %+v", l.Level, q)
				}
			}
		}
		if len(v.Levels) != 3 || v.Levels[0].Track != string(slsa.Build) || v.Levels[1].Track != string(slsa.V01) || v.Levels[2].Track != string(slsa.Source) {
			t.Errorf("%+v", v.Levels)
		}
	})
}

// TestLevelBesideAnotherFinding: what else is found about an artifact may be set
// aside, and with it not the level that the user requires.
func TestLevelBesideAnotherFinding(t *testing.T) {
	r := theWorld(t).leveled(t)
	r.reseal(t, func(m *manifest.Manifest) {
		for i, a := range m.Artifacts {
			if a.Name == binary {
				m.Artifacts[i].SBOM = ""
			}
		}
	})
	of := func(v *verdict.Verdict) (list []verdict.Code) {
		for _, f := range v.Findings {
			if f.Subject == binary {
				list = append(list, f.Code)
			}
		}
		slices.Sort(list)
		return list
	}
	needs := strings.Replace(r.text, "sbom: require}\n", required, 1)
	for _, row := range []struct {
		text    string
		sources [][]byte
		want    []verdict.Code
	}{
		{r.text, nil, codes(verdict.Level, verdict.NoSBOM)},
		{needs, nil, codes(verdict.Level, verdict.NoSBOM)}, // once
		{r.text, [][]byte{r.summary(t, lab.RoleVerifier)}, codes(verdict.NoSBOM)},
	} {
		if got := of(r.decide(t, row.text, row.sources, "v0.1=3")); !slices.Equal(got, row.want) {
			t.Errorf("%v, want %v", got, row.want)
		}
	}
	r.reseal(t, func(m *manifest.Manifest) {
		for i, a := range m.Artifacts {
			if a.Name == binary {
				m.Artifacts[i].Provenance = ""
			}
		}
	})
	for require, want := range map[string][]verdict.Code{"build=3": codes(verdict.Level, verdict.NoProvenance, verdict.NoSBOM), "": codes(verdict.NoProvenance, verdict.NoSBOM)} {
		if got := of(r.decide(t, r.text, nil, strings.Fields(require)...)); !slices.Equal(got, want) {
			t.Errorf("without provenance, %q: %v, want %v", require, got, want)
		}
	}
}

// TestSourceSummaryOfARelease: a release can carry the summary of its source. It
// counts as a named one, and is extra unless the policy allows it there.
func TestSourceSummaryOfARelease(t *testing.T) {
	r := theWorld(t).leveled(t)
	late := r.text + fmt.Sprintf("late: [{predicate: %q, role: source, stages: [release]}]\n", vsa.PredicateType)
	accepted(t, r.decide(t, late, nil).Err())
	refused(t, r.decide(t, late, nil, "v0.1=3").Err(), verdict.Level)
	r.write(t, sourceSummary, r.summary(t, lab.RoleVerifier))
	accepted(t, r.decide(t, late, nil, "v0.1=3").Err())
	refused(t, r.decide(t, r.text, nil, "v0.1=3").Err(), verdict.Extra)
	r.write(t, sourceSummary, r.summary(t, "mallory@evil.example"))
	refused(t, r.decide(t, late, nil, "v0.1=3").Err(), verdict.Extra, verdict.Level)
	r.write(t, sourceSummary, r.summary(t, lab.RoleVerifier, r.manifest(t).Source.Commit, strings.Repeat("d", 40)))
	refused(t, r.decide(t, late, nil, "v0.1=3").Err(), verdict.Extra, verdict.Level)
}

// TestSourceSummaryByEveryWay: the commands and gate.Open take the same files,
// and answer alike. A file that can never count is refused, and the twin is not.
func TestSourceSummaryByEveryWay(t *testing.T) {
	accepted(t, commands())
	r := theWorld(t).leveled(t)
	good, stranger := filepath.Join(r.dir, "good.json"), filepath.Join(r.dir, "stranger.json")
	accepted(t, os.WriteFile(good, r.summary(t, lab.RoleVerifier), 0o644))
	accepted(t, os.WriteFile(stranger, r.summary(t, "mallory@evil.example"), 0o644))
	at := r.asked(t)
	judged := func(text string) {
		accepted(t, os.WriteFile(filepath.Join(r.dir, "policy.yaml"), []byte(text), 0o644))
	}
	ask := func(sources ...string) (all []answers.Answer) {
		var flags []string
		for _, path := range sources {
			flags = append(flags, "--source-vsa", path)
		}
		for _, command := range []string{"k8s-verify-release", "waybill verify release", "waybill gate check"} {
			got := r.Run(t.Context(), append(append(strings.Fields(command), at.Version, "--profile", at.Profile), flags...)...)
			all = append(all, answers.Answer{Command: command, Exit: got.Code, Codes: answers.CodesIn(got), Said: got.Stdout + got.Stderr})
		}
		g, err := gate.Open(t.Context(), at.Profile, gate.Opening{Sources: sources})
		if err != nil {
			return append(all, answers.Of("gate.Open", nil, err))
		}
		v, err := g.Verify(t.Context(), at.Version)
		accepted(t, err)
		return append(all, answers.Of("gate.Open", v, v.Err()))
	}
	needs := strings.Replace(r.text, "sbom: require}\n", "sbom: require}\n  levels: {v0.1: 3}\n", 1)
	for _, row := range []struct {
		name, text string
		sources    []string
		exit       int
		says       string
	}{
		{"a summary", needs, []string{good}, 0, "source.retained"},
		{"none", needs, nil, 1, "source.verified-history (not shown)"},
		{"a stranger's", needs, []string{stranger}, 1, "IDENTITY"},
		{"one of no policy", strings.Replace(without(needs, "sources:", "declares:"), "levels: {v0.1: 3}\n", "levels: {v0.1: 2}\n", 1), []string{good}, 2, "lists no verifier under sources"},
	} {
		t.Run(row.name, func(t *testing.T) {
			judged(row.text)
			all := ask(row.sources...)
			if differ := answers.Differ(all); differ != "" || all[0].Exit != row.exit || !strings.Contains(all[0].Said, row.says) {
				t.Errorf("status %d, want %d and %q:\n%s\n%s", all[0].Exit, row.exit, row.says, all[0].Said, differ)
			}
		})
	}
	judged(r.text)
	got := r.Run(t.Context(), "waybill", "verify", "release", at.Version, "--profile", at.Profile, "--source-vsa", good, "--require-level", "kep-3027=3", "--require-level", "source=2", "--verbose")
	if want := `declared by "SIG Release" until 2099-06-30T00:00:00Z: "mirrored daily" (counts up to v0.1=3)`; got.Code != 0 || !strings.Contains(got.Stdout, want) {
		t.Errorf("%s: want %q", got, want)
	}
	if got = r.Run(t.Context(), "waybill", "verify", "release", at.Version, "--profile", at.Profile, "--source-vsa", good, "--depth", "files"); got.Code != 2 {
		t.Errorf("%s: want wrong use", got)
	}
	one := r.Run(t.Context(), "waybill", "gate", "file", filepath.Join(r.dir, at.Version, binary), "--policy", filepath.Join(r.dir, "policy.yaml"), "--trusted-root", r.Path("trusted_root.json"),
		"--name", binary, "--bundle", filepath.Join(r.dir, at.Version, compiled), "--bundle", filepath.Join(r.dir, at.Version, plan.BundleName(binary)),
		"--sbom", filepath.Join(r.dir, at.Version, plan.SBOMName(binary)), "--release-version", at.Version, "--source-vsa", good)
	if one.Code != 0 {
		t.Errorf("%s", one)
	}
	judged(needs)
	for path, code := range map[string]int{good: 0, stranger: 1, "": 1} {
		args := slices.Clone(one.Args)
		if args = args[:len(args)-2]; path != "" {
			args = append(args, "--source-vsa", path)
		}
		if got := r.Run(t.Context(), args...); got.Code != code {
			t.Errorf("%s: status %d, want %d", got, got.Code, code)
		}
	}
}

// without is a text without the part that begins with one word and ends before
// another.
func without(text, from, until string) string {
	before, after, _ := strings.Cut(text, from)
	_, after, _ = strings.Cut(after, until)
	return before + until + after
}
