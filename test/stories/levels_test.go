package stories

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// scale is what the stories read of one scale of a verdict.
type scale struct {
	Subject, Track string
	Level, Most    int
	Next           []string
	Requirements   []struct {
		ID, State, Why string
		Evidence       []string
	}
}

func scales(t *testing.T, r scene.Result) []scale {
	t.Helper()
	var v struct{ Levels []scale }
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		t.Fatalf("%s: not JSON: %v\n%s", r, err, r.Stdout)
	}
	return v.Levels
}

// levels holds the provenance of a release that was published against SLSA.
func levels(t *testing.T, s *scene.Scene) {
	const file = "file state/files/bin/linux/amd64/lantern --type slsaprovenance1 --bundle state/files/provenance/compile-linux-amd64.sigstore.json"
	image := "image --type slsaprovenance1 " + s.Lab.Registry + "/release/lantern/lantern:" + scene.Version
	r := s.Run(t.Context(), append([]string{"waybill", "verify"}, append(strings.Fields(file+" -o json"), as(s, "builder")...)...)...)
	want(t, r, 0)
	id := builderOf(t, s)
	most := 3
	if id == provenance.BuilderUnisolated {
		most = 2
	}
	known, highest := " --builder "+id+"=3", fmt.Sprintf(" --require-level build=%d", most)
	rows := []struct {
		name, words string
		status      int
		said        []string
	}{
		{"a known builder", file + known + highest, 0, []string{fmt.Sprintf("SLSA build: level %d of 3", most), "SLSA v0.1: level 1 of 4", "OK "}},
		{"an unknown builder", file + highest, 1, []string{"LEVEL", "build.authentic (not shown): missing: an entry of the policy or the command that trusts builder", "got  build=1", "→"}},
		{"another builder", file + " --builder https://builder.example.test=3" + highest, 1, []string{"LEVEL", "build.authentic"}},
		{"an unknown builder where nothing more is asked", file, 0, []string{"SLSA build: level 1 of 3", "for 2: build.authentic", "OK "}},
		{"an unknown builder where provenance is enough", file + " --require-level build=1", 0, []string{"OK "}},
		{"a builder that is not believed", file + " --builder " + id + "=0 --require-level build=2", 1, []string{"LEVEL", "build.authentic"}},
		{"a builder of level 1", file + " --builder " + id + "=1 --require-level build=2", 1, []string{"LEVEL", "build.hosted (not met)", "sha256:"}},
		{"its twin of level 2", file + " --builder " + id + "=2 --require-level build=2", 0, []string{"OK "}},
		{"a level that needs a source summary", file + known + " --require-level v0.1=3", 1, []string{"LEVEL", "want v0.1=3", "source.verified-history"}},
		{"a level that needs a canonical source", file + known + " --require-level v0.1=2", 1, []string{"LEVEL", "source.version-controlled (not shown): missing: a canonical source; a git+file:// URL"}},
		{"the one below", file + known + " --require-level v0.1=1", 0, []string{"OK "}},
		{"an image", image + known + " --children own --require-level build=2", 0, []string{"3 × provenance"}},
		{"an image of an unknown builder", image + " --require-level build=2", 1, []string{"LEVEL", "verified=0 required=3"}},
		{"a level of no provenance", "file state/files/bin/linux/amd64/lantern --require-level build=1", 2, []string{"USAGE", "levels are read from provenance"}},
		{"a builder without level", file + " --builder " + id, 2, []string{"--builder", "ID=LEVEL"}},
		{"a level that there is not", file + " --builder " + id + "=4", 2, []string{"--builder", "0 to 3"}},
		{"two levels", file + known + " --builder " + id + "=0", 2, []string{"has two levels"}},
		{"two builders of different trust", file + known + " --builder https://builder.example.test=1", 2, []string{"different trust"}},
		{"a track that there is not", file + " --require-level dependency=1", 2, []string{"--require-level", "v0.1=4"}},
		{"a level of the source, of which there is no summary", file + known + " --require-level source=1", 1, []string{"LEVEL", "want source=1", "source.level-1 (not shown): missing: a verification summary of the source revision"}},
		{"a level by the name of the KEP", file + known + " --require-level kep-3027=1", 0, []string{"OK "}},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			r := s.Run(t.Context(), append(append([]string{"waybill", "verify"}, strings.Fields(row.words)...), as(s, "builder")...)...)
			want(t, r, row.status, row.said...)
		})
	}
	t.Run("JSON answers every requirement", func(t *testing.T) { answered(t, scales(t, r)) })
}

// builderOf is the builder that the example's provenance names, which depends
// on whether steps can be isolated here.
func builderOf(t *testing.T, s *scene.Scene) string {
	t.Helper()
	r := s.Run(t.Context(), "waybill", "inspect", "state/files/provenance/compile-linux-amd64.sigstore.json", "--lint")
	want(t, r, 0, "PARSED, NOT VERIFIED", "lint: no contradictions found")
	if strings.Contains(r.Stdout, provenance.BuilderUnisolated) {
		return provenance.BuilderUnisolated
	}
	return provenance.BuilderIsolated
}

// answered expects an answer to each requirement: what is met cites evidence,
// what is not shown names what is missing.
func answered(t *testing.T, all []scale) {
	t.Helper()
	if len(all) != 2 || all[0].Track != "build" || all[1].Track != "v0.1" {
		t.Fatalf("scales %+v", all)
	}
	states := map[string]int{}
	for _, l := range all {
		if l.Level != 1 || len(l.Next) == 0 || len(l.Requirements) < 8 {
			t.Errorf("%s: level %d, next %q", l.Track, l.Level, l.Next)
		}
		for _, r := range l.Requirements {
			states[r.State]++
			if r.Why == "" || r.State == "met" && len(r.Evidence) == 0 || r.State == "not shown" && !strings.HasPrefix(r.Why, "missing: ") {
				t.Errorf("%s is %s, %q, %q", r.ID, r.State, r.Why, r.Evidence)
			}
		}
	}
	if states["met"] == 0 || states["not shown"] == 0 || len(states) > 3 {
		t.Errorf("states %v", states)
	}
}

// built is provenance of content by a builder that says all about itself.
func built(builder string, d digest.Digest) sign.Content {
	return &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
		`{"_type":%q,"subject":[{"name":"bin/a","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{"buildDefinition":{"buildType":"https://example.test/script",`+
			`"externalParameters":{"entryPoint":"build.sh"}},"runDetails":{"builder":{"id":%q},"metadata":{"invocationId":"slsa-level-3"}}}}`,
		intoto.TypeV1, d.Hex(), provenance.PredicateType, builder)}
}

// TestLevels: a key may speak for a builder too, and of several provenances
// the one that shows the level is enough.
func TestLevels(t *testing.T) {
	w := openWorkshop(t)
	const id, other = "https://builder.example.test/hosted@v1", "https://builder.example.test/laptop"
	w.write(t, "built.json", w.sign(t, "key", built(id, digest.Of(digest.SHA256, []byte("the first file")))))
	const keyed = "file a.bin --type slsaprovenance1 --bundle built.json --key key.pub --trusted-root trusted_root.json --require-level build=3"
	want(t, w.verify(t.Context(), keyed), 1, "LEVEL", "build.authentic (not shown)", "with the signer \"key sha256:")
	want(t, w.verify(t.Context(), keyed+" --builder "+other+"=3"), 1, "LEVEL", "build.authentic")
	want(t, w.verify(t.Context(), keyed+" --builder "+id+"=3"), 0, "SLSA build: level 3 of 3", "OK ")

	image := w.push(t, "built")
	reference := "image --type slsaprovenance1 --require-level build=2 --builder " + id + "=2 " + w.Lab.Registry + "/shop/built:v1"
	w.attach(t, "built", image, w.sign(t, "builder", built(other, image.Digest)))
	want(t, w.verify(t.Context(), reference, as(w.Scene, "builder")...), 1, "LEVEL", "laptop")
	w.attach(t, "built", image, w.sign(t, "builder", built(id, image.Digest)))
	r := w.verify(t.Context(), reference+" -o json", as(w.Scene, "builder")...)
	want(t, r, 0)
	if all := scales(t, r); !slices.ContainsFunc(all, func(l scale) bool { return l.Track == "build" && l.Level == 2 }) || len(all) != 2 {
		t.Errorf("scales %+v", all)
	}

	// What cannot be read as provenance has no level, and is genuine all the same.
	w.write(t, "empty.json", w.sign(t, "builder", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
		`{"_type":%q,"subject":[{"name":"a","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{"buildDefinition":"none"}}`,
		intoto.TypeV1, digest.Of(digest.SHA256, []byte("the first file")).Hex(), provenance.PredicateType)}))
	const empty = "file a.bin --type slsaprovenance1 --bundle empty.json"
	want(t, w.verify(t.Context(), empty, as(w.Scene, "builder")...), 0, "the provenance shows no level: ", "OK ")
	want(t, w.verify(t.Context(), empty+" --require-level build=1", as(w.Scene, "builder")...), 1, "PAYLOAD_PARSE")

	r = w.Run(t.Context(), "waybill", "inspect", "built.json", "--lint")
	want(t, r, 0, "PARSED, NOT VERIFIED", provenance.LintToolchain, "LINT_SOURCE_MISSING", provenance.LintTimeMissing)
	if r = w.Run(t.Context(), "waybill", "inspect", "built.json"); strings.Contains(r.Stdout, provenance.LintToolchain) {
		t.Errorf("it lints unasked:\n%s", r.Stdout)
	}
}

// TestSourceSummaryOfAFile: the level of a file's source comes from a summary by
// the verifier that the user names, about the commit that a trusted builder
// names.
func TestSourceSummaryOfAFile(t *testing.T) {
	w := openWorkshop(t)
	const id, verifier, repository = "https://builder.example.test/hosted@v1", "https://verifier.example.test/source", "git+https://example.test/lantern"
	commit := strings.Repeat("c", 40)
	w.write(t, "built.json", w.sign(t, "builder", &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
		`{"_type":%q,"subject":[{"name":"bin/a","digest":{"sha256":%q}}],"predicateType":%q,"predicate":{"buildDefinition":{"buildType":"https://example.test/script",`+
			`"externalParameters":{"entryPoint":"build.sh","source":%[4]q},"resolvedDependencies":[{"uri":%[4]q,"digest":{"gitCommit":%[5]q}}]},"runDetails":{"builder":{"id":%[6]q},"metadata":{"invocationId":"one"}}}}`,
		intoto.TypeV1, digest.Of(digest.SHA256, []byte("the first file")).Hex(), provenance.PredicateType, repository, commit, id)}))
	passed := [2]string{"PASSED", "SLSA_SOURCE_LEVEL_3"}
	result := passed
	summary := func(name, role, of string) {
		w.write(t, name, w.sign(t, role, &sign.DSSEData{PayloadType: intoto.PayloadType, Data: fmt.Appendf(nil,
			`{"_type":%q,"subject":[{"uri":%[2]q,"digest":{"gitCommit":%[3]q}}],"predicateType":%[4]q,"predicate":{"verifier":{"id":%[5]q},"timeVerified":"2026-03-01T12:00:00Z","resourceUri":%[2]q,`+
				`"policy":{"uri":"https://example.test/policy","digest":{"sha256":"%064[6]d"}},"verificationResult":%[7]q,"verifiedLevels":[%[8]q],"slsaVersion":"1.2"}}`,
			intoto.TypeV1, repository, of, vsa.PredicateType, verifier, 1, result[0], result[1])}))
	}
	summary("good.json", "verifier", commit)
	result = [2]string{"FAILED", "FAILED"}
	summary("failed.json", "verifier", commit)
	result = passed
	summary("other.json", "verifier", strings.Repeat("d", 40))
	summary("stranger.json", "release", commit)
	issuer, subject := w.Lab.Identity("verifier")
	flags := " --source-verifier " + verifier + "=3 --source-identity " + subject + " --source-oidc-issuer " + issuer
	const file = "file a.bin --type slsaprovenance1 --bundle built.json --builder " + id + "=3"
	for _, row := range []struct {
		name, words string
		status      int
		says        []string
	}{
		{"a summary", file + " --source-vsa good.json" + flags + " --require-level source=3", 0, []string{"SLSA source: level 3 of 4", "OK "}},
		{"a summary, reported", file + " --source-vsa good.json" + flags + " --report slsa-source", 0, []string{"LEVEL 3, continuous technical controls: reached", "SLSA Source level 3 of 4 for 1 artifact"}},
		{"none, reported", file + " --report slsa-source", 2, []string{"USAGE", "add --source-vsa"}},
		{"none, the build reported", file + " --report slsa-build", 0, []string{"OK ", "SLSA Build level 3 of 3"}},
		{"a signature, reported", "file a.bin --report slsa-build", 2, []string{"USAGE", "add --type slsaprovenance1"}},
		{"none", file + " --require-level source=3", 1, []string{"LEVEL", "source.level-1 (not shown): missing: a verification summary of the source revision"}},
		{"of another commit", file + " --source-vsa other.json" + flags + " --require-level source=3", 1, []string{"LEVEL", "the given one is of another"}},
		{"by another identity", file + " --source-vsa stranger.json" + flags + " --require-level source=3", 1, []string{"LEVEL", "may not sign for"}},
		{"of a verifier that is trusted less", file + " --source-vsa good.json" + strings.Replace(flags, "=3", "=2", 1) + " --require-level source=3", 1, []string{"LEVEL", "trusted up to 2"}},
		{"what the policy would have to declare", file + " --source-vsa good.json" + flags + " --require-level kep-3027=3", 1, []string{"LEVEL", "source.retained (not shown)"}},
		{"beside one of another commit", file + " --source-vsa other.json --source-vsa good.json" + flags + " --require-level source=3", 0, []string{"SLSA source: level 3 of 4", "OK "}},
		{"before one of another commit", file + " --source-vsa good.json --source-vsa other.json" + flags + " --require-level source=3", 0, []string{"SLSA source: level 3 of 4", "OK "}},
		{"beside one that took it back", file + " --source-vsa good.json --source-vsa failed.json" + flags + " --require-level source=3", 1, []string{"LEVEL", "a passed verification summary"}},
		{"beside one that cannot be read", file + " --source-vsa good.json --source-vsa nowhere.json" + flags + " --require-level source=3", 2, []string{"nowhere.json"}},
		{"auto, which is for a release", file + " --source-vsa auto" + flags, 2, []string{"auto"}},
		{"without who may sign it", file + " --source-vsa good.json", 2, []string{"USAGE", "want all of --source-vsa"}},
		{"without the summary", file + flags, 2, []string{"USAGE", "want all of --source-vsa"}},
		{"of a signature", "file a.bin --source-vsa good.json" + flags, 2, []string{"USAGE", "levels are read from provenance"}},
		{"a level that there is not", file + " --source-vsa good.json" + strings.Replace(flags, "=3", "=5", 1), 2, []string{"--source-verifier", "1 to 4"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			want(t, w.verify(t.Context(), row.words, as(w.Scene, "builder")...), row.status, row.says...)
		})
	}
}
