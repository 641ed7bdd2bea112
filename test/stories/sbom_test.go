package stories

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
	"github.com/waybill-release/waybill/test/scene"
)

// describing is a scene in which anything can be described: the time is fixed.
type describing struct{ *scene.Scene }

func openDescribing(t *testing.T) describing {
	t.Helper()
	t.Setenv("SOURCE_DATE_EPOCH", "1714557600")
	return describing{open(t)}
}

func (d describing) write(t *testing.T, name string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(d.Path(name), raw, 0o644); err != nil {
		t.Fatal(err)
	}
}

func (d describing) sbom(t *testing.T, args ...string) scene.Result {
	t.Helper()
	return d.Run(t.Context(), append([]string{"waybill", "sbom"}, args...)...)
}

// packed is a tar.gz of files: name, content, name, content…
func packed(t *testing.T, pairs ...string) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	w := tar.NewWriter(z)
	for i := 0; i < len(pairs); i += 2 {
		if err := w.WriteHeader(&tar.Header{Name: pairs[i], Typeflag: tar.TypeReg, Mode: 0o644, Size: int64(len(pairs[i+1]))}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(pairs[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if w.Close() != nil || z.Close() != nil {
		t.Fatal("packing failed")
	}
	return buf.Bytes()
}

// TestDescribeOurselves: the document of this project's own program names every
// module that the program names, is valid, true of the program, and the same
// when it is made again.
func TestDescribeOurselves(t *testing.T) {
	d := openDescribing(t)
	program := filepath.Join(bin, "waybill")
	want(t, d.sbom(t, "generate", program, "--to", "one.spdx.json"), 0)
	want(t, d.sbom(t, "generate", program, "--to", "two.spdx.json"), 0)
	one, err := os.ReadFile(d.Path("one.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	if two, err := os.ReadFile(d.Path("two.spdx.json")); err != nil || !bytes.Equal(one, two) {
		t.Errorf("made again it differs (%v)", err)
	}
	want(t, d.sbom(t, "generate", program, "--output", "tag-value", "--to", "one.spdx"), 0)
	want(t, d.sbom(t, "validate", "--twin", "one.spdx.json", "one.spdx"), 0, "verified=3")
	cache, err := exec.CommandContext(t.Context(), "go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	named := []string{"generate", program, "--modules", strings.TrimSpace(string(cache)), "--supplier", "Waybill (https://github.com/waybill-release)", "--output"}
	want(t, d.sbom(t, append(named, "json", "--to", "named.spdx.json")...), 0)
	want(t, d.sbom(t, append(named, "tag-value", "--to", "named.spdx")...), 0)
	for _, profile := range []string{"ntia-2021", "cisa-2026", "bsi-2.1"} {
		want(t, d.sbom(t, "validate", "--profile", profile, "named.spdx.json", "named.spdx"), 0, "verified=2")
	}
	want(t, d.sbom(t, "validate", "--profile", "cisa-2026", "one.spdx.json"), 1, "SBOM_PROFILE", "SBOM author: missing in the document", "--supplier")
	want(t, d.sbom(t, "validate", "one.spdx.json"), 0, "verified=1")
	want(t, d.sbom(t, "check", "named.spdx.json", program, "--go-sum", goSum(t), "--complete"), 0, "verified=1")
	want(t, d.sbom(t, "check", "one.spdx.json", program, "--go-sum", goSum(t), "--complete"), 0, "verified=1")
	want(t, d.sbom(t, "generate", program, "--output", "table"), 0, "github.com/spdx/tools-golang", "stdlib")
	want(t, d.sbom(t, "diff", "one.spdx.json", "one.spdx"), 0, "no package or file")
	want(t, d.sbom(t, "check", "one.spdx.json", filepath.Join(bin, "k8s-verify-release")), 1, "SBOM_SUBJECT")
	d.write(t, "go.sum", nil)
	want(t, d.sbom(t, "check", "one.spdx.json", program, "--go-sum", "go.sum"), 1, "EVIDENCE_CONFLICT")
}

// TestNamespaces: of one input, documents that differ have two namespaces, and
// forms of one document have one.
func TestNamespaces(t *testing.T) {
	d := openDescribing(t)
	d.write(t, "a.tar.gz", packed(t, "README", "x"))
	namespace := func(args ...string) string {
		r := d.sbom(t, append([]string{"generate", "a.tar.gz"}, args...)...)
		want(t, r, 0)
		_, rest, _ := strings.Cut(r.Stdout, "amespace\": \"")
		if rest == "" {
			_, rest, _ = strings.Cut(r.Stdout, "DocumentNamespace: ")
		}
		return rest[:strings.IndexAny(rest, "\"\n")]
	}
	one := namespace()
	if one == "" || one != namespace() || one != namespace("--output", "tag-value") {
		t.Errorf("%q is not the same again", one)
	}
	if other := namespace("--version", "v2"); other == one {
		t.Errorf("two documents are %q", one)
	}
	if own := namespace("--namespace", "https://example.org/sboms/"); !strings.HasPrefix(own, "https://example.org/sboms/a.tar.gz-") {
		t.Errorf("%q", own)
	}
}

func goSum(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join("..", "..", "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// TestHostileArchives: each is refused with its own code, and the twin is not.
func TestHostileArchives(t *testing.T) {
	d := openDescribing(t)
	inner := packed(t, "a", strings.Repeat("text of a file\n", 1000))
	d.write(t, "good.tar.gz", packed(t, "README", "x", "inner.tar.gz", string(inner)))
	want(t, d.sbom(t, "generate", "good.tar.gz", "--complete", "--to", "good.spdx.json"), 0)
	want(t, d.sbom(t, "check", "good.spdx.json", "good.tar.gz", "--complete"), 0)
	listed := rawarchive.Packed("good.txt", "hello", true)
	renamed := listed
	renamed.Local.Name = "evil.sh"
	d.write(t, "good.tar.gz", packed(t, "README", "x", "inner.zip", string(rawarchive.Zip(nil, listed))))
	want(t, d.sbom(t, "generate", "good.tar.gz", "--complete", "--to", "good.spdx.json"), 0)
	for name, row := range map[string]struct {
		raw  []byte
		said string
	}{
		"a name outside":   {packed(t, "../evil", "x"), "PATH"},
		"a name twice":     {packed(t, "a", "x", "./a", "y"), "ARCHIVE_TWICE"},
		"a bomb":           {packed(t, "zeros", strings.Repeat("\x00", 96<<20)), "LIMIT"},
		"cut short":        {packed(t, "a", strings.Repeat("text", 5000))[:60], "NO_SBOM"},
		"bytes after it":   {append(packed(t, "a", "x"), packed(t, "b", "y")...), "ARCHIVE_HIDDEN"},
		"two zips":         {append(rawarchive.Zip(nil, listed), rawarchive.Zip(nil, listed)...), "ARCHIVE_HIDDEN"},
		"another name":     {rawarchive.Zip(nil, renamed), "ARCHIVE_AMBIGUOUS"},
		"it, as a part":    {packed(t, "README", "x", "inner.zip", string(rawarchive.Zip(nil, renamed))), "SBOM_INCOMPLETE"},
		"a broken part":    {packed(t, "README", "x", "inner.tar.gz", string(inner[:len(inner)-40])), "SBOM_INCOMPLETE"},
		"a hidden program": {[]byte("#!/bin/sh\n"), "SBOM_INCOMPLETE"},
	} {
		d.write(t, "bad.tar.gz", row.raw)
		r := d.sbom(t, "generate", "bad.tar.gz", "--complete", "--to", "bad.spdx.json")
		want(t, r, 1, row.said)
		if _, err := os.Stat(d.Path("bad.spdx.json")); !os.IsNotExist(err) {
			t.Errorf("%s: a product was left behind", name)
		}
	}
}

// TestValidateAtTheTerminal: every fault is listed with its place, in words and
// for machines.
func TestValidateAtTheTerminal(t *testing.T) {
	d := openDescribing(t)
	d.write(t, "a.tar.gz", packed(t, "README", "x"))
	want(t, d.sbom(t, "generate", "a.tar.gz", "--to", "a.spdx.json"), 0)
	good, err := os.ReadFile(d.Path("a.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	for said, change := range map[string][2]string{
		"SBOM_GRAPH":      {`"relatedSpdxElement": "SPDXRef-File`, `"relatedSpdxElement": "SPDXRef-Gone`},
		"SBOM_INVALID":    {`"licenseDeclared": "NOASSERTION"`, `"licenseDeclared": "MIT OR"`},
		"SBOM_INCOMPLETE": {`"packageVerificationCodeValue": "`, `"packageVerificationCodeValue": "0000`},
		"PAYLOAD_PARSE":   {`"dataLicense": "CC0-1.0"`, `"dataLicense": "MIT"`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Fatalf("%s: nothing changed", said)
		}
		d.write(t, "bad.spdx.json", []byte(bad))
		want(t, d.sbom(t, "validate", "bad.spdx.json"), 1, said)
	}
	r := d.sbom(t, "validate", "a.spdx.json", "bad.spdx.json", "--output", "json")
	if v := parse(t, r); v.Outcome != "refused" || r.Code != 1 || v.Counts.Verified != 1 || len(v.Findings) == 0 {
		t.Errorf("%+v", v)
	}
	want(t, d.sbom(t, "validate"), 2, "requires at least 1 arg")
	want(t, d.sbom(t, "validate", "absent"), 2, "no such file")
	want(t, d.sbom(t, "generate", "absent"), 2, "no such file")
	want(t, d.sbom(t, "generate", "a.tar.gz", "--output", "poem"), 2, "poem")
	want(t, d.sbom(t, "diff", "a.spdx.json", "a.tar.gz"), 1, "PAYLOAD_PARSE")
}

// TestMisuseOfSBOMs: who asks wrongly is told so, with what to do, and nothing is
// written; the twin of each row is asked rightly.
func TestMisuseOfSBOMs(t *testing.T) {
	d := openDescribing(t)
	d.write(t, "a.tar.gz", packed(t, "README", "x"))
	d.write(t, "wick_1.0_all.deb", []byte("!<arch>\ndebian-binary   1714557600  0     0     100644  4         `\n2.0\n"))
	want(t, d.sbom(t, "generate", "a.tar.gz", "--to", "a.spdx.json"), 0)
	good, err := os.ReadFile(d.Path("a.spdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	d.write(t, "marked.spdx.json", append([]byte("\xef\xbb\xbf"), good...))
	for _, epoch := range []string{"253402300800", "-1", "yesterday", "99999999999999999999"} {
		t.Setenv("SOURCE_DATE_EPOCH", epoch)
		want(t, d.sbom(t, "generate", "a.tar.gz"), 2, "USAGE", "git log -1")
	}
	t.Setenv("SOURCE_DATE_EPOCH", "253402300799")
	want(t, d.sbom(t, "generate", "a.tar.gz", "--to", "late.spdx.json"), 0)
	want(t, d.sbom(t, "validate", "late.spdx.json"), 1, "SBOM_INVALID", "in the future")
	t.Setenv("SOURCE_DATE_EPOCH", "1714557600")
	for _, row := range []struct {
		args []string
		code int
		said string
	}{
		{[]string{"generate", "a.tar.gz", "--to", d.Path("none/b")}, 2, "there is no directory"},
		{[]string{"generate", "a.tar.gz", "--to", d.Path(".")}, 2, "a directory; name a file"},
		{[]string{"validate", "a.spdx.json", "--output", "json=" + d.Path("none/b")}, 2, "there is no directory"},
		{[]string{"generate", "a.tar.gz", "--namespace", "lantern"}, 2, "--namespace https://"},
		{[]string{"generate", "a.tar.gz", "--namespace", "https://example.org/sboms/"}, 0, ""},
		{[]string{"generate", "a.tar.gz/README"}, 2, "not a directory"},
		{[]string{"generate", "/dev/zero"}, 1, "got a device"},
		{[]string{"validate", "/dev/zero"}, 1, "got a device"},
		{[]string{"check", "a.spdx.json", "/dev/zero"}, 1, "got a device"},
		{[]string{"check", "a.spdx.json", "a.tar.gz"}, 0, "0 packages, 1 file"},
		{[]string{"validate", "marked.spdx.json"}, 1, "byte order mark"},
		{[]string{"check", "marked.spdx.json", "a.tar.gz"}, 1, "byte order mark"},
		{[]string{"validate", "absent", "a.spdx.json"}, 2, "verified=1 required=2"},
		{[]string{"validate", "a.spdx.json", "a.spdx.json"}, 0, "verified=2 required=2"},
		{[]string{"generate", "wick_1.0_all.deb", "--output", "table"}, 0, "seen, not catalogued: Debian package: wick_1.0_all.deb"},
		{[]string{"generate", "wick_1.0_all.deb", "--complete"}, 1, "SBOM_INCOMPLETE"},
		{[]string{"generate", "a.tar.gz", "--complete"}, 0, ""},
	} {
		want(t, d.sbom(t, row.args...), row.code, row.said)
	}
	if os.Geteuid() == 0 {
		t.Log("who runs this may read every file: what happens to others is not seen")
		return
	}
	if err := os.Chmod(d.Path("a.tar.gz"), 0); err != nil {
		t.Fatal(err)
	}
	want(t, d.sbom(t, "generate", "a.tar.gz"), 3, "permission to read the file")
}

// TestSBOMHelp: the commands under sbom explain themselves.
func TestSBOMHelp(t *testing.T) {
	d := openDescribing(t)
	for _, verb := range []string{"generate", "validate", "diff", "check"} {
		want(t, d.sbom(t, verb, "--help"), 0, "EXIT STATUS", "Examples:", "--output")
	}
}

// TestSBOMsAreHeldAgainstTheRelease: an SBOM that says something else than the
// artifact, its builder or the registry is refused before anything is sealed;
// and who verifies can look into the artifacts.
func TestSBOMsAreHeldAgainstTheRelease(t *testing.T) {
	s := published(t)
	deep := func(args ...string) scene.Result {
		return s.Run(t.Context(), append(args, scene.Version, "--profile", "profile.yaml", "--depth", "full")...)
	}
	want(t, deep("waybill", "verify", "release"), 0, "nothing extra")
	want(t, deep("waybill", "gate", "check"), 0)
	want(t, deep("k8s-verify-release"), 2, "waybill verify release")
	want(t, s.Verify(t.Context(), "--depth", "poem"), 2, "poem")
	for tag, said := range map[string]string{"nope": "the registry has no such image", scene.Version: "pkg:oci/lantern@"} {
		code := map[bool]int{true: 0, false: 1}[tag == scene.Version]
		want(t, s.Run(t.Context(), "waybill", "sbom", "generate", s.Lab.Registry+"/release/lantern/lantern:"+tag), code, said)
	}
	want(t, s.Seal(t.Context()), 0)
	const sbom = "lantern-linux-amd64.tar.gz.spdx.json"
	path := s.Path("state/files/" + sbom)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for said, change := range map[string][2]string{
		"SBOM_SUBJECT":      {`"versionInfo": "` + scene.Version, `"versionInfo": "v9.9.9`},
		"SBOM_GRAPH":        {`"relatedSpdxElement": "SPDXRef-File`, `"relatedSpdxElement": "SPDXRef-Gone`},
		"EVIDENCE_CONFLICT": {`"fileName": "./lantern/LICENSE"`, `"fileName": "./lantern/COPYING"`},
	} {
		bad := strings.Replace(string(good), change[0], change[1], 1)
		if bad == string(good) {
			t.Fatalf("%s: nothing changed", said)
		}
		if err := os.WriteFile(path, []byte(bad), 0o644); err != nil {
			t.Fatal(err)
		}
		want(t, s.Seal(t.Context()), 1, said)
	}
	if err := os.WriteFile(path, good, 0o644); err != nil {
		t.Fatal(err)
	}
	want(t, s.Seal(t.Context()), 0)
}
