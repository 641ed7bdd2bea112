package stories

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"net/http/cgi"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/test/scene"
)

// sourced is a scene whose project builds at once, so that a story can build
// it often.
type sourced struct{ *scene.Scene }

func openSourced(t *testing.T) sourced {
	t.Helper()
	return openProject(t, shell)
}

// openProject is a scene of a project, with the builder's tokens.
func openProject(t *testing.T, project string) sourced {
	t.Helper()
	s, err := scene.Open(t.Context(), scene.Options{Verbose: true, Bin: bin, Dir: t.TempDir(), Example: project})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, role := range []string{"builder", "builder-unisolated"} {
		if err := os.WriteFile(s.Path(role+".token"), []byte(s.Lab.Token(role)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return sourced{s}
}

// git runs git in the project, as its maintainer does.
func (s sourced) git(t testing.TB, args ...string) string {
	t.Helper()
	cmd := exec.Command("git", args...)
	cmd.Dir = s.Path("lantern")
	cmd.Env = append(os.Environ(), "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=Lantern", "GIT_AUTHOR_EMAIL=lantern@example.test",
		"GIT_COMMITTER_NAME=Lantern", "GIT_COMMITTER_EMAIL=lantern@example.test")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// build builds a source into a state of its own.
func (s sourced) build(t *testing.T, source, state string, flags ...string) scene.Result {
	t.Helper()
	return s.Run(t.Context(), append([]string{
		"waybill", "build", scene.Version, "--profile", "profile.yaml", "--state", state, "--source", source,
		"--identity-token", "builder=builder.token", "--identity-token", "builder-unisolated=builder-unisolated.token",
	}, flags...)...)
}

// said is what the provenance of a build says of its source.
func (s sourced) said(t *testing.T, state string) provenance.BuildDefinition {
	t.Helper()
	return s.predicate(t, state, "compile-linux-amd64").BuildDefinition
}

// predicate is what the provenance of a step says.
func (s sourced) predicate(t *testing.T, state, step string) provenance.Predicate {
	t.Helper()
	raw, err := os.ReadFile(s.Path(state, "files", "provenance", step+".sigstore.json"))
	if err != nil {
		t.Fatal(err)
	}
	var bundle struct {
		DSSEEnvelope struct{ Payload string } `json:"dsseEnvelope"`
	}
	var statement struct{ Predicate provenance.Predicate }
	if err := json.Unmarshal(raw, &bundle); err != nil {
		t.Fatal(err)
	}
	payload, err := base64.StdEncoding.DecodeString(bundle.DSSEEnvelope.Payload)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(payload, &statement); err != nil {
		t.Fatal(err)
	}
	return statement.Predicate
}

func materialOf(d provenance.BuildDefinition, name string) provenance.Resource {
	i := slices.IndexFunc(d.ResolvedDependencies, func(r provenance.Resource) bool { return r.Name == name })
	if i < 0 {
		return provenance.Resource{}
	}
	return d.ResolvedDependencies[i]
}

// nothingSigned demands that no provenance of a build is there.
func (s sourced) nothingSigned(t *testing.T, state string) {
	t.Helper()
	if found, _ := filepath.Glob(s.Path(state, "files", "provenance", "*")); len(found) > 0 {
		t.Errorf("provenance was signed: %q", found)
	}
}

// TestSourceStories: what a builder makes of what it is told to build.
func TestSourceStories(t *testing.T) {
	s := openSourced(t)
	head, tree, tag := s.git(t, "rev-parse", "HEAD"), s.git(t, "rev-parse", "HEAD^{tree}"), s.git(t, "rev-parse", scene.Version)
	t.Run("recorded", func(t *testing.T) {
		want(t, s.build(t, "git+file://"+s.Path("lantern")+"@"+scene.Version, "plain"), 0, "the tag's signer is not verified: the tag is not signed")
		d := s.said(t, "plain")
		source, at := materialOf(d, "source"), "git+file://"+s.Path("lantern")+"@refs/tags/"+scene.Version
		if source.URI != at || source.Digest["gitCommit"] != head || source.Digest["gitTree"] != tree || materialOf(d, "tag").Digest["gitTag"] != tag {
			t.Errorf("source %+v, tag %+v", source, materialOf(d, "tag"))
		}
		c := d.ExternalParameters.Config
		if c.Repository != "git+file://"+s.Path("lantern") || c.Ref != "refs/tags/"+scene.Version || c.Path != "release.yaml" || len(c.SHA256) != 64 {
			t.Errorf("config %+v", c)
		}
		if materialOf(d, "release commit").URI != "" {
			t.Errorf("a release commit is named: %+v", materialOf(d, "release commit"))
		}
		want(t, s.build(t, "lantern@"+head, "by-id"), 0)
		if d := s.said(t, "by-id"); d.ExternalParameters.Config.Ref != head || materialOf(d, "source").Digest["gitCommit"] != head || d.InternalParameters.Tag != nil {
			t.Errorf("by commit: %+v, %+v", d.ExternalParameters.Config, materialOf(d, "source"))
		}
		want(t, s.build(t, "lantern@v9.9.9", "nowhere"), 2, "create the tag")
	})
	t.Run("changed and not committed", func(t *testing.T) {
		edit(t, s.Path("lantern", "LICENSE"), "", "changed ")
		want(t, s.build(t, "lantern", "dirty"), 1, "SOURCE_DIRTY", "LICENSE", "commit the changes")
		s.nothingSigned(t, "dirty")
		want(t, s.build(t, "lantern/.git", "bare"), 0) // nobody works there
		s.git(t, "checkout", "-q", "--", "LICENSE")
		want(t, s.build(t, "lantern", "dirty"), 0)
	})
	t.Run("the tag moves meanwhile", func(t *testing.T) { s.moved(t) })
	t.Run("the tag has moved since", func(t *testing.T) {
		want(t, s.build(t, "lantern", "since"), 0)
		want(t, s.build(t, "lantern", "since"), 0, "is done already")
		s.git(t, "tag", "-f", "-a", "-m", "again", scene.Version)
		want(t, s.build(t, "lantern", "since"), 1, "SOURCE_MOVED", "after the build began")
		want(t, s.build(t, "lantern", "afresh"), 0)
	})
	t.Run("signed tags", func(t *testing.T) { s.signedTags(t) })
	t.Run("from far", func(t *testing.T) { s.far(t, head) })
	t.Run("an empty release commit", func(t *testing.T) { s.emptyChild(t) })
}

// moved has the certificate authority's door do something to the repository
// when the builder first knocks: the source is resolved by then, and nothing
// has run.
func (s sourced) moved(t *testing.T) {
	config, err := os.ReadFile(s.Path("signing_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	target, err := url.Parse(s.Lab.Fulcio)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []struct {
		name, state string
		do          []string
		status      int
		said        []string
	}{
		{"the tag moves", "moved", []string{"tag", "-f", "-a", "-m", "other", scene.Version}, 1, []string{"SOURCE_MOVED", "refs/tags/" + scene.Version, "released tags never move"}},
		{"another tag is made", "unmoved", []string{"tag", "-f", "-a", "-m", "other", "v7.0.0"}, 0, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			var once sync.Once
			door := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
				once.Do(func() { s.git(t, row.do...) })
				r.SetURL(target)
			}})
			defer door.Close()
			edit(t, s.Path("signing_config.json"), s.Lab.Fulcio, door.URL)
			defer func() {
				if err := os.WriteFile(s.Path("signing_config.json"), config, 0o644); err != nil {
					t.Error(err)
				}
			}()
			want(t, s.build(t, "lantern", row.state), row.status, row.said...)
			if row.status != 0 {
				s.nothingSigned(t, row.state)
			}
		})
	}
}

// signedTags: a signer is named if the signature holds, and its absence is
// never silent.
func (s sourced) signedTags(t *testing.T) {
	key := s.Path("key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key).CombinedOutput(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("ssh-keygen: %v: %s", err, out)
		}
		t.Skipf("ssh-keygen: %v: %s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	for name, body := range map[string]string{"signers": "anna@example.test " + string(public), "empty": "", "broken": "anna@example.test\n"} {
		if err := os.WriteFile(s.Path(name), []byte(body), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	s.git(t, "-c", "gpg.format=ssh", "-c", "user.signingKey="+key, "tag", "-f", "-s", "-m", "signed", scene.Version)
	want(t, s.build(t, "lantern", "signed", "--tag-signers", "signers"), 0, "is signed by anna@example.test")
	if got := s.said(t, "signed").InternalParameters.Tag; got == nil || *got != (provenance.SignedTag{Signature: "ssh", Signer: "anna@example.test"}) {
		t.Errorf("tag %+v", got)
	}
	want(t, s.build(t, "lantern", "unverified"), 0, "the tag's signer is not verified: no allowed signers were given")
	if got := s.said(t, "unverified").InternalParameters.Tag; got == nil || got.Signature != "ssh" || got.Signer != "" || got.NotVerified == "" {
		t.Errorf("tag %+v", got)
	}
	want(t, s.build(t, "lantern", "none", "--tag-signers", "empty"), 2, "lists no allowed signer")
	want(t, s.build(t, "lantern", "none", "--tag-signers", "broken"), 2, "allowed signers")
	want(t, s.build(t, "lantern", "none", "--tag-signers", "absent"), 2, "absent")
}

// far builds from a server of git's own, over HTTPS and over SSH.
func (s sourced) far(t *testing.T, head string) {
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewTLSServer(&cgi.Handler{
		Path: git, Args: []string{"http-backend"}, Env: []string{"GIT_PROJECT_ROOT=" + s.Dir, "GIT_HTTP_EXPORT_ALL=1"}, InheritEnv: []string{"PATH"},
	})
	defer server.Close()
	at := "git+" + server.URL + "/lantern"
	want(t, s.build(t, at, "stranger"), 3, "UNAVAILABLE") // a certificate that nobody knows
	pemFile := s.Path("server.pem")
	if err := os.WriteFile(pemFile, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("SSL_CERT_FILE", pemFile)
	// Whoever configures git for this account redirects nothing.
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[url \"git+file:///nowhere\"]\n\tinsteadOf = https://\n[core]\n\tsshCommand = false\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("HOME", home)
	t.Setenv("GIT_SSL_NO_VERIFY", "true")
	want(t, s.build(t, at, "https"), 0)
	if r := materialOf(s.said(t, "https"), "source"); r.URI != at+"@refs/tags/"+scene.Version || r.Digest["gitCommit"] != head {
		t.Errorf("source %+v", r)
	}
	want(t, s.build(t, at+"/none", "none"), 3, "UNAVAILABLE")

	// An ssh that is on the host already.
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "ssh"), []byte("#!/bin/sh\nfor last; do :; done\nexec sh -c \"$last\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", path+string(os.PathListSeparator)+os.Getenv("PATH"))
	at = "git+ssh://git@example.test" + s.Path("lantern")
	want(t, s.build(t, at, "ssh"), 0)
	if r := materialOf(s.said(t, "ssh"), "source"); r.URI != at+"@refs/tags/"+scene.Version || r.Digest["gitCommit"] != head {
		t.Errorf("source %+v", r)
	}
}

// emptyChild: the release commit is made for the tag, when its parent was
// chosen. The rule must be asked for.
func (s sourced) emptyChild(t *testing.T) {
	tagEmpty := func() (parent, child string) {
		parent = s.git(t, "rev-parse", "HEAD")
		s.git(t, "commit", "-q", "--allow-empty", "-m", "Release commit for "+scene.Version)
		s.git(t, "tag", "-f", "-a", "-m", "release", scene.Version)
		return parent, s.git(t, "rev-parse", "HEAD")
	}
	_, child := tagEmpty()
	want(t, s.build(t, "lantern", "tagged"), 0)
	if d := s.said(t, "tagged"); materialOf(d, "source").Digest["gitCommit"] != child || materialOf(d, "release commit").URI != "" {
		t.Errorf("without the rule: %+v", d.ResolvedDependencies)
	}
	edit(t, s.Path("lantern", "release.yaml"), `lantern"}`, `lantern", releaseCommit: empty-child}`)
	s.git(t, "commit", "-q", "-a", "-m", "Name release commits")
	parent, child := tagEmpty()
	want(t, s.build(t, "lantern", "child"), 0, "building its parent")
	d := s.said(t, "child")
	source, release := materialOf(d, "source"), materialOf(d, "release commit")
	if source.Digest["gitCommit"] != parent || release.Digest["gitCommit"] != child || source.Digest["gitTree"] != release.Digest["gitTree"] || source.Digest["gitTree"] == "" {
		t.Errorf("source %+v, release commit %+v", source, release)
	}
	// A release commit that changes something is what is built.
	edit(t, s.Path("lantern", "LICENSE"), "", "changed ")
	s.git(t, "commit", "-q", "-a", "-m", "Release commit for "+scene.Version)
	s.git(t, "tag", "-f", "-a", "-m", "release", scene.Version)
	want(t, s.build(t, "lantern", "changed"), 0)
	if d := s.said(t, "changed"); materialOf(d, "source").Digest["gitCommit"] != s.git(t, "rev-parse", "HEAD") || materialOf(d, "release commit").URI != "" {
		t.Errorf("a commit that is not empty: %+v", d.ResolvedDependencies)
	}
}
