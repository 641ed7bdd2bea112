package stories

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/rebuildrecord"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/test/scene"
)

// stamped is what the shell project has besides, in openRebuilt: a file that each
// build makes with other bytes, an archive and an image with it, and a step that
// may use the network.
const stamped = `- name: stamp
  run: [sh, -c, "date +%s%N > {out}/stamp.txt"]
  outputs: [{class: file, name: stamp.txt}]
- name: pack-stamp
  archive: {format: tar.gz, root: lantern, take: [stamp.txt]}
  outputs: [{class: archive, name: stamp.tar.gz}]
- name: image-stamp
  image: {base: static, platforms: every, files: {/stamp.txt: stamp.txt}, entrypoint: [/stamp.txt]}
  outputs: [{class: image, name: stamp}]
- name: news
  run: [sh, -c, "echo news > {out}/news.txt"]
  network: ["proxy.example.test:443"]
  outputs: [{class: file, name: news.txt}]
places:
`

// openRebuilt is a scene with a published release, of which most can be
// reproduced.
func openRebuilt(t *testing.T) *scene.Scene {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "project")
	if err := os.CopyFS(dir, os.DirFS(shell)); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, plan.ConfigName)
	raw, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte(strings.Replace(string(raw), "places:\n", stamped, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	return publish(t, openExample(t, dir))
}

// TestRebuild builds a published release again: what is reproduced, what differs
// and where, and what cannot be had again, which is named before a step runs.
func TestRebuild(t *testing.T) {
	s := openRebuilt(t)
	rebuild := func(more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "rebuild", scene.Version, "--profile", "profile.yaml", "--source", s.Source()}, more...)...)
	}
	reproduced := []string{"bin/linux/amd64/lantern", "lantern-linux-arm64.tar.gz", "oci/lantern"}
	want(t, rebuild(reproduced...), 0, "5 of 5 artifacts built again", "with the same bytes")
	want(t, s.Run(t.Context(), "waybill", "rebuild", "v9.9.9", "--profile", "profile.yaml"), 1, "EVIDENCE_MISSING", "name a version that is public there")
	want(t, rebuild("bin/none"), 2, "USAGE", "bin/none", "no artifact of this name that was built")
	want(t, rebuild("../bin/linux/amd64/lantern"), 2, "USAGE", "no artifact of this name that was built")

	differs := rebuild("stamp.txt", "stamp.tar.gz", "oci/stamp", "bin/linux/amd64/lantern")
	want(t, differs, 1, "REBUILD_MISMATCH", "1 of 6 artifacts built again", "from byte ", "entry lantern/stamp.txt", "linux/amd64: layer 1: entry stamp.txt")

	twice := s.Run(t.Context(), "waybill", "build", scene.Version, "--twice", "--profile", "profile.yaml", "--source", s.Source())
	want(t, twice, 1, "REBUILD_MISMATCH", "stamp.txt", "oci/stamp", "6 of 9 artifacts built twice")

	rebuildOne(t, s)

	want(t, rebuild("news.txt"), 3, "INPUT_GONE", "proxy.example.test")
	empty := s.Path("empty")
	if err := os.Mkdir(empty, 0o755); err != nil {
		t.Fatal(err)
	}
	sourced{s}.git(t, "init", "-q", empty)
	want(t, s.Run(t.Context(), "waybill", "rebuild", scene.Version, "--profile", "profile.yaml", "--source", empty), 3, "SOURCE_GONE")

	save(t, []byte("#!/bin/sh\nexit 1\n"), s.Path("other", "go"))
	if err := os.Chmod(s.Path("other", "go"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", s.Path("other")+":"+os.Getenv("PATH"))
	want(t, rebuild(reproduced...), 3, "TOOLCHAIN_UNAVAILABLE", "tool go")
}

// object is a file of the published release.
func object(t *testing.T, s *scene.Scene, name string) []byte {
	t.Helper()
	body, err := s.Places.Objects.Get(t.Context(), "release/lantern/"+scene.Version+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// rebuildOne builds a file and an image of a published release again, by the
// // provenance beside or attached. Provenance that lies, by another role or about
// other bytes does not count.
func rebuildOne(t *testing.T, s *scene.Scene) {
	t.Helper()
	released := func(name string) []byte { return object(t, s, name) }
	rebuild := func(more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "rebuild", "--source", s.Source()}, more...)...)
	}
	genuine, name := released("bin/linux/amd64/lantern"), plan.ProvenanceName("compile-linux-amd64")
	save(t, genuine, s.Path("one", "lantern"))
	save(t, released(name), s.Path("one", "lantern.sigstore.json"))
	want(t, rebuild("one/lantern"), 0, "1 of 1 artifact built again", "with the same bytes")
	save(t, append(genuine, '\n'), s.Path("one", "changed"))
	want(t, rebuild("one/changed", "--bundle", "one/lantern.sigstore.json"), 1, "NOT_BOUND")
	want(t, rebuild("one/lantern", "--bundle", "one/none"), 1, "MISSING", "none")
	save(t, released("bin/linux/amd64/lantern.sigstore.json"), s.Path("one", "signature"))
	want(t, rebuild("one/lantern", "--bundle", "one/signature"), 1, "MATERIAL_KIND")
	save(t, released("stamp.txt"), s.Path("one", "stamp"))
	save(t, released(plan.ProvenanceName("stamp")), s.Path("one", "stamp.sigstore.json"))
	want(t, rebuild("one/stamp"), 1, "REBUILD_MISMATCH", "from byte ")

	statement := string(payload(t, released(name)))
	for what, row := range map[string]struct {
		after, put, role, code string
		status                 int
	}{
		"another role": {"", "", "release", "IDENTITY", 1},
		"the command":  {`"command":["sh","`, "-e", "builder", "REBUILD_CLAIM", 1},
		"the commit":   {`"gitCommit":"`, "0000", "builder", "SOURCE_GONE", 3},
		"the tool":     {`"tool go","digest":{"dirHash":"`, "0000", "builder", "TOOLCHAIN_UNAVAILABLE", 3},
		"the step":     {`"step":"`, "publish", "builder", "REBUILD_CLAIM", 1},
	} {
		t.Run(what, func(t *testing.T) {
			before, rest, there := strings.Cut(statement, row.after)
			changed := before + row.after + row.put + rest[min(len(row.put), len(rest)):]
			if !there || changed == statement && row.put != "" {
				t.Fatalf("no %q to change in %s", row.after, statement)
			}
			signed, err := s.Sign(t.Context(), row.role, []byte(changed))
			if err != nil {
				t.Fatal(err)
			}
			save(t, signed, s.Path("one", "said.json"))
			want(t, rebuild("one/lantern", "--bundle", "one/said.json"), row.status, row.code)
		})
	}
	image := s.Places.Images + "/release/lantern/lantern"
	want(t, rebuild(image+":"+scene.Version), 0, "1 of 1 artifact built again")
	want(t, rebuild(s.Places.Images+"/release/lantern/stamp:"+scene.Version), 1, "REBUILD_MISMATCH", "linux/amd64: layer 1: entry stamp.txt")
	want(t, rebuild(image+":none"), 1, "MISSING")
	want(t, rebuild("none"), 2, "USAGE", "neither a version, nor a file, nor an image")
}

// rebuilders are the lines of a policy that asks for 2 of 3 rebuilders at a stage.
// Each has the identity NAME@lab.invalid.
func rebuilders(s *scene.Scene, stage string, names ...string) string {
	text := fmt.Sprintf("rebuilt:\n  atLeast: 2\n  stages: [%s]\n  of:\n", stage)
	for _, name := range names {
		issuer, _ := s.Lab.Identity(name + "@lab.invalid")
		text += fmt.Sprintf("  - {id: \"https://%s.example.test\", signers: [{issuer: %q, subject: %s@lab.invalid, type: email}]}\n", name, issuer, name)
	}
	return text
}

// TestRebuiltByOthers: a policy asks for 2 of 3 rebuilders. One signs without
// having built, one fails and has no vote, one is slow: nothing is accepted before
// an honest one has signed. Forged statements do not count.
func TestRebuiltByOthers(t *testing.T) {
	s := published(t)
	text := string(contents(t, s.Path("policy.yaml"))) + rebuilders(s, "release", "liar", "failing", "slow")
	bench{s}.policy(t, "policy.yaml", text)
	for _, name := range []string{"liar", "failing", "slow"} {
		save(t, []byte(s.Lab.Token(name+"@lab.invalid")), s.Path(name+".token"))
	}
	rebuild := func(name, id string, more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "rebuild", scene.Version, "--profile", "profile.yaml", "--sign", "https://" + id + ".example.test",
			"--identity-token", "rebuilder=" + name + ".token", "--confirm"}, more...)...)
	}
	put := func(name string, statement []byte, role string) {
		t.Helper()
		bundle, err := s.Sign(t.Context(), role, statement)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Places.Objects.Put(t.Context(), "release/lantern/"+scene.Version+"/"+name, bundle); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(name string) {
		t.Helper()
		if err := s.Places.Objects.Remove(t.Context(), "release/lantern/"+scene.Version+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	want(t, s.Verify(t.Context()), 1, "EVIDENCE_MISSING", "statement of the rebuilder")

	// Without --confirm the statement is printed. Who has it can sign it unbuilt.
	printed := s.Run(t.Context(), "waybill", "rebuild", scene.Version, "--profile", "profile.yaml", "--sign", "https://liar.example.test")
	want(t, printed, 0, "nothing was done", rebuildrecord.PredicateType)
	_, statement, _ := strings.Cut(printed.Stdout, "{")
	honest := []byte("{" + statement)
	liar := "liar@lab.invalid"
	put(rebuildrecord.Name(1), honest, liar)
	want(t, s.Verify(t.Context()), 1, "THRESHOLD")
	put(rebuildrecord.Name(2), honest, liar)
	want(t, s.Verify(t.Context()), 1, "THRESHOLD")
	for what, changed := range map[string]string{
		"in the name of another": strings.ReplaceAll(string(honest), "liar.example", "slow.example"), "about other bytes": withOtherBytes(t, honest),
	} {
		put(rebuildrecord.Name(2), []byte(changed), liar)
		t.Run(what, func(t *testing.T) { want(t, s.Verify(t.Context()), 1, "EXTRA", rebuildrecord.Name(2), "THRESHOLD") })
	}
	put(rebuildrecord.Name(2), honest, "release") // of another role
	want(t, s.Verify(t.Context()), 1, "EXTRA", rebuildrecord.Name(2), "THRESHOLD")
	remove(rebuildrecord.Name(2))

	want(t, rebuild("failing", "failing", "--source", s.Path("state")), 3, "SOURCE_GONE")
	want(t, s.Verify(t.Context()), 1, "THRESHOLD")
	want(t, rebuild("slow", "failing"), 1, "REBUILDER")
	want(t, s.Verify(t.Context()), 1, "THRESHOLD")
	want(t, rebuild("slow", "slow"), 0, "with the same bytes", rebuildrecord.Name(2)+": signed by slow@lab.invalid")
	want(t, s.Verify(t.Context(), "--require-level", "build=1", "--report", "kep-3027"), 0, "nothing extra", "met        build.reproducible")

	// A genuine file of a build that was not released: a statement about it beside the
	// manifest would be EXTRA.
	const manifest = "release.manifest.sigstore.json"
	sealed, file := object(t, s, manifest), object(t, s, "bin/linux/amd64/lantern")
	save(t, file, s.Path("one", "lantern"))
	save(t, object(t, s, plan.ProvenanceName("compile-linux-amd64")), s.Path("one", "lantern.sigstore.json"))
	one := func() scene.Result {
		return s.Run(t.Context(), "waybill", "rebuild", "one/lantern", "--profile", "profile.yaml", "--sign", "https://slow.example.test", "--identity-token", "rebuilder=slow.token", "--confirm")
	}
	put(manifest, []byte(strings.ReplaceAll(string(payload(t, sealed)), sum(string(file)).Hex(), strings.Repeat("0", 64))), "release")
	want(t, one(), 1, "NOT_BOUND", "no artifact of the release", "nothing is signed")
	if err := s.Places.Objects.Put(t.Context(), "release/lantern/"+scene.Version+"/"+manifest, sealed); err != nil {
		t.Fatal(err)
	}
	want(t, one(), 0, rebuildrecord.Name(3)+": signed by slow@lab.invalid") // and no statement was written before
	want(t, s.Verify(t.Context()), 0, "nothing extra")
}

// withOtherBytes changes the digest of the first subject.
func withOtherBytes(t *testing.T, statement []byte) string {
	t.Helper()
	var all fields
	if err := json.Unmarshal(statement, &all); err != nil {
		t.Fatal(err)
	}
	all["subject"].([]any)[0].(map[string]any)["digest"] = fields{"sha256": strings.Repeat("0", 64)}
	raw, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// TestPolicyRebuilt: of two rebuilders that a policy asks for, each speaks for
// itself, about these bytes, in its role.
func TestPolicyRebuilt(t *testing.T) {
	c := openCourt(t)
	c.text += rebuilders(c.Scene, "staging", "one", "two", "three")
	built := c.sign(t, "builder", states(provenance.PredicateType, content, built1()))
	said := func(id string) fields {
		return fields{"rebuilder": fields{"id": "https://" + id + ".example.test"}, "source": fields{"repository": "git+https://example.test/lantern", "commit": commit},
			"provenance": []any{sum(string(built)).Hex()}, "isolation": "isolated", "finishedOn": "2026-03-01T12:00:00Z"}
	}
	kind := rebuildrecord.PredicateType
	c.write(t, "signed.json", c.sign(t, "release", blobOf(content)))
	c.write(t, "built.json", built)
	// The same bytes in another release, with the provenance of that one.
	last := c.sign(t, "builder", states(provenance.PredicateType, content, built1().with(source("git+https://example.test/lantern@refs/tags/v0.0.9"))))
	c.write(t, "last.json", last)
	c.write(t, "before.json", c.sign(t, "two@lab.invalid", states(kind, content, said("two").with(fields{"provenance": []any{sum(string(last)).Hex()}}))))
	c.write(t, "one.json", c.sign(t, "one@lab.invalid", states(kind, content, said("one"))))
	c.write(t, "again.json", c.sign(t, "one@lab.invalid", states(kind, content, said("one").with(fields{"isolation": "unisolated"}))))
	c.write(t, "two.json", c.sign(t, "two@lab.invalid", states(kind, content, said("two"))))
	c.write(t, "other.json", c.sign(t, "two@lab.invalid", states(kind, "other bytes", said("two"))))
	c.write(t, "forged.json", c.sign(t, "one@lab.invalid", states(kind, content, said("two"))))
	c.write(t, "role.json", c.sign(t, "builder", states(kind, content, said("two"))))
	c.write(t, "stranger.json", c.sign(t, "stranger@lab.invalid", states(kind, content, said("two"))))
	c.write(t, "malformed.json", c.sign(t, "two@lab.invalid", states(kind, content, said("two").with(fields{"source": nil}))))
	for words, code := range map[string]string{
		"one two": "", "": "EVIDENCE_MISSING", "one": "THRESHOLD", "one again": "THRESHOLD", "one other": "THRESHOLD", "other": "NOT_BOUND",
		"one forged": "THRESHOLD", "forged": "REBUILDER", "role": "IDENTITY_ROLE", "one role": "THRESHOLD", "stranger": "IDENTITY", "malformed": "PAYLOAD_PARSE",
		"one before": "THRESHOLD", "before": "NOT_BOUND", "last one before": "THRESHOLD", "last one two": "",
	} {
		t.Run(words, func(t *testing.T) { judgedAs(t, c.ask(t, nil, "signed built "+words), code) })
	}
	same := strings.Replace(c.text, "two@lab.invalid", "one@lab.invalid", 1)
	bench{c.Scene}.policy(t, "same.yaml", same)
	want(t, c.Run(t.Context(), "waybill", "policy", "lint", "same.yaml"), 2, "POLICY_WEAK", "rebuilder https://one.example.test")
	bench{c.Scene}.policy(t, "three.yaml", strings.Replace(c.text, "atLeast: 2", "atLeast: 4", 1))
	want(t, c.Run(t.Context(), "waybill", "policy", "lint", "three.yaml"), 2, "rebuilt.atLeast", "want 1 to 3")
}

// TestDocsRebuild executes the page about rebuilds.
func TestDocsRebuild(t *testing.T) {
	s := published(t)
	issuer, _ := s.Lab.Identity("one@lab.invalid")
	bench{s}.policy(t, "policy.yaml", string(contents(t, s.Path("policy.yaml")))+rebuilders(s, "release", "one", "two", "three"))
	for _, name := range []string{"one", "two"} {
		save(t, []byte(s.Lab.Token(name+"@lab.invalid")), s.Path(name+".token"))
	}
	for name, of := range map[string]string{"lantern-amd64": "bin/linux/amd64/lantern", "compile.sigstore.json": plan.ProvenanceName("compile-linux-amd64")} {
		save(t, object(t, s, of), s.Path(name))
	}
	save(t, program(t), s.Path("beacon"))
	p := page{
		path: filepath.Join("..", "..", "docs", "how-to", "rebuild.md"), dir: s.Path(), env: []string{"PATH=" + bin + ":" + os.Getenv("PATH")},
		lab: strings.NewReplacer("@example.test", "@lab.invalid", "https://accounts.example.test", issuer, "with the same bytes.\n", "with the same bytes.\n…\n…GOSUMDB…\n"),
	}
	if err := p.run(t.Context()); err != nil {
		t.Error(err)
	}
}
