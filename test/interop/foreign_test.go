package interop

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/fulcio/certificate"

	"github.com/waybill-release/waybill/pkg/document/format"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	judge "github.com/waybill-release/waybill/pkg/judge/verify"
)

const (
	corpora     = "../../../shared/corpora"
	formatsPage = "../../docs/formats.md"

	// otherSamples is a directory of evidence that others published, which is
	// asked about too, and printed only. FILE.key beside a file is its signer's key.
	otherSamples = "WAYBILL_SAMPLES"
)

// foreign is a question about evidence that somebody else signed.
type foreign struct {
	name, file               string
	bundle                   []byte // what sigstore-go reads
	root                     string // trust root; "github" is GitHub's, "" is none
	identity, issuer, key    string
	artifact, algorithm, sum string // artifact: the file, if it is at hand
	kind                     string // predicate type; empty: a signature of the bytes
	bare                     bool   // an envelope that only a key proves: no form of theirs
}

// TestForeign asks waybill, sigstore-go and cosign 3 the same questions about
// evidence of others, and compares the table of docs/formats.md. About the corpora,
// all three give the same answers.
func TestForeign(t *testing.T) {
	cosign3 := filepath.Join(peers(t), "cosign3")
	if _, err := os.Stat(corpora); errors.Is(err, fs.ErrNotExist) && os.Getenv("CI") == "" {
		t.Skip("the corpora are not beside the checkout")
	}
	waybill := filepath.Join(commands(t), "waybill")
	all := []struct {
		name  string
		asked []foreign
	}{{"Sigstore's client conformance suite, by file and by digest", suiteQuestions(t)}, {"bundles of SLSA generators, Bazel and npm, each with three twins", slsaQuestions(t)}}
	if dir := os.Getenv(otherSamples); dir != "" {
		all = append(all, struct {
			name  string
			asked []foreign
		}{dir, sampleQuestions(t, dir)})
	}
	answers := table{head: []string{"evidence", "verifier", "questions", "both accept", "both refuse", "stricter", "laxer", "crash"}}
	for i, suite := range all {
		counts := map[string]*[6]int{"sigstore-go": {}, "cosign 3": {}}
		for _, q := range suite.asked {
			status, codes := q.waybill(t, waybill)
			for peer, err := range map[string]error{"sigstore-go": q.library(), "cosign 3": q.cosign(t, cosign3)} {
				if errors.Is(err, errNotAsked) {
					continue
				}
				cell := 2
				switch {
				case status < 0 || status > 2: // 2 is a malformed key or trust root
					cell = 5
				case status == 0 && err != nil:
					cell = 4
				case status != 0 && err == nil:
					cell = 3
				case status == 0:
					cell = 1
				}
				counts[peer][0]++
				counts[peer][cell]++
				if said := fmt.Sprintf("%s: %s: ours %d %s, theirs %.160q", q.name, peer, status, codes, fmt.Sprint(err)); cell > 2 && i < 2 {
					t.Error(said)
				} else {
					t.Log(said)
				}
			}
		}
		for _, peer := range []string{"sigstore-go", "cosign 3"} {
			row := answers.row(suite.name, peer)
			for n, count := range counts[peer] {
				row[n+2] = strconv.Itoa(count)
			}
		}
	}
	t.Logf("\n%s", answers)
	if len(all) == 2 && !t.Failed() {
		foreignOnPage(t, answers.markdown())
	}
}

// foreignOnPage compares the section of docs/formats.md, or writes it.
func foreignOnPage(t *testing.T, want string) {
	t.Helper()
	raw, err := os.ReadFile(formatsPage)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- make interop -->\n", "<!-- end -->\n"
	head, rest, found := strings.Cut(string(raw), begin)
	said, tail, closed := strings.Cut(rest, end)
	switch {
	case !found || !closed:
		t.Errorf("%s has no section for\n%s", formatsPage, want)
	case said == want:
	case os.Getenv("WAYBILL_GOLDEN") != "write":
		t.Errorf("%s has\n%s\nwant\n%s\nWAYBILL_GOLDEN=write make interop writes it", formatsPage, said, want)
	default:
		if err := os.WriteFile(formatsPage, []byte(head+begin+want+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// suiteQuestions are those of the client conformance suite; run.sh has the same rules.
func suiteQuestions(t *testing.T) (all []foreign) {
	t.Helper()
	base := filepath.Join(corpora, "sigstore-conformance", "assets", "bundle-verify")
	files, err := filepath.Glob(base + "/*/bundle.sigstore.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases in %s: %v", base, err)
	}
	for _, file := range files {
		dir := filepath.Dir(file)
		q := foreign{
			file: file, root: corpora + "/trusted-roots/public-good.json", artifact: filepath.Join(base, "a.txt"),
			identity: "https://github.com/sigstore-conformance/extremely-dangerous-public-oidc-beacon/.github/workflows/extremely-dangerous-oidc-beacon.yml@refs/heads/main",
			issuer:   "https://token.actions.githubusercontent.com",
		}
		for name, to := range map[string]*string{"trusted_root.json": &q.root, "artifact": &q.artifact, "key.pub": &q.key} {
			if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
				*to = filepath.Join(dir, name)
			}
		}
		for name, to := range map[string]*string{"identity": &q.identity, "issuer": &q.issuer} {
			if raw, err := os.ReadFile(filepath.Join(dir, name)); err == nil {
				*to = strings.TrimSpace(string(raw))
			}
		}
		if q.bundle, err = os.ReadFile(q.file); err != nil {
			t.Fatal(err)
		}
		q.kind = kindOf(q.bundle)
		content, err := os.ReadFile(q.artifact)
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		q.name, q.algorithm, q.sum = filepath.Base(dir)+", file", "sha256", hex.EncodeToString(sum[:])
		all = append(all, q)
		q.name, q.artifact = filepath.Base(dir)+", digest", ""
		all = append(all, q)
	}
	return all
}

// kindOf is the predicate type of a bundle's statement, unverified.
func kindOf(raw []byte) string {
	said, err := judge.Read(raw)
	if err != nil || !said.IsAttestation() {
		return ""
	}
	s, err := intoto.ParseOpen(said.Payload)
	if err != nil {
		return "unknown"
	}
	return s.PredicateType()
}

// slsaQuestions are real bundles, and each with one fact changed.
func slsaQuestions(t *testing.T) (all []foreign) {
	t.Helper()
	dir := filepath.Join(corpora, "slsa")
	lines, err := os.ReadFile(filepath.Join(dir, "bundle-cases.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(lines)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		if strings.HasPrefix(line, "#") || len(f) < 7 {
			continue
		}
		q := foreign{name: filepath.Base(f[1]), file: filepath.Join(dir, f[1]), root: corpora + "/trusted-roots/public-good.json", kind: f[6]}
		q.algorithm, q.sum, _ = strings.Cut(f[2], ":")
		if q.identity, q.issuer = f[4], f[5]; f[3] == "key" {
			q.identity, q.issuer, q.key = "", "", filepath.Join(dir, f[4])
		}
		if q.bundle, err = os.ReadFile(q.file); err != nil {
			t.Fatal(err)
		}
		all = append(all, q.twins()...)
	}
	return all
}

// twins are a question and the same with another signer, digest and type.
func (q foreign) twins() []foreign {
	signer, sum, kind := q, q, q
	signer.name, signer.key = q.name+", another signer", ""
	signer.identity, signer.issuer = q.identity+"0", cmp.Or(q.issuer, "https://issuer.example.test")
	sum.name, sum.sum, sum.artifact = q.name+", another digest", strings.Repeat("0", len(q.sum)), ""
	kind.name, kind.bundle = q.name+", another payload", bytes.Replace(q.bundle, []byte(`"payload":"ey`), []byte(`"payload":"fy`), 1)
	if bytes.Equal(kind.bundle, q.bundle) {
		kind.bundle = bytes.Replace(q.bundle, []byte(`"payload": "ey`), []byte(`"payload": "fy`), 1)
	}
	if bytes.Equal(kind.bundle, q.bundle) {
		return []foreign{q, signer, sum}
	}
	kind.file = ""
	return []foreign{q, signer, sum, kind}
}

// sampleQuestions are made of what the files of a directory say of themselves.
func sampleQuestions(t *testing.T, dir string) (all []foreign) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasSuffix(path, ".key") {
			return err
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(dir, path)
		read, err := format.Read(raw)
		if err != nil {
			read.Entries = []format.Entry{{Bundle: raw}}
		}
		for i, e := range read.Entries {
			q := foreign{name: name, file: path, bundle: e.Bundle, root: corpora + "/trusted-roots/public-good.json", kind: e.Type, algorithm: "sha256", sum: strings.Repeat("0", 64)}
			if len(read.Entries) > 1 {
				q.name = fmt.Sprintf("%s#%d", name, i+1)
			}
			if _, err := os.Stat(path + ".key"); err == nil {
				q.key = path + ".key"
			}
			q.bare = e.Bare
			q.describe()
			all = append(all, q.twins()...)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// describe asks for what a bundle says of itself, unverified.
func (q *foreign) describe() {
	q.identity, q.issuer = "https://signer.example.test/unknown", "https://issuer.example.test"
	said, err := judge.Read(q.bundle)
	if err != nil {
		return
	}
	if len(said.Certificates) > 0 {
		q.key = ""
		cert, err := x509.ParseCertificate(said.Certificates[0])
		if err == nil {
			if about, err := certificate.SummarizeCertificate(cert); err == nil {
				q.identity, q.issuer = about.SubjectAlternativeName, about.Issuer
			}
			if strings.HasPrefix(strings.Join(cert.Issuer.Organization, ""), "GitHub") {
				q.root = "github"
			}
		}
	}
	for _, entry := range said.Entries {
		if staging := corpora + "/trusted-roots/staging.json"; !names(q.root, entry.LogID) && names(staging, entry.LogID) {
			q.root = staging
		}
	}
	if said.Digest != nil {
		q.algorithm, q.sum = strings.ToLower(strings.Replace(said.Algorithm, "SHA2_", "sha", 1)), hex.EncodeToString(said.Digest)
	}
	if s, err := intoto.ParseOpen(said.Payload); err == nil && said.IsAttestation() {
		q.kind = s.PredicateType()
		var subjects struct {
			Subject []struct{ Digest map[string]string }
		}
		_ = json.Unmarshal(said.Payload, &subjects)
		for _, algorithm := range []string{"sha512", "sha256"} {
			if len(subjects.Subject) > 0 && subjects.Subject[0].Digest[algorithm] != "" {
				q.algorithm, q.sum = algorithm, subjects.Subject[0].Digest[algorithm]
			}
		}
	}
}

// names reports whether a trust root names a log.
func names(root string, log []byte) bool {
	raw, err := os.ReadFile(root)
	return err == nil && bytes.Contains(raw, []byte(base64.StdEncoding.EncodeToString(log)))
}
