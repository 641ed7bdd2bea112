package buildrecord_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/buildrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const commit = "94db9bed00000000000000000000000000000000"

// sample is a build and its record, as each service writes it.
type sample struct {
	build buildrecord.Build
	text  string
}

func samples() map[string]sample {
	sum := "sha256:" + strings.Repeat("a", 64)
	return map[string]sample{
		"gcb": {buildrecord.Build{Service: "gcb", Name: "projects/example/locations/global/builds/b-1", Below: "gs://dist/v1/"}, `{"build":{"id":"b-1","name":"projects/7/locations/global/builds/b-1","projectId":"example","status":"SUCCESS","buildTriggerId":"t-1",
			"startTime":"2026-01-02T03:04:05.123Z","finishTime":"2026-01-02T03:14:05Z","substitutions":{"TAG_NAME":"v1.0.0","_FLAVOUR":"dark"},"steps":[{"name":"golang","args":["build"]}],
			"sourceProvenance":{"resolvedGitSource":{"url":"https://git.example.test/lantern.git","revision":"` + commit + `"}},
			"results":{"images":[{"name":"registry.example.test/lantern:v1","digest":"` + sum + `"}],"artifactManifest":"gs://dist/v1/artifacts-b-1.json","numArtifacts":"2",
			"pythonPackages":[{"uri":"lantern.whl","fileHashes":{"fileHash":[{"type":"MD5","value":"AAAA"},{"type":"SHA256","value":"qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqo="}]}}]}},
			"artifacts":[{"location":"gs://dist/v1/lantern#17","file_hash":[{"file_hash":[{"type":1,"value":"qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqo="}]}]},{"location":"gs://dist/v1/weak#17","file_hash":[{"file_hash":[{"type":2,"value":"AAAA"}]}]}]}`},
		"prow": {buildrecord.Build{Service: "prow", Name: "gs://logs/logs/release-lantern/17"}, `{"prowjob":{"metadata":{"name":"u-1"},"spec":{"job":"release-lantern","type":"postsubmit"},
			"status":{"state":"success","build_id":"17","url":"https://prow.example.test/17","startTime":"2026-01-02T03:04:05Z","completionTime":"2026-01-02T03:14:05Z"}},
			"finished":{"timestamp":1767323645,"passed":true,"result":"SUCCESS","metadata":{"lantern":"` + sum + `"}},
			"clones":[{"refs":{"org":"example","repo":"lantern","base_ref":"v1.0.0"},"final_sha":"` + commit + `"}],"listing":[{"name":"lantern"},{"name":"weak"}]}`},
		"github": {buildrecord.Build{Service: "github", Name: "example/lantern/4242"}, `{"run":{"id":4242,"run_attempt":2,"status":"completed","conclusion":"success","head_sha":"` + commit + `","head_branch":"v1.0.0",
			"html_url":"https://github.com/example/lantern/actions/runs/4242","run_started_at":"2026-01-02T03:04:05Z","updated_at":"2026-01-02T03:14:05Z",
			"repository":{"full_name":"example/lantern"},"head_repository":{"full_name":"example/lantern","html_url":"https://github.com/example/lantern"}},
			"artifacts":{"total_count":2,"artifacts":[{"name":"lantern","digest":"` + sum + `","created_at":"2026-01-02T03:10:05Z","workflow_run":{"id":4242}},
			{"name":"weak","digest":null,"created_at":"2026-01-02T03:10:05Z","workflow_run":{"id":4242}}]}}`},
	}
}

// TestParse reads a record of each service, and refuses it with one change.
func TestParse(t *testing.T) {
	rows := []struct {
		service, name, old, new string
		code                    verdict.Code // empty when accepted
	}{
		{"gcb", "as it is", "", "", ""},
		{"gcb", "started by hand", `"buildTriggerId":"t-1",`, "", ""},
		{"gcb", "another project", `"projectId":"example"`, `"projectId":"mallory"`, verdict.BuildMix},
		{"gcb", "another build", `"id":"b-1"`, `"id":"b-2"`, verdict.BuildMix},
		{"gcb", "running", "SUCCESS", "WORKING", verdict.StepFailed},
		{"gcb", "failed", "SUCCESS", "FAILURE", verdict.StepFailed},
		{"gcb", "no end", "finishTime", "other", verdict.StatementParse},
		{"gcb", "fewer artifacts than the build uploaded", `"numArtifacts":"2"`, `"numArtifacts":"3"`, verdict.StatementParse},
		{"gcb", "an uploaded source", "resolvedGitSource", "resolvedStorageSource", verdict.SourceCommit},
		{"gcb", "a commit by the name of its branch", commit, "main", verdict.SourceCommit},
		{"gcb", "a key twice", `"id":"b-1"`, `"id":"b-1","id":"b-1"`, verdict.StatementParse},
		{"prow", "as it is", "", "", ""},
		{"prow", "another job", `"job":"release-lantern"`, `"job":"other"`, verdict.BuildMix},
		{"prow", "another build", `"build_id":"17"`, `"build_id":"16"`, verdict.BuildMix},
		{"prow", "running", `"finished":`, `"other":`, verdict.StepFailed},
		{"prow", "failed", `"passed":true`, `"passed":false`, verdict.StepFailed},
		{"prow", "only a listing", `"metadata":{"lantern"`, `"metadata":{"other"`, "UNATTRIBUTED_OUTPUT"},
		{"prow", "no clone", `"clones":`, `"other":`, verdict.SourceCommit},
		{"github", "as it is", "", "", ""},
		{"github", "another repository", `"repository":{"full_name":"example/lantern"`, `"repository":{"full_name":"mallory/lantern"`, verdict.BuildMix},
		{"github", "another run", `"id":4242,"run_attempt"`, `"id":4241,"run_attempt"`, verdict.BuildMix},
		{"github", "running", `"completed"`, `"in_progress"`, verdict.StepFailed},
		{"github", "failed", `"conclusion":"success"`, `"conclusion":"failure"`, verdict.StepFailed},
		{"github", "artifacts of another run", `"workflow_run":{"id":4242}`, `"workflow_run":{"id":4241}`, verdict.BuildMix},
		{"github", "a page of the artifacts", `"total_count":2`, `"total_count":101`, verdict.StatementParse},
		{"github", "artifacts of an earlier attempt", `"2026-01-02T03:10:05Z"`, `"2026-01-02T02:10:05Z"`, "UNATTRIBUTED_OUTPUT"},
	}
	for _, r := range rows {
		t.Run(r.service+" "+r.name, func(t *testing.T) {
			s := samples()[r.service]
			changed := strings.ReplaceAll(s.text, r.old, r.new)
			if r.old == "" {
				changed = s.text
			} else if changed == s.text {
				t.Fatalf("%s is not in the record", r.old)
			}
			record, err := buildrecord.Parse(s.build, []byte(changed))
			if r.code != "" {
				if err == nil || verdict.FindingOf("", err).Code != r.code {
					t.Errorf("%v, want %s", err, r.code)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			said, err := record.Statement(buildrecord.Observed)
			if err != nil {
				t.Fatal(err)
			}
			claim, err := provenance.Read(said)
			if err != nil {
				t.Fatal(err)
			}
			ref := "refs/tags/v1.0.0"
			if strings.Contains(r.name, "by hand") {
				ref = "" // its tag is what the user wrote
			}
			if claim.Source.Commit != commit || claim.Source.Ref != ref || claim.Run.Finished.Minute() != 14 || claim.Builder.ID != buildrecord.Observed+r.service {
				t.Errorf("read as %+v, %+v of %s", claim.Source, claim.Run, claim.Builder.ID)
			}
			if len(record.Unattributed) != 1 || record.Unattributed[0].Subject != "weak" || record.Unattributed[0].Code != "UNATTRIBUTED_OUTPUT" {
				t.Errorf("unattributed %+v", record.Unattributed)
			}
			names := ""
			for _, one := range said.Subjects() {
				names += one.Name + " "
			}
			if !strings.Contains(names, "lantern ") || strings.Contains(names, "weak") {
				t.Errorf("subjects %s", names)
			}
		})
	}
}

// TestSeenAndTold: what the user configured is an external parameter, and what the
// service found out an internal one, each under the name of its field.
func TestSeenAndTold(t *testing.T) {
	s := samples()["gcb"]
	record, err := buildrecord.Parse(s.build, []byte(s.text))
	if err != nil {
		t.Fatal(err)
	}
	said, err := record.Statement(buildrecord.Recorded)
	if err != nil {
		t.Fatal(err)
	}
	claim, err := provenance.Read(said)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{`told."build.substitutions"._FLAVOUR`: `"dark"`} {
		if got, _ := claim.Parameter(name); string(got) != want {
			t.Errorf("%s is %s", name, got)
		}
	}
	for name, want := range map[string]string{
		`seen."build.status"`: `"SUCCESS"`, "fields.source commit": `"{build.sourceProvenance.resolvedGitSource.revision}"`, "fields.subject lantern": `"artifacts.0.file_hash.0.file_hash"`,
		"unattributed": `["weak"]`,
	} {
		if got, _ := claim.InternalParameter(name); string(got) != want {
			t.Errorf("%s is %s, want %s", name, got, want)
		}
	}
}

// TestToldSource: a commit that only the user's configuration names is told: the
// provenance shows level 1. Each row has its twin in the row before.
func TestToldSource(t *testing.T) {
	const git, uploaded = `"resolvedGitSource":{"url":"https://git.example.test/lantern.git","revision":"` + commit + `"}`,
		`"resolvedStorageSource":{"bucket":"up","object":"src.tgz","generation":"7"},"fileHashes":{"gs://up/src.tgz#7":{"fileHash":[{"type":"SHA256","value":"qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqo="}]}}`
	const told = `"_FLAVOUR":"dark","_GIT_REPOSITORY":"https://git.example.test/lantern","_GIT_COMMIT":"` + commit + `"`
	for _, r := range []struct {
		name, source, substitutions, builder string // no builder: refused
	}{
		{"resolved by git", git, `"_FLAVOUR":"dark"`, buildrecord.Observed},
		{"resolved, and another one told", git, strings.Replace(told, commit, strings.Repeat("0", 40), 1), buildrecord.Observed},
		{"resolved from a connected repository", `"resolvedConnectedRepository":{"repository":"projects/p/locations/l/connections/c/repositories/r","revision":"` + commit + `"}`, told, buildrecord.Observed},
		{"of a connected repository, not resolved", `"resolvedConnectedRepository":{"repository":"projects/p/locations/l/connections/c/repositories/r","revision":"main"}`, told, ""},
		{"uploaded, and told", uploaded, told, buildrecord.Recorded},
		{"uploaded, and the beginning of a commit told", uploaded, strings.Replace(told, commit, commit[:14], 1), ""},
		{"uploaded, and no repository told", uploaded, strings.Replace(told, "_GIT_REPOSITORY", "_OTHER", 1), ""},
		{"uploaded, and nothing told", uploaded, `"_FLAVOUR":"dark"`, ""},
	} {
		t.Run(r.name, func(t *testing.T) {
			s := samples()["gcb"]
			text := strings.NewReplacer(git, r.source, `"_FLAVOUR":"dark"`, r.substitutions, `{"build":{"id"`, `{"repository":{"remoteUri":"https://git.example.test/lantern.git"},"build":{"id"`).Replace(s.text)
			record, err := buildrecord.Parse(s.build, []byte(text))
			if r.builder == "" {
				if err == nil || verdict.FindingOf("", err).Code != verdict.SourceCommit {
					t.Errorf("%v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			said, err := record.Statement(buildrecord.Observed)
			if err != nil {
				t.Fatal(err)
			}
			claim, err := provenance.Read(said)
			if err != nil || claim.Source.Commit != commit || claim.Source.Repository != "git+https://git.example.test/lantern" || claim.Builder.ID != r.builder+"gcb" {
				t.Errorf("%v: %+v by %s", err, claim.Source, claim.Builder.ID)
			}
			if archive := claim.Dependencies[len(claim.Dependencies)-1]; r.source == uploaded && (archive.URI != "gs://up/src.tgz#7" || archive.Digest["sha256"] != strings.Repeat("a", 64)) {
				t.Errorf("the archive is %+v", archive)
			}
		})
	}
}

// TestEveryPrefixIsRefused: a truncated record is no record.
func TestEveryPrefixIsRefused(t *testing.T) {
	for name, s := range samples() {
		for n := range len(s.text) {
			if _, err := buildrecord.Parse(s.build, []byte(s.text[:n])); err == nil || verdict.FindingOf("", err).Code != verdict.StatementParse {
				t.Fatalf("%s: %d bytes: %v", name, n, err)
			}
		}
	}
}

func TestMostLevel(t *testing.T) {
	for _, r := range []struct {
		builder, buildType string
		want               int
	}{
		{buildrecord.Observed + "gcb", "", 2}, {buildrecord.Recorded + "gcb", buildrecord.BuildType, 1},
		{provenance.BuilderIsolated, buildrecord.BuildType, 2}, {provenance.BuilderIsolated, provenance.BuildType, 4},
	} {
		if got := buildrecord.MostLevel(r.builder, r.buildType); got != r.want {
			t.Errorf("%s, %s: %d, want %d", r.builder, r.buildType, got, r.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for name, s := range samples() {
		f.Add(name, s.text)
	}
	f.Fuzz(func(t *testing.T, service, text string) {
		record, err := buildrecord.Parse(buildrecord.Build{Service: service, Name: samples()[service].build.Name}, []byte(text))
		if err == nil && !json.Valid([]byte(text)) {
			t.Fatal("no JSON was read")
		}
		if err == nil {
			_, _ = record.Statement(buildrecord.Observed)
		}
	})
}
