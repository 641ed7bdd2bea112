package attacks

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/image"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/report/inspect"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/policies"
)

// written are documents that people write, each good.
var written = map[string]string{
	"callers.yaml": `audience: https://gate.example.test
callers:
- {name: ci, token: {issuer: "https://token.example.test", subject: "repo:a/b", claims: {ref: "main"}}}
grants:
- {caller: ci, verbs: [verify, promote], from: [registry.example.test/staging/], to: [registry.example.test/prod/], channels: [stable]}
`,
	"service.yaml": `apiVersion: waybill/v1
kind: GateService
profile: profile.yaml
callers: callers.yaml
listen: 127.0.0.1:0
admin: 127.0.0.1:0
limits: {deadlineSeconds: 8, perCallerPerSecond: 100}
`,
	"promoter.yaml": `registries:
- {name: registry.example.test/staging, src: true}
- {name: registry.example.test/prod, service-account: a@example.test}
images:
- name: lantern
  dmap:
    "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855": ["v1.0.0", "v1"]
`,
	"kep.yaml": `title: A change
kep-number: 3027
authors: ["@one"]
owning-sig: sig-release
status: implementable
stage: alpha
latest-milestone: "v1.31"
milestone: {alpha: "v1.31", beta: "v1.32"}
feature-gates: [{name: Lantern, components: [kubelet]}]
`,
	"keys.json":   `{"keys":[{"kty":"EC","kid":"one","crv":"P-256","x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU","y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0","alg":"ES256","use":"sig"}]}`,
	"sums":        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  bin/linux/amd64/lantern\n",
	"answer.json": `{"schema":"waybill/decision-request/v1","decisions":[{"verb":"verify","image":"registry.example.test/a@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}]}`,
}

// readers are those of bytes that others write, in this process.
func readers(t *testing.T) map[string]func([]byte) {
	v := must[version.Version](t)(version.Parse("v0.1.0"))
	shipped := must[policy.Policy](t)(policy.Parse(must[[]byte](t)(policies.Read("slsa-build-l1")), nil))
	statement := func(raw []byte, read func(intoto.Statement)) {
		if s, err := intoto.Parse(raw); err == nil {
			read(s)
		}
		if s, err := intoto.ParseOpen(raw); err == nil {
			read(s)
		}
	}
	return map[string]func([]byte){
		"caller":      func(b []byte) { _, _ = caller.Parse(b) },
		"keys":        func(b []byte) { _, _ = caller.ParseKeys(b) },
		"expected":    func(b []byte) { _, _ = k8slayout.ParseList(b); _, _ = k8slayout.ParseSums("SHA256SUMS", b, v) },
		"feature":     func(b []byte) { _, _ = feature.Parse(b) },
		"revocations": func(b []byte) { _, _ = gate.ParseRevocations(b) },
		"service":     func(b []byte) { _, _ = serve.ParseConfig(b, ".") },
		"inspect":     func(b []byte) { _, _ = inspect.Describe(b) },
		"envelope":    func(b []byte) { _, _ = intoto.ParseEnvelope(b) },
		"statement": func(b []byte) {
			statement(b, func(s intoto.Statement) {
				_, _ = provenance.Read(s)
				_, _ = provenance.Parse(s)
				_, _ = vsa.Parse(s)
				_, _ = promotionrecord.Parse(s)
				_, _ = manifest.ReadManifest(s, nil)
				_, _ = k8slayout.ReadProvenance("provenance.json", s, v)
			})
		},
		"image": func(b []byte) {
			_, _ = image.Import(t.Context(), bytes.NewReader(b), int64(len(b)), []string{"linux/amd64"})
		},
		"plan":   func(b []byte) { _, _ = plan.Parse(b); _, _ = plan.ParseConfig(b); _, _ = plan.ParseLock(b) },
		"policy": func(b []byte) { _, _ = policy.Parse(b, nil); _, _ = policy.Rehearse(shipped, b) },
		"promoter": func(b []byte) {
			_, _ = promoterfile.Parse("promoter.yaml", b)
			_, _ = promoterfile.ParseThin("promoter.yaml", nil, b)
		},
		"routes":   func(b []byte) { _, _ = promotionplan.Parse(b) },
		"services": func(b []byte) { _, _ = sign.ParseServices(b, time.Now()) },
		"signoff": func(b []byte) {
			_, _ = signoff.ParseKEP(b)
			_, _ = signoff.ParseReview(b)
			_, _ = signoff.ParseRecord(b)
			_, _ = signoff.ParseRegistry(b)
			_, _ = signoff.ParseAliases(b)
		},
		"spdx": func(b []byte) {
			_, _ = spdx.Validate(string(b))
			if d, err := spdx.ParseTagValue(b); err == nil {
				_, _ = k8slayout.ReadSBOM("kubernetes-release.spdx", d, v)
			}
			_, _ = spdx.Parse(b)
		},
		"trust":  func(b []byte) { _, _ = trust.Parse(b) },
		"bundle": func(b []byte) { _, _ = verify.Read(b) },
	}
}

// documents are good ones of every kind that a release has, and those that
// people write.
func documents(t *testing.T) map[string][]byte {
	w := theWorld(t)
	all := map[string][]byte{}
	for name, text := range written {
		all[name] = []byte(text)
	}
	for _, name := range []string{"policy.yaml", "profile.yaml", "trusted_root.json", "signing_config.json", "lantern/release.yaml"} {
		all[name] = must[[]byte](t)(os.ReadFile(w.Path(filepath.FromSlash(name))))
	}
	kinds := map[string]int{}
	state := w.copyOf(t)
	err := filepath.WalkDir(state, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		raw, err := os.ReadFile(path)
		kind := filepath.Base(filepath.Dir(path)) + filepath.Ext(path)
		if err != nil || len(raw) > 256<<10 || len(raw) == 0 || raw[0] != '{' && !strings.HasSuffix(path, ".yaml") || kinds[kind] == 2 {
			return err
		}
		kinds[kind]++
		all[strings.TrimPrefix(path, state)] = raw
		if e, err := intoto.ParseEnvelope(raw); err == nil {
			all[path+" (payload)"] = e.Payload
		}
		if e, err := w.verifier.Attestation(raw); err == nil {
			all[path+" (payload)"] = e.Statement().Raw()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// TestMutantsAreReadOrRefused: whatever is changed in a good document, each
// reader of foreign bytes reads or refuses it, within what one input may cost.
func TestMutantsAreReadOrRefused(t *testing.T) {
	all, read := documents(t), readers(t)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for raw := range bounds.Mutants(all[name], 1, 150) {
			for kind, reader := range read {
				func() {
					defer func() {
						if p := recover(); p != nil {
							t.Fatalf("the reader %s, on a change of %s: %v\n%q", kind, name, p, raw)
						}
					}()
					reader(raw)
				}()
			}
		}
	}
	t.Logf("%d documents, 150 changes of each, %d readers", len(all), len(read))
}

// TestLayoutsOfMutants: an image layout whose documents were changed is read or
// refused.
func TestLayoutsOfMutants(t *testing.T) {
	dir := filepath.Join(theWorld(t).copyOf(t), "images")
	index := filepath.Join(dir, "index.json")
	good := must[[]byte](t)(os.ReadFile(index))
	for raw := range bounds.Mutants(good, 1, 300) {
		if err := os.WriteFile(index, raw, 0o600); err != nil {
			t.Fatal(err)
		}
		layout, err := registry.OpenLayout(dir)
		if err != nil {
			continue
		}
		_, _ = layout.Tags(t.Context(), "lantern")
		if d, err := layout.Resolve(t.Context(), "lantern", "v0.1.0"); err == nil {
			_, _ = registry.Graph(t.Context(), layout, "lantern", d)
			_, _ = layout.Referrers(t.Context(), "lantern", d.Digest)
		}
	}
}

// TestNoFileEndsInABug: no command ends with status 4 for what is in a file.
func TestNoFileEndsInABug(t *testing.T) {
	if err := commands(); err != nil {
		t.Fatal(err)
	}
	w, all := theWorld(t), documents(t)
	var sbom, bundle []byte
	for name, raw := range all {
		switch {
		case strings.HasSuffix(name, ".spdx.json"):
			sbom = raw
		case strings.HasSuffix(name, ".sigstore.json"):
			bundle = raw
		}
	}
	if sbom == nil || bundle == nil {
		t.Fatal("the release has no SBOM or no bundle")
	}
	var packed bytes.Buffer
	out := tar.NewWriter(&packed)
	if err := out.WriteHeader(&tar.Header{Name: "a", Mode: 0o644, Size: 1, Typeflag: tar.TypeReg}); err != nil {
		t.Fatal(err)
	}
	_, _ = out.Write([]byte("a"))
	_ = out.Close()
	dir := t.TempDir()
	for _, name := range []string{"profile.yaml", "policy.yaml", "trusted_root.json", "signing_config.json", "callers.yaml"} { // what others name
		if err := os.WriteFile(filepath.Join(dir, name), all[name], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	issuer, _ := w.Lab.Identity("release")
	for i, row := range []struct {
		line string
		good []byte
		code int // for the good one, which nobody signed in this way or for this
	}{
		{"waybill sbom validate FILE", sbom, 0},
		{"waybill sbom diff FILE GOOD", sbom, 0},
		{"waybill sbom generate FILE --to OUT", packed.Bytes(), 0},
		{"waybill inspect FILE", bundle, 0},
		{"waybill verify bundle FILE GOOD --trusted-root trusted_root.json --certificate-identity release@lab.invalid --certificate-oidc-issuer ISSUER", bundle, 1},
		{"waybill gate file GOOD --bundle FILE --policy policy.yaml --trusted-root trusted_root.json", bundle, 1},
		{"waybill policy lint FILE", all["policy.yaml"], 0},
		{"waybill gate file GOOD --policy policy.yaml --trusted-root FILE", all["trusted_root.json"], 1},
		{"k8s-verify-release v0.1.0 --offline --profile FILE", all["profile.yaml"], 3},
		{"waybill promote plan FILE", all["promoter.yaml"], 0},
		{"waybill gate serve FILE --check", all["service.yaml"], 0},
	} {
		good, file := filepath.Join(dir, fmt.Sprintf("good-%d", i)), filepath.Join(dir, fmt.Sprintf("file-%d", i))
		if err := os.WriteFile(good, row.good, 0o600); err != nil {
			t.Fatal(err)
		}
		words := strings.NewReplacer("FILE", file, "GOOD", good, "OUT", filepath.Join(dir, "out"), "ISSUER", issuer)
		if r := w.Run(t.Context(), strings.Fields(strings.ReplaceAll(words.Replace(row.line), file, good))...); r.Code != row.code {
			t.Errorf("%s ended with %d for the good one, want %d:\n%s%s", row.line, r.Code, row.code, r.Stdout, r.Stderr)
		}
		for raw := range bounds.Mutants(row.good, uint64(i), 25) {
			if err := os.WriteFile(file, raw, 0o600); err != nil {
				t.Fatal(err)
			}
			r := w.Run(t.Context(), strings.Fields(words.Replace(row.line))...)
			if r.Code == 4 || r.Code < 0 || strings.Contains(r.Stderr, "this is a bug") {
				t.Errorf("%s ended with %d:\n%.2000s\n%q", row.line, r.Code, r.Stderr, raw)
			}
		}
	}
}
