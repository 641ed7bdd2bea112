package stories

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
)

// asker is somebody with a file, a key, and no evidence.
type asker struct {
	t   *testing.T
	dir string
}

func newAsker(t *testing.T) *asker {
	t.Helper()
	a := &asker{t: t, dir: t.TempDir()}
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		t.Fatal(err)
	}
	a.write("key.pub", pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
	a.write("file", []byte("a file"))
	return a
}

func (a *asker) write(name string, raw []byte) string {
	a.t.Helper()
	path := filepath.Join(a.dir, name)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		a.t.Fatal(err)
	}
	return path
}

// run runs a command, with pipes as its files 3 and so on.
func (a *asker) run(args []string, files ...*os.File) (code int, stdout, stderr string) {
	a.t.Helper()
	cmd := exec.CommandContext(a.t.Context(), filepath.Join(bin, args[0]), args[1:]...)
	cmd.Dir, cmd.ExtraFiles = a.dir, files
	var out, conversation bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &conversation
	_ = cmd.Run() // its status is asked below
	return cmd.ProcessState.ExitCode(), out.String(), conversation.String()
}

// question is one that is refused, for there is no evidence.
func question(flags ...string) []string {
	now := trust.Embedded().Date().AddDate(0, 0, 1).Format(time.RFC3339)
	return append([]string{"waybill", "verify", "file", "file", "--key", "key.pub", "--offline", "--now", now}, flags...)
}

func outcome(t *testing.T, raw []byte) string {
	t.Helper()
	var v struct{ Outcome string }
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Errorf("no verdict: %v\n%s", err, raw)
	}
	return v.Outcome
}

// TestWhereAVerdictIsWritten: files are replaced whole; what is no file is
// written into and stays what it is; what was not named is left alone.
func TestWhereAVerdictIsWritten(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	kept := a.write("verdict.json", []byte("of before"))
	if err := os.Symlink("file", filepath.Join(a.dir, "link")); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := a.run(question("-o", "json="+kept)); code != 1 {
		t.Fatalf("into a file: %d\n%s", code, stderr)
	}
	raw, err := os.ReadFile(kept)
	if err != nil || outcome(t, raw) != "refused" {
		t.Errorf("the file says %q, %v", raw, err)
	}
	for name, row := range map[string]struct {
		code int
		path string
		said string
	}{
		"a symlink":             {2, "link", "symlink"},
		"a directory":           {2, ".", "directory"},
		"no such directory":     {2, "none/verdict.json", "none"},
		"no name":               {2, "", "names no file"},
		"a device that is full": {3, "/dev/full", "/dev/full"},
	} {
		if _, err := os.Stat(row.path); err != nil && filepath.IsAbs(row.path) {
			continue // no such device here
		}
		code, _, stderr := a.run(question("-o", "json="+row.path))
		if code != row.code || !strings.Contains(stderr, row.said) {
			t.Errorf("%s: ended with %d, want %d\n%s", name, code, row.code, stderr)
		}
		if info, err := os.Stat(row.path); row.code == 3 && (err != nil || info.Mode().IsRegular()) {
			t.Errorf("%s became %v, %v", name, info, err)
		}
	}
	if raw, err := os.ReadFile(filepath.Join(a.dir, "file")); err != nil || string(raw) != "a file" {
		t.Errorf("the target of the symlink is %q, %v", raw, err)
	}
}

// TestVerdictThroughAPipe: a pipe that the shell handed on gets the verdict.
func TestVerdictThroughAPipe(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("open files have names on Linux")
	}
	a := newAsker(t)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	code, _, stderr := a.run(question("-o", "json=/dev/fd/3"), w)
	w.Close()
	raw, err := io.ReadAll(r)
	if err != nil || code != 1 || outcome(t, raw) != "refused" {
		t.Errorf("ended with %d, %v\n%s%s", code, err, raw, stderr)
	}
}

// TestNoVerdictOfBefore: a run that ends before anything was judged writes a
// verdict too, or whoever reads the file reads that of an earlier run.
func TestNoVerdictOfBefore(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	if err := os.Mkdir(filepath.Join(a.dir, "away"), 0o700); err != nil {
		t.Fatal(err)
	}
	a.write("away/source.json", []byte(`{"url":"http://127.0.0.1:1","root":"e30="}`))
	for name, row := range map[string]struct {
		args    []string
		code    int
		outcome string
	}{
		"judged, the twin":       {question(), 1, "refused"},
		"an early clock":         {strings.Fields("waybill verify file file --key key.pub --offline --now 2001-01-01T00:00:00Z"), 3, "unavailable"},
		"a cache not to be read": {strings.Fields("waybill verify file file --key key.pub --cache key.pub"), 3, "unavailable"},
		"a root that is none":    {strings.Fields("waybill verify file file --key key.pub --cache away"), 1, "refused"},
		"no signer":              {strings.Fields("waybill verify file file --cache away"), 2, "malformed"}, // before the root is read
		"no key":                 {strings.Fields("waybill verify file file --key none --offline"), 2, "malformed"},
		"no file":                {strings.Fields("waybill verify file --key key.pub --offline"), 2, "malformed"},
		"verify bundle":          {strings.Fields("waybill verify bundle b file --key key.pub --now noon"), 2, "malformed"},
		"verify image":           {strings.Fields("waybill verify image host.example.test/a:b --key key.pub --now noon"), 2, "malformed"},
		"verify release":         {strings.Fields("waybill verify release v0.1.0 --profile none.yaml"), 2, "malformed"},
		"k8s-verify-release":     {strings.Fields("k8s-verify-release v0.1.0 --profile none.yaml"), 2, "malformed"},
		"gate check":             {strings.Fields("waybill gate check v0.1.0 --profile none.yaml"), 2, "malformed"},
		"gate file":              {strings.Fields("waybill gate file file --policy none.yaml"), 2, "malformed"},
		"gate image":             {strings.Fields("waybill gate image host.example.test/a:b --policy none.yaml"), 2, "malformed"},
		"an unknown flag":        {question("--none"), 2, "malformed"},
		"an empty flag":          {question("--revoked", ""), 2, "malformed"},
	} {
		kept := a.write("verdict.json", []byte(`{"outcome":"accepted"}`))
		code, stdout, stderr := a.run(append(row.args, "-o", "json", "-o", "json="+kept))
		if code != row.code {
			t.Errorf("%s: ended with %d, want %d\n%s", name, code, row.code, stderr)
		}
		raw, err := os.ReadFile(kept)
		if err != nil || outcome(t, raw) != row.outcome || outcome(t, []byte(stdout)) != row.outcome {
			t.Errorf("%s: the file says %v %s, stdout %s, want %s", name, err, raw, stdout, row.outcome)
		}
		if row.code != 1 && !strings.Contains(stderr, "→") {
			t.Errorf("%s: no next act: %s", name, stderr)
		}
	}
}

// TestEveryFormatAtOnce: one run writes all forms, the ones for eyes and the
// ones for programs, and each says that it was refused.
func TestEveryFormatAtOnce(t *testing.T) {
	t.Parallel()
	a := newAsker(t)
	refusals := map[string]string{
		"table": "REFUSED", "json": `"outcome": "refused"`, "junit": `failures="1" errors="0"`,
		"sarif": `"ruleId": "EVIDENCE_MISSING"`, "markdown": "## REFUSED", "html": "REFUSED",
	}
	var flags []string
	for format := range refusals {
		flags = append(flags, "--output", format+"="+filepath.Join(a.dir, "verdict."+format))
	}
	code, stdout, stderr := a.run(question(append(flags, "--output", "table")...))
	if code != 1 || !strings.Contains(stdout, "REFUSED") {
		t.Fatalf("ended with %d\n%s%s", code, stdout, stderr)
	}
	for format, says := range refusals {
		raw, err := os.ReadFile(filepath.Join(a.dir, "verdict."+format))
		if err != nil || !strings.Contains(string(raw), says) {
			t.Errorf("%s does not say %q: %v\n%s", format, says, err, raw)
		}
	}
	code, _, stderr = a.run(question("-o", "yaml"))
	if code != 2 || !strings.Contains(stderr, "table, json, junit, sarif, markdown, html") {
		t.Errorf("an unknown format: %d\n%s", code, stderr)
	}
	for _, ends := range [][]string{{"json", "table"}, {"json=" + filepath.Join(a.dir, "one"), "junit=" + filepath.Join(a.dir, "one")}} {
		code, stdout, stderr = a.run(question("-o", ends[0], "-o", ends[1]))
		if code != 2 || !strings.Contains(stderr, "written to the same place") {
			t.Errorf("%q: ended with %d\n%s%s", ends, code, stdout, stderr)
		}
	}
	junit := filepath.Join(a.dir, "verdict.junit") // of what ended before it was judged
	if code, _, _ = a.run(question("--revoked", "none", "-o", "junit="+junit)); code != 2 {
		t.Errorf("a file that is not there: %d", code)
	}
	if raw, err := os.ReadFile(junit); err != nil || !strings.Contains(string(raw), `failures="0" errors="1"`) {
		t.Errorf("the file of a run that judged nothing: %v\n%s", err, raw)
	}
	// A long cause is cut in the middle, and is whole when asked for.
	long := strings.TrimSpace(strings.Repeat("a b ", 150))
	args := func(more ...string) []string {
		return append(question("--bundle", long), more...)
	}
	_, cut, _ := a.run(args())
	_, whole, _ := a.run(args("--verbose"))
	if strings.Contains(cut, long) || !strings.Contains(whole, long) {
		t.Errorf("cut:\n%s\nwhole:\n%s", cut, whole)
	}
}
