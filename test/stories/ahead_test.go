package stories

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// tree is every file below a directory with its bytes and its time.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		all[path] = digest.Of(digest.SHA256, raw).String() + " " + info.ModTime().String()
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return all
}

// lookingAhead runs a command without --confirm and demands that it writes
// nothing.
func (d *desk) lookingAhead(t *testing.T, code int, args ...string) pipeline.Forecast {
	t.Helper()
	before, logged := tree(t, d.Path("state")), len(d.Lab.Logged())
	r := d.looks(t, append(args, "--output", "json")...)
	want(t, r, code)
	after := tree(t, d.Path("state"))
	if len(before) != len(after) || len(d.Lab.Logged()) != logged {
		t.Errorf("%s: the state directory has %d files, had %d; the log %d entries, had %d", r, len(after), len(before), len(d.Lab.Logged()), logged)
	}
	for path, is := range after {
		if before[path] != is {
			t.Errorf("%s: %s was written", r, path)
		}
	}
	var f pipeline.Forecast
	if code <= 1 {
		if err := json.Unmarshal([]byte(r.Stdout), &f); err != nil {
			t.Fatalf("%s: %v\n%s", r, err, r.Stdout)
		}
	}
	return f
}

func (d *desk) looks(t *testing.T, args ...string) scene.Result {
	t.Helper()
	return d.Run(t.Context(), append(append([]string{"waybill"}, args...), "--profile", "profile.yaml", "--state", "state")...)
}

// heaps are what is due and signed, by kind.
func heaps(s pipeline.Signatures) map[string][2]int {
	all := map[string][2]int{}
	for _, h := range s.What {
		all[h.Kind] = [2]int{h.Due, h.Signed}
	}
	return all
}

func wantHeaps(t *testing.T, s pipeline.Signatures, want map[string][2]int) {
	t.Helper()
	got := heaps(s)
	for kind, n := range want {
		if got[kind] != n {
			t.Errorf("%s: %s: %v due and signed, want %v", s.Act, kind, got[kind], n)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %v", s.Act, got)
	}
}

// released are what the example release has of each kind, none signed.
func released(due bool) map[string][2]int {
	all := map[string][2]int{}
	for kind, n := range map[string]int{"binary": 2, "archive": 2, "sums": 2, "image": 1, "image-child": 2, "SBOM of an image": 3, "list of SBOMs": 1} {
		if due {
			all[kind] = [2]int{n, 0}
		} else {
			all[kind] = [2]int{0, n}
		}
	}
	return all
}

// TestLookingAhead: before anything is signed it is known how much will be, as
// whom and with what; then just that is done.
func TestLookingAhead(t *testing.T) {
	d := &desk{&workshop{Scene: open(t)}}
	token := func(name, role string) string {
		d.write(t, name+".token", []byte(d.Lab.Token(role)))
		return name + "=" + name + ".token"
	}
	builders := []string{"--identity-token", token("builder", "builder"), "--identity-token", token("builder-unisolated", "builder-unisolated")}
	release := []string{"--identity-token", token("release", "release")}

	f := d.lookingAhead(t, 0, append([]string{"stage", scene.Version, "--source", "lantern"}, append(builders, release...)...)...)
	if len(f.Signatures) != 3 {
		t.Fatalf("%+v", f)
	}
	wantHeaps(t, f.Signatures[0], map[string][2]int{"provenance": {5, 0}})
	wantHeaps(t, f.Signatures[1], released(true))
	wantHeaps(t, f.Signatures[2], map[string][2]int{"release manifest": {1, 0}})
	services := d.Lab.URLs
	if f.Services.Authority != services.Fulcio || len(f.Services.Logs) != 1 || len(f.Services.Stamps) != 1 {
		t.Errorf("%+v", f.Services)
	}
	entries := 0
	for _, s := range f.Signatures {
		issuer, subject := d.Lab.Identity(map[string]string{"build": s.Token}[s.Act] + map[string]string{"sign": "release", "seal": "release"}[s.Act])
		if !strings.Contains(s.As, subject) || !strings.Contains(s.As, issuer) || s.Certificates != 1 || s.Timestamps != s.Entries {
			t.Errorf("%+v", s)
		}
		entries += s.Entries
	}

	// Nobody's token is fine for looking; somebody else's is refused now.
	want(t, d.looks(t, "stage", scene.Version, "--source", "lantern"), 0,
		"no token was given; use --identity-token release=FILE", "5 to sign", "1 certificate, 13 timestamps, 13 log entries", "no signing service", "nothing was done")
	want(t, d.looks(t, "stage", scene.Version, "--source", "lantern", "--identity-token", token("release", "verifier")), 1, "SIGNED_AS_ELSE")

	build := append([]string{"waybill", "build", scene.Version, "--profile", "profile.yaml", "--state", "state", "--source", "lantern"}, builders...)
	want(t, d.Run(t.Context(), build...), 0)
	want(t, d.looks(t, "sign", scene.Version), 1, "problems", "SEAL_MISSING", "binary", "2 to sign")
	want(t, d.Run(t.Context(), "waybill", "sbom", scene.Version, "--profile", "profile.yaml", "--state", "state"), 0)

	release = []string{"--identity-token", token("release", "release")}
	f = d.lookingAhead(t, 0, append([]string{"sign", scene.Version}, release...)...)
	wantHeaps(t, f.Signatures[0], released(true))
	want(t, d.looks(t, "seal", scene.Version), 1, "UNSIGNED", "waybill sign first")

	before := len(d.Lab.Logged())
	r := d.Run(t.Context(), append([]string{"waybill", "sign", scene.Version, "--profile", "profile.yaml", "--state", "state", "--confirm", "--output", "json"}, release...)...)
	want(t, r, 0, "sign: signed 13, reused 0, 13 log entries, 0 retries")
	var done pipeline.Done
	if err := json.Unmarshal([]byte(r.Stdout), &done); err != nil || len(done.Acts) != 1 || done.Acts[0].Signed != f.Signatures[0].Entries || len(done.Failures) != 0 {
		t.Errorf("%v: %s", err, r.Stdout)
	}
	if got := len(d.Lab.Logged()) - before; got != f.Signatures[0].Entries {
		t.Errorf("%d entries, %d were foretold", got, f.Signatures[0].Entries)
	}
	want(t, d.looks(t, "sign", scene.Version), 0, "everything is signed already", "0 certificates, 0 timestamps, 0 log entries")
	f = d.lookingAhead(t, 0, append([]string{"stage", scene.Version, "--source", "lantern"}, append(builders, release...)...)...)
	wantHeaps(t, f.Signatures[0], map[string][2]int{"provenance": {0, 5}})
	wantHeaps(t, f.Signatures[1], released(false))
	d.sealsThroughCrashes(t)
	entries += 2 // of the manifests that were sealed anew, besides foreign drafts
	f = d.lookingAhead(t, 0, append([]string{"seal", scene.Version}, release...)...)
	wantHeaps(t, f.Signatures[0], map[string][2]int{"release manifest": {0, 1}})
	for _, service := range []string{"fulcio", "tsa", "rekor"} {
		if err := d.Lab.Stop(service); err != nil {
			t.Fatal(err)
		}
	}
	d.lookingAhead(t, 0, append([]string{"stage", scene.Version, "--source", "lantern"}, append(builders, release...)...)...)
	if total := len(d.Lab.Logged()); total != entries {
		t.Errorf("%d log entries at the end, %d were foretold at the beginning", total, entries)
	}
}

// sealsThroughCrashes seals, and goes on from everything that a crash between
// two writes of that would have left: the manifest says the same each time, and
// is in the log once.
func (d *desk) sealsThroughCrashes(t *testing.T) {
	t.Helper()
	journal, signatures := d.Path("state", "journal.jsonl"), d.Path("state", "signatures.jsonl")
	journalBefore, signaturesBefore := d.lines(t, journal), d.lines(t, signatures)
	logged := len(d.Lab.Logged())
	want(t, d.Seal(t.Context()), 0, "seal: signed 1, reused 0")
	manifest := d.bytes(t, d.manifestPath())
	journalAfter, signaturesAfter := d.lines(t, journal), d.lines(t, signatures)
	if len(journalAfter)-len(journalBefore) != 2 || len(signaturesAfter)-len(signaturesBefore) != 2 || len(d.Lab.Logged())-logged != 1 {
		t.Fatalf("seal wrote %d and %d lines, and %d entries", len(journalAfter)-len(journalBefore), len(signaturesAfter)-len(signaturesBefore), len(d.Lab.Logged())-logged)
	}
	for name, crash := range map[string]struct {
		journal, signatures int // lines of those that seal wrote
		manifest            bool
		said                string
	}{
		"before the log's answer": {1, 1, false, "seal: signed 1, reused 0"},
		"before the manifest":     {1, 2, false, "seal: signed 0, reused 1"},
		"before the journal":      {1, 2, true, "sealed already"},
		"after all":               {2, 2, true, "sealed already"},
	} {
		rewrite(t, journal, []byte(strings.Join(journalAfter[:len(journalBefore)+crash.journal], "")))
		rewrite(t, signatures, []byte(strings.Join(signaturesAfter[:len(signaturesBefore)+crash.signatures], "")))
		if !crash.manifest {
			if err := os.Remove(d.manifestPath()); err != nil {
				t.Fatal(err)
			}
			if err := os.MkdirAll(d.Path("state", "drafts"), 0o755); err != nil {
				t.Fatal(err)
			}
			d.write(t, filepath.Join("state", "drafts", filepath.Base(d.manifestPath())), payload(t, manifest))
		}
		want(t, d.Seal(t.Context()), 0, crash.said)
		if now := d.bytes(t, d.manifestPath()); string(payload(t, now)) != string(payload(t, manifest)) {
			t.Errorf("%s: the manifest says something else", name)
		}
		if n := len(d.Lab.Logged()) - logged; n != 1 {
			t.Errorf("%s: %d entries of one manifest", name, n)
		}
	}
	d.sealsNoForeignDraft(t, payload(t, manifest))
}

// sealsNoForeignDraft seals with a draft that says a time, or a run, that the
// journal does not know: that draft is not signed.
func (d *desk) sealsNoForeignDraft(t *testing.T, said []byte) {
	t.Helper()
	for name, shape := range map[string]*regexp.Regexp{
		"time": regexp.MustCompile(`"sealedOn":"[^"]*"`),
		"run":  regexp.MustCompile(`"traceId":"[^"]*"`),
	} {
		all := shape.FindAll(said, -1)
		if len(all) == 0 {
			t.Fatalf("no %s in %s", name, said)
		}
		was := all[len(all)-1]
		forged := strings.Repeat("ab", 16)
		if name == "time" {
			forged = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
		}
		field, _, _ := strings.Cut(string(was), ":")
		if err := errors.Join(os.Remove(d.manifestPath()), os.MkdirAll(d.Path("state", "drafts"), 0o755)); err != nil {
			t.Fatal(err)
		}
		d.write(t, filepath.Join("state", "drafts", filepath.Base(d.manifestPath())), bytes.ReplaceAll(said, was, []byte(field+`:"`+forged+`"`)))
		want(t, d.Seal(t.Context()), 0, "seal: signed 1, reused 0")
		if now := payload(t, d.bytes(t, d.manifestPath())); bytes.Contains(now, []byte(forged)) {
			t.Errorf("the %s of a foreign draft was signed: %s", name, now)
		}
	}
}

// payload is what a bundle signs.
func payload(t *testing.T, bundle []byte) []byte {
	t.Helper()
	var b struct{ DSSEEnvelope struct{ Payload []byte } }
	if err := json.Unmarshal(bundle, &b); err != nil || len(b.DSSEEnvelope.Payload) == 0 {
		t.Fatalf("no envelope: %v", err)
	}
	return b.DSSEEnvelope.Payload
}

func (d *desk) bytes(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (d *desk) lines(t *testing.T, path string) []string {
	t.Helper()
	return slices.Collect(strings.Lines(string(d.bytes(t, path))))
}
