package servers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/test/scene"
)

const worksInBuckets = "all; the place suite, conditional writes, 1,207 objects in pages, promote of files"

func TestVersitygw(t *testing.T) {
	b := versitygw(t, false)
	b.setenv(t)
	b.create(t, "lantern", bucketOptions{})
	b.checkPlaces(t, "lantern")
	s := b.publish(t, "lantern")
	attack(t, s)
	b.denied(t, s)
	b.server.Works, b.server.Does = worksInBuckets+"; attacks on the server's disk", "signs requests with the AWS variables; reads a public bucket without them"
	saw(t, b.server)
}

func TestVersitygwVersions(t *testing.T) {
	b := versitygw(t, true)
	b.setenv(t)
	b.create(t, "lantern", bucketOptions{versioned: true})
	b.checkPlaces(t, "lantern")
	again := b.checkVersions(t, "lantern")
	s := b.publish(t, "lantern")
	attack(t, s)
	b.server.Works, b.server.Does = worksInBuckets, "older versions are not listed and not judged"
	if !again {
		b.server.Lacks = "a conditional write where an object was removed is refused (412), which Amazon accepts"
		b.server.Does += "; the refusal says to remove the older version or its delete marker"
	}
	saw(t, b.server)
}

func TestFakeGCS(t *testing.T) {
	b := fakeGCS(t, false)
	b.create(t, "lantern", bucketOptions{})
	b.checkPlaces(t, "lantern")
	s := b.publish(t, "lantern")
	attack(t, s)
	b.server.Works, b.server.Lacks, b.server.Does = worksInBuckets, "permissions; versions", "generations are compared all the same"
	saw(t, b.server)
}

func TestFakeGCSVersions(t *testing.T) {
	b := fakeGCS(t, true)
	b.create(t, "lantern", bucketOptions{versioned: true})
	b.checkPlaces(t, "lantern")
	if !b.checkVersions(t, "lantern") {
		t.Error("no object can be written where one was removed")
	}
	s := b.publish(t, "lantern")
	attack(t, s)
	b.server.Works, b.server.Lacks, b.server.Does = worksInBuckets, "permissions", "older versions are not listed and not judged"
	saw(t, b.server)
}

// scene is a scene whose files are in a bucket.
func (b buckets) scene(t *testing.T, bucket string) *scene.Scene {
	t.Helper()
	return open(t, func(s *scene.Scene) {
		s.Env = append(s.Env, b.env...)
		s.Places.Files, s.Places.Objects = b.uri+bucket, b.objects(bucket)
		ownImages(t, s)
	})
}

// ownImages gives a scene repositories of its own in the registry of the
// laboratory.
func ownImages(t *testing.T, s *scene.Scene) {
	below, untag := strings.ToLower(strings.ReplaceAll(t.Name(), "/", "-")), s.Places.Untag
	s.Places.Images += "/" + below
	s.Places.Untag = func(ctx context.Context, repository, tag string) error { return untag(ctx, below+"/"+repository, tag) }
}

// publish takes a release the whole way in a bucket, with each command that
// reads or writes it, and some of its files further.
func (b buckets) publish(t *testing.T, bucket string) *scene.Scene {
	t.Helper()
	s := b.scene(t, bucket)
	with := []string{scene.Version, "--profile", "profile.yaml"}
	run := func(command string, flags ...string) {
		t.Helper()
		ok(t, s.Run(t.Context(), append(append(strings.Fields("waybill "+command), with...), flags...)...))
	}
	ok(t, s.Stage(t.Context()))
	run("doctor", "--for", "release", "--state", "state")
	run("doctor", "--for", "release", "--state", "state", "--confirm")
	run("gate check")
	run("promote", "--to", "release", "--state", "state", "--confirm")
	ok(t, s.Release(t.Context()))
	ok(t, s.Verify(t.Context()))
	run("verify release")
	b.promoteFiles(t, s)
	return s
}

// promoteFiles promotes signed files of the staged release, as a list says.
func (b buckets) promoteFiles(t *testing.T, s *scene.Scene) {
	t.Helper()
	const name = "bin/linux/arm64/lantern"
	from := "staging/lantern/" + scene.Version
	body, err := s.Places.Objects.Get(t.Context(), from+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	edit(t, s, "policy.yaml", "files-policy.yaml", "provenance: require", `provenance: "off"`, "sbom: require", `sbom: "off"`)
	edit(t, s, "profile.yaml", "files-profile.yaml", "policy: policy.yaml", "policy: files-policy.yaml")
	put(t, s, "artifacts/filestores/lantern/filepromoter-manifest.yaml", fmt.Sprintf(
		"filestores:\n- base: %[1]s/%[2]s\n  src: true\n- base: %[1]s/mirror\n  service-account: promoter@example.test\n", s.Places.Files, from))
	put(t, s, "artifacts/manifests/lantern/"+scene.Version+".yaml", fmt.Sprintf("files:\n- name: %s\n  sha256: %q\n", name, digest.Of(digest.SHA256, body).Hex()))
	planned := ok(t, s.Run(t.Context(), "waybill", "promote", "plan", "artifacts", "--output", "json"))
	put(t, s, "files-plan.json", planned.Stdout)
	ok(t, s.Run(t.Context(), "waybill", "promote", "apply", "files-plan.json", "--profile", "files-profile.yaml", "--state", "files-state", "--confirm"))
	if there, err := s.Places.Objects.Get(t.Context(), "mirror/"+name); err != nil || string(there) != string(body) {
		t.Errorf("the promoted file has %d bytes, %v, want %d", len(there), err, len(body))
	}
}

// put writes a file of a scene.
func put(t *testing.T, s *scene.Scene, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(s.Path(name)), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.Path(name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// edit writes a file of a scene with other texts, as strings.NewReplacer has
// them. Each must be there.
func edit(t *testing.T, s *scene.Scene, from, to string, oldnew ...string) {
	t.Helper()
	raw, err := os.ReadFile(s.Path(from))
	if err != nil {
		t.Fatal(err)
	}
	for i := 0; i < len(oldnew); i += 2 {
		if !strings.Contains(string(raw), oldnew[i]) {
			t.Fatalf("%s does not have %q", from, oldnew[i])
		}
	}
	put(t, s, to, strings.NewReplacer(oldnew...).Replace(string(raw)))
}

// denied takes rights away: a wrong key is named before anything is written,
// without the key; a bucket that is not public is read with credentials alone.
func (b buckets) denied(t *testing.T, s *scene.Scene) {
	t.Helper()
	env := s.Env
	s.Env = append(slices.Clone(env), "AWS_SECRET_ACCESS_KEY=another-secret")
	r := want(t, s.Run(t.Context(), "waybill", "doctor", scene.Version, "--for", "release", "--profile", "profile.yaml", "--state", "state"), 1, "NOT_WRITABLE", "SignatureDoesNotMatch")
	if strings.Contains(r.Stdout+r.Stderr, "another-secret") {
		t.Errorf("the key is printed:\n%s%s", r.Stdout, r.Stderr)
	}
	s.Env = env
	b.close(t, "lantern")
	want(t, s.Verify(t.Context()), 3, "UNAVAILABLE", "waybill verify release sends the credentials")
	ok(t, s.Run(t.Context(), "waybill", "verify", "release", scene.Version, "--profile", "profile.yaml"))
}

// TestNoConditions: a server without conditional writes, here because a web
// server in front of it drops the conditions, is refused before anything is
// written.
func TestNoConditions(t *testing.T) {
	b := fakeGCS(t, false)
	b.create(t, "lantern", bucketOptions{})
	behind, err := url.Parse(strings.TrimPrefix(b.uri, "gs+"))
	if err != nil {
		t.Fatal(err)
	}
	b.uri = "gs+http://" + nginx(t, `server { listen ADDRESS; client_max_body_size 0;
		location / { if ($args ~ "^(.*)&ifGenerationMatch=[0-9]+(.*)$") { set $args $1$2; } proxy_pass http://`+behind.Host+`; proxy_set_header Host $http_host; } }`).Ready + "/"
	s := b.scene(t, "lantern")
	for _, confirm := range [][]string{nil, {"--confirm"}} {
		want(t, s.Run(t.Context(), append([]string{"waybill", "doctor", scene.Version, "--for", "release", "--profile", "profile.yaml", "--state", "state"}, confirm...)...), 1, "NOT_WRITABLE", "conditional writes")
	}
	want(t, s.Stage(t.Context()), 1, "NOT_WRITABLE", "conditional writes")
	want(t, s.Run(t.Context(), "waybill", "promote", scene.Version, "--to", "staging", "--profile", "profile.yaml", "--state", "state", "--confirm"), 1, "NOT_WRITABLE", "conditional writes")
	raw, err := ask(t.Context(), http.MethodGet, behind.String()+"storage/v1/b/lantern/o", nil)
	if err != nil || strings.Contains(string(raw), `"items"`) {
		t.Errorf("something was written: %s, %v", raw, err)
	}
	saw(t, row{
		Kind: "Buckets", Server: "fake-gcs-server behind a proxy that drops conditions", Version: "1.56.1", Works: "nothing is written",
		Lacks: "conditional writes", Does: "NOT_WRITABLE, by waybill doctor, and before the first object is staged or promoted",
	})
}
