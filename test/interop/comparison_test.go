package interop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// comparisonPage is docs/comparison.md, which TestComparison writes.
const comparisonPage = "../../docs/comparison.md"

const comparisonHead = `# Who notices what

One release is sealed, and a copy of it is attacked, each time in one way. Every verifier is then run over the copy, as its users run
it: each cell is a run of ` + "`make interop`" + `, which compares this page; ` + "`WAYBILL_GOLDEN=write make interop`" + ` writes it.
**–** means that the verifier accepts everything that it looks at. All of them read the same sealed list: the seal writes
` + "`SHA256SUMS`, a signature beside each file, `packslip.sigstore.json` and the signed manifest" + `.

`

const comparisonFoot = `
- **sha256sum**: ` + "`sha256sum --check --strict SHA256SUMS`" + `. The checksum file is only as good as the place that it comes from.
- **cosign** and **sigstore-go**: ` + "`cosign verify-blob`" + `, or the library with a certificate log, an entry in the log and a timestamp, for
  each file that has a signature beside it, and the signer who is expected. They judge a file; what else a release has is not asked.
- **packslip's rules**: the consumer rules of its specification, version 1, as far as they are about the files: the signature (by
  sigstore-go), the signer, the version that was asked for, and digest and size of each listed file. They are run by our test;
  packslip's own program is not. It lists no images, and nothing says that what it does not list must not be there.
- **Waybill**: ` + "`k8s-verify-release VERSION`" + `, with the codes of its findings.
- ` + "`gh attestation verify`" + ` needs GitHub's interface and is not run here.
`

// copied is a copy of the release, and what its users ask for.
type copied struct {
	*world
	version string
}

// signed are the files that have a signature beside them.
func (c copied) signed() (files []string) {
	for _, name := range c.names() {
		if file, is := strings.CutSuffix(name, bundleSuffix); is && !strings.Contains(name, "provenance/") && !slices.Contains([]string{"packslip", "release.manifest", "sboms"}, file) {
			files = append(files, file)
		}
	}
	return files
}

func (c copied) names() (names []string) {
	_ = filepath.WalkDir(c.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, _ := filepath.Rel(c.dir, path)
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	return names
}

// verifier is one column: an error is what it noticed.
type verifier struct {
	title  string
	verify func(*testing.T, copied) error
}

func (w *world) verifiers() []verifier {
	each := func(p peer) func(*testing.T, copied) error {
		return func(t *testing.T, c copied) error {
			files := c.signed()
			if len(files) < 2 {
				t.Errorf("%s: %d signed files", p.title(), len(files))
			}
			for _, name := range files {
				if err := p.verify(t.Context(), ask{verb: "verify-blob", role: lab.RoleRelease, bundle: c.file(name + bundleSuffix), target: c.file(name)}); err != nil {
					return err
				}
			}
			return nil
		}
	}
	return []verifier{
		{"sha256sum", func(t *testing.T, c copied) error {
			cmd := exec.CommandContext(t.Context(), "sha256sum", "--check", "--strict", sums)
			cmd.Dir = c.dir
			return cmd.Run()
		}},
		{w.cosign2.title(), each(w.cosign2)}, {w.cosign3.title(), each(w.cosign3)}, {w.library.title(), each(w.library)},
		{"packslip's rules", w.packslip},
		{"Waybill", judged},
	}
}

// packslip follows the consumer rules of packslip's specification that are about
// the files of a release.
func (w *world) packslip(t *testing.T, c copied) error {
	raw, err := os.ReadFile(c.file("packslip.sigstore.json"))
	if err != nil {
		return err
	}
	var envelope struct {
		DSSE struct{ Payload []byte } `json:"dsseEnvelope"`
	}
	var said struct {
		Subject []struct {
			Name   string
			Digest struct{ SHA256 string }
		}
		Predicate struct {
			Version   string
			Artifacts []struct {
				Name string
				Size int
			}
		}
	}
	if err := errors.Join(json.Unmarshal(raw, &envelope), json.Unmarshal(envelope.DSSE.Payload, &said)); err != nil {
		return err
	}
	if len(said.Subject) == 0 || len(said.Predicate.Artifacts) == 0 {
		t.Error("the packslip lists nothing")
	}
	if "v"+said.Predicate.Version != c.version {
		return fmt.Errorf("version %s", said.Predicate.Version)
	}
	sizes := map[string]int{}
	for _, a := range said.Predicate.Artifacts {
		sizes[a.Name] = a.Size
	}
	for _, s := range said.Subject {
		body, err := os.ReadFile(c.file(s.Name))
		if err != nil {
			return err
		}
		if size, is := sizes[s.Name]; is && size != len(body) || digest.Of(digest.SHA256, body).Hex() != s.Digest.SHA256 {
			return fmt.Errorf("%s differs", s.Name)
		}
		q := ask{verb: "verify-blob-attestation", role: lab.RoleRelease, kind: "https://packslip.dev/release/v1", bundle: c.file("packslip.sigstore.json"), target: c.file(s.Name)}
		if err := w.library.verify(t.Context(), q); err != nil {
			return err
		}
	}
	return nil
}

// judged is the whole release, judged by the built command; the codes are the error.
func judged(t *testing.T, c copied) error {
	r := c.Run(t.Context(), "k8s-verify-release", c.version, "--profile", "copy.yaml", "--output", "json")
	if r.Code != 0 && r.Code != 1 {
		t.Errorf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
	}
	var codes []string
	for _, code := range regexp.MustCompile(`"code": ?"([A-Z_]+)"`).FindAllStringSubmatch(r.Stdout, -1) {
		codes = append(codes, "`"+code[1]+"`")
	}
	if slices.Sort(codes); r.Code != 0 {
		return errors.New(strings.Join(slices.Compact(codes), ", "))
	}
	return nil
}

// onDisk attacks a copy.
type onDisk struct {
	name   string
	asked  string // the version, if it is another
	attack func(*testing.T, copied)
}

func attacksOnDisk() []onDisk {
	must := func(t *testing.T, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	move := func(t *testing.T, c copied, from, to string) {
		must(t, os.Rename(c.file(from), c.file(to)))
		must(t, os.Rename(c.file(from+bundleSuffix), c.file(to+bundleSuffix)))
	}
	change := func(t *testing.T, c copied) {
		body, err := os.ReadFile(c.file("lot"))
		must(t, err)
		c.write(t, "lot", flip(body, 0))
	}
	return []onDisk{
		{name: "nothing: the copy is genuine", attack: func(*testing.T, copied) {}},
		{name: "one byte of a file changed", attack: change},
		{name: "a file missing, with its signature", attack: func(t *testing.T, c copied) {
			must(t, errors.Join(os.Remove(c.file("lot")), os.Remove(c.file("lot"+bundleSuffix))))
		}},
		{name: "an extra file", attack: func(t *testing.T, c copied) { c.write(t, "install.sh", []byte("#!/bin/sh\n")) }},
		{name: "a file renamed, with its signature", attack: func(t *testing.T, c copied) { move(t, c, "lot", "lots") }},
		{name: "two files with each other's name and signature", attack: func(t *testing.T, c copied) {
			move(t, c, "lot", "between")
			move(t, c, "copy", "lot")
			move(t, c, "between", "copy")
		}},
		{name: "a byte changed, signed anew by another identity, checksums computed anew", attack: func(t *testing.T, c copied) {
			before, err := os.ReadFile(c.file("lot"))
			must(t, err)
			list, err := os.ReadFile(c.file(sums))
			must(t, err)
			change(t, c)
			after, err := os.ReadFile(c.file("lot"))
			must(t, err)
			hex := func(body []byte) string { return digest.Of(digest.SHA256, body).Hex() }
			c.write(t, sums, []byte(strings.ReplaceAll(string(list), hex(before), hex(after))))
			for _, name := range []string{"lot", sums} {
				_, err = c.cosign3.run(t.Context(), "sign-blob", "--identity-token", c.Lab.Token("mallory@evil.example"), "--yes",
					"--trusted-root", c.Path("trusted_root.json"), "--signing-config", c.Path("signing_config.json"), "--bundle", c.file(name+bundleSuffix), c.file(name))
				must(t, err)
			}
		}},
		{name: "an older release in place of the newer", asked: "v0.2.0", attack: func(*testing.T, copied) {}},
	}
}

// TestComparison attacks copies of one release, has every verifier judge each, and
// compares docs/comparison.md with what they noticed.
func TestComparison(t *testing.T) {
	bin, example := peers(t), t.TempDir()
	text := strings.NewReplacer("cat {in}/lot >", "cat {in}/lot {in}/lot >", `files: "https://dl.example.test/lantern/{version}/"`,
		`files: {uri: "https://dl.example.test/lantern/{version}/", alsoFor: [packslip, scorecard]}`).Replace(scene.Quick)
	if err := os.WriteFile(filepath.Join(example, "release.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := scene.Open(t.Context(), scene.Options{Bin: commands(t), Dir: t.TempDir(), Example: example})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	for _, r := range []scene.Result{s.Stage(t.Context()), s.Release(t.Context())} {
		if r.Code != 0 {
			t.Fatalf("%s\nended with status %d\n%s%s", r, r.Code, r.Stdout, r.Stderr)
		}
	}
	w := &world{Scene: s}
	w.cosign2, w.cosign3, w.library = openCosign(t, s, filepath.Join(bin, "cosign2")), openCosign(t, s, filepath.Join(bin, "cosign3")), openLibrary(t, s)
	w.cosign2.bundles, w.cosign2.offline = []string{"--new-bundle-format"}, []string{"--offline"}
	profile, err := os.ReadFile(s.Path("profile.yaml"))
	if err != nil {
		t.Fatal(err)
	}

	answers := table{head: []string{"what was done to the copy"}}
	for _, v := range w.verifiers() {
		answers.head = append(answers.head, v.title)
	}
	for _, a := range attacksOnDisk() {
		c := copied{world: &world{}, version: scene.Version}
		*c.world = *w
		if a.asked != "" {
			c.version = a.asked
		}
		place := t.TempDir()
		c.dir = filepath.Join(place, c.version)
		if err := os.CopyFS(c.dir, os.DirFS(s.Path("state", "files"))); err != nil {
			t.Fatal(err)
		}
		write(t, s, "copy.yaml", strings.Replace(string(profile), s.Places.Files+"/release/lantern/", place+"/", 1))
		a.attack(t, c)
		cells := []string{a.name}
		for i, v := range w.verifiers() {
			cell, err := "–", v.verify(t, c)
			switch {
			case err != nil && v.title == "Waybill":
				cell = err.Error()
			case err != nil:
				cell = "noticed"
			}
			t.Logf("%s: %s: %v", a.name, v.title, err)
			if err != nil && a.name == attacksOnDisk()[0].name || err == nil && i == len(w.verifiers())-1 && a.name != attacksOnDisk()[0].name {
				t.Errorf("%s: %s: %v", a.name, v.title, err)
			}
			cells = append(cells, cell)
		}
		answers.row(cells...)
	}
	page := comparisonHead + answers.markdown() + comparisonFoot
	if os.Getenv("WAYBILL_GOLDEN") == "write" && !t.Failed() {
		if err := os.WriteFile(comparisonPage, []byte(page), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if raw, err := os.ReadFile(comparisonPage); err != nil || string(raw) != page {
		t.Errorf("docs/comparison.md is not what was found (%v); WAYBILL_GOLDEN=write make interop writes it\n%s", err, page)
	}
}
