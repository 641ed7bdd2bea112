package slsa

import (
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

var update = flag.Bool("update", false, "write the golden files again")

// witness is a testimony that nobody verified: for tests of judgement only.
type witness struct {
	who       identity.Identity
	statement intoto.Statement
	key       digest.Digest
}

func (w witness) IsZero() bool                { return w.statement.IsZero() }
func (w witness) Key() digest.Digest          { return w.key }
func (w witness) Identity() identity.Identity { return w.who }
func (w witness) Statement() intoto.Statement { return w.statement }
func (w witness) Bundle() digest.Digest       { return digest.Of(digest.SHA256, w.statement.Raw()) }

func who(name string) identity.Identity {
	return identity.Identity{Issuer: "https://issuer.example", Subject: name + "@example.test", Type: identity.Email}
}

func only(t testing.TB, name string) Signer {
	t.Helper()
	m, err := identity.Exact(who(name))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

const (
	builderID  = "https://builder.example/hosted@v1"
	otherID    = "https://other.example/hosted@v1"
	verifierID = "https://verifier.example"
)

func commit() string { return strings.Repeat("c", 40) }

// claimed is provenance of SLSA v0.2 in which everything is said.
func claimed() string {
	return `{"builder":{"id":"` + builderID + `"},"buildType":"https://builder.example/types/script@v1","invocation":{"configSource":{"uri":"git+https://example.test/lantern@refs/tags/v1","digest":{"sha1":"` + commit() + `"},"entryPoint":"build.sh"},"parameters":{},"environment":{"arch":"amd64"}},` +
		`"metadata":{"buildInvocationId":"run-1","buildStartedOn":"2026-03-01T12:00:00Z","buildFinishedOn":"2026-03-01T12:01:00Z","completeness":{"parameters":true,"environment":true,"materials":true},"reproducible":true},` +
		`"materials":[{"uri":"git+https://example.test/lantern@refs/tags/v1","digest":{"sha1":"` + commit() + `"}},{"uri":"pkg:docker/golang@1.26","digest":{"sha256":"` + strings.Repeat("a", 64) + `"}}]}`
}

// summary is a source summary that states level 4.
func summary() string {
	return `{"verifier":{"id":"` + verifierID + `"},"resourceUri":"git+https://example.test/lantern","policy":{"uri":"https://example.test/policy"},"verificationResult":"PASSED","verifiedLevels":["SLSA_SOURCE_LEVEL_4"]}`
}

func artifact() digest.Set { return digest.SetOf([]byte("lantern")) }

func says(t testing.TB, predicateType, subject, predicate string) intoto.Statement {
	t.Helper()
	s, err := intoto.ParseOpen([]byte(`{"_type":"https://in-toto.io/Statement/v0.1","subject":[` + subject + `],"predicateType":"` + predicateType + `","predicate":` + predicate + `}`))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func theArtifact() string {
	return `{"name":"bin/lantern","digest":{"sha256":"` + artifact().SHA256.Hex() + `"}}`
}

// world is one artifact with everything that can be shown of it.
type world struct {
	trust          Trust
	q              question
	builder        string // who signed the provenance
	provenance     string
	subject        string
	source         string // the source summary; empty for none
	verifier       string
	revision       string // the subject of the source summary; empty for the artifact
	pair           Pair
	verifierLevel  int
	unsigned, bare bool
	declared       func([]Declaration) // changes the declarations
}

func everything() world {
	return world{
		builder: "builder", provenance: claimed(), subject: theArtifact(), source: summary(), verifier: "verifier", revision: commit(),
		pair: Pair{BuilderID: builderID, Level: 3, Hermetic: true, Complete: true}, verifierLevel: 4,
	}
}

func (w world) judge(t testing.TB) (Report, error) {
	t.Helper()
	w.pair.Signer = only(t, "builder")
	trust, err := NewTrust(
		[]Pair{w.pair, {Signer: only(t, "second"), BuilderID: otherID, Level: 3}},
		[]Verifier{{Signer: only(t, "verifier"), VerifierID: verifierID, Level: w.verifierLevel}},
	)
	if err != nil {
		t.Fatal(err)
	}
	w.q.Name, w.q.Bytes, w.q.Declared = "bin/lantern", artifact(), append(declarations(), w.q.Declared...)
	if w.declared != nil {
		w.declared(w.q.Declared)
	}
	w.q.provenance, w.q.sources = witness{}, nil
	if w.unsigned {
		w.q.Unsigned = says(t, provenance.PredicateTypeV02, w.subject, w.provenance)
	} else if !w.bare {
		w.q.provenance = witness{who: who(w.builder), statement: says(t, provenance.PredicateTypeV02, w.subject, w.provenance)}
	}
	if w.source != "" {
		subject := `{"digest":{"gitCommit":"` + w.revision + `"}}`
		if w.revision == "" {
			subject = theArtifact()
		}
		w.q.sources = []testimony{witness{}, witness{who: who(w.verifier), statement: says(t, vsa.PredicateType, subject, w.source)}}
	}
	return trust.judge(w.q)
}

func (r Report) answer(t Track, id string) Answer {
	i := slices.IndexFunc(r.Answers, func(a Answer) bool { return a.Track == t && a.Requirement == id })
	return r.Answers[i]
}

// Each row changes one fact of a world in which everything is shown, and says
// which levels are left and which requirement says why.
func TestJudge(t *testing.T) {
	replace := func(old, new string) func(*world) {
		return func(w *world) {
			changed := strings.Replace(w.provenance, old, new, 1)
			if changed == w.provenance {
				panic(old + " is not in the provenance")
			}
			w.provenance = changed
		}
	}
	local := func(w *world) {
		w.provenance = strings.ReplaceAll(w.provenance, "git+https://example.test/", "git+file:///home/example/")
		w.source = strings.ReplaceAll(w.source, "git+https://example.test/", "git+file:///home/example/")
	}
	rows := []struct {
		name               string
		change             func(*world)
		v01, build, source int
		track              Track
		requirement        string
		state              State
	}{
		{"everything is shown", func(*world) {}, 4, 3, 4, V01, "build.hermetic", Met},
		{"no provenance", func(w *world) { w.bare = true }, 0, 0, 0, Build, "build.exists", NotShown},
		{"nobody signed", func(w *world) { w.unsigned = true }, 1, 1, 0, Build, "build.authentic", NotShown},
		{"provenance of other bytes", func(w *world) {
			w.subject = strings.Replace(w.subject, artifact().SHA256.Hex(), strings.Repeat("0", 64), 1)
		}, 0, 0, 0, Build, "build.exists", NotMet},
		{"provenance of another name", func(w *world) { w.subject = strings.Replace(w.subject, "bin/lantern", "bin/other", 1) }, 0, 0, 0, Build, "build.exists", NotMet},
		{"provenance with a weak digest", func(w *world) { w.subject = `{"name":"bin/lantern","digest":{"sha1":"` + commit() + `"}}` }, 0, 0, 0, Build, "build.exists", NotMet},
		{"a stranger signed", func(w *world) { w.builder = "stranger" }, 1, 1, 0, Build, "build.authentic", NotMet},
		{"another's builder signed", func(w *world) { w.builder = "second" }, 1, 1, 0, Build, "build.authentic", NotMet},
		{"a builder that nobody knows", replace(builderID, "https://unknown.example@v1"), 1, 1, 0, Build, "build.authentic", NotShown},
		{"no builder", replace(builderID, ""), 0, 0, 0, V01, "content.builder", NotMet},
		{"a builder of level 2", func(w *world) { w.pair.Level = 2 }, 2, 2, 4, V01, "build.ephemeral", NotMet},
		{"a builder of level 1", func(w *world) { w.pair.Level = 1 }, 1, 1, 0, V01, "build.service", NotMet},
		{"a builder with a network", func(w *world) { w.pair.Hermetic = false }, 3, 3, 4, V01, "build.hermetic", NotShown},
		{"a builder that lists not everything", func(w *world) { w.pair.Complete = false }, 3, 3, 4, V01, "provenance.dependencies", NotShown},
		{"materials that are not complete", replace(`"materials":true`, `"materials":false`), 3, 3, 4, V01, "provenance.dependencies", NotMet},
		{"no toolchain", replace(`,{"uri":"pkg:docker/golang@1.26","digest":{"sha256":"`+strings.Repeat("a", 64)+`"}}`, ``), 3, 3, 4, V01, "content.dependencies", NotMet},
		{"a dependency without digest", replace(`,"digest":{"sha256":"`+strings.Repeat("a", 64)+`"}`, ``), 3, 3, 4, V01, "build.hermetic", NotShown},
		{"parameters that are not complete", replace(`"parameters":true`, `"parameters":false`), 2, 2, 4, Build, "build.parameters", NotMet},
		{"a parameter", replace(`"parameters":{}`, `"parameters":{"x":"y"}`), 3, 3, 4, V01, "build.parameterless", NotMet},
		{"no build type", replace(`https://builder.example/types/script@v1`, ``), 0, 0, 4, V01, "build.scripted", NotMet},
		{"no entry point and no parameter", replace(`build.sh`, ``), 0, 0, 4, Build, "build.process", NotMet},
		{"an entry point on a branch", replace(`build.sh`, `https://example.test/lantern/blob/main/build.sh`), 2, 3, 4, V01, "build.as-code", NotMet},
		{"no commit", replace(`,"digest":{"sha1":"`+commit()+`"},"entryPoint"`, `,"entryPoint"`), 1, 3, 0, V01, "content.source", NotMet},
		{"no commit, by a builder that resolves it", replace(`,"digest":{"sha1":"`+commit()+`"},"entryPoint"`, `,"entryPoint"`), 1, 3, 0, V01, "content.source-authenticated", NotMet},
		{"no commit, and a source summary of none", func(w *world) {
			replace(`,"digest":{"sha1":"`+commit()+`"},"entryPoint"`, `,"entryPoint"`)(w)
			w.revision = ""
		}, 1, 3, 0, Source, "source.level-1", NotShown},
		{"nothing said of reproducing", replace(`,"reproducible":true`, ``), 3, 3, 4, V01, "content.reproducible", NotShown},
		{"nothing said of reproducing, and built again by others", func(w *world) {
			w.provenance, w.q.Rebuilt = strings.Replace(w.provenance, `,"reproducible":true`, ``, 1), []digest.Digest{digest.Of(digest.SHA256, nil)}
		}, 4, 3, 4, V01, "content.reproducible", Met},
		{"built again by others", func(w *world) { w.q.Rebuilt = []digest.Digest{digest.Of(digest.SHA256, nil)} }, 4, 3, 4, V01, "build.reproducible", Met},
		{"no times", replace(`"buildStartedOn":"2026-03-01T12:00:00Z",`, ``), 4, 3, 4, V01, "content.metadata", NotShown},
		{"times that are reversed", replace(`2026-03-01T12:01:00Z`, `2026-03-01T11:01:00Z`), 4, 3, 4, V01, "content.metadata", NotMet},

		{"no source summary", func(w *world) { w.source = "" }, 2, 3, 0, Source, "source.level-1", NotShown},
		{"a source summary of level 3", func(w *world) { w.source = strings.Replace(w.source, "LEVEL_4", "LEVEL_3", 1) }, 3, 3, 3, V01, "source.two-person", NotShown},
		{"a reviewed source of level 3", func(w *world) {
			w.source = strings.Replace(w.source, `LEVEL_4"`, `LEVEL_3","SLSA_SOURCE_TWO_PARTY_REVIEWED"`, 1)
		}, 4, 3, 3, V01, "source.two-person", Met},
		{"a verifier believed up to 2", func(w *world) { w.verifierLevel = 2 }, 3, 3, 2, Source, "source.level-3", NotShown},
		{"a verifier that nobody knows", func(w *world) { w.source = strings.Replace(w.source, verifierID, "https://x.example", 1) }, 2, 3, 0, Source, "source.level-1", NotShown},
		{"a source summary that a stranger signed", func(w *world) { w.verifier = "stranger" }, 2, 3, 0, Source, "source.level-1", NotShown},
		{"a source summary that the builder signed", func(w *world) { w.verifier = "builder" }, 2, 3, 0, Source, "source.level-1", NotShown},
		{"a source summary of another commit", func(w *world) { w.revision = strings.Repeat("d", 40) }, 2, 3, 0, Source, "source.level-1", NotShown},
		{"a source summary of another repository", func(w *world) { w.source = strings.Replace(w.source, "lantern", "other", 1) }, 2, 3, 0, Source, "source.level-1", NotShown},
		{"a reviewed source, by a verifier believed up to 3", func(w *world) {
			w.source = strings.Replace(w.source, `LEVEL_4"`, `LEVEL_3","SLSA_SOURCE_TWO_PARTY_REVIEWED"`, 1)
			w.verifierLevel = 3
		}, 3, 3, 3, V01, "source.two-person", NotShown},
		{"a declaration that counts up to 3", declare("source.retained", func(d *Declaration) { d.UpTo = 3 }), 3, 3, 4, V01, "source.retained", Declared},
		{"a declaration that has ended", declare("source.retained", func(d *Declaration) { d.Lacks = "a declaration that has not ended" }), 2, 3, 4, V01, "source.retained", NotShown},
		{"a declaration for level 4 that has ended", declare("common.access", func(d *Declaration) { d.Lacks = "a declaration that has not ended" }), 3, 3, 4, V01, "common.access", NotShown},
		{"a local source is under no known control", local, 1, 3, 0, V01, "source.version-controlled", NotShown},
		{"a local source is found by nobody else", local, 1, 3, 0, V01, "content.source-authenticated", NotShown},
		{"a local source still has its commit", local, 1, 3, 0, V01, "content.source", Met},
		{"a local source is not what a verifier of sources looks at", local, 1, 3, 0, Source, "source.level-1", NotShown},
		{"a source summary that failed", func(w *world) {
			w.source = strings.Replace(w.source, `"PASSED","verifiedLevels":["SLSA_SOURCE_LEVEL_4"]`, `"FAILED","verifiedLevels":["FAILED"]`, 1)
		}, 2, 3, 0, Source, "source.level-1", NotShown},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) {
			w := everything()
			r.change(&w)
			got, err := w.judge(t)
			if err != nil {
				t.Fatal(err)
			}
			if got.Level(V01) != r.v01 || got.Level(Build) != r.build || got.Level(Source) != r.source {
				t.Errorf("levels %v, want %d, %d, %d", got.Levels, r.v01, r.build, r.source)
			}
			if a := got.answer(r.track, r.requirement); a.State != r.state || a.Why == "" {
				t.Errorf("%s is %s: %s, want %s", r.requirement, a.State, a.Why, r.state)
			}
		})
	}
}

// Our own provenance says how its steps ran; a builder that is trusted up to
// level 3 is not believed against its own word.
func TestOurUnisolatedBuildsAreNotLevelThree(t *testing.T) {
	rows := []struct {
		name, buildType, builder, isolation string
		want                                State
	}{
		{"isolated", provenance.BuildType, builderID, `{"isolation":"isolated"}`, Met},
		{"unisolated", provenance.BuildType, builderID, `{"isolation":"unisolated"}`, NotMet},
		{"by the control plane itself", provenance.BuildType, builderID, `{"isolation":"control-plane"}`, Met},
		{"by the unisolated control plane", provenance.BuildType, provenance.BuilderUnisolated, `{"isolation":"control-plane"}`, NotMet},
		{"contained under its own account", provenance.BuildType, builderID, `{"isolation":"contained"}`, NotMet},
		{"nothing said", provenance.BuildType, builderID, `{}`, NotMet},
		{"the unisolated builder", provenance.BuildType, provenance.BuilderUnisolated, `{"isolation":"isolated"}`, NotMet},
		{"another build type", "https://example.test/type", builderID, `{}`, Met},
	}
	for _, r := range rows {
		trust, err := NewTrust([]Pair{{Signer: only(t, "builder"), BuilderID: r.builder, Level: 3}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		predicate := `{"buildDefinition":{"buildType":"` + r.buildType + `","externalParameters":{"step":"x"},"internalParameters":` + r.isolation + `},"runDetails":{"builder":{"id":"` + r.builder + `"}}}`
		q := question{provenance: witness{who: who("builder"), statement: says(t, provenance.PredicateType, theArtifact(), predicate)}}
		q.Name, q.Bytes = "bin/lantern", artifact()
		got, err := trust.judge(q)
		if err != nil {
			t.Fatal(err)
		}
		if a := got.answer(Build, "build.isolated"); a.State != r.want {
			t.Errorf("%s: %s, %s", r.name, a.State, a.Why)
		}
	}
}

func TestJudgeNeedsAnArtifactAndProvenance(t *testing.T) {
	if _, err := (Trust{}).Judge(Question{Name: "a"}); err == nil {
		t.Error("an artifact without bytes was judged")
	}
	if _, err := (Trust{}).Judge(Question{Bytes: artifact()}); err == nil {
		t.Error("an artifact without a name was judged")
	}
	r, err := (Trust{}).Judge(Question{Name: "a", Bytes: artifact()})
	if err != nil || r.Level(V01)+r.Level(Build)+r.Level(Source) != 0 {
		t.Errorf("nothing at all reaches %v, %v", r.Levels, err)
	}
	other := says(t, "https://example.test/other", theArtifact(), `{}`)
	if _, err := (Trust{}).Judge(Question{Name: "a", Bytes: artifact(), Unsigned: other}); verdict.FindingOf("", err).Code != verdict.PredicateType {
		t.Errorf("another predicate: %v", err)
	}
	if n := (Report{}).Level(Build); n != 0 {
		t.Errorf("the zero report has level %d", n)
	}
}

// The digest is the name in a registry, and only there.
func TestByDigest(t *testing.T) {
	s := says(t, provenance.PredicateTypeV02, strings.Replace(theArtifact(), "bin/lantern", "registry.example/lantern", 1), claimed())
	for byDigest, want := range map[bool]int{true: 1, false: 0} {
		r, err := (Trust{}).Judge(Question{Name: "lantern", Bytes: artifact(), ByDigest: byDigest, Unsigned: s})
		if err != nil || r.Level(Build) != want {
			t.Errorf("by digest %t: %v, %v", byDigest, r.Levels, err)
		}
	}
}

func TestNewTrustRefuses(t *testing.T) {
	pair := func(signer, id string, level int) Pair {
		return Pair{Signer: only(t, signer), BuilderID: id, Level: level}
	}
	verifier := func(signer string, level int) Verifier {
		return Verifier{Signer: only(t, signer), VerifierID: verifierID, Level: level}
	}
	rows := []struct {
		name      string
		pairs     []Pair
		verifiers []Verifier
		ok        bool
	}{
		{"nobody", nil, nil, true},
		{"one signer for two builders of one trust", []Pair{pair("a", "x", 2), pair("a", "y", 2)}, nil, true},
		{"two signers for one builder", []Pair{pair("a", "x", 2), pair("b", "x", 3)}, nil, true},
		{"one signer for two levels", []Pair{pair("a", "x", 2), pair("a", "y", 3)}, nil, false},
		{"one pair twice", []Pair{pair("a", "x", 2), pair("a", "x", 2)}, nil, false},
		{"no signer", []Pair{{BuilderID: "x", Level: 1}}, nil, false},
		{"a signer that is nobody", []Pair{{Signer: identity.Matcher{}, BuilderID: "x", Level: 1}}, nil, false},
		{"a signer that is anybody", []Pair{{Signer: anybody{}, BuilderID: "x", Level: 1}}, nil, false},
		{"no builder", []Pair{pair("a", "", 1)}, nil, false},
		{"level 0", []Pair{pair("a", "x", 0)}, nil, false},
		{"level 4 of Build", []Pair{pair("a", "x", 4)}, nil, false},
		{"level 4 of Source", nil, []Verifier{verifier("a", 4)}, true},
		{"level 5 of Source", nil, []Verifier{verifier("a", 5)}, false},
		{"one verifier twice", nil, []Verifier{verifier("a", 3), verifier("a", 4)}, false},
	}
	for _, r := range rows {
		if _, err := NewTrust(r.pairs, r.verifiers); (err == nil) != r.ok {
			t.Errorf("%s: %v", r.name, err)
		}
	}
}

type anybody struct{}

func (anybody) Match(identity.Identity) bool { return true }
func (anybody) String() string               { return "anybody" }

// Of several entries that match, the lowest counts.
func TestLowestPairCounts(t *testing.T) {
	trust := Trust{pairs: []Pair{{Signer: anybody{}, BuilderID: "x", Level: 3}, {Signer: only(t, "a"), BuilderID: "x", Level: 2}}}
	if p, _ := trust.pair(witness{who: who("a")}, "x"); p.Level != 2 {
		t.Errorf("level %d", p.Level)
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s has changed (go test -update writes it):\n%s", file, got)
	}
}

func TestReportGolden(t *testing.T) {
	full, err := everything().judge(t)
	if err != nil {
		t.Fatal(err)
	}
	unsigned := everything()
	unsigned.unsigned, unsigned.source = true, ""
	bare, err := unsigned.judge(t)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "everything.txt", full.String())
	golden(t, "unsigned.txt", bare.String())
	text, err := json.MarshalIndent(bare, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "unsigned.json", string(text)+"\n")
}

// The table of requirements: what each level asks.
func TestRequirementsGolden(t *testing.T) {
	var b strings.Builder
	seen := map[string]bool{}
	for _, r := range requirements() {
		kind := "required"
		if r.optional {
			kind = "optional"
		}
		fmt.Fprintf(&b, "%s %d %s %s: %s\n", r.track, r.level, kind, r.id, r.title)
		key := string(r.track) + r.id
		if seen[key] || r.level < 1 {
			t.Errorf("%s is there twice, or at no level", key)
		}
		seen[key] = true
		if a := r.ask(&facts{}); a.State != NotShown || !strings.HasPrefix(a.Why, "missing: ") {
			t.Errorf("%s is %s where nothing is known: %q", r.id, a.State, a.Why)
		}
	}
	golden(t, "requirements.txt", b.String())
}

// Today's Kubernetes: provenance that nobody signed.
func TestKubernetesReachesLevelOne(t *testing.T) {
	dir := os.Getenv("WAYBILL_CORPORA")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "..", "shared", "corpora")
	}
	raw, err := os.ReadFile(filepath.Join(dir, "kubernetes", "v1.23.0-alpha.4-provenance.json"))
	if err != nil && os.Getenv("CI") == "" {
		t.Skipf("the corpora are not here: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s, err := intoto.ParseOpen(raw)
	if err != nil {
		t.Fatal(err)
	}
	levels := map[int]int{}
	for _, sub := range s.Subjects() {
		r, err := (Trust{}).Judge(Question{Name: sub.Name, Bytes: sub.Digests, Unsigned: s})
		if err != nil {
			t.Fatal(err)
		}
		levels[r.Level(V01)*10+r.Level(Build)]++
	}
	if want := map[int]int{11: 461}; !maps.Equal(levels, want) {
		t.Errorf("levels %v, want %v", levels, want)
	}
}
