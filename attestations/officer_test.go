package attestations_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	featuretransition "github.com/waybill-release/waybill/attestations/feature-transition/v1"
	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	releasesignoff "github.com/waybill-release/waybill/attestations/release-signoff/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// officers are the statements that are made outside of any release, by the
// policy's officer, by whoever tends the channels, by whoever signs off and by
// the gate, and the list of SBOMs: how each is read, and written again from what was read.
func officers() map[string]func(intoto.Statement) (intoto.Statement, error) {
	return map[string]func(intoto.Statement) (intoto.Statement, error){
		"policy/v1": func(s intoto.Statement) (intoto.Statement, error) {
			p, err := signedpolicy.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return signedpolicy.New(p.File, p.Bytes, p.Predicate)
		},
		"exception/v1": func(s intoto.Statement) (intoto.Statement, error) {
			e, err := exception.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return exception.New(e.Artifact, e.Predicate)
		},
		"known-defects/v1": func(s intoto.Statement) (intoto.Statement, error) {
			p, err := knowndefects.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return knowndefects.New(s.Subjects()[0].Name, s.Subjects()[0].Digests, p)
		},
		"channel/v1": func(s intoto.Statement) (intoto.Statement, error) {
			x, err := channelindex.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return channelindex.New(x.Predicate, x.Manifests)
		},
		"feature-transition/v1": func(s intoto.Statement) (intoto.Statement, error) {
			p, err := featuretransition.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return featuretransition.New(p)
		},
		"release-signoff/v1": func(s intoto.Statement) (intoto.Statement, error) {
			x, err := releasesignoff.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return releasesignoff.New(x.Release, x.Predicate)
		},
		"rebuild/v1": func(s intoto.Statement) (intoto.Statement, error) {
			p, err := rebuildrecord.Parse(s)
			if err != nil {
				return s, err
			}
			return rebuildrecord.New(s.Subjects(), p)
		},
		"declaration/v1": func(s intoto.Statement) (intoto.Statement, error) {
			p, err := declaration.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return declaration.New(s.Subjects()[0].Name, s.Subjects()[0].Digests, p)
		},
		"sbom-list/v1": func(s intoto.Statement) (intoto.Statement, error) {
			p, err := sbomlist.Parse(s)
			if err != nil {
				return intoto.Statement{}, err
			}
			return p.Of(s.Subjects())
		},
	}
}

// TestOfficerExamples reads every example: accept-WHY.json parses and says the
// same when it is written again; refuse-CODE-WHY.json is refused with that
// code. The schema takes all of the first.
func TestOfficerExamples(t *testing.T) {
	for dir, rewrite := range officers() {
		files, err := filepath.Glob(dir + "/testdata/*.json")
		if err != nil || len(files) < 13 {
			t.Fatalf("%s: %d examples, %v", dir, len(files), err)
		}
		s := loadSchema(t, dir)
		for _, file := range files {
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			t.Run(dir+"/"+name, func(t *testing.T) {
				written, err := reread(t, read(t, file), rewrite)
				why, rest, _ := strings.Cut(name, "-")
				if code, _, _ := strings.Cut(rest, "-"); why == "refuse" {
					if f := verdict.FindingOf("", err); err == nil || string(f.Code) != code {
						t.Errorf("%v, want %s", err, code)
					}
					return
				}
				if err != nil {
					t.Fatalf("refused: %v", err)
				}
				var before, after struct{ Predicate any }
				if json.Unmarshal([]byte(read(t, file)), &before) != nil || json.Unmarshal(written.Raw(), &after) != nil {
					t.Fatal("no JSON")
				}
				if a, b := canonical(t, before), canonical(t, after); a != b {
					t.Errorf("it says\n%s\nand, written again,\n%s", a, b)
				}
				if faults := s.faults(s.root, "$", before.Predicate); len(faults) > 0 {
					t.Errorf("the schema refuses it: %q", faults)
				}
			})
		}
	}
}

func reread(t *testing.T, text string, rewrite func(intoto.Statement) (intoto.Statement, error)) (intoto.Statement, error) {
	t.Helper()
	s, err := intoto.ParseOpen([]byte(text))
	if err != nil {
		return intoto.Statement{}, err
	}
	return rewrite(s)
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	raw, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestOfficerSchemasRefuse: what a schema can say, it says.
func TestOfficerSchemasRefuse(t *testing.T) {
	for dir, names := range map[string][]string{
		"release-signoff/v1":    {"unknown-field", "unknown-field-of-a-document", "no-documents", "no-milestone", "milestone-of-another-form", "milestone-of-another-spelling", "no-source", "short-commit", "no-expiry", "template-by-name-only", "stage-of-nobody", "no-files", "no-section-required", "evidence-of-another-kind", "exception-without-a-reason"},
		"feature-transition/v1": {"unknown-field", "unknown-field-of-a-scope", "number-zero", "number-as-text", "name-in-lower-case", "namespace-with-a-slash", "state-of-nobody", "no-reconciler", "no-reason", "version-of-another-form", "scope-with-a-pattern", "task-of-another-kind", "task-without-a-name", "trace-in-upper-case"},
		"sbom-list/v1":          {"unknown-field", "no-name", "no-version", "name-with-a-slash", "version-of-another-form"},
		"channel/v1":            {"unknown-field", "unknown-field-of-a-channel", "number-zero", "no-number", "no-name", "name-with-a-slash", "no-issue", "no-expiry", "no-channels", "channel-of-nobody", "version-of-another-form"},
		"policy/v1":             {"unknown-field", "sequence-zero", "no-sequence", "no-name", "name-with-a-slash", "sequence-as-text", "expires-is-no-time"},
		"exception/v1":          {"unknown-field", "no-code", "every-code", "no-reason", "empty-reason", "endless-reason", "no-destination", "destination-with-a-space", "no-policy", "policy-by-sha512", "no-issue", "no-expiry"},
		"known-defects/v1":      {"unknown-field", "unknown-field-of-a-defect", "unknown-field-of-a-withdrawal", "unknown-field-of-versions", "sequence-zero", "no-expiry", "no-defects", "no-withdrawals", "empty-versions", "version-of-another-form", "no-artifacts", "no-code", "no-source", "source-not-https", "no-digests", "withdrawal-without-a-reason", "withdrawal-without-a-time", "id-with-a-space"},
		"rebuild/v1":            {"unknown-field", "no-rebuilder", "rebuilder-is-no-uri", "no-commit", "no-provenance", "provenance-is-no-digest", "no-isolation", "no-end", "no-source", "end-is-no-time"},
		"declaration/v1":        {"unknown-field", "no-sequence", "sequence-zero", "sequence-as-text", "no-requirement", "no-about", "about-is-a-name", "no-author", "no-reason", "endless-reason", "no-end", "until-is-no-time"},
	} {
		s := loadSchema(t, dir)
		for _, name := range names {
			var statement struct{ Predicate any }
			if err := json.Unmarshal([]byte(read(t, dir+"/testdata/refuse-PAYLOAD_PARSE-"+name+".json")), &statement); err != nil {
				t.Fatal(err)
			}
			if len(s.faults(s.root, "$", statement.Predicate)) == 0 {
				t.Errorf("%s: the schema takes %s", dir, name)
			}
		}
	}
}

// TestOfficerStatementsAreBounded: a predicate past its limit is refused before
// it is read into anything.
func TestOfficerStatementsAreBounded(t *testing.T) {
	for dir, limit := range map[string]int{"policy/v1": 4 << 10, "sbom-list/v1": 4 << 10, "exception/v1": 8 << 10, "known-defects/v1": 1 << 20, "channel/v1": 1 << 20, "feature-transition/v1": 1 << 20, "rebuild/v1": 1 << 20, "declaration/v1": 8 << 10} {
		text := read(t, dir+"/testdata/accept-full.json")
		padded := strings.Replace(text, `"predicate": {`, `"predicate": {`+strings.Repeat(" ", limit), 1)
		if _, err := reread(t, padded, officers()[dir]); err == nil || !strings.Contains(err.Error(), "LIMIT") && !strings.Contains(err.Error(), "limit") {
			t.Errorf("%s: %v", dir, err)
		}
	}
}

// TestPolicyNamesItsBytes: a changed policy is not the one that was signed.
func TestPolicyNamesItsBytes(t *testing.T) {
	s, err := signedpolicy.New("policy.yaml", digest.SetOf([]byte("as signed")), signedpolicy.Predicate{Name: "p", Sequence: 1})
	if err != nil {
		t.Fatal(err)
	}
	p, err := signedpolicy.Parse(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Names([]byte("as signed")); err != nil {
		t.Errorf("its own bytes: %v", err)
	}
	err = p.Names([]byte("as changed"))
	if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.PolicySig {
		t.Errorf("other bytes: %v, want POLICY_SIG", err)
	}
	if err := (signedpolicy.Policy{}).Names(nil); err == nil {
		t.Error("the zero policy names something")
	}
}

// TestDeclarationAsPeopleWriteIt: the file says what the statement says.
func TestDeclarationAsPeopleWriteIt(t *testing.T) {
	good := read(t, "declaration/v1/testdata/retained.yaml")
	p, err := declaration.ParseFile([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	s, err := declaration.New("retained.yaml", digest.SetOf([]byte(good)), p)
	if err != nil || canonical(t, json.RawMessage(s.Raw())) != canonical(t, json.RawMessage(read(t, "declaration/v1/testdata/accept-full.json"))) {
		t.Errorf("the file says %s, %v", s.Raw(), err)
	}
	if _, err := declaration.New("retained.yaml", digest.Set{SHA256: digest.Of(digest.SHA256, []byte(good))}, p); verdict.FindingOf("", err).Code != verdict.StatementParse {
		t.Errorf("a file by its sha256 alone: %v", err)
	}
	for name, change := range map[string][2]string{
		"another kind": {"kind: Declaration", "kind: Policy"}, "another version": {"waybill/v1", "waybill/v2"},
		"an unknown key": {"sequence: 1", "sequence: 1\nlevel: 3"}, "no number": {"sequence: 1\n", ""},
	} {
		if _, err := declaration.ParseFile([]byte(strings.Replace(good, change[0], change[1], 1))); verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestDefectsAsPeopleWriteThem: the file says what the statement says, and what
// YAML could hide is refused.
func TestDefectsAsPeopleWriteThem(t *testing.T) {
	good := read(t, "known-defects/v1/testdata/list.yaml")
	p, err := knowndefects.ParseFile([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	s, err := intoto.Parse([]byte(read(t, "known-defects/v1/testdata/accept-full.json")))
	if err != nil {
		t.Fatal(err)
	}
	same, err := knowndefects.Parse(s)
	if err != nil || canonical(t, p) != canonical(t, same) {
		t.Errorf("the file says\n%s\nthe statement\n%s, %v", canonical(t, p), canonical(t, same), err)
	}
	for name, change := range map[string][2]string{
		"another kind":     {"kind: KnownDefects", "kind: Policy"},
		"another version":  {"waybill/v1", "waybill/v2"},
		"an unknown key":   {"sequence: 7", "sequence: 7\nseverity: low"},
		"a key twice":      {"sequence: 7", "sequence: 7\nsequence: 8"},
		"an empty list":    {"artifacts: [bin/linux/amd64/lantern]", "artifacts: []"},
		"a glob":           {"artifacts: [bin/linux/amd64/lantern]", `artifacts: ["bin/*"]`},
		"a text as number": {"sequence: 7", `sequence: "7"`},
		"no number":        {"sequence: 7\n", ""},
	} {
		changed := strings.Replace(good, change[0], change[1], 1)
		if changed == good {
			t.Fatalf("%s: nothing was changed", name)
		}
		_, err := knowndefects.ParseFile([]byte(changed))
		if f := verdict.FindingOf("", err); err == nil || f.Code != verdict.ConfigParse {
			t.Errorf("%s: %v, want CONFIG", name, err)
		}
	}
}

func FuzzOfficerStatements(f *testing.F) {
	for dir := range officers() {
		files, err := filepath.Glob(dir + "/testdata/*.json")
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			raw, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(raw)
		}
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		s, err := intoto.ParseOpen(raw)
		if err != nil {
			return
		}
		for dir, rewrite := range officers() {
			written, err := rewrite(s)
			if err != nil {
				continue
			}
			again, err := rewrite(written)
			if err != nil || string(again.Raw()) != string(written.Raw()) {
				t.Errorf("%s: what was written does not read the same: %v", dir, err)
			}
		}
	})
}
