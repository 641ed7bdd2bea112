package stories

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"

	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// signatory signs releases off in these stories.
const signatory = "signoff@lab.invalid"

// TestSignoffOfOurFeatures: the documents of our own features pass at the
// command line, in every form, and what is taken away is found.
func TestSignoffOfOurFeatures(t *testing.T) {
	s := newBench(t).Scene
	const ours = "../../pkg/govern/signoff/enhancements"
	if err := os.CopyFS(s.Path("enhancements"), os.DirFS(ours)); err != nil {
		t.Fatal(err)
	}
	check := func(flags ...string) scene.Result {
		args := []string{"waybill", "signoff", "check", "--keps", "enhancements", "--template", "enhancements/template.md"}
		return s.Run(t.Context(), instead(args, flags)...)
	}
	want(t, check(), 0, "Not checked: approvals", "1-release-signoff: 8 of 8 sections required at alpha are filled", "a tick is a claim")
	want(t, check("--milestone", "v0.1", "--output", "table", "--output", "junit=report.xml", "--output", "json=report.json"), 0, "OK ")
	for _, file := range []string{"report.xml", "report.json"} {
		if raw, err := os.ReadFile(s.Path(file)); err != nil || len(raw) == 0 {
			t.Errorf("%s: %d bytes, %v", file, len(raw), err)
		}
	}
	var v struct {
		Counts struct{ Verified, Required int }
	}
	if err := json.Unmarshal([]byte(check("--output", "json").Stdout), &v); err != nil || v.Counts.Verified == 0 || v.Counts.Verified != v.Counts.Required {
		t.Errorf("%+v, %v", v, err)
	}
	want(t, check("--stage", "stable"), 1, "SIGNOFF_SECTION", "1-release-signoff/README.md#Alternatives")
	want(t, check("--milestone", "v9.9"), 1, "SIGNOFF_DOCUMENT", "no document that targets v9.9")
	want(t, check("--milestone", "next"), 2, "--milestone")
	want(t, check("--stage", "gamma"), 2, "alpha, beta or stable")
	want(t, check("--keps", "nowhere"), 2, "no such directory")
	want(t, check("--template", "nowhere"), 2, "no such file")
	want(t, check("--record", "enhancements/template.md"), 2, "CONFIG enhancements/template.md")
	edit(t, s.Path("enhancements", "1-release-signoff", "README.md"), "### Test Plan\n\nEach", "### Test Plan\n\nTBD\n\nEach")
	want(t, check(), 1, "SIGNOFF_PLACEHOLDER", "Test Plan", "SIGNOFF_CHECKLIST", "is ticked, but that is false")
	want(t, s.Run(t.Context(), "waybill", "signoff", "check", "--help"), 0, "EXIT STATUS", "Examples:", "SIGNOFF_SECTION")
	want(t, s.Run(t.Context(), "waybill", "signoff", "attest", "--help"), 0, "EXIT STATUS", "Examples:", releasesignoff.Name)
	want(t, s.Run(t.Context(), "waybill", "signoff"), 2)
}

// TestSignoffWithARecord: exceptions and approvals count from the command line,
// and so do hosts and what the release has.
func TestSignoffWithARecord(t *testing.T) {
	s := newBench(t).Scene
	if err := os.CopyFS(s.Path("enhancements"), os.DirFS("../../pkg/govern/signoff/enhancements")); err != nil {
		t.Fatal(err)
	}
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(s.Path(name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	one := s.Path("enhancements", "1-release-signoff", "README.md")
	edit(t, one, "Leave `signoff` out of the policy.", "TBD\n\nLeave `signoff` out of the policy, see https://example.test/.")
	sum := func(file ...string) string {
		raw, err := os.ReadFile(s.Path(append([]string{"enhancements"}, file...)...))
		if err != nil {
			t.Fatal(err)
		}
		return digest.Of(digest.SHA256, raw).String()
	}
	files := func(dir string) string {
		return fmt.Sprintf("{README.md: %q, kep.yaml: %q}", sum(dir, "README.md"), sum(dir, "kep.yaml"))
	}
	record := fmt.Sprintf(`apiVersion: waybill/v1
kind: SignoffRecord
milestone: v0.1
approvals:
- {document: "1", approver: "@waybill-release/maintainers", files: %s}
- {document: "2", approver: "@waybill-release/maintainers", files: %s}
exceptions:
- {document: "1", code: SIGNOFF_PLACEHOLDER, about: Switching it off, reason: it is being written, approver: "@waybill-release/maintainers", filed: "2026-11-01", expires: "2026-12-01"}
`, files("1-release-signoff"), files("2-closed-releases"))
	write("record.yaml", record)
	write("registry.yaml", "gates: [{name: RequireSignoff, stage: beta}]\n")
	check := func(flags ...string) scene.Result {
		args := []string{"waybill", "signoff", "check", "--keps", "enhancements", "--template", "enhancements/template.md", "--milestone", "v0.1", "--now", "2026-11-20T12:00:00Z"}
		return s.Run(t.Context(), instead(args, flags)...)
	}
	const placeholder = "SIGNOFF_PLACEHOLDER"
	want(t, check(), 1, placeholder, "Switching it off", `files: {README.md: "`+sum("1-release-signoff", "README.md"))
	want(t, check("--record", "record.yaml", "--registry", "registry.yaml"), 1, "SIGNOFF_FEATURE", "another stage", "want alpha")
	want(t, check("--record", "record.yaml", "--registry", "./known"), 2, "no such file")
	want(t, check("--record", "record.yaml", "--registry", "known"), 0, "with 1 exception", placeholder, "it is being written", "@waybill-release/maintainers")
	want(t, check("--record", "record.yaml", "--now", "2026-12-01T00:00:00Z"), 1, placeholder, "expired on 2026-12-01")
	want(t, check("--record", "record.yaml", "--milestone", "v0.2"), 2, "another milestone")
	kep := sum("2-closed-releases", "kep.yaml")
	write("changed.yaml", strings.Replace(record, kep, "sha256:"+strings.Repeat("0", 64), 1))
	want(t, check("--record", "changed.yaml"), 1, "SIGNOFF_APPROVAL", "approved another kep.yaml", "add to approvals of the record", kep)
	write("old.yaml", strings.Replace(record, "files: "+files("2-closed-releases"), fmt.Sprintf("digest: %q", sum("2-closed-releases", "README.md")), 1))
	want(t, check("--record", "old.yaml"), 2, "approval 2", "digest covers only README.md, not kep.yaml", "waybill signoff check")
	want(t, check("--record", "record.yaml", "--closed-hosts"), 1, "SIGNOFF_LINK", "example.test")
	want(t, check("--record", "record.yaml", "--closed-hosts", "--allow-host", "example.test"), 0, "with 1 exception")
}

// TestSignoffOfProposals is the table of three proposals, at the command line,
// where they lie beside the repository.
func TestSignoffOfProposals(t *testing.T) {
	const seeds = "../../../shared/seeds"
	s := newBench(t).Scene
	for to, from := range map[string]string{
		"template.md":                              "003_1c4673f216dcbf63.txt",
		"keps/3027-slsa-compliance/README.md":      "000_c84ce05785eb8c91.txt",
		"keps/3920-finish-feature-flags/README.md": "001_dd5d5897721a302b.txt",
		"keps/1668-log-tracking/README.md":         "004_db893126f21282ec.txt",
		"keps/NNNN-kep-template/README.md":         "002_d9561b518daeee9c.txt",
	} {
		raw, err := os.ReadFile(filepath.Join(seeds, from))
		if err != nil && os.Getenv("CI") != "" {
			t.Fatal("CI has the documents beside the repository: ", err)
		}
		if err != nil {
			t.Skip("the documents are not beside the repository: ", err)
		}
		if err := os.MkdirAll(filepath.Dir(s.Path(to)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(s.Path(to), raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for stage, table := range map[string][]string{
		"alpha": {
			"3027-slsa-compliance: 7 of 21 sections required at alpha are filled; 3 missing, 11 commented out",
			"3920-finish-feature-flags: 5 of 21 sections required at alpha are filled; 8 empty, 1 a placeholder, 7 unchanged template text",
			"1668-log-tracking: 5 of 21 sections required at alpha are filled; 8 missing, 8 a placeholder",
		},
		"beta": {
			"3027-slsa-compliance: 8 of 48 sections required at beta are filled; 4 missing, 36 commented out",
			"3920-finish-feature-flags: 5 of 48 sections required at beta are filled; 32 empty, 1 a placeholder, 10 unchanged template text",
			"1668-log-tracking: 5 of 48 sections required at beta are filled; 28 missing, 15 a placeholder",
		},
	} {
		r := s.Run(t.Context(), "waybill", "signoff", "check", "--keps", "keps", "--template", "template.md", "--stage", stage, "--verbose")
		want(t, r, 1, append(table, "SIGNOFF_TITLE", "SIGNOFF_TEMPLATE", "line 157", "line 166")...)
	}
	r := s.Run(t.Context(), "waybill", "signoff", "check", "--keps", "keps/NNNN-kep-template", "--template", "template.md", "--stage", "alpha", "--verbose")
	want(t, r, 1, "SIGNOFF_DOCUMENT")
}

// instead adds flags to a command line, those that it has in place of the old
// value; one without a value is left out.
func instead(args, flags []string) []string {
	out := slices.Clone(args)
	for len(flags) > 0 {
		n := 1
		if len(flags) > 1 && !strings.HasPrefix(flags[1], "--") {
			n = 2
		}
		at := slices.Index(out, flags[0])
		switch {
		case n == 1 || !slices.Contains(args, flags[0]):
			out = append(out, flags[:n]...)
		case flags[1] == "":
			out = slices.Delete(out, at, at+2)
		default:
			out[at+1] = flags[1]
		}
		flags = flags[n:]
	}
	return out
}

// lodge is a sealed release, documents of its milestone, and somebody who signs
// it off.
type lodge struct{ *consumer }

func openLodge(t *testing.T) lodge {
	t.Helper()
	s, err := scene.Open(t.Context(), scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir(), Example: shell})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	want(t, s.Stage(t.Context()), 0)
	l := lodge{&consumer{desk: &desk{&workshop{Scene: s}}}}
	l.policy, l.profile = string(l.read(t, "policy.yaml")), string(l.read(t, "profile.yaml"))
	bench{s}.policy(t, "mine.yaml", l.policy, l.asked("[staging, release]")...)
	bench{s}.policy(t, "mine-profile.yaml", l.profile, "policy: policy.yaml", "policy: mine.yaml")
	for name, as := range map[string]string{"signoff": signatory, "release": "release"} {
		l.write(t, name+".token", []byte(l.Lab.Token(as)))
	}
	if err := os.CopyFS(l.Path("enhancements"), os.DirFS("../../pkg/govern/signoff/enhancements")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(l.Path("out"), 0o755); err != nil {
		t.Fatal(err)
	}
	l.git(t, "enhancements", "init", "-q", "-b", "main")
	l.git(t, "enhancements", "add", ".")
	l.git(t, "enhancements", "commit", "-q", "-m", "documents")
	return l
}

// asked is a policy that asks for a sign-off.
func (l lodge) asked(stages string) []string {
	issuer, _ := l.Lab.Identity("release")
	return []string{
		"roles:\n", fmt.Sprintf("roles:\n  signoff: [{issuer: %q, subject: %q, type: email}]\n", issuer, signatory),
		"plan: require\n", fmt.Sprintf("plan: require\nsignoff: {stages: %s, maxAge: 720h}\n", stages),
	}
}

func (l lodge) git(t *testing.T, dir string, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = l.Path(dir)
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL="+os.DevNull, "GIT_AUTHOR_NAME=Keeper", "GIT_AUTHOR_EMAIL=keeper@example.test",
		"GIT_COMMITTER_NAME=Keeper", "GIT_COMMITTER_EMAIL=keeper@example.test")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// attest signs the release off, into a directory.
func (l lodge) attest(t *testing.T, flags ...string) scene.Result {
	t.Helper()
	args := []string{
		"waybill", "signoff", "attest", "--keps", "enhancements", "--template", "enhancements/template.md", "--milestone", "v0.1",
		"--profile", "mine-profile.yaml", "--source", "lantern@" + scene.Version, "--identity-token", "signoff=signoff.token",
	}
	return l.Run(t.Context(), instead(args, flags)...)
}

// gate judges the release with some files more, at a stage of its way.
func (l lodge) gate(t *testing.T, command string, more map[string][]byte, flags ...string) scene.Result {
	t.Helper()
	args := append(strings.Fields(command), scene.Version, "--profile", "mine-profile.yaml",
		"--images", filepath.Join("state", "images"), "--files", l.files(t, more))
	return l.Run(t.Context(), append(args, flags...)...)
}

// says holds what was signed against the documents: what is proven, what is
// claimed and by whom, and which release it is of.
func (l lodge) says(t *testing.T) {
	t.Helper()
	x, err := releasesignoff.Parse(l.evidence(t, filepath.Join("out", releasesignoff.Name)).Statement())
	if err != nil {
		t.Fatal(err)
	}
	claimed := "Keeper <keeper@example.test> in " + l.git(t, "enhancements", "rev-parse", "HEAD")
	for _, d := range x.Documents {
		for _, it := range d.Checklist {
			want := "machine"
			if strings.HasPrefix(it.Text, "The page") {
				want = "claimed"
			}
			if it.Evidence != want || (it.By == claimed) != (want == "claimed") || (it.Proof != "") != (want == "machine") {
				t.Errorf("%s: %+v", d.Directory, it)
			}
		}
	}
	config := digest.SetOf(l.read(t, filepath.Join("lantern", "release.yaml")))
	if len(x.Documents) != 2 || x.Milestone != "v0.1" || !x.Release.Equal(config) || x.Source.Commit != l.git(t, "lantern", "rev-parse", "HEAD") {
		t.Errorf("%d documents, %s, of %v at %v", len(x.Documents), x.Milestone, x.Release, x.Source)
	}
}

// TestSignoffAtTheGate: a policy that asks for a sign-off refuses a release
// without one, with one of another release, by somebody else, or that has run
// out, and takes the right one.
func TestSignoffAtTheGate(t *testing.T) {
	l := openLodge(t)
	const decide, verify = "waybill gate check", "waybill verify release"
	want(t, l.gate(t, decide, nil), 1, "SIGNOFF_MISSING", "waybill signoff attest")
	want(t, l.gate(t, verify, nil), 1, "SIGNOFF_MISSING")

	want(t, l.attest(t), 0, "nothing was done", releasesignoff.PredicateType, releasesignoff.SVRType, `"evidence": "claimed"`)
	l.absent(t, releasesignoff.Name)
	want(t, l.attest(t, "--confirm", "--to", "out"), 0, releasesignoff.Name, releasesignoff.Summary, "read back and verified")
	right := map[string][]byte{
		releasesignoff.Name:    l.read(t, filepath.Join("out", releasesignoff.Name)),
		releasesignoff.Summary: l.read(t, filepath.Join("out", releasesignoff.Summary)),
	}
	l.says(t)
	for _, command := range []string{decide, verify, "k8s-verify-release"} {
		want(t, l.gate(t, command, right), 0, "nothing extra", signatory)
	}
	want(t, l.gate(t, verify, nil, "--depth", "files"), 0, "sign-off")                      // it was not looked at, and that is said
	want(t, l.judge(t, nil, "--files", l.files(t, right)), 1, "EXTRA", releasesignoff.Name) // where nobody asks for it
	bench{l.Scene}.policy(t, "mine.yaml", l.policy, l.asked("[staging]")...)
	want(t, l.gate(t, verify, nil), 0, "nothing extra")
	want(t, l.gate(t, decide, nil), 1, "SIGNOFF_MISSING")
	bench{l.Scene}.policy(t, "mine.yaml", l.policy, l.asked("[staging, release]")...)

	signed, err := releasesignoff.Parse(l.evidence(t, filepath.Join("out", releasesignoff.Name)).Statement())
	if err != nil {
		t.Fatal(err)
	}
	rows := []struct {
		name, role string
		change     func(p *releasesignoff.Predicate, config *digest.Set)
		flags      []string
		code       string
	}{
		{"of another release.yaml", signatory, func(_ *releasesignoff.Predicate, c *digest.Set) { *c = digest.SetOf([]byte("another")) }, nil, "SIGNOFF_OTHER_RELEASE"},
		{"of another commit", signatory, func(p *releasesignoff.Predicate, _ *digest.Set) { p.Source.Commit = strings.Repeat("a", 40) }, nil, "SIGNOFF_OTHER_RELEASE"},
		{"of another milestone", signatory, func(p *releasesignoff.Predicate, _ *digest.Set) { p.Milestone = "v9.99" }, nil, "SIGNOFF_OTHER_RELEASE"},
		{"by the release identity", "release", nil, nil, "IDENTITY_ROLE"},
		{"by a stranger", "mallory@evil.example", nil, nil, "IDENTITY"},
		{"too old for the policy", signatory, nil, []string{"--now", hence(721 * time.Hour)}, "SIGNOFF_EXPIRED"},
		{"of a check that was long ago", signatory, func(p *releasesignoff.Predicate, _ *digest.Set) { p.Checked = p.Checked.Add(-2 * time.Hour) }, nil, "SIGNOFF_EXPIRED"},
		{"that has run out", signatory, func(p *releasesignoff.Predicate, _ *digest.Set) { p.Expires = p.Checked.Add(time.Hour) }, []string{"--now", hence(2 * time.Hour)}, "SIGNOFF_EXPIRED"},
		{"of no documents", signatory, func(p *releasesignoff.Predicate, _ *digest.Set) { p.Documents = nil }, nil, "PAYLOAD_PARSE"},
		{"as it must be", signatory, nil, []string{"--now", hence(2 * time.Hour)}, ""},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			p, config := signed.Predicate, signed.Release
			p.Checked = time.Now().UTC().Truncate(time.Second)
			if r.change != nil {
				r.change(&p, &config)
			}
			raw, err := json.Marshal(p)
			if err != nil {
				t.Fatal(err)
			}
			bundle := l.sign(t, r.role, &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
				`{"_type":%q,"subject":[{"name":%q,"digest":{"sha256":%q}}],"predicateType":%q,"predicate":%s}`,
				intoto.TypeV1, "release.yaml", config.SHA256.Hex(), releasesignoff.PredicateType, raw)})
			result := l.gate(t, decide, map[string][]byte{releasesignoff.Name: bundle}, r.flags...)
			if r.code == "" {
				want(t, result, 0, "nothing extra")
				return
			}
			want(t, result, 1, r.code, releasesignoff.Name)
		})
	}
	garbage := map[string][]byte{releasesignoff.Name: []byte("{}")}
	want(t, l.gate(t, decide, garbage), 1, "BUNDLE_")
}

// TestSignoffRefusesToSign: what stands against a document is never signed off,
// and neither is a release as somebody else.
func TestSignoffRefusesToSign(t *testing.T) {
	l := openLodge(t)
	refused := func(code int, said string, flags ...string) {
		t.Helper()
		want(t, l.attest(t, append(flags, "--confirm", "--to", "out")...), code, said)
		l.absent(t, filepath.Join("out", releasesignoff.Name))
	}
	refused(1, "SIGNOFF_SECTION", "--stage", "stable")
	refused(2, "--milestone", "--milestone", "")
	refused(2, "belongs to another milestone", "--milestone", "v0.2")
	refused(2, "belongs to another milestone", "--milestone", "v0.2", "--source", "lantern@refs/tags/"+scene.Version)
	want(t, l.attest(t, "--confirm", "--to", "nowhere"), 2, "no such directory")
	refused(2, "--source", "--source", "")
	refused(2, "--expires", "--expires", "10000h")
	refused(2, "--now", "--now", "2026-01-01T00:00:00Z")
	refused(2, "signoff=FILE", "--identity-token", "policy=release.token")
	l.write(t, "signoff.token", []byte(l.Lab.Token("release")))
	refused(1, "SIGNED_AS_ELSE")
	l.write(t, "signoff.token", []byte(l.Lab.Token(signatory)))
	want(t, l.attest(t, "--confirm", "--to", "out"), 0, "read back and verified")

	// A tick that is not committed is nobody's.
	edit(t, l.Path("enhancements", "2-closed-releases", "README.md"), "## Summary\n", "## Summary\n\nIn short:\n")
	want(t, l.attest(t), 0, "nothing was done", "who ticked every box of 2-closed-releases")
}

// TestSignoffTravels: a sign-off is put beside a staged release, lets it out,
// and travels with it to where users find it.
func TestSignoffTravels(t *testing.T) {
	l := openLodge(t)
	release := func() scene.Result {
		return l.Run(t.Context(), "waybill", "release", scene.Version, "--profile", "mine-profile.yaml", "--state", "state", "--confirm")
	}
	verify := func() scene.Result {
		return l.Run(t.Context(), "k8s-verify-release", scene.Version, "--profile", "mine-profile.yaml")
	}
	want(t, release(), 1, "SIGNOFF_MISSING")
	want(t, verify(), 1, "EVIDENCE_MISSING") // nothing is public
	staging := strings.Replace(l.Lab.Bucket, "http://", "gs+http://", 1) + "/staging/lantern/" + scene.Version + "/"
	want(t, l.attest(t, "--confirm", "--to", staging), 0, "read back and verified")
	want(t, release(), 0)
	want(t, verify(), 0, "nothing extra", signatory)

	// A later check replaces the sign-off of an earlier one, where it lies; the
	// place of the release keeps what it has.
	want(t, l.attest(t, "--confirm", "--to", staging), 0, "read back and verified")
	want(t, release(), 0)
	want(t, verify(), 0, "nothing extra", signatory)
}
