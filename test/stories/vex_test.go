package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/test/scene"
)

// vexSigner is who has the role vex in these stories.
const vexSigner = "vex@lab.invalid"

// informed is a published release whose policy has the role vex.
type informed struct{ *scene.Scene }

func openInformed(t *testing.T) informed {
	t.Helper()
	s := openExample(t, small)
	issuer, _ := s.Lab.Identity(vexSigner)
	bench{s}.policy(t, "policy.yaml", string(contents(t, s.Path("policy.yaml"))), "roles:\n", fmt.Sprintf("roles:\n  vex: [{issuer: %q, subject: %s, type: email}]\n", issuer, vexSigner),
		"plan: require\n", fmt.Sprintf("plan: require\nlate: [{predicate: %q, role: vex, stages: [release]}]\n", openvex.PredicateType))
	save(t, []byte(s.Lab.Token(vexSigner)), s.Path("vex.token"))
	save(t, []byte(s.Lab.Token("release")), s.Path("other.token"))
	return informed{publish(t, s)}
}

func (i informed) add(t *testing.T, flags ...string) scene.Result {
	t.Helper()
	return i.Run(t.Context(), append([]string{"waybill", "vex", "add", scene.Version, "--profile", "profile.yaml"}, flags...)...)
}

// object is an object beside the manifest.
func (i informed) object(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := i.Places.Objects.Get(t.Context(), "release/lantern/"+scene.Version+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func (i informed) put(t *testing.T, n int, raw []byte) {
	t.Helper()
	if err := i.Places.Objects.Put(t.Context(), "release/lantern/"+scene.Version+"/"+openvex.Name(n), raw); err != nil {
		t.Fatal(err)
	}
}

func (i informed) remove(t *testing.T, n int) {
	t.Helper()
	if err := i.Places.Objects.Remove(t.Context(), "release/lantern/"+scene.Version+"/"+openvex.Name(n)); err != nil {
		t.Fatal(err)
	}
}

// stated is the part of a verdict that is about VEX.
type stated struct {
	Outcome            string
	Findings, Warnings []struct{ Code, Subject string }
	VEX                []struct {
		Status, Signer, Place string
		Products, Components  []string
		Version               int
		Superseded            bool
	}
}

func (i informed) verify(t *testing.T, status int) (s stated) {
	t.Helper()
	r := i.Verify(t.Context(), "--output", "json")
	want(t, r, status)
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// component is a module in the SBOM of the program.
func (i informed) component(t *testing.T) string {
	t.Helper()
	for _, purl := range regexp.MustCompile(`pkg:golang/[^"]*`).FindAllString(string(i.object(t, "bin/linux/amd64/lantern.spdx.json")), -1) {
		if strings.Contains(purl, "stdlib") {
			return purl
		}
	}
	t.Fatal("the SBOM names no standard library")
	return ""
}

// TestVEXLife: a statement is signed, shown and superseded; a replayed one is
// refused until a newer one is there.
func TestVEXLife(t *testing.T) {
	i := openInformed(t)
	part := i.component(t)
	about := []string{"--vulnerability", "CVE-2026-1234", "--component", part}
	by := []string{"--identity-token", "vex=vex.token", "--confirm"}
	early := slices.Concat(about, []string{"--status", "under_investigation"})
	late := slices.Concat(about, []string{"--status", "not_affected", "--justification", "vulnerable_code_not_in_execute_path"})

	want(t, i.add(t, early...), 0, "nothing was done", openvex.PredicateType, part)
	for name, row := range map[string]struct {
		flags  []string
		status int
		says   string
	}{
		"by the release identity":     {slices.Concat(early, []string{"--identity-token", "vex=other.token", "--confirm"}), 1, "SIGNED_AS_ELSE"},
		"a component in no SBOM":      {slices.Concat(early, []string{"--component", "pkg:golang/example.test/none@v1"}, by), 1, "VEX_COMPONENT"},
		"a product that is none":      {slices.Concat(early, []string{"--product", "bin/plan9/lantern"}, by), 1, "VEX_COMPONENT"},
		"not_affected without reason": {slices.Concat(about, []string{"--status", "not_affected"}, by), 2, "--justification"},
		"affected without action":     {slices.Concat(about, []string{"--status", "affected"}, by), 2, "--action"},
		"an unknown status":           {slices.Concat(about, []string{"--status", "harmless"}, by), 2, "--status"},
	} {
		t.Run(name, func(t *testing.T) { want(t, i.add(t, row.flags...), row.status, row.says) })
	}
	for name, text := range map[string]string{
		"CSAF": `{"document":{"csaf_version":"2.0"}}`, "CycloneDX": `{"bomFormat":"CycloneDX"}`, "XML": "<bom/>", "SPDX 3": `{"@context":"https://spdx.org/rdf/3.0.1/spdx-context.jsonld"}`,
	} {
		t.Run(name, func(t *testing.T) {
			save(t, []byte(text), i.Path("other.json"))
			want(t, i.add(t, "--from", "other.json"), 1, "VEX_STATEMENT", name)
		})
	}
	if got := i.verify(t, 0); len(got.VEX) != 0 {
		t.Errorf("nothing was signed, and there is %+v", got.VEX)
	}

	want(t, i.add(t, slices.Concat(early, by)...), 0, openvex.Name(1), vexSigner, "read back and verified")
	first := i.verify(t, 0)
	if len(first.VEX) != 1 || first.VEX[0].Status != "under_investigation" || first.VEX[0].Signer != vexSigner || !slices.Contains(first.VEX[0].Products, "bin/linux/amd64/lantern") {
		t.Fatalf("shown: %+v", first.VEX)
	}
	time.Sleep(time.Second) // dates have seconds
	want(t, i.add(t, slices.Concat(late, by)...), 0, openvex.Name(2))
	want(t, i.Verify(t.Context()), 0, "CVE-2026-1234", "not_affected", "superseded", "version 2")

	// So does a question about one file, with the statements about it alone.
	for name, about := range map[string]int{"bin/linux/amd64/lantern": 2, "bin/linux/amd64/lantern.spdx.json": 0} {
		save(t, i.object(t, name), i.Path("given", filepath.Base(name)))
		r := i.Verify(t.Context(), "--output", "json", i.Path("given", filepath.Base(name)))
		want(t, r, 0)
		var got stated
		if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || len(got.VEX) != about {
			t.Errorf("%s: %v, shown: %+v", name, err, got.VEX)
		}
		for _, x := range got.VEX {
			if !slices.Equal(x.Products, []string{name}) || x.Signer != vexSigner {
				t.Errorf("%s: %+v", name, x)
			}
		}
	}

	// One document by itself: what it states, and that nothing is verified.
	show := []string{"waybill", "vex", "show", "--output", "json"}
	for name, text := range map[string][]byte{"one.sigstore.json": i.object(t, openvex.Name(2)), "changed.sigstore.json": bytes.Replace(i.object(t, openvex.Name(2)), []byte(`"payload":"`), []byte(`"payload":"e30`), 1)} {
		save(t, text, i.Path(name))
		if name == "changed.sigstore.json" {
			want(t, i.Run(t.Context(), append(show, name)...), 1, "VEX_STATEMENT")
			continue
		}
		r := i.Run(t.Context(), append(show, name)...)
		want(t, r, 0, "which was not verified", "whether a newer document superseded it", vexSigner)
		var got stated
		if err := json.Unmarshal([]byte(r.Stdout), &got); err != nil || len(got.VEX) == 0 || got.VEX[0].Status != "not_affected" || got.VEX[0].Signer != "" {
			t.Errorf("%v: %+v", err, got.VEX)
		}
	}

	// OpenVEX by itself follows the same rules; of a document that states nothing, nothing is shown.
	const plain = `{"@context":"https://openvex.dev/ns/v0.2.0","@id":"https://example.test/vex","author":"a","timestamp":"2026-01-01T00:00:00Z","version":1,"statements":[{"vulnerability":{"name":"CVE-2026-1"},"products":[{"@id":"pkg:generic/lantern"}],"status":"fixed"}]}`
	for text, says := range map[string]string{plain: "", "{}": "1 to 1000 statements", strings.Replace(plain, `{"@id":"pkg:generic/lantern"}`, "", 1): "no statement names a product", strings.Replace(plain, "2026-01", "2126-01", 1): "dated 2126"} {
		save(t, []byte(text), i.Path("plain.json"))
		if r := i.Run(t.Context(), append(show, "plain.json")...); says == "" {
			want(t, r, 0, "pkg:generic/lantern")
		} else {
			want(t, r, 1, "VEX_STATEMENT", says)
		}
	}

	// The release explains its statements to a watch; the twin does not name it.
	watch := []string{"waybill", "watch", "--profile", "profile.yaml", "--log", i.Lab.Rekor, "--state", "watch", "--from", "0", "--releases", "state"}
	want(t, i.Run(t.Context(), watch...), 1, "LOG_UNEXPLAINED", vexSigner)
	want(t, i.Run(t.Context(), append(watch, "--release", scene.Version)...), 0)

	// Somebody puts the older one there again.
	i.put(t, 3, i.object(t, openvex.Name(1)))
	if got := i.verify(t, 1); len(got.Findings) != 1 || got.Findings[0].Code != string(openvex.Superseded) {
		t.Errorf("replayed: %+v", got.Findings)
	}
	want(t, i.Run(t.Context(), "waybill", "vex", "show", scene.Version, "--profile", "profile.yaml"), 1, "VEX_SUPERSEDED")
	time.Sleep(time.Second)
	want(t, i.add(t, slices.Concat(late, by)...), 0, openvex.Name(4))
	want(t, i.Verify(t.Context()), 0, "version 3")
	want(t, i.Run(t.Context(), "waybill", "vex", "show", scene.Version, "--profile", "profile.yaml"), 0, "not_affected", part)
	want(t, i.Run(t.Context(), "waybill", "verify", "release", scene.Version, "--profile", "profile.yaml", "--output", "markdown"), 0, "CVE-2026-1234")

	// The image has it too; if the newest file is removed, the image tells.
	i.remove(t, 4)
	i.remove(t, 3)
	if got := i.verify(t, 1); len(got.Findings) != 1 || got.Findings[0].Code != string(openvex.Superseded) {
		t.Errorf("removed: %+v", got.Findings)
	}
}

// TestDocsVEX executes the page about VEX.
func TestDocsVEX(t *testing.T) {
	i := openInformed(t)
	issuer, _ := i.Lab.Identity(vexSigner)
	p := page{
		path: filepath.Join("..", "..", "docs", "how-to", "vex.md"), dir: i.Path(), env: []string{"PATH=" + bin + ":" + os.Getenv("PATH")},
		lab: strings.NewReplacer("security@example.test", vexSigner, "https://accounts.example.test", issuer, "pkg:golang/example.test/parser@v1.2.0", i.component(t)),
	}
	if err := p.run(t.Context()); err != nil {
		t.Error(err)
	}

	// What the page says of cosign; the twin is another signer.
	cosign := cosign3(t)
	for who, accepts := range map[string]bool{vexSigner: true, "release@lab.invalid": false} {
		cmd := exec.CommandContext(t.Context(), cosign, "verify-attestation", i.Lab.Registry+"/release/lantern/lantern:"+scene.Version, "--type", "openvex", "--allow-http-registry",
			"--certificate-identity", who, "--certificate-oidc-issuer", issuer, "--trusted-root", i.Path("trusted_root.json"), "--use-signed-timestamps")
		cmd.Env = []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")}
		if out, err := cmd.CombinedOutput(); (err == nil) != accepts {
			t.Errorf("cosign for %s: %v\n%s", who, err, out)
		}
	}
}

// TestVEXAttacks: each row changes one fact of a statement that is accepted.
func TestVEXAttacks(t *testing.T) {
	i := openInformed(t)
	part := i.component(t)
	r := i.add(t, "--vulnerability", "CVE-2026-1234", "--status", "not_affected", "--justification", "vulnerable_code_not_present", "--component", part, "--product", "bin/linux/amd64/lantern")
	want(t, r, 0)
	genuine, _, _ := strings.Cut(r.Stdout, "\n}\n")
	genuine += "\n}"
	sum := regexp.MustCompile(`"sha-256": "([0-9a-f]{64})"`).FindStringSubmatch(genuine)
	if sum == nil {
		t.Fatalf("no product has a digest:\n%s", genuine)
	}
	sign := func(t *testing.T, role, text string) []byte {
		t.Helper()
		raw, err := i.Sign(t.Context(), role, []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	const dated = `"timestamp": "20`
	for _, row := range []struct{ name, role, old, not, code string }{
		{"the twin", vexSigner, "", "", ""},
		{"by the release identity", "release", "", "", "EXTRA"},
		{"by the verifier", "verifier", "", "", "EXTRA"},
		{"by a stranger", "mallory@lab.invalid", "", "", "EXTRA"},
		{"unsigned", "", "", "", "EXTRA"},
		{"about another release", vexSigner, `"sha256": "` + sum[1], `"sha256": "` + strings.Repeat("a", 64), "EXTRA"},
		{"of another type", vexSigner, `"predicateType": "` + openvex.PredicateType, `"predicateType": "https://cyclonedx.org/vex`, "EXTRA"},
		{"a product that is no subject", vexSigner, `"sha-256": "` + sum[1], `"sha-256": "` + strings.Repeat("a", 64), "NOT_BOUND"},
		{"an unknown status", vexSigner, `"not_affected"`, `"harmless"`, "VEX_STATEMENT"},
		{"without a justification", vexSigner, `"vulnerable_code_not_present"`, `""`, "VEX_STATEMENT"},
		{"with a date in the future", vexSigner, dated, `"timestamp": "21`, "VEX_STATEMENT"},
		{"with an unknown key", vexSigner, dated, `"stamp": 1, ` + dated, "PAYLOAD_PARSE"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if !strings.Contains(genuine, row.old) {
				t.Fatalf("nothing to replace in\n%s", genuine)
			}
			raw := []byte(genuine)
			if row.role != "" {
				raw = sign(t, row.role, strings.Replace(genuine, row.old, row.not, 1))
			}
			i.put(t, 1, raw)
			defer i.remove(t, 1)
			got := i.verify(t, map[bool]int{true: 0, false: 1}[row.code == ""])
			if row.code == "" {
				if len(got.VEX) != 1 || len(got.Warnings) != 0 {
					t.Errorf("shown: %+v", got)
				}
				return
			}
			if len(got.Findings) != 1 || got.Findings[0].Code != row.code || len(got.VEX) != 0 {
				t.Errorf("%+v, want %s", got, row.code)
			}
		})
	}
	i.put(t, 1, sign(t, vexSigner, genuine))
	i.put(t, 2, sign(t, vexSigner, strings.Replace(genuine, `"vulnerable_code_not_present"`, `"component_not_present"`, 1)))
	if got := i.verify(t, 1); len(got.Findings) != 1 || got.Findings[0].Code != "VEX_EQUIVOCATION" {
		t.Errorf("two of one version: %+v", got.Findings)
	}
	i.remove(t, 2)
	i.put(t, 1, sign(t, vexSigner, strings.Replace(genuine, part, "pkg:golang/example.test/none@v1", 1)))
	if got := i.verify(t, 0); len(got.Warnings) != 1 || got.Warnings[0].Code != string(openvex.Component) || len(got.VEX) != 1 {
		t.Errorf("a component in no SBOM: %+v", got)
	}
}
