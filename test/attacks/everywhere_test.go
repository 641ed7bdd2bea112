package attacks

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/answers"
)

// everywhere is what all commands were asked: the codes of each scene.
var everywhere struct {
	sync.Mutex
	codes map[verdict.Code]bool
}

// commands builds the commands once, for everybody who asks them.
var commands = sync.OnceValue(func() error {
	build := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(sceneDir, "bin")+"/", "./cmd/k8s-verify-release", "./cmd/waybill")
	build.Dir = filepath.Join("..", "..")
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the commands: %w\n%s", err, out)
	}
	return nil
})

// everywhere asks every command about the release as it lies there, under the
// scene's profile with some texts changed, and demands of each exactly these
// codes; none demands acceptance.
func (r *attacked) everywhere(t testing.TB, want []verdict.Code, edits ...string) {
	t.Helper()
	if err := commands(); err != nil {
		t.Fatal(err)
	}
	release := r.asked(t, edits...)
	release.Without = otherwise()[t.Name()]
	if release.Confirm = len(want) > 0; !release.Confirm { // what is refused is copied nowhere, whatever the plan says
		plan := r.Run(t.Context(), "waybill", "promote", "plan", release.Version, "--to", "release", "--profile", release.Profile, "--output", "json")
		if err := os.WriteFile(release.Plan, []byte(plan.Stdout), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	said := release.Ask(t.Context(), r.flags...)
	if why := answers.Differ(said); why != "" {
		t.Errorf("the commands differ:\n%s", why)
	}
	want = slices.Clone(want)
	slices.Sort(want)
	if !slices.Equal(said[0].Codes, want) || (said[0].Exit == 0) != (len(want) == 0) {
		t.Errorf("%s: status %d %v, want %v\n%s", said[0].Command, said[0].Exit, said[0].Codes, want, said[0].Said)
	}
	observe(t, said[0].Codes...)
	everywhere.Lock()
	defer everywhere.Unlock()
	if everywhere.codes == nil {
		everywhere.codes = map[verdict.Code]bool{}
	}
	for _, c := range said[0].Codes {
		everywhere.codes[c] = true
	}
}

// otherwise are the scenes in which a command may answer otherwise than the
// rest, and why.
func otherwise() map[string]map[string]string {
	return map[string]map[string]string{
		"TestGateManifest/withdrawn": {"waybill promote": "the withdrawal of what is public already goes where it is public, so that users are told; it brings nothing new"},
	}
}

// notEverywhere says of the codes of a decision about a release why no scene
// here has every command give it.
func notEverywhere() map[verdict.Code]string {
	const blobs = "the vectors that provoke it are of a signature, whose change fits no manifest; waybill verify bundle answers for them"
	return map[verdict.Code]string{
		verdict.SignatureBad:    "it needs a log that takes in what nobody signed",
		verdict.TSAUntrusted:    blobs,
		verdict.TSACert:         blobs,
		verdict.ChainExpired:    blobs,
		verdict.CertStatement:   "it needs a certificate of a run, whose claims the provenance contradicts; TestVectors asks about them",
		verdict.RebuildMismatch: "no scene has two builders of one release; test/stories/policy_evidence_test.go asks about one file",
		"POLICY_RULE":           "k8s-verify-release reads no rules and refuses such a policy; test/stories/policy_load_test.go asks the others",
		verdict.FeatureState:    "k8s-verify-release has no --features and takes each requirement as it is written; test/attacks/features_test.go asks the others",
		verdict.SignoffOther:    "no scene here signs a release off; test/stories/signoff_test.go asks",
		verdict.SignoffExpired:  "no scene here signs a release off; test/stories/signoff_test.go asks",
		verdict.Clock:           "the commands that promote take no --now, and a scene moves no clock",
	}
}

// isWhole reports whether all tests run, or all but the long ones, which make test
// leaves out and which alone provoke no code.
func isWhole() bool {
	skipped := flag.Lookup("test.skip").Value.String()
	return flag.Lookup("test.run").Value.String() == "" && (skipped == "" || skipped == "^TestLong")
}

// unanswered lists the codes that a decision about a release can give, by the
// list, and that no scene provoked at every command, without a reason; and those
// that the table does not have. Codes of vectors are asked for where vectors are
// made.
func unanswered() (all []error) {
	if !isWhole() {
		return nil
	}
	for c := range everywhere.codes {
		switch why := notEverywhere()[c]; {
		case !ofRelease(c):
			all = append(all, fmt.Errorf("%s: every command gave it about a release, and the table of codes says that none does", c))
		case why != "":
			all = append(all, fmt.Errorf("%s: every command gave it, although %s", c, why))
		}
	}
	for _, c := range verdict.Codes() {
		if ofRelease(c) && !everywhere.codes[c] && notEverywhere()[c] == "" && !slices.Contains(answers.ByVector(), c) {
			all = append(all, fmt.Errorf("%s: a decision about a release can give it, and no scene has every command give it", c))
		}
	}
	return all
}

// news reports whether some of the codes were given by no scene yet.
func news(codes []verdict.Code) bool {
	everywhere.Lock()
	defer everywhere.Unlock()
	return slices.ContainsFunc(codes, func(c verdict.Code) bool { return !everywhere.codes[c] })
}

// asked puts the release where a profile of its own finds it, staged and
// public. Texts of the profile, or of the policy, are changed in pairs.
func (r *attacked) asked(t testing.TB, edits ...string) answers.Release {
	t.Helper()
	version := r.version.String()
	if r.moved != "" {
		version = r.moved
	}
	files := filepath.Join(r.dir, version)
	if err := os.Rename(filepath.Join(r.dir, "files"), files); err != nil {
		t.Fatal(err)
	}
	at := serveLayout(t, r)
	texts := map[string]string{
		"policy.yaml": string(must[[]byte](t)(os.ReadFile(r.Path("policy.yaml")))),
		"profile.yaml": fmt.Sprintf(`apiVersion: waybill/v1
kind: Profile
name: lantern
policy: policy.yaml
trustedRoot: %[1]q
places:
  files:
    canonical: "https://dl.example.test/lantern/{version}/"
    staging: "%[2]s/{version}/"
    release: "%[2]s/{version}/"
  images: {canonical: registry.example.test/lantern, staging: %[3]q, release: %[3]q}
`, r.Path("trusted_root.json"), r.dir, at),
	}
	for i := 0; i < len(edits); i += 2 {
		found := false
		for name, text := range texts {
			if strings.Contains(text, edits[i]) {
				texts[name], found = strings.Replace(text, edits[i], edits[i+1], 1), true
			}
		}
		if !found {
			t.Fatalf("%q stands neither in the policy nor in the profile", edits[i])
		}
	}
	for name, text := range texts {
		if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	end := promotionplan.End{Stage: string(profile.Staging), Files: "file://" + files + "/", Images: at}
	public := end
	public.Stage = string(profile.Release)
	genuine := r.genuine(t)
	plan := must[promotionplan.Plan](t)(promotionplan.MakeRelease(genuine.manifest(t), genuine.read(t, releasemanifest.Name), end, public))
	plan.Release.Version = version
	if err := os.WriteFile(filepath.Join(r.dir, "plan.json"), plan.JSON(), 0o644); err != nil {
		t.Fatal(err)
	}
	return answers.Release{
		Run: r.Run, Profile: filepath.Join(r.dir, "profile.yaml"), Version: version,
		Plan: filepath.Join(r.dir, "plan.json"), State: filepath.Join(r.dir, "nowhere"),
	}
}

// genuine is the release as it was sealed.
func (w *world) genuine(t testing.TB) *attacked {
	t.Helper()
	return &attacked{world: w, dir: must[string](t)(w.sealed())}
}

// serveLayout is a registry that serves a layout as it lies there, whatever was
// done to its blobs. It takes nothing.
func serveLayout(t testing.TB, r *attacked) (prefix string) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		path, is := strings.CutPrefix(q.URL.Path, "/v2/staged/"+repository+"/")
		switch {
		case q.URL.Path == "/v2/":
		case !is || q.Method != http.MethodGet && q.Method != http.MethodHead:
			http.NotFound(w, q)
		default:
			kind, name, _ := strings.Cut(path, "/")
			answer(w, q, r, kind, name)
		}
	}))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://") + "/staged"
}

// serve answers one question to the registry of a layout.
func answer(w http.ResponseWriter, q *http.Request, r *attacked, kind, name string) {
	at, err := digest.Parse(name)
	var body []byte
	switch {
	case kind == "tags":
		var tags []string
		tags, err = r.images.Tags(q.Context(), repository)
		body, _ = json.Marshal(map[string]any{"name": repository, "tags": tags})
	case kind == "referrers":
		var list []registry.Descriptor
		list, err = r.images.Referrers(q.Context(), repository, at)
		w.Header().Set("Content-Type", registry.MediaTypeIndex)
		body = referrersOf(list)
	case kind == "manifests" && err != nil:
		var d registry.Descriptor
		if d, err = r.images.Resolve(q.Context(), repository, name); err != nil && !errors.Is(err, registry.ErrNotFound) { // its bytes are not its own
			d, err = r.tagged(name)
		}
		at = d.Digest
		fallthrough
	case err == nil:
		if err == nil {
			body, err = os.ReadFile(r.blob(at))
		}
		if kind == "manifests" {
			var doc struct{ MediaType string }
			_ = json.Unmarshal(body, &doc)
			w.Header().Set("Content-Type", doc.MediaType)
			w.Header().Set("Docker-Content-Digest", at.String())
		}
	}
	if err != nil {
		http.NotFound(w, q)
		return
	}
	_, _ = w.Write(body)
}

// tagged is what the layout's index says of a tag, whatever the blob is.
func (r *attacked) tagged(tag string) (registry.Descriptor, error) {
	raw, err := os.ReadFile(filepath.Join(r.dir, "images", "index.json"))
	if err != nil {
		return registry.Descriptor{}, err
	}
	var index struct{ Manifests []indexEntry }
	if err := json.Unmarshal(raw, &index); err != nil {
		return registry.Descriptor{}, err
	}
	for _, e := range index.Manifests {
		if e.Annotations["org.opencontainers.image.ref.name"] == repository+":"+tag {
			d, err := digest.Parse(e.Digest)
			return registry.Descriptor{Digest: d}, err
		}
	}
	return registry.Descriptor{}, registry.ErrNotFound
}

func referrersOf(list []registry.Descriptor) []byte {
	entries := []map[string]any{}
	for _, d := range list {
		entries = append(entries, map[string]any{
			"mediaType": d.MediaType, "digest": d.Digest.String(), "size": d.Size, "artifactType": d.ArtifactType, "annotations": d.Annotations,
		})
	}
	raw, _ := json.Marshal(map[string]any{"schemaVersion": 2, "mediaType": registry.MediaTypeIndex, "manifests": entries})
	return raw
}
