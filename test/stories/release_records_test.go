package stories

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/faults"
	"github.com/waybill-release/waybill/test/scene"
)

const verifierID, policyURI = "https://verifier.example.test/v1", "https://example.test/policy.yaml"

// night is somebody who lets a release out, with records and markers.
type night struct{ keeper }

// openNight stages what [evening] prepares.
func openNight(t *testing.T) night {
	t.Helper()
	n := evening(t)
	want(t, n.Stage(t.Context()), 0)
	return n
}

// evening prepares the small project, whose release.yaml names markers and whose
// policy lets the verifier add summaries.
func evening(t *testing.T) night {
	t.Helper()
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(shell)); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "release.yaml")
	config, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	config = append(config, "markers: [\"lantern/{channel}.txt\", \"lantern/{channel}-{major}.{minor}.txt\"]\n"...)
	if err := os.WriteFile(file, config, 0o644); err != nil {
		t.Fatal(err)
	}
	n := night{keeper{&desk{&workshop{Scene: openProject(t, dir).Scene}}}}
	bench{n.Scene}.policy(t, "policy.yaml", string(n.read(t, "policy.yaml")), "plan: require\n",
		fmt.Sprintf("plan: require\nlate: [{predicate: %q, role: verifier, stages: [release]}]\n", vsa.PredicateType))
	bench{n.Scene}.policy(t, "profile.yaml", string(n.read(t, "profile.yaml")),
		"places:\n", fmt.Sprintf("records: {verifier: %q, policy: %q}\nplaces:\n  markers: \"%s/release/\"\n", verifierID, policyURI, strings.Replace(n.Lab.Bucket, "http://", "gs+http://", 1)))
	return n
}

// releases lets it out, as the verifier besides.
func (n night) releases(t *testing.T, flags ...string) scene.Result {
	t.Helper()
	n.write(t, "verifier.token", []byte(n.Lab.Token("verifier")))
	args := []string{"waybill", "release", scene.Version, "--profile", "profile.yaml", "--state", "state", "--identity-token", "verifier=verifier.token"}
	return n.Run(t.Context(), append(args, flags...)...)
}

// stands is what status says.
func (n night) stands(t *testing.T) pipeline.Status {
	t.Helper()
	r := n.Run(t.Context(), "waybill", "status", scene.Version, "--profile", "profile.yaml", "--state", "state", "--output", "json")
	want(t, r, 0)
	var s pipeline.Status
	if err := json.Unmarshal([]byte(r.Stdout), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// object is what the bucket has of the release place, empty if nothing.
func (n night) object(t *testing.T, name string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, n.Lab.Bucket+"/release/"+name, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(raw)
}

// put has the bucket hold a text in the release place.
func (n night) put(t *testing.T, name, text string) {
	t.Helper()
	w, err := cloud.OpenWriter(strings.Replace(n.Lab.Bucket, "http://", "gs+http://", 1)+"/release/", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Put(t.Context(), name, int64(len(text)), strings.NewReader(text), store.PutOptions{}); err != nil {
		t.Fatal(err)
	}
}

// published is the manifest where users find it.
func (n night) published(t *testing.T) manifest.Manifest {
	t.Helper()
	n.write(t, "published.json", []byte(n.object(t, "lantern/"+scene.Version+"/"+releasemanifest.Name)))
	m, err := manifest.ReadManifest(n.evidence(t, "published.json").Statement(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestReleaseRecords: a release that was verified where users find it is
// recorded by the verifier, once, and its markers move.
func TestReleaseRecords(t *testing.T) {
	n := openNight(t)
	at := "lantern/" + scene.Version + "/"
	want(t, n.releases(t), 0, "the verifier would record the release", "marker lantern/stable.txt would be new")
	if n.object(t, "lantern/stable.txt") != "" || n.object(t, at+releasemanifest.Name) != "" {
		t.Fatal("a dry run wrote something")
	}
	before := len(n.Lab.Logged())
	want(t, n.releases(t, "--confirm"), 0, "nothing extra", "recorded: the promotion of 1 image", "recorded: "+vsa.Name(1), "marker lantern/stable.txt is new: "+scene.Version)
	if made := len(n.Lab.Logged()) - before; made != 2 {
		t.Errorf("%d log entries, want one for the summary and one for the promotion", made)
	}
	for _, name := range []string{"lantern/stable.txt", "lantern/stable-0.1.txt"} {
		if got := n.object(t, name); got != scene.Version {
			t.Errorf("%s holds %q", name, got)
		}
	}
	n.summary(t, at)
	n.attached(t)
	want(t, n.Verify(t.Context()), 0, "nothing extra", vsa.Name(1)+": added after sealing by")

	s := n.stands(t)
	if s.Public != "yes" || len(s.Markers) != 2 || s.Markers[0].Version.String() != scene.Version || !strings.HasPrefix(s.Next, "k8s-verify-release") {
		t.Errorf("%+v", s)
	}
	if i := slices.IndexFunc(s.Stages, func(s pipeline.Stage) bool { return s.Name == "record" }); i < 0 || s.Stages[i].Done != 1 || !strings.Contains(s.Stages[i].Note, "PASSED by "+verifierID) {
		t.Errorf("%+v", s.Stages)
	}

	logged := len(n.Lab.Logged())
	want(t, n.releases(t, "--confirm"), 0, vsa.Name(1)+", which existed already", "marker lantern/stable.txt stays at "+scene.Version)
	if err := os.Remove(n.Path("state", "signatures.jsonl")); err != nil { // a machine that knows nothing of it
		t.Fatal(err)
	}
	want(t, n.releases(t, "--confirm"), 0, vsa.Name(1)+", which existed already")
	if again := len(n.Lab.Logged()) - logged; again != 0 {
		t.Errorf("%d log entries by running it again", again)
	}
	if n.object(t, at+vsa.Name(2)) != "" {
		t.Error("there are two summaries")
	}
}

// summary holds the summary beside the manifest against what it must say.
func (n night) summary(t *testing.T, at string) {
	t.Helper()
	n.write(t, "summary.json", []byte(n.object(t, at+vsa.Name(1))))
	e := n.evidence(t, "summary.json")
	said, err := vsa.Parse(e.Statement())
	if err != nil {
		t.Fatal(err)
	}
	if _, verifier := n.Lab.Identity("verifier"); e.Identity().Subject != verifier {
		t.Errorf("signed by %s", e.Identity())
	}
	level, known := said.Level(vsa.TrackBuild)
	sum := digest.Of(digest.SHA256, n.read(t, "policy.yaml"))
	if said.Result != vsa.Passed || !known || level < 1 || level > 2 || said.Verifier.ID != verifierID || said.Policy.URI != policyURI ||
		!said.Policy.Strong().SHA256.Equal(sum) || said.ResourceURI != "https://dl.example.test/lantern/"+scene.Version+"/" || time.Since(said.Verified) > time.Hour {
		t.Errorf("says %+v", said)
	}
	if len(said.Inputs) == 0 || len(said.Verifier.Version) != 1 {
		t.Errorf("rests on %d attestations, by %v", len(said.Inputs), said.Verifier.Version)
	}
	m := n.published(t)
	for _, a := range m.Artifacts {
		asked := slices.Contains([]string{"binary", "archive", "image", "image-child"}, string(a.Class))
		if e.Statement().Names(a.Name, a.Digests) != asked {
			t.Errorf("%s of class %s is a subject: %t", a.Name, a.Class, !asked)
		}
	}
}

// attached looks at what refers to the image.
func (n night) attached(t *testing.T) {
	t.Helper()
	remote, err := registry.OpenRemote(n.Lab.Registry+"/release/lantern", http.DefaultTransport)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range n.published(t).Images() {
		bundles, err := registry.Bundles(t.Context(), remote, a.Repository, a.Digests.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, raw := range bundles {
			n.write(t, "attached.json", raw)
			e := n.evidence(t, "attached.json")
			count[e.Kind()]++
			if e.Kind() != promotionrecord.PredicateType {
				continue
			}
			r, err := promotionrecord.Parse(e.Statement())
			if err != nil || r.Destination != "registry.example.test/lantern/"+a.Repository || !strings.HasSuffix(r.Source, "/staging/lantern/"+a.Repository) || !slices.Equal(r.Tags, []string{scene.Version}) {
				t.Errorf("%+v, %v", r, err)
			}
		}
		promotions := 0
		if a.Class == "image" {
			promotions = 1
		}
		if count[vsa.PredicateType] != 1 || count[promotionrecord.PredicateType] != promotions {
			t.Errorf("%s has %v", a.Name, count)
		}
	}
}

// TestReleaseWithoutRecords: where no record can be written that is said, and
// the release is what it is.
func TestReleaseWithoutRecords(t *testing.T) {
	n := openNight(t)
	policy, profile := string(n.read(t, "policy.yaml")), string(n.read(t, "profile.yaml"))
	logged := len(n.Lab.Logged())
	for _, row := range []struct {
		policy, profile []string
		by, said        string
	}{
		{[]string{"stages: [release]}]\n", "stages: [staging]}]\n"}, nil, "verifier", "does not let the verifier add a summary"},
		{[]string{"late: [{predicate: \"" + vsa.PredicateType + "\", role: verifier, stages: [release]}]\n", ""}, nil, "verifier", "does not let the verifier add a summary"},
		{nil, []string{fmt.Sprintf("records: {verifier: %q, policy: %q}\n", verifierID, policyURI), ""}, "verifier", "the profile has no records: section"},
		{nil, nil, "", "no verifier identity was given; use --identity-token verifier=FILE"},
	} {
		bench{n.Scene}.policy(t, "policy.yaml", policy, row.policy...)
		bench{n.Scene}.policy(t, "profile.yaml", profile, row.profile...)
		var r scene.Result
		if row.by == "" {
			r = n.Release(t.Context())
		} else {
			r = n.releases(t, "--confirm")
		}
		want(t, r, 0, "nothing extra", "no record was written: ", row.said)
	}
	bench{n.Scene}.policy(t, "policy.yaml", policy)
	bench{n.Scene}.policy(t, "profile.yaml", profile)
	// A token of somebody else signs nothing, and the release stays public.
	n.write(t, "verifier.token", []byte(n.Lab.Token("release")))
	args := []string{"waybill", "release", scene.Version, "--profile", "profile.yaml", "--state", "state", "--identity-token", "verifier=verifier.token", "--confirm"}
	want(t, n.Run(t.Context(), args...), 1, "SIGNED_AS_ELSE", "the release is public and verified")
	if made := len(n.Lab.Logged()) - logged; made != 0 {
		t.Errorf("%d log entries", made)
	}
	want(t, n.releases(t, "--confirm"), 0, "recorded: "+vsa.Name(1))
}

// TestReleaseMarkers: a marker never goes back, and what is none is not
// written over.
func TestReleaseMarkers(t *testing.T) {
	n := openNight(t)
	n.put(t, "lantern/stable.txt", "v0.2.0")
	n.put(t, "lantern/stable-0.1.txt", "v0.1.0-rc.1\n")
	want(t, n.releases(t, "--confirm"), 0, "marker lantern/stable.txt stays at v0.2.0", "marker lantern/stable-0.1.txt moved from v0.1.0-rc.1 to v0.1.0")
	n.put(t, "lantern/stable.txt", "<html>")
	n.put(t, "lantern/stable-0.1.txt", "v0.0.9")
	want(t, n.releases(t), 1, "FILE_CONFLICT", "does not hold a version")
	want(t, n.releases(t, "--confirm"), 1, "FILE_CONFLICT", "does not hold a version", "find out who wrote the marker")
	if a, b := n.object(t, "lantern/stable.txt"), n.object(t, "lantern/stable-0.1.txt"); a != "<html>" || b != "v0.0.9" {
		t.Errorf("the markers hold %q and %q", a, b)
	}
	s := n.stands(t)
	if s.Public != "yes" || len(s.Markers) != 2 || !strings.Contains(s.Markers[0].Problem, "does not hold a version") || !strings.Contains(s.Next, " release ") {
		t.Errorf("%+v", s)
	}
	n.put(t, "lantern/stable.txt", "v0.0.1")
	want(t, n.types(t, n.stands(t).Next), 0, "marker lantern/stable.txt moved from v0.0.1", "marker lantern/stable-0.1.txt moved from v0.0.9")
	bench{n.Scene}.policy(t, "profile.yaml", string(n.read(t, "profile.yaml")), "  markers: ", "  # markers: ")
	want(t, n.releases(t, "--confirm"), 0, "no marker was moved: release.yaml names 2, but the profile has no places.markers")
}

// TestLongReleaseKilled: whichever write the machine dies at, before or after it,
// the same command typed again converges: everything is there once, and logged
// once.
func TestLongReleaseKilled(t *testing.T) {
	n := openNight(t)
	profile, services := string(n.read(t, "profile.yaml")), string(n.read(t, "signing_config.json"))
	bench{n.Scene}.policy(t, "profile.yaml", profile, "  markers: ", "  # markers: ")
	want(t, n.Release(t.Context()), 0, "no record was written", "no marker was moved") // the copying has tests of its own
	before := n.Lab.Logged()
	d := &deaths{met: map[string]int{}}
	through := func(name, origin string) string {
		door := faults.Before(t, origin)
		for _, method := range []string{http.MethodPut, http.MethodPost, http.MethodPatch} {
			d.script = append(d.script, faults.Fault{Method: method, Do: d.at(name)})
		}
		door.Spoil(d.script...)
		d.script = nil
		return door.Host
	}
	host := func(url string) string { return strings.TrimPrefix(url, "http://") }
	profile = strings.ReplaceAll(profile, host(n.Lab.Bucket), through("bucket", n.Lab.Bucket))
	profile = strings.ReplaceAll(profile, n.Lab.Registry, through("registry", "http://"+n.Lab.Registry))
	services = strings.ReplaceAll(services, host(n.Lab.Rekor), through("log", n.Lab.Rekor))
	services = strings.ReplaceAll(services, host(n.Lab.TSA), through("stamps", n.Lab.TSA))
	n.write(t, "profile.yaml", []byte(profile))
	n.write(t, "signing_config.json", []byte(services))
	rounds := 0
	for ; d.round(t, n); rounds++ {
		if rounds > 200 {
			t.Fatalf("it does not come to an end: %v", d.met)
		}
		s := n.stands(t)
		if s.Public != pipeline.IsPublic || !strings.HasPrefix(s.Broken, "release: ") || !strings.Contains(s.Next, "--identity-token verifier=verifier.token --confirm") || !strings.Contains(s.Safe, "every command") {
			t.Errorf("after death %d: %+v", rounds, s)
		}
	}
	if rounds < 20 {
		t.Errorf("only %d deaths: %v", rounds, d.met)
	}
	made := slices.DeleteFunc(n.Lab.Logged(), func(one string) bool { return slices.Contains(before, one) })
	if len(made) != 2 {
		t.Errorf("%d log entries, want 2: %q", len(made), made)
	}
	n.summary(t, "lantern/"+scene.Version+"/")
	n.attached(t)
	if got := n.object(t, "lantern/stable.txt"); got != scene.Version || n.object(t, "lantern/"+scene.Version+"/"+vsa.Name(2)) != "" {
		t.Errorf("the marker holds %q, or there are two summaries", got)
	}
}

// deaths kill a process at each of its writes twice: before it is done, and
// after.
type deaths struct {
	script []faults.Fault

	mu   sync.Mutex // guards the rest
	met  map[string]int
	nth  map[string]int // within a round
	dies *exec.Cmd
}

var changing = regexp.MustCompile(`[0-9a-f]{8,}|[0-9]{4,}`)

// at is what happens to a write of a service.
func (d *deaths) at(service string) faults.Act {
	return func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		d.mu.Lock()
		key := service + " " + r.Method + " " + changing.ReplaceAllString(r.URL.Path, "*")
		d.nth[key]++
		key = fmt.Sprintf("%s #%d", key, d.nth[key])
		d.met[key]++
		met := d.met[key]
		d.mu.Unlock()
		if met > 2 {
			next.ServeHTTP(w, r)
			return
		}
		if met == 2 {
			next.ServeHTTP(httptest.NewRecorder(), r)
		}
		_ = d.dies.Process.Kill()
		panic(http.ErrAbortHandler)
	}
}

// round runs the release until it dies, and reports whether it did.
func (d *deaths) round(t *testing.T, n night) bool {
	t.Helper()
	n.write(t, "verifier.token", []byte(n.Lab.Token("verifier")))
	cmd := exec.CommandContext(t.Context(), filepath.Join(bin, "waybill"), "release", scene.Version, "--profile", "profile.yaml", "--state", "state",
		"--identity-token", "verifier=verifier.token", "--confirm")
	var out bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = n.Dir, &out, &out
	d.nth, d.dies = map[string]int{}, cmd
	err := cmd.Run()
	if err != nil && cmd.ProcessState.ExitCode() >= 0 {
		t.Fatalf("%v\n%s", err, out.String())
	}
	return err != nil
}
