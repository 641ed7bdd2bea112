package osps_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/osps"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// released is a verdict that meets every control which evidence can decide.
func released() verdict.Verdict {
	d := digest.Of(digest.SHA256, []byte("x"))
	v := verdict.New("release lantern v0.1.0", time.Now())
	v.Subject = "lantern v0.1.0"
	v.Scope.Checks = []string{"manifest", "sboms"}
	v.Proofs = []verdict.Proof{{Subject: "manifest", Role: "release", Statement: "https://github.com/waybill-release/waybill/attestations/release-manifest/v1", Bundle: d}}
	for name, class := range map[string]string{
		"bin/lantern": "binary", "bin/lantern.spdx.json": "sbom", "oci/lantern": "image", "image/lantern.spdx.json": "sbom",
		"CHANGELOG.md": "file", "LICENSE": "file", "VERIFY.md": "file",
	} {
		v.Objects = append(v.Objects, verdict.Object{Name: name, Class: class, Digest: d, Verified: true})
		v.Counts.Required++
		v.Counts.Verified++
	}
	v.VEX = []verdict.VEX{{Vulnerability: "CVE-2026-1", Status: "not_affected", Signer: "vex@example.test", Bundle: d}}
	for track, ids := range map[string][]string{"build": {"build.unforgeable", "build.isolated"}, "v0.1": {"provenance.dependencies"}, "source": {"source.level-2", "source.level-4"}} {
		l := verdict.Levels{Track: track, Artifacts: 1}
		for _, id := range ids {
			l.Requirements = append(l.Requirements, verdict.Requirement{ID: id, State: "met", Evidence: []digest.Digest{d}})
		}
		v.Levels = append(v.Levels, l)
	}
	return *v
}

func state(t *testing.T, v verdict.Verdict, id string) verdict.Requirement {
	t.Helper()
	on := osps.Of(v)
	i := slices.IndexFunc(on.Requirements, func(r verdict.Requirement) bool { return r.ID == id })
	if i < 0 {
		t.Fatalf("no control %s", id)
	}
	return on.Requirements[i]
}

// without removes the objects of a name.
func without(name string) func(*verdict.Verdict) {
	return func(v *verdict.Verdict) {
		v.Objects = slices.DeleteFunc(v.Objects, func(o verdict.Object) bool { return o.Name == name })
	}
}

// reclass changes the class of an object.
func reclass(name, class string) func(*verdict.Verdict) {
	return func(v *verdict.Verdict) {
		for i := range v.Objects {
			if v.Objects[i].Name == name {
				v.Objects[i].Class = class
			}
		}
	}
}

// answered replaces the state of a requirement.
func answered(id, state string) func(*verdict.Verdict) {
	return func(v *verdict.Verdict) {
		for _, l := range v.Levels {
			for i := range l.Requirements {
				if l.Requirements[i].ID == id {
					l.Requirements[i].State = state
				}
			}
		}
	}
}

func found(code verdict.Code) func(*verdict.Verdict) {
	return func(v *verdict.Verdict) { v.Add(verdict.Find(code, "bin/lantern", "planted")) }
}

// warned and waived leave a finding out of the refusals.
func warned(code verdict.Code) func(*verdict.Verdict) {
	return func(v *verdict.Verdict) {
		v.Warnings = append(v.Warnings, verdict.Find(code, "bin/lantern", "planted"))
	}
}

func waived(code verdict.Code) func(*verdict.Verdict) {
	return func(v *verdict.Verdict) {
		v.Waived = append(v.Waived, verdict.Waiver{Finding: verdict.Find(code, "bin/lantern", "planted")})
	}
}

// TestControls: each control that evidence decides is met by one release, and not
// by another that differs in one fact.
func TestControls(t *testing.T) {
	unsigned := func(v *verdict.Verdict) { v.Proofs = nil }
	part := func(v *verdict.Verdict) { v.Scope.Left = []string{"images"} }
	for _, c := range []struct {
		id     string
		change func(*verdict.Verdict)
		state  string
	}{
		{"OSPS-BR-01.03", answered("build.isolated", "not met"), osps.NotMet},
		{"OSPS-BR-01.03", answered("build.unforgeable", "not shown"), osps.NotEvidenced},
		{"OSPS-BR-01.03", func(v *verdict.Verdict) { v.Levels = nil }, osps.NotEvidenced},
		{"OSPS-BR-02.01", found(verdict.Equivocation), osps.NotMet},
		{"OSPS-BR-02.01", unsigned, osps.NotEvidenced},
		{"OSPS-BR-02.02", found(verdict.Extra), osps.NotMet},
		{"OSPS-BR-02.02", found(verdict.Missing), osps.NotMet},
		{"OSPS-BR-02.02", part, osps.NotEvidenced},
		{"OSPS-BR-02.02", found(verdict.PlaceDown), osps.NotEvidenced},
		{"OSPS-BR-02.02", warned(verdict.Extra), osps.NotMet},
		{"OSPS-BR-02.02", waived(verdict.Extra), osps.NotMet},
		{"OSPS-BR-02.02", waived(verdict.SBOMIncomplete), osps.Met},
		{"OSPS-BR-06.01", waived(verdict.Missing), osps.NotMet},
		{"OSPS-BR-06.01", warned(verdict.NoSBOM), osps.Met},
		{"OSPS-BR-04.01", unsigned, osps.NotEvidenced},
		{"OSPS-LE-03.02", reclass("LICENSE", "binary"), osps.NotEvidenced},
		{"OSPS-QA-02.02", found(verdict.SBOMIncomplete), osps.NotMet},
		{"OSPS-QA-02.02", warned(verdict.Conflict), osps.NotMet},
		{"OSPS-QA-02.02", waived(verdict.SBOMSubject), osps.NotMet},
		{"OSPS-QA-02.02", waived(verdict.Unsigned), osps.Met},
		{"OSPS-BR-04.01", without("CHANGELOG.md"), osps.NotMet},
		{"OSPS-BR-04.01", func(v *verdict.Verdict) { without("CHANGELOG.md")(v); part(v) }, osps.NotEvidenced},
		{"OSPS-BR-05.01", answered("provenance.dependencies", "not met"), osps.NotMet},
		{"OSPS-BR-06.01", found(verdict.Tampered), osps.NotMet},
		{"OSPS-BR-06.01", unsigned, osps.NotEvidenced},
		{"OSPS-DO-03.01", without("VERIFY.md"), osps.NotEvidenced},
		{"OSPS-LE-03.02", without("LICENSE"), osps.NotEvidenced},
		{"OSPS-QA-01.02", answered("source.level-2", "not shown"), osps.NotEvidenced},
		{"OSPS-QA-02.02", without("bin/lantern.spdx.json"), osps.NotMet},
		{"OSPS-QA-02.02", without("image/lantern.spdx.json"), osps.NotMet},
		{"OSPS-QA-02.02", func(v *verdict.Verdict) { v.Scope.Checks = []string{"manifest"} }, osps.NotEvidenced},
		{"OSPS-QA-07.01", answered("source.level-4", "not met"), osps.NotMet},
		{"OSPS-VM-04.02", func(v *verdict.Verdict) { v.VEX = nil }, osps.NotEvidenced},
		{"OSPS-VM-04.02", func(v *verdict.Verdict) { v.VEX[0].Superseded = true }, osps.NotEvidenced},
		{"OSPS-VM-04.02", func(v *verdict.Verdict) { v.VEX[0].Status = "affected" }, osps.NotEvidenced},
		{"OSPS-VM-04.02", found("VEX_SUPERSEDED"), osps.NotMet},
	} {
		if r := state(t, released(), c.id); r.State != osps.Met || len(r.Evidence) == 0 || r.Met != 1 {
			t.Errorf("%s of a whole release: %+v", c.id, r)
		}
		v := released()
		c.change(&v)
		if r := state(t, v, c.id); r.State != c.state || r.Why == "" {
			t.Errorf("%s: %s (%s), want %s", c.id, r.State, r.Why, c.state)
		}
	}
}

// TestWhyNotMet: a control that a finding decides says which one.
func TestWhyNotMet(t *testing.T) {
	v := released()
	found(verdict.Extra)(&v)
	if r := state(t, v, "OSPS-BR-02.02"); r.Why != `EXTRA "bin/lantern": planted` {
		t.Errorf("%q", r.Why)
	}
}

// TestDeclaredControl: a declaration answers what evidence does not decide, and
// replaces no decision.
func TestDeclaredControl(t *testing.T) {
	v := released()
	without("CHANGELOG.md")(&v)
	on := verdict.Levels{Track: osps.Track, Artifacts: 1}
	for _, id := range []string{"OSPS-GV-03.01", "OSPS-BR-04.01", "OSPS-BR-06.01"} {
		on.Requirements = append(on.Requirements, verdict.Requirement{ID: id, State: "declared", Why: "declared", DeclaredBy: "the board", Until: "2027-01-01T00:00:00Z"})
	}
	on.Requirements = append(on.Requirements, verdict.Requirement{ID: "OSPS-GV-02.01", State: "not shown", Why: "it ended"})
	v.Levels = append(v.Levels, on)
	for id, want := range map[string]string{"OSPS-GV-03.01": osps.Declared, "OSPS-BR-04.01": osps.NotMet, "OSPS-BR-06.01": osps.Met, "OSPS-GV-02.01": osps.Outside} {
		if r := state(t, v, id); r.State != want || (r.DeclaredBy != "") != (want == osps.Declared) {
			t.Errorf("%s: %+v, want %s", id, r, want)
		}
	}
	if r := state(t, v, "OSPS-GV-02.01"); r.Why != "it ended" {
		t.Errorf("why a declaration does not count is not said: %q", r.Why)
	}
}

// TestEveryControl: the list has the controls of three levels, each once, and no
// text claims more than it knows.
func TestEveryControl(t *testing.T) {
	on := osps.Of(released())
	seen := map[string]bool{}
	for _, r := range on.Requirements {
		if seen[r.ID] || !osps.Names(r.ID) || r.Level < 1 || r.Level > osps.Most || r.Title == "" || strings.Contains(strings.ToLower(r.Why+r.Title), "complian") {
			t.Errorf("%+v", r)
		}
		seen[r.ID] = true
	}
	if n := osps.Count(on, 0); len(on.Requirements) != 64 || n[osps.Met] != 12 || n[osps.Outside] != 52 || osps.Count(on, 1)[osps.Met] != 3 {
		t.Errorf("%d controls: %v", len(on.Requirements), n)
	}
	if osps.Names("OSPS-XX-01.01") || osps.Names("") {
		t.Error("an unknown control is known")
	}
}
