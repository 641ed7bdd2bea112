package stories

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/testing/rawarchive"
	"github.com/waybill-release/waybill/test/scene"
)

// kitted are the entries of a kit, by name.
type kitted map[string]string

// readKit unpacks a kit.
func readKit(t *testing.T, path string) kitted {
	t.Helper()
	k, r := kitted{}, tar.NewReader(bytes.NewReader(contents(t, path)))
	for {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return k
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		k[h.Name] = string(body)
	}
}

// write makes a kit of the entries, and of others behind them.
func (k kitted) write(t *testing.T, path string, more ...[]byte) {
	t.Helper()
	var entries [][]byte
	for _, name := range slices.Sorted(maps.Keys(k)) {
		entries = append(entries, rawarchive.File(name, k[name]))
	}
	save(t, rawarchive.Tar(append(entries, more...)...), path)
}

// some is the first name below a directory with a part in it.
func (k kitted) some(t *testing.T, dir, part string) string {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(k)) {
		if strings.HasPrefix(name, dir) && strings.Contains(k[name], part) {
			return name
		}
	}
	t.Fatalf("nothing below %s has %q", dir, part)
	return ""
}

// TestKit: a release goes into one file, which is verified without a network, and
// comes out of it whole. What is altered in it is refused.
func TestKit(t *testing.T) {
	s := published(t)
	asks := func(kit string, flags ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--kit", kit, "--output", "json"}, flags...)...)
	}
	export := func(path string) scene.Result {
		return s.Run(t.Context(), "waybill", "kit", "export", scene.Version, path, "--profile", "profile.yaml")
	}
	r := export("a.kit")
	want(t, r, 0, "--pin sha256:")
	_, pin, _ := strings.Cut(r.Stdout+r.Stderr, "--pin ")
	pin = pin[:len("sha256:")+64]
	want(t, export("b.kit"), 0)
	if !bytes.Equal(contents(t, s.Path("a.kit")), contents(t, s.Path("b.kit"))) {
		t.Error("two kits of one release differ")
	}
	want(t, export("a.kit"), 2, "does not exist")
	want(t, s.Run(t.Context(), "waybill", "kit", "export", scene.Version, "lost.kit", "--profile", "profile.yaml", "--output", "json=./lost.kit"), 2, "name another file")
	want(t, asks("a.kit", "--pin", pin, "--output", "html=a.kit"), 2, "name another file")
	want(t, asks("a.kit", "--pin", pin, "--output", "html=a.html"), 0)
	want(t, asks("a.kit", "--pin", pin), 0)
	want(t, asks("a.kit", "--profile", "profile.yaml"), 0)
	want(t, asks("a.kit", "--pin", pin, "--now", "2056-01-01T00:00:00Z"), 0) // signatures have their own times
	want(t, s.Run(t.Context(), "waybill", "kit", "verify", scene.Version, "a.kit", "--pin", pin), 0)
	want(t, asks("a.kit", "--pin", pin, "--profile", "profile.yaml"), 2, "--pin")
	want(t, asks("a.kit", "--pin", pin, "--images", "x"), 2, "--images")
	want(t, asks("a.kit", "--pin", pin[:20]), 2, "--pin")
	t.Run("without a network", func(t *testing.T) { kitAlone(t, s, pin) })
	t.Run("attacks", func(t *testing.T) { kitAttacks(t, s, pin) })
	t.Run("compressed", func(t *testing.T) { kitCompressed(t, s, pin) })
	t.Run("evidence only", func(t *testing.T) { kitEvidence(t, s, pin) })
	images := s.Lab.Registry + "/mirror/lantern"
	want(t, s.Run(t.Context(), "waybill", "kit", "import", scene.Version, "a.kit", "--pin", pin, "--to", "mirror", "--to-images", images), 0)
	want(t, s.Run(t.Context(), "k8s-verify-release", scene.Version, "--profile", "profile.yaml", "--files", "mirror", "--images", images), 0)
	imports := func(to string, more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "kit", "import", scene.Version, "a.kit", "--pin", pin, "--to", to}, more...)...)
	}
	want(t, imports("imageless"), 2, "--to-images: required")
	want(t, imports("networkless", "--to-images", images, "--offline"), 3, "leave out --offline")
	for _, dir := range []string{"imageless", "networkless"} {
		if _, err := os.Stat(s.Path(dir)); err == nil {
			t.Errorf("a refused import made %s", dir)
		}
	}
	with := readKit(t, s.Path("a.kit"))
	with["files/stranger.sh"], with["files/later"+gate.BundleSuffix] = "#!/bin/sh", with[with.some(t, "files/", "dsseEnvelope")]
	with["files/stranger"+gate.BundleSuffix] = "#!/bin/sh"
	with.write(t, s.Path("with.kit"))
	want(t, s.Run(t.Context(), "waybill", "kit", "import", scene.Version, "with.kit", "--pin", pin, "--to", "other", "--to-images", images), 1, "EXTRA")
	save(t, bytes.Replace(contents(t, s.Path("policy.yaml")), []byte("closed: {files: require,"), []byte("closed: {files: warn,"), 1), s.Path("warned.yaml"))
	save(t, bytes.ReplaceAll(contents(t, s.Path("profile.yaml")), []byte("policy.yaml"), []byte("warned.yaml")), s.Path("warning.yaml"))
	want(t, s.Run(t.Context(), "waybill", "kit", "import", scene.Version, "with.kit", "--profile", "warning.yaml", "--to", "partly", "--to-images", images), 0)
	for name, copied := range map[string]bool{"stranger.sh": false, "stranger" + gate.BundleSuffix: false, "later" + gate.BundleSuffix: true} {
		if _, err := os.Stat(s.Path("partly", name)); (err == nil) != copied {
			t.Errorf("%s, which nothing lists, was copied: %v, want %v", name, err == nil, copied)
		}
	}
	want(t, s.Run(t.Context(), "waybill", "kit", "import", scene.Version, "a.kit", "--to", "other", "--to-images", images), 1, "KIT_SELF_TRUST")
	if _, err := os.Stat(s.Path("other")); err == nil {
		t.Error("a kit without a pin was imported")
	}
	t.Run("an older revision", func(t *testing.T) { kitRevisions(t, s, pin) })
	t.Run("delta", func(t *testing.T) { kitDelta(t, s, pin) })
	t.Run("trust root of a repository", func(t *testing.T) { kitChained(t, s) })
	t.Run("checkpoint", func(t *testing.T) { kitWatched(t, s) })
}

// kitChained: the trust root in a kit counts without a pin if signatures lead to it from
// the TUF root that the verifier has, however late it is.
func kitChained(t *testing.T, s *scene.Scene) {
	source, err := json.Marshal(map[string]any{"url": "http://127.0.0.1:1", "root": s.Lab.TUFRoot})
	if err := errors.Join(err, os.Mkdir(s.Path("inside"), 0o755)); err != nil {
		t.Fatal(err)
	}
	save(t, source, s.Path("inside", "source.json"))
	save(t, bytes.Replace(source, []byte("http://127.0.0.1:1"), []byte(s.Lab.TUF), 1), s.Path("outside.json"))
	if err := errors.Join(os.Mkdir(s.Path("outside"), 0o755), os.Rename(s.Path("outside.json"), s.Path("outside", "source.json"))); err != nil {
		t.Fatal(err)
	}
	for name, profile := range map[string]string{"rootless.yaml": "profile.yaml", "rootless-limiting.yaml": "limiting.yaml"} {
		save(t, bytes.Replace(contents(t, s.Path(profile)), []byte("trustedRoot: trusted_root.json\n"), nil, 1), s.Path(name))
	}
	save(t, bytes.Replace(contents(t, s.Path("limited.yaml")), []byte("manifest: 1s"), []byte("trustRoot: 2160h"), 1), s.Path("limited.yaml"))
	want(t, s.Run(t.Context(), "waybill", "kit", "export", scene.Version, "chained.kit", "--profile", "rootless.yaml", "--cache", "outside"), 0, "--pin")
	asks := func(kit string, args ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--kit", kit}, args...)...)
	}
	inside := []string{"--profile", "rootless.yaml", "--cache", "inside"}
	want(t, asks("chained.kit", inside...), 0)
	want(t, asks("chained.kit", append(inside, "--now", "2056-01-01T00:00:00Z")...), 0)
	want(t, asks("chained.kit", "--profile", "rootless-limiting.yaml", "--cache", "inside"), 0)
	want(t, asks("chained.kit", "--profile", "rootless-limiting.yaml", "--cache", "inside", "--now", "2056-01-01T00:00:00Z"), 1, "STALE")
	want(t, asks("chained.kit", "--profile", "rootless.yaml", "--cache", "empty"), 1, "KIT_SELF_TRUST", "no signatures lead") // from the public-good root
	want(t, asks("chained.kit", append(inside, "--now", "2020-01-01T00:00:00Z")...), 1, "KIT_SELF_TRUST")
	want(t, asks("chained.kit", append(inside, "--min-root", "99")...), 1, "KIT_SELF_TRUST")
	want(t, asks("chained.kit"), 1, "KIT_SELF_TRUST", "no digest from outside") // the policy has no chain
	honest := readKit(t, s.Path("chained.kit"))
	for name, change := range map[string]func(k kitted){
		"a later date": func(k kitted) { k["trust/root.date"] = "2056-01-01" },
		"no date":      func(k kitted) { k["trust/root.date"] = "yesterday" },
		"another trust root": func(k kitted) {
			k["trust/tuf.json"] = strings.Replace(k["trust/tuf.json"], `"files":{"`, `"files":{"x":"","y`, 1)
		},
		"no metadata":          func(k kitted) { k["trust/tuf.json"] = "{}" },
		"metadata that is cut": func(k kitted) { k["trust/tuf.json"] = k["trust/tuf.json"][:99] },
	} {
		k := maps.Clone(honest)
		change(k)
		k.write(t, s.Path("unchained.kit"))
		if r := asks("unchained.kit", inside...); r.Code != 1 || !strings.Contains(r.Stdout+r.Stderr, "KIT_SELF_TRUST") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// kitWatched: the log of a kit must extend the checkpoint in it, and is read from there.
func kitWatched(t *testing.T, s *scene.Scene) {
	watch := func(kit, state string, args ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"waybill", "watch", "--profile", "profile.yaml", "--log", s.Lab.Rekor, "--kit", kit, "--state", state}, args...)...)
	}
	want(t, watch("a.kit", "fresh", "--releases", "state"), 0)
	want(t, watch("a.kit", "alarm"), 1, "LOG_UNEXPLAINED") // revision 2, signed since
	want(t, watch("second.kit", "late", "--releases", "state"), 0)
	want(t, watch("nowhere.kit", "late"), 2, "no such file")
	forged, err := s.Lab.Checkpoint(7, bytes.Repeat([]byte{1}, 32))
	if err != nil {
		t.Fatal(err)
	}
	k := readKit(t, s.Path("a.kit"))
	var bundle map[string]any
	if err := json.Unmarshal([]byte(k["files/release.manifest.sigstore.json"]), &bundle); err != nil {
		t.Fatal(err)
	}
	entry := bundle["verificationMaterial"].(map[string]any)["tlogEntries"].([]any)[0].(map[string]any)
	for code, checkpoint := range map[string]string{"LOG_FORK": forged, "CHECKPOINT_SIG": "x"} {
		entry["inclusionProof"].(map[string]any)["checkpoint"].(map[string]any)["envelope"] = checkpoint
		raw, err := json.Marshal(bundle)
		if err != nil {
			t.Fatal(err)
		}
		k["files/release.manifest.sigstore.json"] = string(raw)
		k.write(t, s.Path("forged.kit"))
		for _, state := range []string{"fresh", "unseen-" + code} {
			want(t, watch("forged.kit", state, "--releases", "state"), 1, code)
		}
	}
}

// kitCompressed: a kit of zstd frames is the same kit, and nothing hides in it.
func kitCompressed(t *testing.T, s *scene.Scene, pin string) {
	for _, path := range []string{"z.kit", "y.kit"} {
		want(t, s.Run(t.Context(), "waybill", "kit", "export", scene.Version, path, "--profile", "profile.yaml", "--zstd"), 0, pin)
	}
	whole := contents(t, s.Path("z.kit"))
	if !bytes.Equal(whole, contents(t, s.Path("y.kit"))) || len(whole) >= len(contents(t, s.Path("a.kit"))) {
		t.Error("two kits differ, or are not smaller")
	}
	for name, row := range map[string]struct {
		raw  []byte
		code string
	}{
		"as it is (twin)":                   {whole, ""},
		"cut off":                           {whole[:len(whole)-9], "ARCHIVE_PARSE"},
		"a second kit behind it":            {append(bytes.Clone(whole), whole...), "ARCHIVE_PARSE"},
		"a frame that programs skip":        {append(bytes.Clone(whole), "\x50\x2a\x4d\x18\x04\x00\x00\x00hide"...), "ARCHIVE_HIDDEN"},
		"a frame that programs skip, first": {append([]byte("\x50\x2a\x4d\x18\x04\x00\x00\x00hide"), whole...), "ARCHIVE_PARSE"},
		"bytes behind it":                   {append(bytes.Clone(whole), "x"...), "ARCHIVE_PARSE"},
	} {
		t.Run(name, func(t *testing.T) {
			save(t, row.raw, s.Path("raw.kit"))
			kitRefused(t, s, "raw.kit", pin, row.code)
		})
	}
}

// kitEvidence: files that are there already are verified by a kit without them, and
// such a kit is no release.
func kitEvidence(t *testing.T, s *scene.Scene, pin string) {
	want(t, s.Run(t.Context(), "waybill", "kit", "export", scene.Version, "e.kit", "--profile", "profile.yaml", "--evidence-only"), 0, pin)
	whole, evidence := readKit(t, s.Path("a.kit")), readKit(t, s.Path("e.kit"))
	built := ""
	for _, name := range slices.Sorted(maps.Keys(whole)) {
		switch _, is := evidence[name]; {
		case !is && strings.HasPrefix(name, "files/"):
			built = name
		case !is && !strings.HasPrefix(name, "blobs/"):
			t.Errorf("%s is not in the kit", name)
		}
	}
	kitRefused(t, s, "e.kit", pin, "MISSING")
	at := filepath.Join("there", strings.TrimPrefix(built, "files/"))
	if err := os.MkdirAll(filepath.Dir(s.Path(at)), 0o755); err != nil {
		t.Fatal(err)
	}
	save(t, []byte(whole[built]), s.Path(at))
	given := func() scene.Result {
		return s.Run(t.Context(), "k8s-verify-release", scene.Version, at, "--kit", "e.kit", "--pin", pin)
	}
	want(t, given(), 0)
	save(t, []byte(whole[built]+"x"), s.Path(at))
	want(t, given(), 1, "TAMPERED")
}

// kitRevisions: a kit of an older revision is as old as its signature, and never
// replaces a newer one.
func kitRevisions(t *testing.T, s *scene.Scene, pin string) {
	d := &desk{&workshop{Scene: s}}
	want(t, d.seals(t, "release", "--amend", "--reason", "a new log", "--confirm"), 0, "revision 2 is sealed")
	want(t, d.promotes(t, "staging"), 0)
	want(t, s.Release(t.Context()), 0, "Revision 2 of the manifest")
	want(t, s.Run(t.Context(), "waybill", "kit", "export", scene.Version, "second.kit", "--profile", "profile.yaml"), 0, pin)
	save(t, bytes.Replace(contents(t, s.Path("policy.yaml")), []byte("\nplan: require"), []byte("\nlimits: {manifest: 1s}\nplan: require"), 1), s.Path("limited.yaml"))
	save(t, bytes.ReplaceAll(contents(t, s.Path("profile.yaml")), []byte("policy.yaml"), []byte("limited.yaml")), s.Path("limiting.yaml"))
	first := func(kit string, more ...string) scene.Result {
		return s.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--kit", kit}, more...)...)
	}
	want(t, first("a.kit", "--profile", "limiting.yaml", "--now", "2056-01-01T00:00:00Z"), 1, "STALE")
	want(t, first("a.kit", "--profile", "profile.yaml", "--now", "2056-01-01T00:00:00Z"), 0)
	want(t, first("second.kit", "--pin", pin), 0, "Revision 2 of the manifest")
	imports := func(kit string) scene.Result {
		return s.Run(t.Context(), "waybill", "kit", "import", scene.Version, kit, "--pin", pin, "--to", "newer", "--to-images", s.Lab.Registry+"/newer/lantern")
	}
	want(t, imports("second.kit"), 0)
	want(t, imports("a.kit"), 1, "FILE_CONFLICT", "import into another place")
	want(t, imports("second.kit"), 0)
}

// kitAlone verifies where there is no network at all.
func kitAlone(t *testing.T, s *scene.Scene, pin string) {
	uses(t, "unshare")
	cmd := exec.CommandContext(t.Context(), "unshare", "-rn", filepath.Join(bin, "k8s-verify-release"), scene.Version, "--kit", "a.kit", "--pin", pin)
	cmd.Dir = s.Dir
	if out, err := cmd.CombinedOutput(); err != nil {
		if os.Getenv("CI") == "" && strings.Contains(string(out), "unshare failed") {
			t.Skipf("this machine gives no network namespaces: %s", out)
		}
		t.Errorf("%v\n%s", err, out)
	}
}

// kitAttacks alters a kit in one place each.
func kitAttacks(t *testing.T, s *scene.Scene, pin string) {
	whole := contents(t, s.Path("a.kit"))
	honest := readKit(t, s.Path("a.kit"))
	artifact := honest.some(t, "files/", "")
	signature := honest.some(t, "files/", `"messageSignature"`)
	layer, empty := "", ""
	for name, body := range honest {
		if strings.HasPrefix(name, "blobs/") && body == "{}" {
			empty = name
		}
		if strings.HasPrefix(name, "blobs/") && strings.HasPrefix(body, "\x1f\x8b") {
			layer = name
		}
	}
	header := func(name string, kind byte, size int64) []byte {
		h := rawarchive.Header{Name: name, Kind: kind, Size: size}
		return h.Bytes()
	}
	for i, row := range []struct {
		name   string
		change func(k kitted)
		more   []byte
		code   string
	}{
		{"as it is, packed again (twin)", func(kitted) {}, nil, ""},
		{"an entry twice", func(kitted) {}, rawarchive.File(artifact, honest[artifact]), "ARCHIVE_TWICE"},
		{"a name that leads out", func(kitted) {}, rawarchive.File("files/../../x", "x"), "PATH"},
		{"a symbolic link", func(kitted) {}, header("files/x", '2', 0), "FILE_TYPE"},
		{"a hard link", func(kitted) {}, header("files/x", '1', 0), "FILE_TYPE"},
		{"a size of a terabyte", func(kitted) {}, header("files/x", '0', 1<<33-1), "ARCHIVE_PARSE"},
		{"a sparse file", func(kitted) {}, append(rawarchive.Extended('x', rawarchive.Records("GNU.sparse.name", artifact)), rawarchive.File("files/x", "x")...), "ARCHIVE_AMBIGUOUS"},
		{"another trust root", func(k kitted) { k["trust/trusted_root.json"] += " " }, nil, "KIT_SELF_TRUST"},
		{"another policy", func(k kitted) { k["trust/policy.yaml"] += "\n" }, nil, "KIT_SELF_TRUST"},
		{"another profile", func(k kitted) { k["trust/profile.yaml"] += "\n" }, nil, "KIT_SELF_TRUST"},
		{"one file more of trust", func(k kitted) { k["trust/x"] = "" }, nil, "KIT_SELF_TRUST"},
		{"a layer of other bytes", func(k kitted) { k[layer] = "x" + k[layer][1:] }, nil, "TAMPERED"},
		{"a layer less", func(k kitted) { delete(k, layer) }, nil, "MISSING"},
		{"a configuration of evidence with other bytes", func(k kitted) { k[empty] = "hide" }, nil, "TAMPERED"},
		{"a configuration of evidence less", func(k kitted) { delete(k, empty) }, nil, "MISSING"},
		{"a blob that no image names", func(k kitted) { k["blobs/sha256/"+strings.Repeat("0", 64)] = "x" }, nil, "EXTRA"},
		{"a directory of its own", func(k kitted) { k["more/"+strings.Repeat("a/", 60)+"x"] = "x" }, nil, "EXTRA"},
		{"a file of other bytes", func(k kitted) { k[artifact] += "x" }, nil, "TAMPERED"},
		{"a file less", func(k kitted) { delete(k, artifact) }, nil, "MISSING"},
		{"a file more", func(k kitted) { k["files/x"] = "x" }, nil, "EXTRA"},
		{"evidence less", func(k kitted) { delete(k, signature) }, nil, "MISSING"},
		{"no manifest", func(k kitted) { delete(k, "files/release.manifest.sigstore.json") }, nil, "EVIDENCE_MISSING"},
		{"another version of the layout", func(k kitted) { k["oci-layout"] = `{"imageLayoutVersion":"2.0.0"}` }, nil, "ARCHIVE_PARSE"},
		{"an index of another media type", func(k kitted) {
			k["index.json"] = strings.ReplaceAll(k["index.json"], "application/vnd.oci.image.index.v1+json", "application/x")
		}, nil, "MANIFEST_PARSE"},
		{"a manifest more in the index", func(k kitted) {
			k["index.json"] = strings.Replace(k["index.json"], `"manifests":[`, fmt.Sprintf(`"manifests":[{"mediaType":"application/vnd.oci.image.manifest.v1+json","digest":"sha256:%064d","size":2},`, 1), 1)
		}, nil, "MISSING"},
		{"a tag more", func(k kitted) {
			k["index.json"] = strings.Replace(k["index.json"], ":"+scene.Version+`"`, ":other-"+scene.Version+`"`, 1)
		}, nil, "MISSING"},
	} {
		t.Run(row.name, func(t *testing.T) {
			k := maps.Clone(honest)
			row.change(k)
			var more [][]byte
			if row.more != nil {
				more = append(more, row.more)
			}
			name := fmt.Sprintf("attack-%d.kit", i)
			k.write(t, s.Path(name), more...)
			kitRefused(t, s, name, pin, row.code)
		})
	}
	for name, raw := range map[string][]byte{"cut off": whole[:len(whole)/2], "bytes behind it": append(bytes.Clone(whole), "x"...), "a second kit behind it": append(bytes.Clone(whole), whole...), "no kit": []byte("x")} {
		t.Run(name, func(t *testing.T) {
			save(t, raw, s.Path("raw.kit"))
			code := "ARCHIVE_HIDDEN"
			if name == "cut off" || name == "no kit" {
				code = "ARCHIVE_PARSE"
			}
			kitRefused(t, s, "raw.kit", pin, code)
		})
	}
	t.Run("another version", func(t *testing.T) {
		want(t, s.Run(t.Context(), "k8s-verify-release", "v9.9.9", "--kit", "a.kit", "--pin", pin), 1, "VERSION")
	})
	t.Run("no pin", func(t *testing.T) {
		want(t, s.Run(t.Context(), "k8s-verify-release", scene.Version, "--kit", "a.kit"), 1, "KIT_SELF_TRUST", pin)
	})
	t.Run("its profile, named", func(t *testing.T) {
		want(t, s.Run(t.Context(), "k8s-verify-release", scene.Version, "--kit", "a.kit", "--profile", "a.kit/trust/profile.yaml"), 1, "KIT_SELF_TRUST")
	})
}

// kitRefused expects the code, or acceptance if there is none.
func kitRefused(t *testing.T, s *scene.Scene, kit, pin, code string) {
	t.Helper()
	r := s.Run(t.Context(), "k8s-verify-release", scene.Version, "--kit", kit, "--pin", pin)
	if code == "" {
		want(t, r, 0)
		return
	}
	want(t, r, 1, code)
}
