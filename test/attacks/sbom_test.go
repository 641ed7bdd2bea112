package attacks

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/sbom"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

const (
	packed       = "lantern-linux-amd64.tar.gz"
	releaseSBOM  = "lantern.spdx.json"
	packagesKey  = "packages"
	relationsKey = "relationships"
)

// document is an SPDX document as anybody may write it.
type document map[string]any

func (d document) list(key string) []any { return d[key].([]any) }

func (d document) packageNamed(t testing.TB, name string) map[string]any {
	t.Helper()
	for _, p := range d.list(packagesKey) {
		if p := p.(map[string]any); p["name"] == name {
			return p
		}
	}
	t.Fatalf("no package %q", name)
	return nil
}

func (d document) relate(from, kind, to string) {
	d[relationsKey] = append(d.list(relationsKey), map[string]any{"spdxElementId": from, "relationshipType": kind, "relatedSpdxElement": to})
}

// more adds a package, which nothing refers to yet.
func (d document) more(version, purl string) {
	d[packagesKey] = append(d.list(packagesKey), map[string]any{
		"SPDXID": "SPDXRef-More", "name": "example.test/more", "versionInfo": version, "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
		"externalRefs": []any{map[string]any{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl", "referenceLocator": purl}},
	})
}

// drop takes an element out, with every relationship that names it.
func (d document) drop(key, id string) {
	d[key] = slices.DeleteFunc(d.list(key), func(e any) bool { return e.(map[string]any)["SPDXID"] == id })
	d[relationsKey] = slices.DeleteFunc(d.list(relationsKey), func(r any) bool {
		return r.(map[string]any)["relatedSpdxElement"] == id || r.(map[string]any)["spdxElementId"] == id
	})
}

// rewrite changes the SBOM of an artifact in the workspace, and what the SBOM
// of the release says of it.
func (r *attacked) rewrite(t testing.TB, name string, edit func(document)) {
	t.Helper()
	was := r.read(t, name)
	d := document{}
	if err := json.Unmarshal(was, &d); err != nil {
		t.Fatal(err)
	}
	edit(d)
	is := must[[]byte](t)(json.Marshal(d))
	r.write(t, name, is)
	if name != releaseSBOM {
		whole := strings.ReplaceAll(string(r.read(t, releaseSBOM)), digest.Of(digest.SHA256, was).Hex(), digest.Of(digest.SHA256, is).Hex())
		r.write(t, releaseSBOM, []byte(whole))
	}
}

// sumOf is the SHA-256 of an element in a document.
func sumOf(e any) map[string]any {
	for _, c := range e.(map[string]any)["checksums"].([]any) {
		if c := c.(map[string]any); c["algorithm"] == "SHA256" {
			return c
		}
	}
	return nil
}

// alsoSum gives a checksum of an element, in place of the one of its kind.
func alsoSum(e map[string]any, algorithm, value string) {
	sums := slices.DeleteFunc(e["checksums"].([]any), func(c any) bool { return c.(map[string]any)["algorithm"] == algorithm })
	e["checksums"] = append(sums, map[string]any{"algorithm": algorithm, "checksumValue": value})
}

const otherSum = "0000000000000000000000000000000000000000000000000000000000000001"

// reroll makes the roll-up of an archive's files right again.
func reroll(d document) {
	var files []spdx.File
	for _, f := range d.list("files") {
		for _, c := range f.(map[string]any)["checksums"].([]any) {
			if c := c.(map[string]any); c["algorithm"] == "SHA1" {
				files = append(files, spdx.File{SHA1: c["checksumValue"].(string)})
			}
		}
	}
	d.list(packagesKey)[0].(map[string]any)["packageVerificationCode"] = map[string]any{"packageVerificationCodeValue": spdx.VerificationCode(files)}
}

// lie is one thing that an SBOM says wrongly.
type lie struct {
	name, of string
	tell     func(t testing.TB, d document)
	codes    []verdict.Code
	// inside says that only a look into the artifact shows it.
	inside bool
}

func lies() []lie {
	artifact := func(d document) map[string]any { return d.list(packagesKey)[0].(map[string]any) }
	first := func(d document) string { return d.list("files")[0].(map[string]any)["SPDXID"].(string) }
	return []lie{
		{"the twin", plan.SBOMName(packed), func(testing.TB, document) {}, nil, false},
		{"F22 of another version", plan.SBOMName(packed), func(_ testing.TB, d document) { artifact(d)["versionInfo"] = "v0.0.9" }, codes(verdict.SBOMSubject), false},
		{"F22 of another name", plan.SBOMName(packed), func(_ testing.TB, d document) { artifact(d)["name"] = "other.tar.gz" }, codes(verdict.SBOMSubject), false},
		{"F22 of other bytes", plan.SBOMName(packed), func(_ testing.TB, d document) { sumOf(artifact(d))["checksumValue"] = otherSum }, codes(verdict.SBOMSubject), false},
		{"F22 of an image without one platform", plan.SBOMName(imageName), func(t testing.TB, d document) {
			d.drop(packagesKey, d.packageNamed(t, imageName+"/linux/arm64")["SPDXID"].(string))
		}, codes(verdict.Conflict), false},
		{"F22 of the release, with one artifact less", releaseSBOM, func(t testing.TB, d document) {
			d.drop(packagesKey, d.packageNamed(t, packed)["SPDXID"].(string))
		}, codes(verdict.SBOMIncomplete), false},
		{"F22 of the release, with another artifact", releaseSBOM, func(t testing.TB, d document) {
			d.packageNamed(t, packed)["name"] = "lantern-plan9-mips.tar.gz"
		}, codes(verdict.SBOMIncomplete, verdict.SBOMSubject), false},
		{"F22 of another release", releaseSBOM, func(_ testing.TB, d document) { artifact(d)["versionInfo"] = "v0.0.9" }, codes(verdict.SBOMSubject), false},
		{"F23 a file left out", plan.SBOMName(packed), func(_ testing.TB, d document) { d.drop("files", first(d)) }, codes(verdict.SBOMIncomplete), false},
		{"F23 a file left out, and the roll-up made anew", plan.SBOMName(packed), func(_ testing.TB, d document) {
			d.drop("files", first(d))
			reroll(d)
		}, codes(verdict.SBOMIncomplete), true},
		{"a package that is not in it", plan.SBOMName(packed), func(_ testing.TB, d document) {
			d.more("v1.0.0", "pkg:golang/example.test/more@v1.0.0")
			d.relate("SPDXRef-Artifact", spdx.DependsOn, "SPDXRef-More")
		}, codes(verdict.Conflict), true},
		{"a package on which nothing depends", plan.SBOMName(packed), func(_ testing.TB, d document) {
			d.more("v1.0.0", "pkg:golang/example.test/more@v1.0.0")
		}, codes(verdict.Conflict), true},
		{"a package that nothing in the program shows", plan.SBOMName(binary), func(_ testing.TB, d document) {
			d.more("v1.0.0", "pkg:generic/more@v1.0.0")
		}, codes(verdict.Conflict), true},
		{"a package that nothing in the image shows", plan.SBOMName(imageName), func(_ testing.TB, d document) {
			d.more("v1.0.0", "pkg:generic/more@v1.0.0")
		}, codes(verdict.Conflict), true},
		{"another SHA-1 of a file", plan.SBOMName(packed), func(_ testing.TB, d document) {
			d.list("files")[0].(map[string]any)["checksums"].([]any)[0].(map[string]any)["checksumValue"] = otherSum[:40]
			reroll(d)
		}, codes(verdict.Conflict), true},
		{"a SHA-512 of a file that it does not have", plan.SBOMName(packed), func(_ testing.TB, d document) {
			f := d.list("files")[0].(map[string]any)
			f["checksums"] = append(f["checksums"].([]any), map[string]any{"algorithm": "SHA512", "checksumValue": otherSum + otherSum})
		}, codes(verdict.Conflict), true},
		{"an artifact in the image that the release does not have", plan.SBOMName(imageName), func(t testing.TB, d document) {
			d.packageNamed(t, "bin/linux/amd64/lantern")["name"] = "bin/linux/amd64/candle"
		}, codes(verdict.Conflict), false},
		{"other bytes of an artifact in the image", plan.SBOMName(imageName), func(t testing.TB, d document) {
			sumOf(d.packageNamed(t, "bin/linux/amd64/lantern"))["checksumValue"] = otherSum
		}, codes(verdict.Conflict), false},
		{"another SHA-512 of an artifact in the image", plan.SBOMName(imageName), func(t testing.TB, d document) {
			alsoSum(d.packageNamed(t, "bin/linux/amd64/lantern"), "SHA512", otherSum+otherSum)
		}, codes(verdict.Conflict), false},
		{"another SHA-1 of an artifact in the image", plan.SBOMName(imageName), func(t testing.TB, d document) {
			alsoSum(d.packageNamed(t, "bin/linux/amd64/lantern"), "SHA1", otherSum[:40])
		}, codes(verdict.Conflict), true},
		{"an artifact in another place of the image", plan.SBOMName(imageName), func(t testing.TB, d document) {
			id := d.packageNamed(t, "bin/linux/amd64/lantern")["SPDXID"]
			for _, r := range d.list(relationsKey) {
				if r := r.(map[string]any); r["relatedSpdxElement"] == id {
					r["comment"] = "at /elsewhere"
				}
			}
		}, codes(verdict.Conflict), true},
		{"another SHA-512 in the SBOM of the release", releaseSBOM, func(t testing.TB, d document) {
			alsoSum(d.packageNamed(t, packed), "SHA512", otherSum+otherSum)
		}, codes(verdict.SBOMSubject), false},
		{"a package whose package URL has another version", plan.SBOMName(packed), func(_ testing.TB, d document) {
			d.more("v1.0.0", "pkg:golang/example.test/more@v1.0.1")
		}, codes(verdict.Conflict), false},
		{"a package whose package URL has another name", plan.SBOMName(packed), func(_ testing.TB, d document) {
			d.more("v1.0.0", "pkg:deb/debian/less@v1.0.0?arch=amd64")
		}, codes(verdict.Conflict), false},
		{"F24 a circle", plan.SBOMName(packed), func(_ testing.TB, d document) { d.relate(first(d), spdx.Contains, "SPDXRef-Artifact") }, codes(verdict.SBOMGraph), false},
		{"F24 what leads nowhere", plan.SBOMName(packed), func(_ testing.TB, d document) { d.relate("SPDXRef-Artifact", spdx.Contains, "SPDXRef-Gone") }, codes(verdict.SBOMGraph), false},
		{"F24 two of one identifier", plan.SBOMName(packed), func(_ testing.TB, d document) {
			d[packagesKey] = append(d.list(packagesKey), artifact(d))
		}, codes(verdict.SBOMGraph), false},
		{"F25 another program than the one beside it", plan.SBOMName(packed), func(t testing.TB, d document) {
			for _, f := range d.list("files") {
				if strings.HasSuffix(f.(map[string]any)["fileName"].(string), "/lantern") {
					sumOf(f)["checksumValue"] = otherSum
				}
			}
		}, codes(verdict.Conflict), false},
		{"F25 another layer than the registry serves", plan.SBOMName(imageName), func(t testing.TB, d document) {
			for _, p := range d.list(packagesKey) {
				if p.(map[string]any)["primaryPackagePurpose"] == spdx.Archive {
					sumOf(p)["checksumValue"] = otherSum
				}
			}
		}, codes(verdict.Conflict), false},
		{"F25 another digest of an SBOM in the SBOM of the release", releaseSBOM, func(_ testing.TB, d document) {
			d.list("externalDocumentRefs")[0].(map[string]any)["checksum"].(map[string]any)["checksumValue"] = otherSum
		}, codes(verdict.Conflict), false},
	}
}

// TestSBOMsThatLie: the release role itself signs a manifest with an SBOM that
// says one thing wrongly. The gate finds it, without reading the artifact
// where it can; and so do the stages that sign, before they do.
func TestSBOMsThatLie(t *testing.T) {
	w := theWorld(t)
	inside := func(r *gate.Request) { r.Options.Inside = sbom.Look{} }
	for _, l := range lies() {
		t.Run(l.name, func(t *testing.T) {
			tell := func(d document) { l.tell(t, d) }
			unsigned := w.attacked(t)
			unsigned.rewrite(t, l.of, tell)
			sign, _ := unsigned.again(t)
			refused(t, sign, l.codes...)
			r := w.attacked(t)
			r.rewrite(t, l.of, tell)
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, l.of, releaseSBOM) })
			refused(t, r.gate(t, inside).Err(), l.codes...)
			if l.inside {
				accepted(t, r.gate(t).Err())
			} else {
				refused(t, r.gate(t).Err(), l.codes...)
			}
		})
	}
}

// TestOneRunExaminesOnce: what a run has examined it need not take apart again
// as long as the bytes of artifact and document are the same; a lie that is
// told between two acts of one run is found all the same.
func TestOneRunExaminesOnce(t *testing.T) {
	r := theWorld(t).attacked(t)
	p := must[*pipeline.Pipeline](t)(r.pipeline(r.dir))
	accepted(t, p.SBOM(t.Context()))
	name := plan.SBOMName(packed)
	was, whole, artifact := r.read(t, name), r.read(t, releaseSBOM), r.read(t, packed)
	for _, l := range lies() {
		if !l.inside || l.of != name {
			continue
		}
		r.rewrite(t, name, func(d document) { l.tell(t, d) })
		refused(t, p.Sign(t.Context()), l.codes...)
		r.write(t, name, was)
		r.write(t, releaseSBOM, whole)
	}
	accepted(t, p.Sign(t.Context()))
	r.write(t, packed, append(slices.Clone(artifact), 0))
	refused(t, p.Sign(t.Context()), verdict.NotBound)
	refused(t, p.Seal(t.Context()), verdict.NotBound)
	r.write(t, packed, artifact)
	accepted(t, p.Seal(t.Context()))
}

// TestTooManyRelationships: F24, a graph has bounds, whoever signed it.
func TestTooManyRelationships(t *testing.T) {
	r := theWorld(t).attacked(t)
	const many = 1_000_001
	var more strings.Builder
	for range many {
		more.WriteString(`{"spdxElementId":"SPDXRef-DOCUMENT","relationshipType":"OTHER","relatedSpdxElement":"NONE"},`)
	}
	name := plan.SBOMName(packed)
	r.write(t, name, []byte(strings.Replace(string(r.read(t, name)), `"relationships": [`, `"relationships": [`+more.String(), 1)))
	r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, name) })
	v := r.gate(t)
	refused(t, v.Err(), verdict.NoSBOM)
	if !strings.Contains(v.Findings[0].Message, string(verdict.Limit)) {
		t.Errorf("it says %q", v.Findings[0].Message)
	}
}

// TestSBOMsThatLeaveOut: what a document says itself that it leaves out is
// said by the verdict, and refused where the policy asks for all.
func TestSBOMsThatLeaveOut(t *testing.T) {
	r := theWorld(t).attacked(t)
	v := r.gate(t)
	accepted(t, v.Err())
	if !slices.ContainsFunc(v.Notes, func(n string) bool {
		return strings.Contains(n, "the SBOMs of 2 artifacts omit something") && strings.Contains(n, "not examined: ")
	}) {
		t.Errorf("the verdict says nothing of it: %q", v.Notes)
	}
	asking := func(mode string) func(*gate.Request) {
		return func(req *gate.Request) {
			text := strings.ReplaceAll(string(must[[]byte](t)(os.ReadFile(theWorld(t).Path("policy.yaml")))), "sbom: require", "sbom: "+mode)
			req.Policy = must[policy.Policy](t)(policy.Parse([]byte(text), nil))
		}
	}
	accepted(t, r.gate(t, asking("require")).Err())
	refused(t, r.gate(t, asking("complete")).Err(), verdict.SBOMIncomplete)

	// A profile that the policy demands holds for every SBOM that is listed.
	profiled := asking("require}\n  profile: cisa-2026 #")
	accepted(t, r.gate(t, profiled).Err())
	for _, name := range []string{plan.SBOMName(packed), "lantern.spdx.json"} {
		r := theWorld(t).attacked(t)
		r.write(t, name, regexp.MustCompile(`"Organization: [^"]*",\s*"Tool`).ReplaceAll(r.read(t, name), []byte(`"Tool`)))
		r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, name) })
		if v := r.gate(t, profiled); !slices.ContainsFunc(v.Findings, func(f verdict.Finding) bool {
			return f.Code == "SBOM_PROFILE" && strings.Contains(f.Message, "SBOM author: missing")
		}) {
			t.Errorf("%s without its author: %+v", name, v.Findings)
		}
		for _, f := range r.gate(t, asking("require")).Findings {
			if f.Code == "SBOM_PROFILE" {
				t.Errorf("nothing demands it: %+v", f)
			}
		}
	}
}

// TestAttachedSBOMs: every platform of an image has an SBOM of its own in the
// registry, and one that is about something else is found when the image is
// looked into.
func TestAttachedSBOMs(t *testing.T) {
	r := theWorld(t).attacked(t)
	inside := func(req *gate.Request) { req.Options.Inside = sbom.Look{} }
	found := 0
	graph := r.graph(t)
	for _, n := range append([]*registry.Node{graph}, graph.Children...) {
		for _, raw := range must[[][]byte](t)(registry.Bundles(t.Context(), r.images, repository, n.Descriptor.Digest)) {
			e, err := r.verifier.Attestation(raw)
			if err != nil || e.Kind() != intoto.SPDXDocument {
				continue
			}
			found++
			doc, err := spdx.Parse(e.Statement().Predicate())
			if _, about := doc.Describes(); err != nil || !about.Equal(n.Descriptor.Digest) {
				t.Errorf("%s: about %s (%v)", n.Descriptor.Digest, about, err)
			}
		}
	}
	if want := 1 + len(graph.Children); found != want {
		t.Errorf("%d SBOMs are attached, want %d", found, want)
	}
	accepted(t, r.gate(t, inside).Err())
	attach := func(r *attacked, kind string, predicate []byte) {
		st := fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"digest":{"sha256":%q}}],"predicateType":%q,"predicate":%s}`,
			graph.Descriptor.Digest.Hex(), kind, predicate)
		r.attach(t, r.sign(t, lab.RoleRelease, st))
	}
	for _, kind := range []string{intoto.SPDXDocument, intoto.SPDXDocument + "/v2.3"} { // of earlier releases
		r := theWorld(t).attacked(t)
		attach(r, kind, r.read(t, plan.SBOMName(packed)))
		accepted(t, r.gate(t).Err())
		refused(t, r.gate(t, inside).Err(), verdict.SBOMSubject)
	}
	for _, row := range []struct {
		version string
		codes   []verdict.Code
	}{{"", nil}, {"v1.0.0", codes(verdict.Conflict)}} {
		r, d := theWorld(t).attacked(t), document{}
		if err := json.Unmarshal(r.read(t, plan.SBOMName(imageName)), &d); err != nil {
			t.Fatal(err)
		}
		if row.version != "" { // of the very image, with a module that is not in it
			d.more(row.version, "pkg:golang/example.test/more@"+row.version)
			d.relate("SPDXRef-Artifact", spdx.DependsOn, "SPDXRef-More")
		}
		attach(r, intoto.SPDXDocument+"/v2.3", must[[]byte](t)(json.Marshal(d)))
		refused(t, r.gate(t, inside).Err(), row.codes...)
	}
}

// TestChecksumFilesThatLie: a signed checksum file that says something else
// than the signed manifest.
func TestChecksumFilesThatLie(t *testing.T) {
	r := theWorld(t).attacked(t)
	lied := func(was, is string) *attacked {
		r := theWorld(t).attacked(t)
		r.reseal(t, func(m *manifest.Manifest) { r.resum(t, m, plan.SHA256Sums, was, is) })
		return r
	}
	line := strings.SplitAfter(string(r.read(t, plan.SHA256Sums)), "\n")[0]
	accepted(t, lied(line, line).gate(t).Err())
	refused(t, lied(line, otherSum+line[64:]).gate(t).Err(), verdict.Conflict)
	refused(t, lied(line, line[:66]+"nothing\n").gate(t).Err(), verdict.Conflict)
}

// TestSBOMsOfHostileArtifacts: what can not be described is named, all of it,
// and keeps nothing else from being described.
func TestSBOMsOfHostileArtifacts(t *testing.T) {
	w := theWorld(t)
	stage := func(r *attacked) error { return must[*pipeline.Pipeline](t)(r.pipeline(r.dir)).SBOM(t.Context()) }
	r := w.attacked(t)
	r.remove(t, plan.SBOMName(binary))
	r.write(t, packed, append(r.read(t, packed), r.read(t, packed)...))
	const other = "lantern-linux-arm64.tar.gz"
	whole := r.read(t, other)
	r.write(t, other, whole[:len(whole)-20])
	if err := stage(r); err == nil || !strings.Contains(err.Error(), packed) || !strings.Contains(err.Error(), other) {
		t.Errorf("it does not name both: %v", err)
	}
	if len(r.read(t, plan.SBOMName(binary))) == 0 {
		t.Error("another artifact was not described")
	}
	accepted(t, stage(w.attacked(t)))
}
