package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/testing/releases"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/scene"
)

// tagged is a release on GitHub that Waybill did not make.
type tagged struct {
	*workshop
	domain *lab.Domain // GitHub's own
	api    *releases.Server
	commit string
}

const (
	wholeTag    = "v2.1.0"
	wholeOwner  = "lab"
	wholeRepo   = "lab/candle"
	wholeSigner = "https://dotcom.releases.github.com"
	slsaV1      = "https://slsa.dev/provenance/v1"
	releaseV1   = "https://in-toto.io/attestation/release/v0.1"
	releaseV2   = "https://in-toto.io/attestation/release/v0.2"
)

func openTagged(t *testing.T) tagged {
	t.Helper()
	g := tagged{workshop: openWorkshop(t), commit: strings.Repeat("a", 40)}
	var err error
	if g.domain, err = lab.NewDomain(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	g.write(t, "github_root.json", g.domain.TrustedRoot)
	g.api = g.Lab.Releases()
	return g
}

// workflow is the run of the repository's workflow that the tag started.
func (g tagged) workflow() lab.Workflow {
	return lab.Workflow{Repository: wholeRepo, File: "release.yml", Tag: wholeTag, Commit: g.commit}
}

// signed is content signed by a run of a workflow.
func (g tagged) signed(t *testing.T, by lab.Workflow, content sign.Content) []byte {
	t.Helper()
	token, err := by.Token(g.Lab)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := sign.NewEphemeralKeypair(nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := sign.Bundle(content, pair, sign.BundleOptions{
		CertificateProvider:        sign.NewFulcio(&sign.FulcioOptions{BaseURL: g.Lab.Fulcio}),
		CertificateProviderOptions: &sign.CertificateProviderOptions{IDToken: token},
		Context:                    t.Context(),
		TimestampAuthorities:       []*sign.TimestampAuthority{sign.NewTimestampAuthority(&sign.TimestampAuthorityOptions{URL: g.Lab.TSA})},
		TransparencyLogs:           []sign.Transparency{sign.NewRekor(&sign.RekorOptions{BaseURL: g.Lab.Rekor, Version: 2})},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := protojson.Marshal(b)
	var line bytes.Buffer
	if err == nil {
		err = json.Compact(&line, raw)
	}
	if err != nil {
		t.Fatal(err)
	}
	return line.Bytes()
}

// provenanceOf is what attest-build-provenance writes about files.
func provenanceOf(files map[string]string) []byte {
	return statementAbout(slsaV1, files, `{"buildDefinition":{"buildType":"https://actions.github.io/buildtypes/workflow/v1","externalParameters":{}},`+
		`"runDetails":{"builder":{"id":"https://github.com/actions/runner/github-hosted"}}}`)
}

func statementAbout(kind string, files map[string]string, predicate string, first ...string) []byte {
	subjects := slices.Clone(first)
	for name, content := range files {
		subjects = append(subjects, fmt.Sprintf(`{"name":%q,"digest":{"sha256":%q}}`, name, digest.Of(digest.SHA256, []byte(content)).Hex()))
	}
	slices.Sort(subjects[len(first):])
	return fmt.Appendf(nil, `{"_type":%q,"subject":[%s],"predicateType":%q,"predicate":%s}`, intoto.TypeV1, strings.Join(subjects, ","), kind, predicate)
}

func dsse(statement []byte) sign.Content {
	return &sign.DSSEData{PayloadType: intoto.PayloadType, Data: statement}
}

// immutable is GitHub's statement about an immutable release.
func (g tagged) immutable(kind, tag string, files map[string]string) []byte {
	purl, id := "pkg:github/"+wholeRepo+"@"+tag, "packageId"
	if kind == releaseV1 {
		id = "releaseId"
	}
	return statementAbout(kind, files, fmt.Sprintf(`{"ownerId":"1","purl":%q,%q:"7","repository":%q,"repositoryId":"2","tag":%q}`, purl, id, wholeRepo, tag),
		fmt.Sprintf(`{"uri":%q,"digest":{"sha1":%q}}`, purl, g.commit))
}

// sealed is a statement that GitHub signed in its own domain.
func (g tagged) sealed(t *testing.T, as, issuer string, statement []byte) []byte {
	t.Helper()
	raw, err := g.domain.Sign(as, issuer, statement)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// put publishes assets at the tag, and what GitHub has about them.
func (g tagged) put(t *testing.T, assets map[string]string, attested ...[]byte) {
	t.Helper()
	g.api.Change(wholeRepo, func(r *releases.Repository) {
		r.Tags = map[string]releases.Tag{wholeTag: {Commit: g.commit}}
		r.Releases = []*releases.Release{{ID: 7, Tag: wholeTag, Assets: []*releases.Asset{}}}
	})
	for name, content := range assets {
		g.api.Store(wholeRepo, wholeTag, name, []byte(content))
	}
	if err := g.Lab.Attest(wholeOwner, attested...); err != nil {
		t.Fatal(err)
	}
}

// ask asks the built command about the release.
func (g tagged) ask(t *testing.T, flags ...string) (scene.Result, verdict.Verdict) {
	t.Helper()
	issuer, _ := lab.Workflow{}.Identity(g.Lab)
	r := g.Run(t.Context(), append([]string{"waybill", "verify", "release", wholeTag, "--repo", g.Lab.GitHub + "/" + wholeRepo, "--output", "json",
		"--trusted-root", g.Path("trusted_root.json"), "--trusted-root", g.Path("github_root.json"), "--certificate-oidc-issuer", issuer}, flags...)...)
	var v verdict.Verdict
	if err := json.Unmarshal([]byte(r.Stdout), &v); err != nil {
		t.Fatalf("%v\n%s%s", err, r.Stdout, r.Stderr)
	}
	return r, v
}

// with is a copy of files with changes; empty content removes one.
func with(files map[string]string, changes ...string) map[string]string {
	all := map[string]string{}
	for name, content := range files {
		all[name] = content
	}
	for i := 0; i < len(changes); i += 2 {
		if all[changes[i]] = changes[i+1]; changes[i+1] == "" {
			delete(all, changes[i])
		}
	}
	return all
}

func sums(files map[string]string) (text string) {
	for name, content := range files {
		text += digest.Of(digest.SHA256, []byte(content)).Hex() + "  " + name + "\n"
	}
	return text
}

// TestGitHubWhole: a release on GitHub without a manifest is accepted by what is signed
// about it, complete only by a signed list of all that it has. Each attack changes one
// fact, and is refused.
func TestGitHubWhole(t *testing.T) {
	g := openTagged(t)
	files := map[string]string{"candle_linux_amd64": "a program", "candle_darwin_arm64": "another program", "LICENSE": "a licence"}
	immutable := g.sealed(t, wholeSigner, "", g.immutable(releaseV2, wholeTag, files))
	attested := g.signed(t, g.workflow(), dsse(provenanceOf(files)))
	by := func(change func(*lab.Workflow)) []byte {
		w := g.workflow()
		change(&w)
		return g.signed(t, w, dsse(provenanceOf(files)))
	}
	fork := func(w *lab.Workflow) { w.Repository = "mallory/candle" }
	issuer, _ := lab.Workflow{}.Identity(g.Lab)
	list := sums(files)
	listed := func(signer func(*lab.Workflow)) map[string]string {
		w := g.workflow()
		signer(&w)
		return with(files, "SHA256SUMS", list, "SHA256SUMS.sigstore.json", string(g.signed(t, w, blobOf(list))))
	}
	same := func(*lab.Workflow) {}
	longer := func(name string, more ...string) map[string]string {
		text := ""
		for name, content := range files {
			text += digest.Of(digest.SHA512, []byte(content)).Hex() + "  " + name + "\n"
		}
		text += strings.Join(more, "")
		return with(files, name, text, name+".sigstore.json", string(g.signed(t, g.workflow(), blobOf(text))))
	}
	twice := digest.Of(digest.SHA256, []byte("a licence")).Hex() + "  LICENSE\n"
	for _, r := range []struct {
		name     string
		assets   map[string]string
		attested [][]byte
		move     bool // the tag
		status   int
		complete bool
		code     verdict.Code
		subject  string
	}{
		{name: "immutable", assets: files, attested: [][]byte{immutable}, complete: true},
		{name: "immutable, version 0.1", assets: files, attested: [][]byte{g.sealed(t, wholeSigner, "", g.immutable(releaseV1, wholeTag, files))}, complete: true},
		{name: "immutable, with provenance and that of another release", assets: files, complete: true,
			attested: [][]byte{attested, g.sealed(t, wholeSigner, "", g.immutable(releaseV2, "v2.0.0", files)), immutable}},
		{name: "provenance in the API", assets: files, attested: [][]byte{attested}},
		{name: "provenance beside the assets", assets: with(files, "candle.intoto.jsonl", string(attested)+"\n"+string(g.signed(t, g.workflow(), dsse(provenanceOf(files))))+"\n")},
		{name: "a signed checksum file", assets: listed(same), complete: true},
		{name: "a signed checksum file of SHA-512", assets: longer("SHA512SUMS"), complete: true},
		{name: "a signed checksum file of SHA-512 that is called otherwise", assets: longer("candle.sums"), status: 1, code: verdict.Unsigned, subject: "LICENSE"},
		{name: "changed asset of a checksum file of SHA-512", assets: with(longer("SHA512SUMS"), "LICENSE", "evil"), status: 1, code: verdict.Tampered, subject: "LICENSE"},
		{name: "deleted asset of a checksum file of SHA-512", assets: with(longer("SHA512SUMS"), "LICENSE", ""), status: 1, code: verdict.Missing, subject: "LICENSE"},
		{name: "a checksum file that names a file twice", assets: longer("checksums.txt", twice), status: 1, code: verdict.ManifestParse},
		{name: "deleted asset", assets: with(files, "LICENSE", ""), attested: [][]byte{immutable}, status: 1, code: verdict.Missing, subject: "LICENSE"},
		{name: "added asset", assets: with(files, "install.sh", "evil"), attested: [][]byte{immutable}, status: 1, code: verdict.Extra, subject: "install.sh"},
		{name: "changed asset", assets: with(files, "LICENSE", "evil"), attested: [][]byte{immutable}, status: 1, code: verdict.Tampered, subject: "LICENSE"},
		{name: "swapped assets", assets: with(files, "candle_linux_amd64", "another program", "candle_darwin_arm64", "a program"), attested: [][]byte{immutable}, status: 1, code: verdict.NameSwap, subject: "candle_linux_amd64"},
		{name: "swapped assets with provenance", assets: with(files, "candle_linux_amd64", "another program", "candle_darwin_arm64", "a program"), attested: [][]byte{attested}, status: 1, code: verdict.Tampered, subject: "candle_linux_amd64"},
		{name: "added asset beside provenance", assets: with(files, "install.sh", "evil"), attested: [][]byte{attested}, status: 1, code: verdict.Unsigned, subject: "install.sh"},
		{name: "moved tag", assets: files, attested: [][]byte{immutable}, move: true, status: 1, code: verdict.SourceMoved},
		{name: "moved tag with provenance", assets: files, attested: [][]byte{attested}, move: true, status: 1, code: verdict.SourceCommit},
		{name: "attestation of another release", assets: files, attested: [][]byte{g.sealed(t, wholeSigner, "", g.immutable(releaseV2, "v2.0.0", files))}, status: 1, code: verdict.PlaceOther},
		{name: "signed by a fork's workflow", assets: files, attested: [][]byte{by(fork)}, status: 1, code: verdict.SourceRepo},
		{name: "signed at a branch", assets: files, attested: [][]byte{by(func(w *lab.Workflow) { w.Ref = "refs/heads/main" })}, status: 1, code: verdict.SourceRef},
		{name: "signed by a pull request", assets: files, attested: [][]byte{by(func(w *lab.Workflow) { w.Ref = "refs/pull/1/merge" })}, status: 1, code: verdict.SourceRef},
		{name: "signed at another tag", assets: files, attested: [][]byte{by(func(w *lab.Workflow) { w.Tag = "v2.0.0" })}, status: 1, code: verdict.SourceRef},
		{name: "signed by a workflow of others that it called", assets: files, attested: [][]byte{by(func(w *lab.Workflow) { w.Called = "mallory/actions/.github/workflows/sign.yml@refs/tags/v1" })}, status: 1, code: verdict.Identity},
		{name: "version 0.2 with the fields of 0.1", assets: files, attested: [][]byte{g.sealed(t, wholeSigner, "", bytes.Replace(g.immutable(releaseV1, wholeTag, files), []byte(releaseV1), []byte(releaseV2), 1))}, status: 1, code: verdict.StatementParse},
		{name: "version 0.1 with the fields of 0.2", assets: files, attested: [][]byte{g.sealed(t, wholeSigner, "", bytes.Replace(g.immutable(releaseV2, wholeTag, files), []byte(releaseV2), []byte(releaseV1), 1))}, status: 1, code: verdict.StatementParse},
		{name: "release attestation in the public-good domain", assets: files, attested: [][]byte{g.signed(t, g.workflow(), dsse(g.immutable(releaseV2, wholeTag, files)))}, status: 1, code: verdict.Identity},
		{name: "release attestation by another identity of GitHub's domain", assets: files, attested: [][]byte{g.sealed(t, wholeSigner, issuer, g.immutable(releaseV2, wholeTag, files))}, status: 1, code: verdict.Identity},
		{name: "release attestation in an unknown domain", assets: files, attested: [][]byte{func() []byte {
			other, err := lab.NewDomain(t.TempDir())
			if err != nil {
				t.Fatal(err)
			}
			raw, err := other.Sign(wholeSigner, "", g.immutable(releaseV2, wholeTag, files))
			if err != nil {
				t.Fatal(err)
			}
			return raw
		}()}, status: 1, code: verdict.TSACert},
		{name: "an unsigned checksum file", assets: with(files, "SHA256SUMS", list), status: 1, code: verdict.Unsigned, subject: "LICENSE"},
		{name: "a checksum file signed by a fork", assets: listed(fork), status: 1, code: verdict.SourceRepo, subject: "SHA256SUMS"},
		{name: "deleted asset of a checksum file", assets: with(listed(same), "LICENSE", ""), status: 1, code: verdict.Missing, subject: "LICENSE"},
		{name: "added asset beside a checksum file", assets: with(listed(same), "install.sh", "evil"), status: 1, code: verdict.Unsigned, subject: "install.sh"},
		{name: "attestation of another repository", assets: files, attested: [][]byte{by(func(w *lab.Workflow) { w.Repository = "lab/lantern" })}, status: 1, code: verdict.SourceRepo},
		{name: "no release", status: 1, code: verdict.Missing},
	} {
		t.Run(r.name, func(t *testing.T) {
			g.put(t, r.assets, r.attested...)
			if r.move {
				g.api.Change(wholeRepo, func(of *releases.Repository) { of.Tags[wholeTag] = releases.Tag{Commit: strings.Repeat("b", 40)} })
			}
			said, v := g.ask(t)
			if said.Code != r.status || v.Complete() != r.complete {
				t.Errorf("status %d, complete %t\n%s", said.Code, v.Complete(), said.Stdout)
			}
			if r.code != "" && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == r.code && strings.Contains(f.Subject, r.subject) }) {
				t.Errorf("no %s about %q\n%s", r.code, r.subject, said.Stdout)
			}
		})
	}
}

// TestGitHubBuilders: a reusable workflow of others may sign for the repository's run,
// if it is a known builder of level 3: the lab's, in the place of slsa-github-generator,
// signs provenance of its own, and as a delegator that of workflows of others.
func TestGitHubBuilders(t *testing.T) {
	g := openTagged(t)
	const generator = "slsa-framework/slsa-github-generator/.github/workflows/"
	files := map[string]string{"candle_linux_amd64": "a program"}
	issuer, _ := lab.Workflow{}.Identity(g.Lab)
	signed := func(workflow, builder string, change func(*lab.Workflow)) []byte {
		w := g.workflow()
		w.Called = generator + workflow + "@refs/tags/v2.1.0"
		change(&w)
		return g.signed(t, w, dsse(statementAbout(slsaV1, files, fmt.Sprintf(`{"buildDefinition":{"buildType":"https://github.com/slsa-framework/slsa-github-generator/delegator-generic@v0",`+
			`"externalParameters":{}},"runDetails":{"builder":{"id":%q}}}`, "https://github.com/"+generator+builder+"@refs/tags/v2.1.0"))))
	}
	for level := range 2 {
		text := "apiVersion: waybill/v1\nkind: Builders\nbuilders:\n"
		for builder, signer := range map[string]string{"lab_generic": "lab_generic", "lab_nodejs": "lab_delegator"} {
			pattern := `https://github\.com/slsa-framework/slsa-github-generator/\.github/workflows/%s\.yml@refs/tags/v2\.1\.0`
			text += fmt.Sprintf("- {id: '"+pattern+"', issuer: %s, signer: '"+pattern+"', level: %d, source: https://builder.example.test}\n", builder, issuer, signer, level+2)
		}
		g.write(t, fmt.Sprintf("level%d.yaml", level+2), []byte(text))
	}
	same := func(*lab.Workflow) {}
	generic := signed("lab_generic.yml", "lab_generic.yml", same)
	known := []string{"--builders", "level3.yaml"}
	for _, r := range []struct {
		name     string
		attested []byte
		flags    []string
		status   int
		code     verdict.Code
	}{
		{"a known builder", generic, known, 0, ""},
		{"a builder that is not known", generic, nil, 1, verdict.Identity},
		{"a builder of level 2", generic, []string{"--builders", "level2.yaml"}, 1, verdict.Identity},
		{"a known builder, for a fork", signed("lab_generic.yml", "lab_generic.yml", func(w *lab.Workflow) { w.Repository = "mallory/candle" }), known, 1, verdict.SourceRepo},
		{"a known builder, at a branch", signed("lab_generic.yml", "lab_generic.yml", func(w *lab.Workflow) { w.Ref = "refs/heads/main" }), known, 1, verdict.SourceRef},
		{"a known builder that names another", signed("lab_generic.yml", "lab_nodejs.yml", same), known, 1, verdict.Identity},
		{"a delegator, for a known builder", signed("lab_delegator.yml", "lab_nodejs.yml", same), known, 0, ""},
		{"a delegator, for an unknown builder", signed("lab_delegator.yml", "other.yml", same), known, 1, verdict.Identity},
		{"no file", generic, []string{"--builders", "none.yaml"}, 2, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			g.put(t, files, r.attested)
			if r.status > 1 {
				issuer, _ := lab.Workflow{}.Identity(g.Lab)
				want(t, g.Run(t.Context(), append([]string{"waybill", "verify", "release", wholeTag, "--repo", g.Lab.GitHub + "/" + wholeRepo, "--certificate-oidc-issuer", issuer}, r.flags...)...), r.status, "none.yaml")
				return
			}
			said, v := g.ask(t, r.flags...)
			if said.Code != r.status || r.code != "" && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == r.code }) {
				t.Errorf("status %d\n%s", said.Code, said.Stdout)
			}
		})
	}
}

// ofPlatforms are files for this machine, for another one and for all.
func ofPlatforms() map[string]string {
	return map[string]string{"candle_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz": "a program", "candle-plan9-s390x.zip": "another program", "LICENSE": "a licence"}
}

// record writes a release as it is downloaded, with changes of its files.
func record(t *testing.T, dir string, files map[string]string, bundles string, changes ...string) {
	t.Helper()
	var assets []map[string]any
	for name, content := range files {
		assets = append(assets, map[string]any{"id": len(assets) + 1, "name": name, "label": nil, "state": "uploaded", "size": len(content)})
	}
	listing, err := json.Marshal(assets)
	if err != nil {
		t.Fatal(err)
	}
	for file, content := range with(with(files, changes...), "assets.json", string(listing), "attestations.jsonl", bundles) {
		save(t, []byte(content), dir, file)
	}
}

// attestedOnGitHub makes an immutable release on GitHub, and a copy of it.
func (w howTo) attestedOnGitHub(t *testing.T, p page) {
	t.Helper()
	domain, err := lab.NewDomain(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	g := tagged{workshop: &workshop{Scene: &scene.Scene{Lab: w.lab}}, domain: domain, api: w.lab.Releases(), commit: strings.Repeat("a", 40)}
	files := ofPlatforms()
	immutable := g.sealed(t, wholeSigner, "", g.immutable(releaseV2, wholeTag, files))
	g.put(t, files, immutable)
	save(t, domain.TrustedRoot, p.dir, "github_root.json")
	record(t, filepath.Join(p.dir, "candle"), files, string(immutable)+"\n")
}

// TestGitHubWholeAsked: ways to ask about such a release. Each refusal differs in one
// fact from a question that is answered.
func TestGitHubWholeAsked(t *testing.T) {
	g := openTagged(t)
	files := ofPlatforms()
	immutable := g.sealed(t, wholeSigner, "", g.immutable(releaseV2, wholeTag, files))
	attested := g.signed(t, g.workflow(), dsse(provenanceOf(files)))
	g.put(t, files, immutable)
	recorded := func(name, bundles string, changes ...string) string {
		record(t, g.Path(name), files, bundles, changes...)
		return "github+file://" + g.Path(name)
	}
	lines := string(attested) + "\n" + string(immutable) + "\n"
	for _, r := range []struct {
		name     string
		flags    []string
		spoil    string // a path of the API that does not answer
		status   int
		complete bool
		code     verdict.Code
	}{
		{name: "online", complete: true},
		{name: "for this machine", flags: []string{"--platform", "host"}},
		{name: "recorded", flags: []string{"--files", recorded("recorded", lines)}, complete: true},
		{name: "recorded, an extra file", flags: []string{"--files", recorded("extra", lines, "install.sh", "evil")}, status: 1, code: verdict.Extra},
		{name: "recorded, a missing file", flags: []string{"--files", recorded("missing", lines, "LICENSE", "")}, status: 1, code: verdict.Missing},
		{name: "recorded, without attestations", flags: []string{"--files", recorded("bare", "")}, status: 1, code: verdict.Unsigned},
		{name: "recorded, with attestations cut short", flags: []string{"--files", recorded("cut", lines[:len(lines)-40])}, status: 1},
		{name: "a place that is no release on GitHub", flags: []string{"--files", g.Path("recorded")}, status: 2, code: verdict.Usage},
		{name: "a flag for a profile", flags: []string{"--profile", "profile.yaml"}, status: 2, code: verdict.Usage},
		{name: "two tags", flags: []string{"v2.2.0"}, status: 2, code: verdict.Usage},
		{name: "the attestations are unreachable", spoil: "/attestations/", status: 3, code: verdict.PlaceDown},
	} {
		t.Run(r.name, func(t *testing.T) {
			g.Lab.SpoilGitHub(r.spoil)
			defer g.Lab.SpoilGitHub("")
			said, v := g.ask(t, r.flags...)
			if said.Code != r.status || v.Complete() != r.complete {
				t.Errorf("status %d, complete %t\n%s", said.Code, v.Complete(), said.Stdout)
			}
			if r.code != "" && !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool { return f.Code == r.code }) {
				t.Errorf("no %s\n%s", r.code, said.Stdout)
			}
		})
	}
	issuer, _ := lab.Workflow{}.Identity(g.Lab)
	for _, flags := range []string{"", " --platform host"} {
		r := g.Run(t.Context(), strings.Fields("waybill verify release "+wholeTag+" --repo "+g.Lab.GitHub+"/"+wholeRepo+" --trusted-root trusted_root.json --trusted-root github_root.json --certificate-oidc-issuer "+issuer+flags)...)
		want(t, r, 0, "OK release v2.1.0 of github.com/lab/candle")
	}
	want(t, g.Run(t.Context(), strings.Fields("waybill verify release "+wholeTag+" --certificate-oidc-issuer "+issuer)...), 2, "--repo")
}
