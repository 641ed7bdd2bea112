package attacks

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const sourceSBOM = "lantern-source.spdx.json"

// sourceLies are lies about the source. Only who has the commit sees those
// that are told of its files.
func sourceLies() []lie {
	subject := func(d document) map[string]any { return d.list(packagesKey)[0].(map[string]any) }
	link := func(d document) map[string]any {
		for _, e := range d.list("externalDocumentRefs") {
			if e := e.(map[string]any); strings.Contains(e["spdxDocument"].(string), "/source-") {
				return e
			}
		}
		return nil
	}
	return []lie{
		{"the twin", sourceSBOM, func(testing.TB, document) {}, nil, false},
		{"another digest of a file", sourceSBOM, func(_ testing.TB, d document) { sumOf(d.list("files")[0])["checksumValue"] = otherSum }, codes(verdict.Conflict), true},
		{"another name of a file", sourceSBOM, func(_ testing.TB, d document) { d.list("files")[0].(map[string]any)["fileName"] = "./other" },
			codes(verdict.Conflict, verdict.SBOMIncomplete), true},
		{"another version of a module", sourceSBOM, func(t testing.TB, d document) {
			p := d.packageNamed(t, "example.test/wick")
			p["versionInfo"] = "v9.9.9"
			for _, ref := range p["externalRefs"].([]any) {
				if ref := ref.(map[string]any); ref["referenceType"] == "purl" {
					ref["referenceLocator"] = "pkg:golang/example.test/wick@v9.9.9"
				}
			}
		}, codes(verdict.Conflict), true},
		{"another version of a module than its package URL has", sourceSBOM, func(t testing.TB, d document) {
			d.packageNamed(t, "example.test/wick")["versionInfo"] = "v9.9.9"
		}, codes(verdict.Conflict), false},
		{"the namespace of another tree", sourceSBOM, func(_ testing.TB, d document) { d["documentNamespace"] = "https://example.test/source" },
			codes(verdict.Conflict, verdict.SBOMSubject), false},
		{"of another version", sourceSBOM, func(_ testing.TB, d document) { subject(d)["versionInfo"] = "v0.0.9" }, codes(verdict.SBOMSubject), false},
		{"of something else", sourceSBOM, func(_ testing.TB, d document) { subject(d)["name"] = "sources" }, codes(verdict.SBOMSubject), false},
		{"a link by other bytes", releaseSBOM, func(_ testing.TB, d document) {
			link(d)["checksum"].(map[string]any)["checksumValue"] = otherSum
		}, codes(verdict.Conflict), false},
		{"no link", releaseSBOM, func(_ testing.TB, d document) {
			id := link(d)["externalDocumentId"].(string)
			d[relationsKey] = slices.DeleteFunc(d.list(relationsKey), func(r any) bool {
				return strings.HasPrefix(r.(map[string]any)["relatedSpdxElement"].(string), id+":")
			})
			d["externalDocumentRefs"] = slices.DeleteFunc(d.list("externalDocumentRefs"), func(e any) bool {
				return e.(map[string]any)["externalDocumentId"] == id
			})
		}, codes(verdict.Conflict), false},
		{"a link that says nothing", releaseSBOM, func(_ testing.TB, d document) {
			for _, r := range d.list(relationsKey) {
				if r := r.(map[string]any); r["relationshipType"] == spdx.GeneratedFrom {
					r["relationshipType"] = "OTHER"
				}
			}
		}, codes(verdict.Conflict), false},
	}
}

// TestSourceSBOMsThatLie: the SBOM of the source is held against the commit
// before it is signed for, and against what the release says of it by everybody.
func TestSourceSBOMsThatLie(t *testing.T) {
	w := theWorld(t)
	for _, l := range sourceLies() {
		t.Run(l.name, func(t *testing.T) {
			tell := func(d document) { l.tell(t, d) }
			unsigned := w.attacked(t)
			unsigned.rewrite(t, l.of, tell)
			sign, _ := unsigned.again(t)
			if l.name == "the namespace of another tree" {
				// The release has no link to it either.
				refused(t, sign, verdict.Conflict, verdict.SBOMSubject)
			} else {
				refused(t, sign, l.codes...)
			}
			r := w.attacked(t)
			r.rewrite(t, l.of, tell)
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, l.of, releaseSBOM) })
			switch {
			case l.inside:
				accepted(t, r.gate(t).Err())
			case l.name == "the namespace of another tree":
				refused(t, r.gate(t).Err(), verdict.Conflict)
			default:
				refused(t, r.gate(t).Err(), l.codes...)
			}
		})
	}
}

// TestSBOMsThatAreNone: what is no SBOM is refused by the name of its file,
// before it is signed and after.
func TestSBOMsThatAreNone(t *testing.T) {
	for _, name := range []string{sourceSBOM, releaseSBOM, plan.SBOMName(packed)} {
		for text, says := range map[string]string{
			"garbage": "",
			`{"@context": "https://spdx.org/rdf/3.0.1/spdx-context.jsonld", "@graph": []}`: "SPDX version 3 is not supported",
		} {
			r := theWorld(t).attacked(t)
			r.write(t, name, []byte(text))
			sign, _ := r.again(t)
			refused(t, sign, verdict.StatementParse)
			if got := explain(sign); !strings.Contains(got, name) || !strings.Contains(got, says) {
				t.Errorf("%s: it does not name the file, or does not say %q: %s", name, says, got)
			}
			r = theWorld(t).attacked(t)
			r.write(t, name, []byte(text))
			r.reseal(t, func(m *manifest.Manifest) { r.relist(t, m, name) })
			if err := r.gate(t).Err(); err == nil {
				t.Errorf("%s: %s is accepted", name, text)
			}
		}
	}
}

// TestSBOMsOfPlatformsThatLie: the SBOM that is attached to the image of one
// platform is held against what is in that image.
func TestSBOMsOfPlatformsThatLie(t *testing.T) {
	const child = imageName + "/linux/amd64"
	told := func(tell func(document)) error {
		r := theWorld(t).attacked(t)
		path := filepath.Join(r.dir, "attached", filepath.FromSlash(plan.SBOMName(child)))
		d := document{}
		if err := json.Unmarshal(must[[]byte](t)(os.ReadFile(path)), &d); err != nil {
			t.Fatal(err)
		}
		tell(d)
		if err := os.WriteFile(path, must[[]byte](t)(json.Marshal(d)), 0o644); err != nil {
			t.Fatal(err)
		}
		sign, _ := r.again(t)
		return sign
	}
	accepted(t, told(func(document) {}))
	refused(t, told(func(d document) {
		d.more("v1.0.0", "pkg:golang/example.test/more@v1.0.0")
		d.relate("SPDXRef-Artifact", spdx.DependsOn, "SPDXRef-More")
	}), verdict.Conflict)
}
