package render_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/xml"
	"fmt"
	"html"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// everything is a verdict with one text wherever a page prints the text of others,
// also in commands and drawings.
func everything(text string) *verdict.Verdict {
	v := filled(text)
	var altered []verdict.Finding // so many that the answer is always cut
	for _, name := range []string{"a", "b", "c"} {
		altered = append(altered, verdict.Find(verdict.Tampered, name, "%s", text))
	}
	v.Findings = append(altered, v.Findings...)
	d := digest.Of(digest.SHA256, []byte("x"))
	v.Subject, v.Source = text+" v1.2.3", text+" at commit "+text
	v.Sentences = []string{text}
	v.Scope.Left = append(v.Scope.Left, "sbom of "+text)
	v.Scope.NotRequired = []string{"sbom of " + text}
	v.Counts = verdict.Counts{Verified: 1, Required: 2}
	v.Policy, v.TrustRoot = d, digest.Of(digest.SHA256, []byte("y"))
	v.Inputs = append(v.Inputs, verdict.Input{Name: "files", Place: "https://" + text, Digest: d})
	v.Groups = append(v.Groups, verdict.Group{Name: text + "2", Verified: 1, Required: 1})
	v.Objects = []verdict.Object{{Name: text + "1", Class: text + "2", Digest: d, Verified: true}, {Name: text, Class: text, Digest: d}}
	for i, statement := range []string{"blob", "https://slsa.dev/provenance/v1", "https://example.test/x/release-manifest/v1", text} {
		v.Proofs = append(v.Proofs, verdict.Proof{Subject: text + "1", Statement: statement, Role: text, Identity: text, Issuer: text, SignedAt: noon(), LogIndex: int64(i), Bundle: d})
	}
	for _, track := range []string{"build", "source", "v0.1"} {
		v.Levels = append(v.Levels, verdict.Levels{Subject: text, Track: track, Most: 3, Artifacts: 1, Next: []string{text},
			Requirements: []verdict.Requirement{{ID: text, Title: text, Level: 1, State: "not shown", Why: text, Artifact: text, Evidence: []digest.Digest{d}}}})
	}
	return v
}

func tagsOf(page string) []string { return regexp.MustCompile(`<[^>]*>`).FindAllString(page, -1) }

// TestPageHostile: hostile text changes no tag of a page, not even an attribute.
func TestPageHostile(t *testing.T) {
	ids := regexp.MustCompile(`href="[^"]*"`)
	want := tagsOf(write(t, render.HTML, everything("harmless")))
	for _, evil := range evils() {
		page := write(t, render.HTML, everything(evil))
		if got := tagsOf(page); ids.ReplaceAllString(strings.Join(got, ""), "") != ids.ReplaceAllString(strings.Join(want, ""), "") {
			t.Errorf("%q changes the tags", evil)
		}
	}
}

// FuzzPage: for any text a page is well formed, has the tags of one with harmless
// text, and no character that acts.
func FuzzPage(f *testing.F) {
	for _, evil := range append(evils(), "blob", "oci/x", "a@sha256:b", "x v1.2.3", "-rf", "image", " at commit ", "a/b.sig", ";,:;,:") {
		f.Add(evil)
	}
	known := regexp.MustCompile(`^</?(html|head|meta|title|style|body|header|h[123]|p|strong|bdi|b|section|div|ul|ol|li|code|pre|details|summary|a|dl|dt|dd|br|svg|g|rect|text|input|label|table|tr|td|small|span|time|footer|!DOCTYPE html)( [a-zA-Z-]+(="[^"]*")?)*/?>$`)
	acting := regexp.MustCompile(` (on[a-z]+|src|style)=`)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 200 {
			return
		}
		page := write(t, render.HTML, everything(text))
		if i := strings.IndexFunc(page, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) }); i >= 0 || !utf8.ValidString(page) {
			t.Errorf("%q: %q is not printable", text, page[max(i, 0):])
		}
		open := map[string]int{}
		for _, tag := range tagsOf(page) {
			name := known.FindStringSubmatch(tag)
			if name == nil {
				t.Fatalf("%q makes the tag %q", text, tag)
			}
			if open[name[1]]++; strings.HasPrefix(tag, "</") {
				open[name[1]] -= 2
			}
			if acting.MatchString(tag) {
				t.Errorf("%q: %q runs or loads something", text, tag)
			}
		}
		for _, name := range []string{"bdi", "code", "pre", "details", "section", "ul", "li", "svg", "text", "dl"} {
			if open[name] != 0 {
				t.Errorf("%q leaves %d of %s open", text, open[name], name)
			}
		}
	})
}

// TestPagePolicy: the policy of a page allows its style by hash and nothing else,
// and the page needs nothing else.
func TestPagePolicy(t *testing.T) {
	page := write(t, render.HTML, everything("lantern"))
	_, style, _ := strings.Cut(page, "<style>")
	style, _, _ = strings.Cut(style, "</style>")
	hash := sha256.Sum256([]byte(style))
	if want := `content="default-src 'none'; style-src 'sha256-` + base64.StdEncoding.EncodeToString(hash[:]) + `'; base-uri 'none'; form-action 'none'"`; !strings.Contains(page, want) {
		t.Errorf("the policy is not %s", want)
	}
	for _, wrong := range []string{"<script", " style=", " src=", "url(", "@import", "<link", "<form", "%!"} {
		if strings.Contains(page, wrong) {
			t.Errorf("the page has %q", wrong)
		}
	}
}

// TestPageDrawing: a drawing is well formed, and no text in it is longer than its box.
func TestPageDrawing(t *testing.T) {
	page := write(t, render.HTML, everything(strings.Repeat("long name ", 9)))
	drawings := regexp.MustCompile(`(?s)<svg.*?</svg>`).FindAllString(page, -1)
	if len(drawings) != 5 {
		t.Fatalf("%d drawings, want one for each step", len(drawings))
	}
	for _, drawing := range drawings {
		if err := xml.Unmarshal([]byte(drawing), new(struct{})); err != nil {
			t.Error(err)
		}
		for _, text := range regexp.MustCompile(`<text[^>]*>([^<]*)`).FindAllStringSubmatch(drawing, -1) {
			if n := utf8.RuneCountInString(html.UnescapeString(text[1])); n > 21 {
				t.Errorf("%d characters: %q", n, text[1])
			}
		}
	}
}

// TestPageAnswer: the answer has at most ten words behind its first one; what was
// cut follows as a sentence.
func TestPageAnswer(t *testing.T) {
	answer := regexp.MustCompile(`<p class="answer"><strong>(.*?)</strong> <bdi>(.*?)</bdi></p>`)
	many := verdict.New("q", noon())
	many.Subject = "lantern v0.1.0"
	for i := range 9 {
		many.Add(verdict.Find(verdict.Tampered, fmt.Sprintf("bin/%d", i), "x"), verdict.Find(verdict.Missing, fmt.Sprintf("doc/%d", i), "x"))
	}
	fine := verdict.New("q", noon())
	fine.Subject, fine.Counts, fine.Proofs = "lantern v0.1.0", verdict.Counts{Verified: 1, Required: 1}, proofs()
	fine.Scope.Left = []string{"images"}
	for _, r := range []struct {
		v           *verdict.Verdict
		word, words string
		whole       bool
	}{
		{fine, "OK", "signed by release@example.test, in part", true},
		{many, "REFUSED", "9 files altered: bin/0, bin/1, bin/2 and 6 ", false},
		{refusedRelease(), "REFUSED", "2 files altered: bin/lantern, LICENSE; 1 file not listed: bin/lantern-helper", true},
		{everything("lantern"), "REFUSED", "", false},
		{&verdict.Verdict{}, "UNDECIDED", "", true},
	} {
		page := write(t, render.HTML, r.v)
		got := answer.FindStringSubmatch(page)
		if len(got) != 3 || got[1] != r.word || len(strings.Fields(got[2])) > 10 || !strings.HasPrefix(got[2], r.words) || strings.HasSuffix(got[2], "…") == r.whole {
			t.Errorf("%q, want %s %q", got, r.word, r.words)
		}
		if sentence := "<bdi>" + html.EscapeString(r.v.Headline()) + "</bdi>"; r.words != "" && strings.Contains(page, sentence) == r.whole {
			t.Errorf("%s: the whole sentence: %t", r.words, !r.whole)
		}
	}
}

// TestPageOfManyObjects: a page of 10,000 objects lists few of them, those that are
// not verified first, and says so.
func TestPageOfManyObjects(t *testing.T) {
	v := verdict.New("q", noon())
	v.Counts = verdict.Counts{Verified: 9999, Required: 10000}
	v.Groups = []verdict.Group{{Name: "binary", Verified: 5000, Required: 5000}, {Name: "archive", Verified: 4999, Required: 5000}}
	for i := range 10000 {
		v.Objects = append(v.Objects, verdict.Object{Name: fmt.Sprintf("n%05d", i), Class: v.Groups[i%2].Name, Digest: digest.Of(digest.SHA256, []byte{byte(i)}), Verified: i != 9999})
	}
	for i := range 1000 {
		v.Add(verdict.Find(verdict.Unsigned, fmt.Sprintf("f%05d", i), "x"))
	}
	page := write(t, render.HTML, v)
	if n := strings.Count(page, "<li class=\"ok\"><code>"); n != 999 || !strings.Contains(page, "<li class=\"bad\"><code><bdi>n09999") || strings.Count(page, "; 500 are shown, the JSON form has all") != 2 {
		t.Errorf("%d verified objects are listed", n)
	}
	if !strings.Contains(page, "and 800 more; the JSON form has all") || len(page) > 1<<20 {
		t.Errorf("%d bytes", len(page))
	}
	v.Objects, v.Findings = v.Objects[:20], v.Findings[:20]
	if few := write(t, render.HTML, v); strings.Contains(few, "JSON") || strings.Count(few, "<li class=\"ok\"><code>") != 20 {
		t.Error("20 objects and findings are cut")
	}
}

// linesOf lists the commands of a page.
func linesOf(page string) (all []string) {
	for _, line := range regexp.MustCompile(`<code><bdi>([^<]*)</bdi></code>`).FindAllStringSubmatch(strings.Join(regexp.MustCompile(`<pre>.*?</pre>`).FindAllString(page, -1), ""), -1) {
		all = append(all, html.UnescapeString(line[1]))
	}
	return all
}

// TestPageCommandsAreQuoted has a shell read every command: what others wrote is one
// word of it, and nothing runs.
func TestPageCommandsAreQuoted(t *testing.T) {
	for _, evil := range append(evils(), "$(touch pwned)", "`touch pwned`", "'; touch pwned; '", "-rf", "a b", "~", "*", "!!", "a\\nb") {
		lines := linesOf(write(t, render.HTML, everything(evil)))
		if len(lines) < 10 {
			t.Fatalf("%q: %q", evil, lines)
		}
		var script strings.Builder
		for _, line := range lines {
			if strings.HasPrefix(line, "printf ") {
				line = strings.TrimSuffix(line, " | sha256sum -c")
			}
			script.WriteString("set -- " + line + "\nfor word; do printf '%s\\0' \"$word\"; done; printf '\\n'\n")
		}
		cmd := exec.CommandContext(t.Context(), "sh", "-c", "set -f\n"+script.String())
		cmd.Dir = t.TempDir()
		out, err := cmd.Output()
		if left, _ := os.ReadDir(cmd.Dir); err != nil || len(left) > 0 || bytes.Count(out, []byte("\n")) != len(lines) {
			t.Fatalf("%q: %v, %v\n%s", evil, err, left, out)
		}
		clean := strings.Map(func(r rune) rune {
			if !unicode.IsPrint(r) {
				return unicode.ReplacementChar
			}
			return r
		}, evil)
		for line := range strings.Lines(string(out)) {
			words := strings.Split(line, "\x00")
			if i := slices.Index(words, "--certificate-identity"); i > 0 && words[i+1] != clean {
				t.Errorf("the identity is %q, want %q", words[i+1], clean)
			}
		}
	}
}

// TestPageCommandsFor: each kind of evidence has its own command; older signatures,
// keys, and Kubernetes' public releases have theirs.
func TestPageCommandsFor(t *testing.T) {
	d, e := digest.Of(digest.SHA256, []byte("x")), digest.Of(digest.SHA256, []byte("y"))
	who := " --certificate-identity release@example.test --certificate-oidc-issuer https://issuer.example.test "
	of := func(edit func(v *verdict.Verdict)) []string {
		v := verdict.New("q", noon())
		v.Subject, v.Counts = "lantern v0.1.0", verdict.Counts{Verified: 1, Required: 1}
		v.Objects = []verdict.Object{{Name: "bin/l", Class: "binary", Digest: d, Verified: true}, {Name: "bin/l.sigstore.json", Class: "signature", Digest: e, Verified: true}}
		v.Groups = []verdict.Group{{Name: "binary", Verified: 1, Required: 1}, {Name: "signature", Verified: 1, Required: 1}}
		v.Proofs = []verdict.Proof{{Subject: "bin/l", Statement: "blob", Identity: "release@example.test", Issuer: "https://issuer.example.test", Bundle: e}}
		edit(v)
		var out bytes.Buffer
		if err := (render.Printer{Program: "k8s-verify-release v0.3.0"}).Print(&out, render.HTML, *v); err != nil {
			t.Fatal(err)
		}
		return linesOf(out.String())
	}
	root := "--trusted-root trusted_root.json --use-signed-timestamps"
	rows := []struct {
		name, want string
		edit       func(v *verdict.Verdict)
	}{
		{"a file", "cosign verify-blob --bundle bin/l.sigstore.json " + root + who + "bin/l", func(*verdict.Verdict) {}},
		{"provenance", "cosign verify-blob-attestation --bundle bin/l.sigstore.json --type slsaprovenance1 " + root + who + "bin/l", func(v *verdict.Verdict) { v.Proofs[0].Statement = "https://slsa.dev/provenance/v1" }},
		{"a key", "cosign verify-blob --bundle bin/l.sigstore.json " + root + " --key key.pub bin/l", func(v *verdict.Verdict) { v.Proofs[0].Key = d }},
		{"an older signature", "cosign verify-blob --signature bin/l.sig --certificate bin/l.cert" + who + "bin/l", func(v *verdict.Verdict) { v.Objects, v.Groups = v.Objects[:1], v.Groups[:1] }},
		{"an image", "cosign verify " + root + who + "REPOSITORY@" + d.String(), func(v *verdict.Verdict) {
			v.Objects[0].Class, v.Groups[0].Name, v.Proofs[0].Statement = "image", "image", "https://sigstore.dev/cosign/sign/v1"
		}},
		{"an older image", "cosign verify" + who + "REPOSITORY@" + d.String(), func(v *verdict.Verdict) {
			v.Objects[0].Class, v.Groups[0].Name, v.Proofs[0].Statement = "image", "image", "simple-signing"
		}},
		{"the release", "k8s-verify-release v0.1.0 --profile profile.yaml", func(*verdict.Verdict) {}},
		{"a copy", "k8s-verify-release v0.1.0 --profile profile.yaml --files /a/copy", func(v *verdict.Verdict) { v.Inputs = []verdict.Input{{Name: "files", Place: "file:///a/copy"}} }},
		{"a public release", "k8s-verify-release v0.1.0 --profile kubernetes", func(v *verdict.Verdict) {
			v.Inputs = []verdict.Input{{Name: "files", Place: "https://dl.k8s.io/release/v0.1.0/"}}
		}},
		{"a single file", "waybill verify file --bundle bin/l.sigstore.json --trusted-root trusted_root.json" + who + "bin/l", func(v *verdict.Verdict) { v.Subject = "" }},
	}
	public := of(func(v *verdict.Verdict) {
		v.Inputs, v.TrustRoot = []verdict.Input{{Place: "https://dl.k8s.io/release/v0.1.0/"}}, d
	})
	own := of(func(v *verdict.Verdict) { v.TrustRoot = d })
	if n := func(lines []string) int { return strings.Count(strings.Join(lines, "\n"), "trusted_root.json") }; n(public) != 0 || n(own) == 0 {
		t.Errorf("a built-in trust root is no file:\n%s", strings.Join(public, "\n"))
	}
	for _, r := range rows {
		if got := of(r.edit); !slices.Contains(got, r.want) {
			t.Errorf("%s: no %q in\n%s", r.name, r.want, strings.Join(got, "\n"))
		}
	}
}
