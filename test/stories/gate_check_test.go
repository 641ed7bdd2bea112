package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

// crossing is a workshop whose images a promoter is to move.
type crossing struct{ court }

// evidence has a statement of a kind refer to an image.
func (c crossing) evidence(t *testing.T, repo, role, kind string, of digest.Digest, to registry.Descriptor, predicate fields) {
	t.Helper()
	d, raw, blobs := registry.BundleManifest(to, c.sign(t, role, statesOf(kind, "shop/"+repo, of, predicate)), kind)
	for _, b := range blobs {
		c.pushBlob(t, repo, b)
	}
	c.pushManifest(t, repo, d, raw)
}

// built has provenance of an image refer to it.
func (c crossing) built(t *testing.T, repo, role string, image registry.Descriptor, change fields) {
	t.Helper()
	c.evidence(t, repo, role, provenance.PredicateType, image.Digest, image, built1().with(change))
}

// demands is the provenance section of a manifest.
func (c crossing) demands(mode string) string {
	spec := func(role string) string {
		issuer, subject := c.Lab.Identity(role)
		return fmt.Sprintf("%q", "sigstore::"+issuer+"::"+subject)
	}
	return fmt.Sprintf(`provenance:
  mode: %s
  signers: [%s, %s]
  builders:
  - {id: %s, level: 3, signers: [%s]}
  - {id: %s, level: 1, signers: [%s]}
  sources: [example.test/lantern]
  level: 2
`, mode, spec("builder"), spec("builder-unisolated"), builderID, spec("builder"), otherID, spec("builder-unisolated"))
}

// manifest writes one that lists images of the shop, each as repo@digest.
func (c crossing) manifest(t *testing.T, name, demands string, images map[string]digest.Digest) {
	t.Helper()
	var list strings.Builder
	for repo, d := range images {
		fmt.Fprintf(&list, "- name: %s\n  dmap: {%q: [v1]}\n", repo, d)
	}
	c.write(t, name, fmt.Appendf(nil, `registries:
- {name: %s/shop, src: true}
- {name: eu.example.test/prod}
- {name: us.example.test/prod}
%simages:
%s`, c.Lab.Registry, demands, list.String()))
}

func (c crossing) gate(t *testing.T, words string, flags ...string) scene.Result {
	t.Helper()
	args := append([]string{"waybill", "gate", "check"}, strings.Fields(words)...)
	return c.Run(t.Context(), append(append(args, "--trusted-root", "trusted_root.json"), flags...)...)
}

// TestGateCheckOfManifests: what a promoter's manifest demands of its images is
// what they must have. Each row has one thing that is wrong; the twin attaches
// what is right beside it, and what was there no longer stands in the way.
func TestGateCheckOfManifests(t *testing.T) {
	c := crossing{openCourt(t)}
	rows := []struct {
		repo, code string
		heals      bool // the right evidence beside it is enough
		do         func(t *testing.T, repo string, image registry.Descriptor)
	}{
		{"g08-nothing", "NO_PROVENANCE", true, func(*testing.T, string, registry.Descriptor) {}},
		{"g09-a-stranger", "IDENTITY", true, func(t *testing.T, repo string, image registry.Descriptor) {
			c.built(t, repo, "mallory@evil.example", image, nil)
		}},
		{"another-role", "IDENTITY", true, func(t *testing.T, repo string, image registry.Descriptor) {
			c.built(t, repo, "release", image, nil)
		}},
		{"another-image", "NOT_BOUND", true, func(t *testing.T, repo string, image registry.Descriptor) {
			c.evidence(t, repo, "builder", provenance.PredicateType, sum("another image"), image, built1())
		}},
		{"another-source", "SOURCE_REPOSITORY", true, func(t *testing.T, repo string, image registry.Descriptor) {
			c.built(t, repo, "builder", image, source("git+https://evil.example/lantern@refs/tags/v0.1.0"))
		}},
		{"another-builder", "BUILDER", true, func(t *testing.T, repo string, image registry.Descriptor) {
			c.built(t, repo, "builder", image, fields{"runDetails/builder/id": "https://evil.example/builder"})
		}},
		{"a-borrowed-builder", "BUILDER", true, func(t *testing.T, repo string, image registry.Descriptor) {
			c.built(t, repo, "builder-unisolated", image, nil)
		}},
		{"too-low", "LEVEL", true, func(t *testing.T, repo string, image registry.Descriptor) {
			c.built(t, repo, "builder-unisolated", image, fields{"runDetails/builder/id": otherID})
		}},
	}
	for _, row := range rows {
		t.Run(row.repo, func(t *testing.T) {
			image := c.push(t, row.repo)
			row.do(t, row.repo, image)
			name := row.repo + ".yaml"
			of := map[string]digest.Digest{row.repo: image.Digest}
			c.manifest(t, name, c.demands("require"), of)
			judgedAs(t, c.gate(t, name), row.code)
			want(t, c.gate(t, name, "--verbose"), 1, "blocks eu.example.test/prod/"+row.repo+":v1, us.example.test/prod/"+row.repo+":v1")
			c.manifest(t, name, c.demands("warn"), of)
			if slices.Contains([]string{"SOURCE_REPOSITORY", "BUILDER", "LEVEL"}, row.code) { // a signer of the manifest signed it
				want(t, c.gate(t, name), 0, "with 1 warning", row.code+" ", "the manifest only warns if it is insufficient")
			} else {
				want(t, c.gate(t, name), 1, "1 image without any proof: ", "mode warn still requires some signature", "insecureAcceptUnsigned: true")
				c.manifest(t, name, c.demands("warn")+"  insecureAcceptUnsigned: true\n", of)
				for format, begin := range map[string]string{"table": "UNSIGNED promotion plan", "markdown": "## UNSIGNED"} {
					r := c.gate(t, name, "--output", format)
					want(t, r, 0, row.code)
					if !strings.HasPrefix(r.Stdout, begin) {
						t.Errorf("%s begins with %.60q", format, r.Stdout)
					}
				}
			}
			c.manifest(t, name, c.demands("require"), of)
			c.built(t, row.repo, "builder", image, nil)
			want(t, c.gate(t, name), 0, "in part", "everything but provenance", "verified=1 required=1")
		})
	}
	image := c.push(t, "gone")
	c.built(t, "gone", "builder", image, nil)
	c.manifest(t, "gone.yaml", c.demands("warn"), map[string]digest.Digest{"gone": sum("no such image")})
	judgedAs(t, c.gate(t, "gone.yaml"), "MISSING")
	for name, demands := range map[string]string{"nothing": "", "off": c.demands(`"off"`)} {
		c.manifest(t, name+".yaml", demands, map[string]digest.Digest{"gone": image.Digest})
		want(t, c.gate(t, name+".yaml"), 2, "POLICY_EMPTY", "--policy FILE")
	}
	c.manifest(t, "pattern.yaml", strings.Replace(c.demands("require"), "sigstore::", "sigstore(regexp)::", 1), map[string]digest.Digest{"gone": image.Digest})
	want(t, c.gate(t, "pattern.yaml"), 2, "want sigstore::ISSUER::IDENTITY or sigstore(identityMatch=regex)::ISSUER::PATTERN")
	c.manifest(t, "whole.yaml", c.demands("require"), map[string]digest.Digest{"gone": image.Digest})
	c.manifest(t, "none.yaml", c.demands("require"), nil)
	c.write(t, "none.yaml", bytes.Replace(c.read(t, "none.yaml"), []byte("images:\n"), nil, 1))
	want(t, c.gate(t, "whole.yaml"), 0, "verified=1 required=1")
	for _, words := range []string{"none.yaml", "whole.yaml none.yaml", "none.yaml whole.yaml"} {
		want(t, c.gate(t, words), 2, "none.yaml", "the manifests list no images")
	}
	c.manifest(t, "word.yaml", c.demands("require")+"  insecureAcceptUnsigned: true\n", map[string]digest.Digest{"gone": image.Digest})
	want(t, c.gate(t, "word.yaml"), 2, "insecureAcceptUnsigned is for mode warn")
}

// TestGateCheckOfPredicates: what a manifest demands besides provenance, and of
// some images more than of others.
func TestGateCheckOfPredicates(t *testing.T) {
	c := crossing{openCourt(t)}
	image := c.push(t, "charts/a")
	c.built(t, "charts/a", "builder", image, nil)
	of := map[string]digest.Digest{"charts/a": image.Digest}
	const scan = "https://example.test/scan/v1"
	c.manifest(t, "scan.yaml", c.demands("require")+"  predicateTypes: [\""+scan+"\"]\n", of)
	judgedAs(t, c.gate(t, "scan.yaml"), "EVIDENCE_MISSING")
	c.evidence(t, "charts/a", "mallory@evil.example", scan, image.Digest, image, fields{})
	judgedAs(t, c.gate(t, "scan.yaml"), "EVIDENCE_MISSING")
	c.evidence(t, "charts/a", "builder-unisolated", scan, image.Digest, image, fields{})
	want(t, c.gate(t, "scan.yaml"), 0, "verified=1 required=1")

	low := strings.Replace(c.demands("require"), "level: 3", "level: 2", 1)
	c.manifest(t, "low.yaml", low, of)
	want(t, c.gate(t, "low.yaml"), 0, "Build level 2 of 3")
	c.manifest(t, "high.yaml", low+"  levels: [{images: [\"charts/*\"], level: 3}]\n", of)
	want(t, c.gate(t, "high.yaml"), 2, "no image can show more than 2")
	c.manifest(t, "high.yaml", c.demands("require")+"  levels: [{images: [\"charts/*\"], level: 3}]\n", of)
	want(t, c.gate(t, "high.yaml"), 0, "Build level 3 of 3")
}

// index pushes an index of two platforms, each an image of the workshop.
func (c crossing) index(t *testing.T, repo string) (index registry.Descriptor, parts []registry.Descriptor) {
	t.Helper()
	var entries []string
	for _, arch := range []string{"amd64", "arm64"} {
		part := c.pushFor(t, repo, arch)
		parts = append(parts, part)
		entries = append(entries, fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":%q}}`, part.MediaType, part.Digest, part.Size, arch))
	}
	return c.pushIndex(t, repo, entries), parts
}

func (c crossing) pushIndex(t *testing.T, repo string, entries []string) registry.Descriptor {
	t.Helper()
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"manifests":[%s]}`, registry.MediaTypeIndex, strings.Join(entries, ","))
	d := registry.Descriptor{MediaType: registry.MediaTypeIndex, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	c.pushManifest(t, repo, d, raw)
	return d
}

func (c crossing) pushFor(t *testing.T, repo, arch string) registry.Descriptor {
	t.Helper()
	config := fmt.Appendf(nil, `{"architecture":%q,"os":"linux","config":{"Labels":{"of":%q}}}`, arch, repo)
	d := registry.Descriptor{MediaType: "application/vnd.oci.image.config.v1+json", Digest: digest.Of(digest.SHA256, config), Size: int64(len(config))}
	raw := fmt.Appendf(nil, `{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"digest":%q,"size":%d},"layers":[]}`,
		registry.MediaTypeManifest, d.MediaType, d.Digest, d.Size)
	c.pushBlob(t, repo, registry.Blob{Descriptor: d, Bytes: config})
	part := registry.Descriptor{MediaType: registry.MediaTypeManifest, Digest: digest.Of(digest.SHA256, raw), Size: int64(len(raw))}
	c.pushManifest(t, repo, part, raw)
	return part
}

// TestGateCheckOfIndexes: an index is accepted by its own provenance or by that
// of every platform, and provenance that falls short is outweighed by nothing.
func TestGateCheckOfIndexes(t *testing.T) {
	c := crossing{openCourt(t)}
	check := func(repo string, d registry.Descriptor) scene.Result {
		c.manifest(t, repo+".yaml", c.demands("require"), map[string]digest.Digest{repo: d.Digest})
		return c.gate(t, repo+".yaml")
	}
	d, parts := c.index(t, "platforms")
	judgedAs(t, check("platforms", d), "NO_PROVENANCE")
	c.built(t, "platforms", "builder", parts[0], nil)
	want(t, check("platforms", d), 1, "NO_PROVENANCE", parts[1].Digest.Hex())
	c.built(t, "platforms", "mallory@evil.example", d, nil)
	c.built(t, "platforms", "builder", parts[1], nil)
	want(t, check("platforms", d), 0, "accepted by the provenance of each of the 2 manifests in it")
	c.built(t, "platforms", "builder", d, source("git+https://evil.example/lantern@refs/tags/v0.1.0"))
	judgedAs(t, check("platforms", d), "SOURCE_REPOSITORY")
	c.built(t, "platforms", "builder", d, nil)
	want(t, check("platforms", d), 0, "Build level 3 of 3")

	d, _ = c.index(t, "whole")
	c.built(t, "whole", "builder", d, nil)
	want(t, check("whole", d), 0, "2 of its 2 manifests have no sufficient provenance")

	part := c.pushFor(t, "liar", "amd64")
	liar := c.pushIndex(t, "liar", []string{fmt.Sprintf(`{"mediaType":%q,"digest":%q,"size":%d,"platform":{"os":"linux","architecture":"arm64"}}`, part.MediaType, part.Digest, part.Size)})
	c.built(t, "liar", "builder", liar, nil)
	judgedAs(t, check("liar", liar), "PLATFORM")
}

// TestGateCheckOfPlans: a directory and a saved plan give one answer, a policy
// is asked besides the manifests' own, and several things have one verdict.
func TestGateCheckOfPlans(t *testing.T) {
	c := crossing{openCourt(t)}
	bench{c.Scene}.policy(t, "court.yaml", c.text)
	good, bad := c.push(t, "good"), c.push(t, "bad")
	c.built(t, "good", "builder", good, nil)
	for project, repo := range map[string]registry.Descriptor{"a": good, "b": bad} {
		name := map[string]string{"a": "good", "b": "bad"}[project]
		c.writeBelow(t, "yard/manifests/"+project+"/promoter-manifest.yaml", fmt.Sprintf("registries:\n- {name: %s/shop, src: true}\n- {name: %s.example.test/prod}\n%s", c.Lab.Registry, project, c.demands("require")))
		c.writeBelow(t, "yard/images/"+project+"/images.yaml", fmt.Sprintf("- name: %s\n  dmap: {%q: [v1]}\n", name, repo.Digest))
	}
	want(t, c.gate(t, "yard", "--verbose"), 1, "verified=1 required=2", "NO_PROVENANCE", "blocks b.example.test/prod/bad:v1")
	plan := c.Run(t.Context(), "waybill", "promote", "plan", "yard", "--output", "json")
	want(t, plan, 0)
	c.write(t, "plan.json", []byte(plan.Stdout))
	want(t, c.gate(t, "plan.json"), 1, "verified=1 required=2")
	c.built(t, "bad", "builder", bad, nil)
	want(t, c.gate(t, "plan.json", "--output", "table", "--output", "junit=gate.xml", "--output", "json=gate.json"), 0, "2 of 2 objects verified")
	var v struct {
		Counts struct{ Verified, Required int }
	}
	if err := json.Unmarshal(c.read(t, "gate.json"), &v); err != nil || v.Counts.Verified != 2 {
		t.Errorf("%+v, %v", v, err)
	}
	c.write(t, "changed.json", []byte(strings.Replace(plan.Stdout, "a.example.test", "c.example.test", 1)+" "))
	want(t, c.gate(t, "changed.json"), 2, "the plan was changed after it was made")
	// A plan that is broken is never taken for a file that could be judged.
	for name, text := range map[string]string{
		"no edges": `{"schema":"waybill/promotion-plan/v1","routes":[],"edges":[]}`, "no lists": `{"schema":"waybill/promotion-plan/v1"}`,
		"laid out": "{\n  \"schema\": \"waybill/promotion-plan/v1\",\n  \"routes\": []\n}\n", "in another order": `{"edges":[],"routes":[],"schema":"waybill/promotion-plan/v1"}`,
	} {
		c.write(t, "broken.json", []byte(text+"\n"))
		if r := c.gate(t, "./broken.json --policy court.yaml"); r.Code != 2 || !strings.Contains(r.Stderr, "the plan was changed after it was made") {
			t.Errorf("%s: status %d\n%s%s", name, r.Code, r.Stdout, r.Stderr)
		}
	}
	c.write(t, "manifests.json", []byte(`{"about": "waybill/promotion-plan/v1"}`))
	want(t, c.gate(t, "./manifests.json --policy court.yaml"), 1, "EVIDENCE_MISSING")

	flags := []string{"--policy", "court.yaml", "--release-version", scene.Version}
	want(t, c.gate(t, "plan.json", flags...), 1, "UNSIGNED")
	for repo, image := range map[string]registry.Descriptor{"good": good, "bad": bad} {
		c.attach(t, repo, image, c.sign(t, "release", said("https://sigstore.dev/cosign/sign/v1", "", image.Digest)))
	}
	want(t, c.gate(t, "plan.json", flags...), 0, "verified=2 required=2", "4 × provenance", "2 × image signature")
	image := c.Lab.Registry + "/shop/good:v1"
	want(t, c.gate(t, "plan.json "+image+" "+c.Lab.Registry+"/shop/bad@"+bad.Digest.String(), flags...), 0, "verified=4 required=4")
}

// writeBelow writes a file with its directories.
func (c crossing) writeBelow(t *testing.T, name, text string) {
	t.Helper()
	path := c.Path(name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestGateCheckTellsApart: each argument is taken for what it is, and what could
// be two things for neither.
func TestGateCheckTellsApart(t *testing.T) {
	c := crossing{openCourt(t)}
	bench{c.Scene}.policy(t, "court.yaml", c.text)
	c.push(t, "apart")
	reference := c.Lab.Registry + "/shop/apart:v1"
	const asked = "--policy court.yaml --release-version " + scene.Version
	for name, row := range map[string]struct {
		words, said string
		code        int
	}{
		"a version without a profile":     {scene.Version, "--profile", 2},
		"a version and more":              {scene.Version + " " + reference, "a release must be the only argument", 2},
		"a version by a policy":           {scene.Version + " " + asked, "the profile of a release names policy and trust root", 2},
		"an image by a profile":           {reference + " --profile profile.yaml", "the flag is for a release", 2},
		"an image without a policy":       {reference, "--policy", 2},
		"an image":                        {reference + " " + asked, "1 image without provenance", 1},
		"nothing that is there":           {"nowhere", "no version, no image reference, and no such file", 2},
		"a file":                          {"a.bin " + asked, "EVIDENCE_MISSING", 1},
		"evidence":                        {"a.bin.sigstore.json " + asked, "a bundle, which is evidence", 2},
		"a file and a class that is none": {"a.bin --class image " + asked, "want one of binary", 2},
		"a directory of something":        {"lab " + asked, "no such directory", 2},
		"the name of a version":           {"v9.9.9", "and of an existing file", 2},
		"its path":                        {"./v9.9.9 " + asked, "EVIDENCE_MISSING", 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, file := range []string{"v9.9.9", "a.bin.sigstore.json"} {
				c.write(t, file, []byte("something"))
			}
			if strings.HasPrefix(row.words, "a.bin ") {
				if err := os.Remove(c.Path("a.bin.sigstore.json")); err != nil {
					t.Fatal(err)
				}
			}
			var r scene.Result
			if strings.HasPrefix(row.words, "v0.1.0") || strings.Contains(row.words, "--profile") {
				r = c.Run(t.Context(), append([]string{"waybill", "gate", "check"}, strings.Fields(row.words)...)...)
			} else {
				r = c.gate(t, row.words)
			}
			want(t, r, row.code, row.said)
		})
	}
}
