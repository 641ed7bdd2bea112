package attacks

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/test/lab"
)

// TestReportOfARelease: --report answers every requirement and changes neither
// the decision nor the verdict; waybill report shows a saved verdict again, with
// its exit status, and says that nothing was verified.
func TestReportOfARelease(t *testing.T) {
	accepted(t, commands())
	r := theWorld(t).leveled(t)
	path := func(name string) string { return filepath.Join(r.dir, name) }
	accepted(t, os.WriteFile(path("good.json"), r.summary(t, lab.RoleVerifier), 0o644))
	at := r.asked(t)
	accepted(t, os.WriteFile(path("policy.yaml"), []byte(r.text), 0o644))
	says := func(exit int, line string, words ...string) string {
		t.Helper()
		got := r.Run(t.Context(), strings.Fields(line)...)
		if got.Code != exit {
			t.Errorf("%s: status %d, want %d", got, got.Code, exit)
		}
		said := strings.Join(strings.Fields(got.Stdout+got.Stderr), " ")
		for _, w := range words {
			if !strings.Contains(said, w) {
				t.Errorf("%q is not in what %s says:\n%s", w, line, got.Stdout+got.Stderr)
			}
		}
		return got.Stdout
	}
	release := "waybill verify release " + at.Version + " --profile " + at.Profile
	with := release + " --source-vsa " + path("good.json")

	table := says(0, with+" --report kep-3027 --output table --output json="+path("saved.json"), "LEVEL 3, specific threats are resisted: reached met source.verified-history",
		`declared source.retained: The source is retained for 18 months declared by "SIG Release" until 2099-06-30`, "LEVEL 4, the highest confidence: not reached",
		"not met build.hermetic", "KEP-3027 level 3 of 4 for 7 artifacts, limited by "+binary+"; level 4 lacks")
	if !strings.HasPrefix(table, "OK lantern v0.1.0: ") {
		t.Errorf("the first line is not the answer:\n%s", table)
	}
	says(0, release+" --report kep-3027", "not shown source.verified-history: Every change has an authenticated actor missing: a verification summary", "KEP-3027 level 2 of 4")
	says(1, release+" --report kep-3027 --require-level kep-3027=3", "REFUSED", "LEVEL 3, specific threats are resisted: not reached", "source.verified-history")
	says(0, with+" --report slsa-build --output html", "Level 3, a platform that resists its own users: reached")
	says(0, strings.Replace(with, "waybill verify release", "k8s-verify-release", 1)+" --report slsa-source --output markdown", "SLSA Source level 3 of 4")
	says(0, strings.Replace(with, "verify release", "gate check", 1)+" --report slsa-source", "SLSA Source level 3 of 4")
	one := "waybill gate file " + path(at.Version+"/"+binary) + " --policy " + path("policy.yaml") + " --trusted-root " + r.Path("trusted_root.json") + " --name " + binary +
		" --bundle " + path(at.Version+"/"+compiled) + " --bundle " + path(at.Version+"/"+plan.BundleName(binary)) + " --sbom " + path(at.Version+"/"+plan.SBOMName(binary)) + " --release-version " + at.Version
	says(0, one+" --report kep-3027", "KEP-3027 level 2 of 4 for 1 artifact; level ")
	says(0, one+" --source-vsa "+path("good.json")+" --report kep-3027", "KEP-3027 level 3 of 4 for 1 artifact; level ")

	time := regexp.MustCompile(`"time": "[^"]*"`)
	json := time.ReplaceAllString(says(0, with+" --output json"), "")
	if saved := time.ReplaceAllString(string(must[[]byte](t)(os.ReadFile(path("saved.json")))), ""); saved != json {
		t.Errorf("--report changes the verdict:\n%s\n%s", saved, json)
	}
	if n := strings.Count(json, `"subject": "`+binary+`"`); strings.Count(json, `"title":`) != 43 || n == 0 {
		t.Errorf("a row for each requirement of three tracks, and no more: %d\n%s", strings.Count(json, `"title":`), json)
	}
	for _, wrong := range []string{" --report poem", " --report kep-3027 --depth files", " --report kep-3027 --depth signatures"} {
		says(2, release+wrong, "USAGE", "--report")
	}

	if again := says(0, "waybill report "+path("saved.json")+" --report kep-3027"); !strings.HasPrefix(again, "SAVED VERDICT of ") || !strings.HasSuffix(again, table) {
		t.Errorf("read again it is another:\n%s", again)
	}
	says(0, "waybill report "+path("saved.json"), "nothing was verified now", "OK ")
	says(1, release+" --require-level kep-3027=3 --output json="+path("refused.json"))
	says(1, "waybill report "+path("refused.json")+" --report kep-3027", "SAVED VERDICT", "REFUSED", "KEP-3027 level 2 of 4")
	says(0, release+" --depth files --output json="+path("files.json"))
	says(0, "waybill report "+path("files.json"), "in part")
	says(2, "waybill report "+path("files.json")+" --report kep-3027", "USAGE", "no level was computed")
	says(2, "waybill report "+path("policy.yaml"), "CONFIG", "JSON")
	says(2, "waybill report "+path("absent.json"), "USAGE")
}
