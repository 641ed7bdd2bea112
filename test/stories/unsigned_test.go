package stories

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
)

// TestUnsignedFile asks policies about a program that nobody signed, with an
// SBOM that agrees with it and an attestation of another file. A policy by which
// that would be accepted does not load; one that says in a word of its own that
// it may be has every output begin with UNSIGNED.
func TestUnsignedFile(t *testing.T) {
	c := openCourt(t)
	c.write(t, "a.bin", []byte("#!/bin/sh\necho another program\n"))
	r := c.Run(t.Context(), "waybill", "sbom", "generate", "a.bin")
	want(t, r, 0)
	c.write(t, "a.spdx.json", []byte(r.Stdout))
	if err := os.Remove(c.Path("a.bin.sigstore.json")); err != nil {
		t.Fatal(err)
	}
	c.write(t, "other.json", c.sign(t, "builder", states(provenance.PredicateType, "another file", built1())))
	c.write(t, "built.json", c.sign(t, "builder", states(provenance.PredicateType, "#!/bin/sh\necho another program\n", built1())))
	const checks, word = `checks: {provenance: require, signature: require, sbom: "off"}` + "\n  level: 1", "plan: require\ninsecureAcceptUnsigned: true\n"
	bare := []string{checks, `checks: {provenance: "off", signature: "off", sbom: require}`}
	unsigned := []string{bare[0], bare[1], "plan: require\n", word}
	want(t, c.ask(t, bare, "other --sbom=a.spdx.json"), 2, "POLICY_EMPTY", "no signed evidence is required of binary", "insecureAcceptUnsigned: true")
	want(t, c.ask(t, unsigned, "other --sbom=a.spdx.json"), 1, "NOT_BOUND", "other.json", "not for bin/a with these bytes")
	for format, beginning := range map[string]string{
		"table": "UNSIGNED binary bin/a, a.bin, in part: ", "markdown": "## UNSIGNED", "html": "<!DOCTYPE html>", "json": "{", "junit": "<?xml", "sarif": "{",
	} {
		r := c.ask(t, unsigned, "--sbom=a.spdx.json --output="+format)
		want(t, r, 0, "UNSIGNED")
		if !strings.HasPrefix(r.Stdout, beginning) {
			t.Errorf("%s begins with %.60q", format, r.Stdout)
		}
		for sign, in := range map[string]string{`"headline": "UNSIGNED binary bin/a, a.bin, in part: accepted`: "json sarif", `"basis": "insecure-unsigned"`: "json", "<title>UNSIGNED: ": "html", `name="UNSIGNED: `: "junit"} {
			if strings.Contains(in, format) && !strings.Contains(r.Stdout, sign) {
				t.Errorf("%s does not say %s:\n%s", format, sign, r.Stdout)
			}
		}
	}
	// Its twin: something signed that the policy looks at speaks for the same bytes.
	r = c.ask(t, []string{checks, `checks: {provenance: warn, signature: "off", sbom: require}`, "plan: require\n", word}, "built --sbom=a.spdx.json")
	want(t, r, 0, "in part")
	if strings.Contains(r.Stdout, "UNSIGNED") {
		t.Errorf("a file that a builder signed provenance of:\n%s", r.Stdout)
	}
	c.write(t, "a.bin", []byte("changed"))
	want(t, c.ask(t, unsigned, "--sbom=a.spdx.json"), 1, "SBOM_SUBJECT")
	// Checksums of which nothing is required are accepted by nothing.
	c.write(t, "sums.json", c.sign(t, "release", blobOf("changed")))
	want(t, c.ask(t, []string{"[sums], checks: {signature: require}", "[sums], checks: {signature: warn}"}, "sums --class=sums"), 2, "POLICY_EMPTY", `requires nothing of class "sums"`)
	want(t, c.ask(t, nil, "sums --class=sums"), 0, "OK ")
}

// TestWhatNamesBytesAlone: a plain signature is of bytes under any name, and an
// image lies under whatever name and tag somebody gave it. The verdict says so; an
// attestation that names the file leaves nothing open.
func TestWhatNamesBytesAlone(t *testing.T) {
	const open, checks = "its name: the verified evidence names only bytes", `checks: {provenance: require, signature: require, sbom: "off"}` + "\n  level: 1"
	c := openCourt(t)
	c.write(t, "a.bin", []byte("changed"))
	c.write(t, "signed.json", c.sign(t, "release", blobOf("changed")))
	c.write(t, "built.json", c.sign(t, "builder", states(provenance.PredicateType, "changed", built1())))
	want(t, c.ask(t, []string{checks, `checks: {provenance: "off", signature: require, sbom: "off"}`}, "signed"), 0, "in part", open)
	r := c.ask(t, nil, "signed built")
	want(t, r, 0, "in part")
	if strings.Contains(r.Stdout, open) {
		t.Errorf("an attestation names it:\n%s", r.Stdout)
	}
}
