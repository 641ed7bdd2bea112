package stories

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/buildrecord"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/lab/builds"
	"github.com/waybill-release/waybill/test/lab/staging"
	"github.com/waybill-release/waybill/test/scene"
)

// The observer of a service, and who signs what was saved in a file.
const (
	theObserver = "observer@lantern.test"
	theRecorder = "recorder@lantern.test"
)

// observatory is a project whose dist/ a build service made, and whose
// policy names the observers of all services.
type observatory struct {
	*desk
	server *builds.Server
	made   toolmade
	build  builds.Build
	below  string // the directory of the outputs, below that of uploads
}

// observed opens a project. Only the archives need provenance.
func observed(t *testing.T) observatory {
	t.Helper()
	o := observatory{desk: &desk{&workshop{Scene: open(t)}}, made: goreleaserMade()}
	o.layProven(t, o.made)
	archives := staging.Files{}
	for name, body := range o.made.files {
		if strings.HasSuffix(name, ".tar.gz") || strings.HasSuffix(name, ".zip") {
			archives[name] = body
		}
	}
	o.serve(t, archives)
	return o
}

// serve records a build of the tagged commit, and names the observers in the policy.
func (o *observatory) serve(t *testing.T, files staging.Files) {
	t.Helper()
	o.server = builds.New(o.Lab.Bucket)
	t.Cleanup(o.server.Close)
	o.build = builds.Build{Owner: "example", ID: "17", Repository: o.Repository(), Tag: tookOver, Commit: o.commit(t), Files: files, Listed: []string{"helper"}}
	for _, who := range []string{theObserver, theRecorder} {
		o.write(t, strings.Split(who, "@")[0]+".token", []byte(o.Lab.Token(who)))
	}
	var list strings.Builder
	for _, service := range []string{"gcb", "prow", "github"} {
		for prefix, who := range map[string]string{buildrecord.Observed: service + "-" + theObserver, buildrecord.Recorded: service + "-" + theRecorder} {
			fmt.Fprintf(&list, "- {id: %q, level: %d, signers: [%s]}\n", prefix+service, buildrecord.MostLevel(prefix, ""), o.signer(who))
		}
	}
	edit(t, o.Path("policy.yaml"), "builders:\n", "builders:\n"+list.String())
}

// signer is an identity of the lab as a policy lists it.
func (o observatory) signer(who string) string {
	issuer, subject := o.Lab.Identity(who)
	return fmt.Sprintf("{issuer: %q, subject: %q, type: email}", issuer, subject)
}

// observe runs the command as an identity of the lab.
func (o observatory) observe(t *testing.T, who, service, name string, more ...string) scene.Result {
	t.Helper()
	o.write(t, "observer.token", []byte(o.Lab.Token(who)))
	_ = os.Remove(o.Path("dist", theirBundle)) // nothing is overwritten
	args := []string{"waybill", "observe", service, name, "--below", "gs://staging/dist/" + o.below, "--profile", "profile.yaml", "--identity-token", "observer=observer.token",
		"--to", path.Join("dist", theirBundle), "--confirm"}
	return o.Run(t.Context(), append(args, more...)...)
}

// record records the build at a service.
func (o observatory) record(t *testing.T, service string, b builds.Build) string {
	t.Helper()
	var name string
	var err error
	switch service {
	case "gcb":
		name, err = o.server.CloudBuild(b, nil)
	case "prow":
		b.Owner = "release-lantern"
		name, err = o.server.Prow(b, nil)
	default:
		b.Owner = "example/lantern"
		name = o.server.GitHub(b, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// TestObserve: what each service recorded of a build takes a dist/ to Build level 2,
// through seal, promotion and verification.
func TestObserve(t *testing.T) {
	o := observed(t)
	for _, service := range []string{"gcb", "prow", "github"} {
		t.Run(service, func(t *testing.T) {
			name := o.record(t, service, o.build)
			want(t, o.observe(t, service+"-"+theObserver, service, name), 0, "UNATTRIBUTED_OUTPUT helper", "read back and verified")
			want(t, o.sealsFrom(t, o.made, "release", "dist", "from-"+service, "--confirm"), 0, "and verified: SLSA Build Level 2 for 4 artifacts")
		})
	}
	run := func(args ...string) scene.Result {
		return o.Run(t.Context(), append(args, "--profile", "profile.yaml")...)
	}
	want(t, run("waybill", "promote", tookOver, "--state", "from-gcb", "--to", "staging", "--confirm"), 0)
	want(t, run("waybill", "release", tookOver, "--state", "from-gcb", "--confirm"), 0, "Build level 2 of 3 for the artifacts with provenance from another tool")
	want(t, run("k8s-verify-release", tookOver), 0, "Build level 2 of 3")
}

// TestObserveLevels: the same dist/ at level 1 by a saved record, at level 2 by
// what the service answers, and at level 3 by the provenance of a builder; it has
// an SBOM that was made of its bytes.
func TestObserveLevels(t *testing.T) {
	o := observed(t)
	edit(t, o.Path("lantern", "release.yaml"), `from: "lantern_{os}_{arch}_v1/lantern{exe}"}`, `from: "lantern_{os}_{arch}_v1/lantern{exe}", evidence: [sbom]}`)
	tag(t, o.Scene, tookOver)
	o.build.Commit = o.commit(t)
	name := o.record(t, "gcb", o.build)
	o.write(t, "record.json", o.saved(t))
	want(t, o.observe(t, "gcb-"+theRecorder, "gcb", name, "--record", "record.json"), 0, "read back and verified")
	want(t, o.sealsFrom(t, o.made, "release", "dist", "one", "--confirm"), 0, "SLSA Build Level 1 for 4 artifacts")
	want(t, o.observe(t, "gcb-"+theObserver, "gcb", name, "--record", "record.json"), 1, "BUILDER")
	want(t, o.observe(t, "gcb-"+theObserver, "gcb", name), 0)
	want(t, o.sealsFrom(t, o.made, "release", "dist", "two", "--confirm"), 0, "SLSA Build Level 2 for 4 artifacts")
	edit(t, o.Path("policy.yaml"), "- id: "+theirBuilder+"\n  level: 2", "- id: "+theirBuilder+"\n  level: 3")
	raw, err := o.Sign(t.Context(), theirSigner, theirs{theirBuilder, o.Repository(), o.build.Commit, o.made.files}.statement())
	if err != nil {
		t.Fatal(err)
	}
	o.write(t, path.Join("dist", theirBundle), raw)
	want(t, o.sealsFrom(t, o.made, "release", "dist", "three", "--confirm"), 0, "SLSA Build Level 3 for 4 artifacts")
	if made := string(o.read(t, "three/files/bin/linux/amd64/lantern.spdx.json")); !strings.Contains(made, `"spdxVersion"`) {
		t.Errorf("no SBOM was made:\n%s", made)
	}
}

// TestObserveKrel: what krel stages, at level 1 where it submits an uploaded source
// and tells the commit, at level 2 where Cloud Build resolves the commit, and at
// level 3 by the provenance of a builder. SBOMs are made of the bytes.
func TestObserveKrel(t *testing.T) {
	const stage = tookOver + "/gcs-stage/" + tookOver + "/"
	names := []string{"kubernetes-server-linux-amd64.tar.gz", "bin/linux/amd64/kubelet", "bin/linux/amd64/kubeadm"}
	o := observatory{desk: &desk{&workshop{Scene: open(t)}}, made: toolmade{files: staging.Files{"src.tar.gz": []byte("the source")}}, below: stage}
	all, uploaded, released := staging.Krel(tookOver, ""), staging.Files{}, staging.Files{}
	for _, name := range names {
		released[name], uploaded[stage+name], o.made.files[stage+name] = all[stage+name], all[stage+name], all[stage+name]
	}
	if err := o.made.files.Write(o.Path("dist")); err != nil {
		t.Fatal(err)
	}
	rewrite(t, o.Path("lantern", "release.yaml"), fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Release
name: kubernetes
source: {repository: %[1]q}
outputs:
- {class: archive, each: {platform: [linux/amd64]}, name: "kubernetes-server-{os}-{arch}.tar.gz", from: "{version}/gcs-stage/{version}/kubernetes-server-{os}-{arch}.tar.gz", provenance: %[2]s, evidence: [sbom]}
- {class: binary, each: {platform: [linux/amd64], bin: [kubelet, kubeadm]}, name: "bin/{os}/{arch}/{bin}", from: "{version}/gcs-stage/{version}/bin/{os}/{arch}/{bin}", provenance: %[2]s, evidence: [sbom]}
outside: [src.tar.gz]
places: {files: "https://dl.example.test/lantern/{version}/"}
`, o.Repository(), theirBundle))
	tag(t, o.Scene, tookOver)
	o.serve(t, uploaded)
	issuer, subject := o.Lab.Identity(theirSigner)
	edit(t, o.Path("policy.yaml"), "builders:\n", fmt.Sprintf("builders:\n- {id: %q, level: 3, signers: [{issuer: %q, subject: %q, type: email}]}\n", theirBuilder, issuer, subject))
	recorded := func(source, substitutions builds.Object) string {
		name, err := o.server.CloudBuild(o.build, func(b builds.Object) { b["sourceProvenance"], b["substitutions"] = source, substitutions })
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	observe := func(who, name string) scene.Result {
		return o.observe(t, who, "gcb", name)
	}
	seals := func(state string) scene.Result { return o.sealsFrom(t, o.made, "release", "dist", state, "--confirm") }
	const connected = "projects/example/locations/l/connections/c/repositories/lantern"
	o.server.Answer("/v2/"+connected, fmt.Appendf(nil, `{"name":%q,"remoteUri":%q}`, connected, o.Repository()))
	storage := builds.Object{"resolvedStorageSource": builds.Object{"bucket": "example_cloudbuild", "object": "source/1.tgz", "generation": "7"}}
	told := func(commit string) builds.Object {
		return builds.Object{"_KUBERNETES_VERSION_TAG": "1.33.5", "_GIT_REPOSITORY": o.Repository(), "_GIT_COMMIT": commit}
	}
	resolved := builds.Object{"resolvedConnectedRepository": builds.Object{"repository": connected, "revision": o.build.Commit}}

	t.Run("no commit is told", func(t *testing.T) {
		want(t, observe("gcb-"+theRecorder, recorded(storage, builds.Object{"_BUILDVERSION": "v1.33.5+" + o.build.Commit[:14]})), 1, "SOURCE_COMMIT")
	})
	t.Run("a told commit by the observer of what services resolve", func(t *testing.T) {
		want(t, observe("gcb-"+theObserver, recorded(storage, told(o.build.Commit))), 1, "BUILDER")
	})
	t.Run("another commit is told", func(t *testing.T) {
		want(t, observe("gcb-"+theRecorder, recorded(storage, told(strings.Repeat("0", 40)))), 0)
		want(t, seals("other"), 1, "SOURCE_COMMIT")
	})
	t.Run("level 1", func(t *testing.T) {
		want(t, observe("gcb-"+theRecorder, recorded(storage, told(o.build.Commit))), 0, "the service resolved no commit", "read back and verified")
		want(t, seals("one"), 0, "SLSA Build Level 1 for 3 artifacts")
	})
	t.Run("level 2, of a connected repository", func(t *testing.T) {
		want(t, observe("gcb-"+theObserver, recorded(resolved, builds.Object{})), 0, "read back and verified")
		want(t, seals("two"), 0, "SLSA Build Level 2 for 3 artifacts")
	})
	t.Run("a connected repository of another project", func(t *testing.T) {
		o.server.Answer("/v2/"+connected, fmt.Appendf(nil, `{"name":%q,"remoteUri":"https://git.evil.example/lantern"}`, connected))
		want(t, observe("gcb-"+theObserver, recorded(resolved, builds.Object{})), 1, "SOURCE_REPOSITORY")
	})
	t.Run("level 3", func(t *testing.T) {
		raw, err := o.Sign(t.Context(), theirSigner, theirs{theirBuilder, o.Repository(), o.build.Commit, released}.statement())
		if err != nil {
			t.Fatal(err)
		}
		o.write(t, path.Join("dist", theirBundle), raw)
		want(t, seals("three"), 0, "SLSA Build Level 3 for 3 artifacts")
	})
	for state, level := range map[string]int{"one": 1, "two": 2} {
		t.Run(fmt.Sprintf("level %d is verified", level), func(t *testing.T) {
			places := strings.NewReplacer("/staging/lantern/", "/staging/"+state+"/", "/release/lantern/", "/release/"+state+"/")
			o.write(t, state+".yaml", []byte(places.Replace(string(o.read(t, "profile.yaml")))))
			run := func(args ...string) scene.Result {
				return o.Run(t.Context(), append(args, "--profile", state+".yaml")...)
			}
			want(t, run("waybill", "promote", tookOver, "--state", state, "--to", "staging", "--confirm"), 0)
			want(t, run("waybill", "release", tookOver, "--state", state, "--confirm"), 0)
			want(t, run("k8s-verify-release", tookOver, "--require-level", fmt.Sprintf("build=%d", level)), 0)
			want(t, run("k8s-verify-release", tookOver, "--require-level", fmt.Sprintf("build=%d", level+1)), 1, "LEVEL")
		})
	}
}

// saved is the record of the build as a person would put it together.
func (o observatory) saved(t *testing.T) []byte {
	t.Helper()
	var list []builds.Object
	for name, body := range o.build.Files {
		list = append(list, builds.Object{"name": name, "digest": sum(string(body)).String()})
	}
	raw, err := json.Marshal(builds.Object{"build": builds.Object{
		"id": o.build.ID, "name": "projects/1/locations/global/builds/17", "projectId": o.build.Owner, "status": "SUCCESS", "startTime": "2026-01-02T03:04:05Z", "finishTime": "2026-01-02T03:14:05Z",
		"substitutions": builds.Object{"TAG_NAME": tookOver}, "sourceProvenance": builds.Object{"resolvedGitSource": builds.Object{"url": o.build.Repository, "revision": o.build.Commit}},
		"results": builds.Object{"images": list},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestObserveAttacks changes one fact of what a service recorded; the record of
// the build itself, unchanged, passes in TestObserve.
func TestObserveAttacks(t *testing.T) {
	o := observed(t)
	signer := "gcb-" + theObserver
	recorded := func(change func(builds.Object)) string {
		name, err := o.server.CloudBuild(o.build, change)
		if err != nil {
			t.Fatal(err)
		}
		return name
	}
	set := func(key string, value any) func(builds.Object) { return func(b builds.Object) { b[key] = value } }
	for _, r := range []struct {
		name   string
		change func(builds.Object)
		code   string
	}{
		{"a build that failed", set("status", "FAILURE"), "STEP_FAILED"},
		{"a build that is running", set("status", "WORKING"), "STEP_FAILED"},
		{"another tenant's project", set("projectId", "mallory"), "BUILD_MIX"},
		{"another build", set("id", "16"), "BUILD_MIX"},
		{"fewer artifacts than the build uploaded", set("results", builds.Object{"artifactManifest": "gs://staging/records/artifacts-17.json", "numArtifacts": "9"}), "PAYLOAD_PARSE"},
		{"an uploaded source", set("sourceProvenance", builds.Object{}), "SOURCE_COMMIT"},
		{"a commit of another repository", set("sourceProvenance", builds.Object{"resolvedGitSource": builds.Object{"url": "https://git.evil.example/lantern", "revision": o.build.Commit}}), "SOURCE_REPOSITORY"},
	} {
		t.Run(r.name, func(t *testing.T) {
			want(t, o.observe(t, signer, "gcb", recorded(r.change)), 1, r.code)
			o.absent(t, path.Join("dist", theirBundle))
		})
	}
	name := recorded(nil)
	t.Run("truncated", func(t *testing.T) {
		o.server.Answer("/v1/"+strings.TrimPrefix(name, o.server.URL+"/"), []byte(`{"id":"17","projectId":"exam`))
		want(t, o.observe(t, signer, "gcb", name), 1, "PAYLOAD_PARSE")
	})
	t.Run("no such build", func(t *testing.T) {
		want(t, o.observe(t, signer, "gcb", strings.Replace(name, "/17", "/18", 1)), 1, "MISSING")
	})
	t.Run("only a listing", func(t *testing.T) {
		listed := o.build
		listed.Files, listed.Listed = nil, []string{"lantern_0.2.0_linux_amd64.tar.gz"}
		want(t, o.observe(t, "prow-"+theObserver, "prow", o.record(t, "prow", listed)), 1, "UNATTRIBUTED_OUTPUT")
	})
	for _, r := range []struct {
		name   string
		change func(*builds.Build)
		code   string
	}{
		{"an older build of the trigger", func(b *builds.Build) { b.Commit = strings.Repeat("0", 40) }, "SOURCE_COMMIT"},
		{"other bytes", func(b *builds.Build) {
			b.Files = maps.Clone(b.Files)
			b.Files["lantern_0.2.0_linux_amd64.tar.gz"] = []byte("other")
		}, "NOT_BOUND"},
		{"an archive that only a listing shows", func(b *builds.Build) {
			b.Files = maps.Clone(b.Files)
			delete(b.Files, "lantern_0.2.0_linux_amd64.tar.gz")
			b.Listed = append(b.Listed, "lantern_0.2.0_linux_amd64.tar.gz")
		}, "NOT_BOUND"},
		{"nothing changed", func(*builds.Build) {}, ""},
	} {
		t.Run("sealed: "+r.name, func(t *testing.T) {
			b := o.build
			r.change(&b)
			want(t, o.observe(t, signer, "gcb", o.record(t, "gcb", b)), 0)
			got := o.sealsFrom(t, o.made, "release", "dist", "state-"+strings.ReplaceAll(r.name, " ", "-"), "--confirm")
			if r.code == "" {
				want(t, got, 0)
				return
			}
			want(t, got, 1, r.code)
		})
	}
	o.policies(t, name)
}

// policies: an observer is trusted up to level 2, in no other role, and for no
// other builder.
func (o observatory) policies(t *testing.T, name string) {
	good := string(o.read(t, "policy.yaml"))
	observer := fmt.Sprintf("- {id: %q, level: 2, signers: [%s]}\n", buildrecord.Observed+"gcb", o.signer("gcb-"+theObserver))
	if !strings.Contains(good, observer) {
		t.Fatalf("%s is not in\n%s", observer, good)
	}
	recorder := fmt.Sprintf("{id: %q, level: 1", buildrecord.Recorded+"gcb")
	for _, r := range []struct{ name, old, with, code string }{
		{"an observer of level 3", observer, strings.Replace(observer, "level: 2", "level: 3", 1), "POLICY_WEAK"},
		{"a saved record of level 2", recorder, strings.Replace(recorder, "level: 1", "level: 2", 1), "POLICY_WEAK"},
		{"an observer that is also the release identity", observer, strings.Replace(observer, "level: 2", "level: 2, sharesRelease: true", 1), "POLICY_WEAK"},
		{"the observer listed as a builder of level 3", observer, strings.NewReplacer(buildrecord.Observed+"gcb", provenance.BuilderIsolated+"-x", "level: 2", "level: 3").Replace(observer), "BUILDER"},
	} {
		t.Run(r.name, func(t *testing.T) {
			o.write(t, "policy.yaml", []byte(strings.Replace(good, r.old, r.with, 1)))
			defer o.write(t, "policy.yaml", []byte(good))
			want(t, o.observe(t, "gcb-"+theObserver, "gcb", o.record(t, "gcb", o.build)), exitOf(r.code), r.code)
		})
	}
	t.Run("by the release identity", func(t *testing.T) {
		want(t, o.observe(t, "release", "gcb", name), 1, "SIGNED_AS_ELSE")
	})
}

// exitOf is the exit status of a policy that does not load, or of a statement
// that is refused.
func exitOf(code string) int {
	if code == "POLICY_WEAK" {
		return 2
	}
	return 1
}
