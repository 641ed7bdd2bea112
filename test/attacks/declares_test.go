package attacks

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/answers"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	declaredByRole = "declares:\n- {requirement: source.retained, role: policy, levels: {v0.1: 3}}\n"
	excuse         = "- {requirement: source.two-person, notImplementable: true, by: SIG Release, reason: the robots commit alone}\n"
	required       = "sbom: require}\n  levels: {v0.1: 3}\n"
)

// byRole is the policy, where the declaration of the policy itself is left to a
// role.
func (r leveled) byRole() string { return strings.Replace(r.text, declaresItself, declaredByRole, 1) }

// declared is a declaration that the source is retained, signed by a role, with
// some texts replaced.
func (r leveled) declared(t *testing.T, role string, replace ...string) []byte {
	t.Helper()
	return r.sign(t, role, []byte(strings.NewReplacer(replace...).Replace(fmt.Sprintf(
		`{"_type":%q,"subject":[{"name":"retained.yaml","digest":{"sha256":%q,"sha512":%q}}],"predicateType":%q,"predicate":{"sequence":1,"requirement":"source.retained",`+
			`"about":%q,"by":"SIG Infra","reason":"mirrored daily","until":%q}}`,
		intoto.TypeV1, digest.Of(digest.SHA256, nil).Hex(), digest.Of(digest.SHA512, nil).Hex(), declaration.PredicateType, canonical, inAMonth()))))
}

func inAMonth() string { return time.Now().UTC().AddDate(0, 1, 0).Format("2006-01-02T00:00:00Z") }

// TestSignedDeclarationsOfARelease: where the policy leaves a declaration to a
// role, a file signed in that role counts, and no other. Each row changes one
// fact of the second.
func TestSignedDeclarationsOfARelease(t *testing.T) {
	r := theWorld(t).leveled(t)
	good, text := r.summary(t, lab.RoleVerifier), r.byRole()
	const lacks = "source.retained (not shown): missing: "
	for _, row := range []struct {
		name, text string
		declared   []byte
		require    string
		limit      string // the requirement that is named; empty if it is accepted
	}{
		{"no declaration", text, nil, "v0.1=3", lacks + "a declaration signed in the role policy (--declaration FILE)"},
		{"every fact", text, r.declared(t, lab.RolePolicy), "v0.1=3", ""},
		{"a level that it does not count up to", text, r.declared(t, lab.RolePolicy), "v0.1=4", `source.retained (declared): declared by "SIG Infra" until ` + inAMonth() + ", signed by "},
		{"by the release identity", text, r.declared(t, lab.RoleRelease), "v0.1=3", lacks + "a declaration that counts; signed by the release identity, want the policy identity"},
		{"by the builder", text, r.declared(t, lab.RoleBuilder), "v0.1=3", lacks + "a declaration that counts; signed by the builder identity, want the policy identity"},
		{"by the verifier of the source", text, r.declared(t, lab.RoleVerifier), "v0.1=3", lacks + "a declaration that counts; signed by the source identity, want the policy identity"},
		{"by a stranger", text, r.declared(t, "mallory@evil.example"), "v0.1=3", lacks + "a declaration that counts; the signer is not listed in the policy"},
		{"about another repository", text, r.declared(t, lab.RolePolicy, canonical, canonical+"-fork"), "v0.1=3", lacks + `a declaration about the repository "` + canonical + `"`},
		{"that has ended", text, r.declared(t, lab.RolePolicy, inAMonth(), "2026-01-01T00:00:00Z"), "v0.1=3", lacks + "a declaration that has not ended"},
		{"for ever", text, r.declared(t, lab.RolePolicy, inAMonth(), "2099-01-01T00:00:00Z"), "v0.1=3", lacks + "a declaration that counts; the declaration lasts longer than 366 days"},
		{"of another requirement", text, r.declared(t, lab.RolePolicy, "source.retained", "common.access"), "v0.1=3", lacks + "a declaration signed in the role policy"},
		{"of no requirement", text, r.declared(t, lab.RolePolicy, "source.retained", "source.retain"), "v0.1=3", lacks + "a declaration signed in the role policy"},
		{"without an end", text, r.declared(t, lab.RolePolicy, `,"until":"`+inAMonth()+`"`, ""), "v0.1=3", lacks + "a declaration signed in the role policy"},
		{"where the policy names no role", strings.Replace(text, declaredByRole, "", 1), r.declared(t, lab.RolePolicy), "v0.1=3", lacks + "a declaration of the policy"},
		{"where the policy declares it itself", r.text, r.declared(t, lab.RoleRelease), "v0.1=3", ""},
		{"not implementable", strings.Replace(text, declaredByRole, declaredByRole+excuse, 1), r.declared(t, lab.RolePolicy), "v0.1=3", ""},
		{"what is not implementable does not count", strings.Replace(text, declaredByRole, declaredByRole+excuse, 1), r.declared(t, lab.RolePolicy), "v0.1=4", "source.two-person"},
	} {
		t.Run(row.name, func(t *testing.T) {
			sources := [][]byte{good}
			if row.declared != nil {
				sources = append(sources, row.declared)
			}
			v := r.decide(t, row.text, sources, row.require)
			if row.limit == "" {
				accepted(t, v.Err())
				return
			}
			refused(t, v.Err(), verdict.Level)
			if f := v.Findings[0]; f.Code != verdict.Level || !strings.Contains(f.Message, row.limit) {
				t.Errorf("%s: %s; want %q", f.Subject, f.Message, row.limit)
			}
		})
	}
	v := r.decide(t, strings.Replace(text, declaredByRole, declaredByRole+excuse, 1), [][]byte{good, r.declared(t, lab.RolePolicy)})
	accepted(t, v.Err())
	shown := map[string]verdict.Requirement{}
	for _, on := range v.Levels {
		for _, q := range on.Requirements {
			if on.Track == string(slsa.V01) {
				shown[q.ID] = q
			}
		}
	}
	if q := shown["source.retained"]; q.State != "declared" || q.DeclaredBy != "SIG Infra" || q.Until != inAMonth() {
		t.Errorf("%+v", q)
	}
	if q := shown["source.two-person"]; q.State != "not implementable" || q.DeclaredBy != "SIG Release" || !strings.Contains(q.Why, "the robots commit alone") {
		t.Errorf("%+v", q)
	}
	if !slices.ContainsFunc(v.Notes, func(note string) bool {
		return strings.HasSuffix(note, `; source.two-person is not implementable, says "SIG Release"`)
	}) {
		t.Errorf("no note says who cannot implement what:\n%s", strings.Join(v.Notes, "\n"))
	}
	if !slices.ContainsFunc(v.Inputs, func(i verdict.Input) bool { return i.Name == "declaration" }) {
		t.Errorf("the inputs %v do not name the declaration", v.Inputs)
	}
}

// TestDeclarationsByEveryWay: the commands and gate.Open take the same files, and
// answer alike. A file that can never count is refused.
func TestDeclarationsByEveryWay(t *testing.T) {
	accepted(t, commands())
	r := theWorld(t).leveled(t)
	file := func(name string, raw []byte) string {
		accepted(t, os.WriteFile(filepath.Join(r.dir, name), raw, 0o644))
		return filepath.Join(r.dir, name)
	}
	source := file("source.json", r.summary(t, lab.RoleVerifier))
	good, ended := file("good.json", r.declared(t, lab.RolePolicy)), file("ended.json", r.declared(t, lab.RolePolicy, inAMonth(), "2026-01-01T00:00:00Z"))
	access, stranger := file("for.json", r.declared(t, lab.RolePolicy, "source.retained", "common.access")), file("stranger.json", r.declared(t, "mallory@evil.example"))
	unsigned := file("unsigned.json", []byte("apiVersion: waybill/v1\nkind: Declaration\n"))
	at, needs := r.asked(t), strings.Replace(r.byRole(), "sbom: require}\n", required, 1)
	for _, row := range []struct {
		name, text, declared string
		exit                 int
		says                 string
	}{
		{"a declaration", needs, good, 0, "source.retained"},
		{"none", needs, "", 1, "source.retained (not shown)"},
		{"that has ended", needs, ended, 1, "a declaration that has not ended"},
		{"by a stranger", needs, stranger, 1, "IDENTITY"},
		{"unsigned", needs, unsigned, 1, "unsigned.json"},
		{"of another requirement", needs, access, 1, `lets no role declare "common.access"`},
		{"a summary of the source", needs, source, 1, "PREDICATE_TYPE"},
		{"where the policy names no role", strings.Replace(r.text, "sbom: require}\n", required, 1), good, 2, "lets no role declare anything"},
	} {
		t.Run(row.name, func(t *testing.T) {
			accepted(t, os.WriteFile(filepath.Join(r.dir, "policy.yaml"), []byte(row.text), 0o644))
			opening := gate.Opening{Sources: []string{source}}
			flags := []string{"--source-vsa", source}
			if row.declared != "" {
				opening.Declarations, flags = []string{row.declared}, append(flags, "--declaration", row.declared)
			}
			var all []answers.Answer
			for _, command := range []string{"k8s-verify-release", "waybill verify release", "waybill gate check", "waybill promote plan --to release --state " + at.State} {
				got := r.Run(t.Context(), append(append(strings.Fields(command), at.Version, "--profile", at.Profile), flags...)...)
				all = append(all, answers.Answer{Command: command, Exit: got.Code, Codes: answers.CodesIn(got), Said: got.Stdout + got.Stderr})
			}
			g, err := gate.Open(t.Context(), at.Profile, opening)
			if err == nil {
				v, failed := g.Verify(t.Context(), at.Version)
				accepted(t, failed)
				all = append(all, answers.Of("gate.Open", v, v.Err()))
			} else {
				all = append(all, answers.Of("gate.Open", nil, err))
			}
			if differ := answers.Differ(all); differ != "" || all[0].Exit != row.exit || !strings.Contains(all[0].Said, row.says) {
				t.Errorf("status %d, want %d and %q:\n%s\n%s", all[0].Exit, row.exit, row.says, all[0].Said, differ)
			}
		})
	}
}

// TestSourceSummariesInNotes: auto finds the summaries in the git note of the
// commit. One that does not count is noted and ignored, and none found is said.
func TestSourceSummariesInNotes(t *testing.T) {
	w := theWorld(t)
	r := w.leveled(t)
	repository := filepath.Join(t.TempDir(), "lantern")
	git := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Stdin = strings.NewReader(stdin)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.test", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.test")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %v: %v: %s", args, err, out)
		}
	}
	git("", "clone", "--quiet", "--mirror", w.Path("lantern"), repository)
	line := func(raw []byte) string { return string(bytes.TrimSpace(raw)) + "\n" }
	good, stranger := line(r.summary(t, lab.RoleVerifier)), line(r.summary(t, "mallory@evil.example"))
	failed := line(r.summary(t, lab.RoleVerifier, `"PASSED"`, `"FAILED"`, `"SLSA_SOURCE_LEVEL_3"`, `"FAILED"`))
	other := line(r.summary(t, lab.RoleVerifier, r.manifest(t).Source.Commit, strings.Repeat("d", 40)))
	ask := func(find bool) *verdict.Verdict {
		return r.gate(t, func(q *gate.Request) {
			q.Policy = must[policy.Policy](t)(policy.Parse([]byte(r.text), nil))
			q.FindSources, q.Options.Checkout.Repository = find, repository
			q.Options.Scope.Levels = []slsa.Demand{must[slsa.Demand](t)(slsa.ParseDemand("v0.1=3"))}
		})
	}
	for _, row := range []struct {
		name, note string
		codes      []verdict.Code
		says       string // a note of the verdict
	}{
		{"no note", "", codes(verdict.Level), "no summary of the source of commit"},
		{"a summary", good, nil, ""},
		{"after an empty line", "\n\n" + good, nil, ""},
		{"beside that of a stranger", stranger + good, nil, "ignored line 1 of refs/notes/commits: IDENTITY: the signer is not listed in the policy"},
		{"that of a stranger", stranger, codes(verdict.Level), "no summary of the source of commit"},
		{"of another commit", other, codes(verdict.Level), ""},
		{"taken back", good + failed, codes(verdict.Level), ""},
		{"beside a text", "reviewed\n" + good, nil, "ignored line 1 of refs/notes/commits"},
		{"too many lines", strings.Repeat("x\n", 64) + good, codes(verdict.Level, verdict.Limit), ""},
		{"as many lines as there may be", strings.Repeat("x\n", 63) + good, nil, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			if row.note != "" {
				git(row.note, "-C", repository, "notes", "add", "-f", "-F", "-", r.manifest(t).Source.Commit)
			}
			v := ask(true)
			if row.codes == nil {
				accepted(t, v.Err())
			} else {
				refused(t, v.Err(), row.codes...)
			}
			if row.says != "" && !slices.ContainsFunc(v.Notes, func(n string) bool { return strings.Contains(n, row.says) }) {
				t.Errorf("the notes %q do not say %q", v.Notes, row.says)
			}
		})
	}
	refused(t, ask(false).Err(), verdict.Level) // as without the note
	accepted(t, commands())
	at := r.asked(t)
	accepted(t, os.WriteFile(filepath.Join(r.dir, "policy.yaml"), []byte(r.text), 0o644))
	for name, row := range map[string]struct {
		exit int
		args []string
	}{
		"a checkout that was named": {0, []string{"k8s-verify-release", at.Version, "--profile", at.Profile, "--source", repository, "--source-vsa", "auto", "--require-level", "v0.1=3"}},
		"without auto":              {1, []string{"k8s-verify-release", at.Version, "--profile", at.Profile, "--source", repository, "--require-level", "v0.1=3"}},
		"a file":                    {2, []string{"waybill", "gate", "file", filepath.Join(r.dir, at.Version, binary), "--policy", filepath.Join(r.dir, "policy.yaml"), "--trusted-root", r.Path("trusted_root.json"), "--source-vsa", "auto"}},
	} {
		if got := r.Run(t.Context(), row.args...); got.Code != row.exit {
			t.Errorf("%s: %s: want status %d", name, got, row.exit)
		}
	}
}
