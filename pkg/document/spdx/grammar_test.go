package spdx_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestLicenceList: licences are on the list of SPDX whatever their case, or
// references; and so are exceptions.
func TestLicenceList(t *testing.T) {
	for _, s := range []string{
		"MIT", "mit", "Apache-2.0", "0BSD", "ZPL-2.1", "GPL-2.0", "GPL-2.0+", "GPL-2.0-only", "Apache-1.1+", "LicenseRef-mine", "DocumentRef-x:LicenseRef-y",
		"(MIT AND BSD-3-Clause) OR GPL-2.0-or-later WITH Classpath-exception-2.0", "Apache-2.0 WITH llvm-exception", "NONE", "NOASSERTION", "zlib-acknowledgement",
	} {
		if !spdx.IsLicence(s) {
			t.Errorf("%q is a licence", s)
		}
	}
	for _, s := range []string{
		"GPL2", "BSD", "MITT", "MI", "0", "zzz", "A", "MIT AND BSD AND GPL2+", "MIT WITH no-such-exception", "MIT WITH MIT", "NOASSERTION AND MIT", "mine", "",
		"LicenseRef", "MIT\nBSD-3-Clause",
	} {
		if spdx.IsLicence(s) {
			t.Errorf("%q is no licence", s)
		}
	}
}

// TestGrammar: what a schema takes for a text and the specification does not is
// a finding with its place, and no reason not to read the document.
func TestGrammar(t *testing.T) {
	plain := draft()
	plain.Packages[0].Verification = spdx.VerificationCode(plain.Files)
	good := string(encode(t, plain))
	const location, name, file = `"downloadLocation": "NOASSERTION"`, `"name": "example.org/m"`, `"fileName": "./lantern"`
	const declared = `"licenseDeclared": "NOASSERTION"`
	type row struct {
		old, made string
		rule      spdx.Rule
		place     string
	}
	var rows []row
	for _, fine := range []string{
		"NONE", "https://example.org/a.tar.gz", "git+https://git.example.org/lantern.git@v0.1.0#cmd", "git://git.example.org/lantern", "git+ssh://git@example.org/lantern",
		"hg+file:///home/lantern", "urn:example:lantern", "pkg:golang/example.org/m@v1.0.0",
		"git+git@git.example.org:lantern", "bzr+lp:lantern", "example.org/a.tar.gz", "registry.example.org:5000/lantern@sha256:00",
	} {
		rows = append(rows, row{location, `"downloadLocation": "` + fine + `"`, "", ""})
	}
	for _, odd := range []string{"lantern/a.tar.gz", "example.org/a b", "git+git@example.org/lantern", "git@example.org:lantern.git", "https://", "to be done: later", "C:/a b", `https://example.org/\\..`, "git+https:lantern", "://x", "https://example.org/\u00e9"} {
		rows = append(rows, row{location, `"downloadLocation": "` + odd + `"`, "reference", "packages[0].downloadLocation"})
	}
	rows = append(rows,
		row{name, `"name": "example.org/m\u00e9"`, "", ""},
		row{name, `"name": "example.org/m\u001b[2J"`, "name", "packages[1]"},
		row{name, `"name": "example.org/\u202em"`, "name", "packages[1]"},
		row{name, `"name": "example.org/m\n"`, "name", "packages[1]"},
		row{file, `"fileName": "./lan\u0007tern"`, "name", "files[0]"},
		row{`"name": "lantern.tar.gz"`, `"name": "lantern\u0001"`, "name", "name"},
		row{declared, `"licenseDeclared": "MIT"`, "", ""},
		row{declared, `"licenseDeclared": "MIT AND GPL2"`, "licence list", "packages[0].licenseDeclared"},
		row{declared, `"licenseDeclared": "MIT WITH luck"`, "licence list", "packages[0].licenseDeclared"},
		row{declared, `"licenseDeclared": "LicenseRef-own"`, "", ""},
	)
	for _, r := range rows {
		bad := strings.Replace(good, r.old, r.made, 1)
		if bad == good {
			t.Fatalf("the row %s changes nothing in\n%s", r.made, good)
		}
		doc, report := spdx.Validate(bad)
		if doc.IsZero() {
			t.Errorf("%s: it is not read: %v", r.made, report.Faults)
		}
		found := r.rule == "" && len(report.Faults) == 0
		for _, f := range report.Faults {
			found = found || f.Rule == r.rule && f.Place == r.place && f.Code() == verdict.SBOMInvalid
		}
		if !found {
			t.Errorf("%s: want %q at %q, got %+v", r.made, r.rule, r.place, report.Faults)
		}
	}
}
