package stories

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/test/scene"
)

const lamp = "bin/linux/amd64/lantern"

// TestPartOfARelease: who asks about a part gets an answer about that part,
// which says what it does not cover; who has files gets an answer about them.
func TestPartOfARelease(t *testing.T) {
	d := publishedDesk(t)
	t.Run("depth and scope", func(t *testing.T) { scopes(t, d) })
	t.Run("levels", func(t *testing.T) { demanded(t, d) })
	t.Run("files at hand", func(t *testing.T) { atHand(t, d) })
	t.Run("sums", func(t *testing.T) { summedUp(t, d) })
	t.Run("under attack", func(t *testing.T) { scopedAttacks(t, d) })
	t.Run("download", func(t *testing.T) { downloads(t, d) })
	t.Run("download among others", func(t *testing.T) { downloadsAmongOthers(t, d) })
	t.Run("offline", func(t *testing.T) { alone(t, d) })
}

func scopes(t *testing.T, d *desk) {
	rows := []struct {
		flags string
		code  int
		said  []string
	}{
		{"", 0, []string{"nothing extra"}},
		{"--depth provenance", 0, []string{"nothing extra"}},
		{"--depth files", 0, []string{"Not checked: signatures, provenance, SBOMs, plan.", "1 × release manifest"}},
		{"--depth signatures", 0, []string{"Not checked: provenance, SBOMs, plan.", "6 × file signature", "3 × image signature"}},
		{"--only files", 0, []string{"Not checked: images.", "6 × file signature"}},
		{"--only images", 0, []string{"Not checked: files.", "verified=4 required=4", "3 × image signature"}},
		{"--platform linux/amd64", 0, []string{"Not checked: other platforms than linux/amd64.", "2 × image signature"}},
		{"--platform linux/amd64 --only images", 0, []string{"verified=3 required=3"}},
		{"--platform linux/amd64 --depth files --only files", 0, []string{"Not checked: signatures, provenance, SBOMs, plan, other platforms than linux/amd64, images."}},
		{"--platform windows/amd64 --only images", 2, []string{"no image in the release is for platform \"windows/amd64\"; platforms: linux/amd64, linux/arm64"}},
		{"--platform linux/riscv64", 2, []string{"--platform", "linux/riscv64"}},
		{"--depth shallow", 2, []string{"want files, signatures, provenance or full"}},
		{"--depth full", 2, []string{"waybill verify release does"}},
		{"--only ./images", 2, []string{"want files or images"}},
	}
	for _, r := range rows {
		t.Run(r.flags, func(t *testing.T) { want(t, d.Verify(t.Context(), strings.Fields(r.flags)...), r.code, r.said...) })
	}
	whole := parse(t, d.Verify(t.Context(), "-o", "json"))
	part := parse(t, d.Verify(t.Context(), "-o", "json", "--platform", "linux/amd64"))
	if part.Counts.Required >= whole.Counts.Required || part.Counts.Verified != part.Counts.Required {
		t.Errorf("of %+v the platform has %+v", whole.Counts, part.Counts)
	}
}

// demanded asks for levels: the least of the whole way counts.
func demanded(t *testing.T, d *desk) {
	want(t, d.Verify(t.Context(), "--require-level", "build=1"), 0, "nothing extra")
	want(t, d.Verify(t.Context(), "--require-level", "build=3"), 1, "LEVEL", lamp, "want build=3")
	want(t, d.Verify(t.Context(), "--require-level", "build=3", "--only", "images"), 1, "LEVEL", "oci/lantern")
	want(t, d.Verify(t.Context(), "--require-level", "v0.1=1"), 0, "v0.1 level 1 of 4")
	want(t, d.Verify(t.Context(), "--require-level", "kep-3027=2"), 1, "LEVEL", "source.version-controlled", "want v0.1=2")
	want(t, d.Verify(t.Context(), "--require-level", "v0.2=1"), 2, "--require-level")
	want(t, d.Verify(t.Context(), "--require-level", "build=1", "--depth", "files"), 2, "levels are read from provenance")
	sums := d.Path("state", "files", "SHA256SUMS")
	want(t, d.Verify(t.Context(), sums), 0)
	want(t, d.at(t, "--require-level", "build=1", sums), 1, "LEVEL", "none of the selected artifacts was built")
}

// at verifies with flags and files in any order.
func (d *desk) at(t *testing.T, args ...string) scene.Result {
	t.Helper()
	return d.Run(t.Context(), append([]string{"k8s-verify-release", scene.Version, "--profile", "profile.yaml"}, args...)...)
}

// atHand brings files of this machine. Each row of a refusal differs in one
// fact from one that is accepted.
func atHand(t *testing.T, d *desk) {
	body := d.read(t, filepath.Join("state", "files", lamp))
	changed := append([]byte(nil), body...)
	changed[len(changed)/2] ^= 1
	for name, raw := range map[string][]byte{
		"lantern": body, "lamp": body, "SHA256SUMS": body, "broken/lantern": changed, "stranger": []byte("nobody's"),
		"broken/linux/amd64/lantern": changed, "sums/SHA256SUMS": d.read(t, "state/files/SHA256SUMS"), "arm/lantern": d.read(t, "state/files/bin/linux/arm64/lantern"),
	} {
		if err := os.MkdirAll(filepath.Dir(d.Path("hand", name)), 0o755); err != nil {
			t.Fatal(err)
		}
		d.write(t, filepath.Join("hand", name), raw)
	}
	rows := []struct {
		name string
		args []string
		code int
		said []string
	}{
		{"one file", []string{"hand/lantern"}, 0, []string{"OK hand/lantern of lantern v0.1.0: ", "hand/lantern is " + lamp, "verified=2 required=2", "1 × provenance", "1 × file signature"}},
		{"two files", []string{"hand/lantern", "hand/sums/SHA256SUMS"}, 0, []string{"verified=3 required=3"}},
		{"under a name of its owner's", []string{"hand/lamp"}, 0, []string{"hand/lamp is " + lamp}},
		{"the manifest", []string{"state/files/" + releasemanifest.Name}, 0, []string{"is the manifest itself."}},
		{"under the name of another", []string{"hand/SHA256SUMS"}, 1, []string{"NAME_SWAP", "holds the bytes of " + lamp, "verified=1 required=2"}},
		{"one byte differs", []string{"hand/broken/lantern"}, 1, []string{"TAMPERED", "the bytes are not those of bin/", "want the digest of one of these files"}},
		{"one byte differs, in its directory", []string{"hand/broken/linux/amd64/lantern"}, 1, []string{"TAMPERED", "the bytes are not those of " + lamp + "\n", "want sha256:"}},
		{"a stranger", []string{"hand/stranger"}, 1, []string{"EXTRA", "neither its name nor its bytes", "the file is not part of this release"}},
		{"one of two is a stranger", []string{"hand/lantern", "hand/stranger"}, 1, []string{"EXTRA", "verified=2 required=3"}},
		{"not there", []string{"hand/nothing"}, 2, []string{"no such file"}},
		{"no name", []string{"hand/lantern", ""}, 2, []string{"is a variable unset"}},
		{"a directory", []string{"hand"}, 1, []string{"FILE_TYPE"}},
		{"of the platform", []string{"hand/lantern", "--platform", "linux/amd64"}, 0, []string{lamp}},
		{"of another platform", []string{"hand/arm/lantern", "--platform", "linux/amd64"}, 1, []string{"PLATFORM", "want linux/amd64", "got  linux/arm64"}},
		{"of whatever platform", []string{"hand/arm/lantern"}, 0, []string{"bin/linux/arm64/lantern"}},
		{"files, and images alone", []string{"hand/lantern", "--only", "images"}, 2, []string{"--only"}},
		{"files, and a download", []string{"hand/lantern", "--download", "got"}, 2, []string{"--download"}},
	}
	for _, r := range rows {
		t.Run(r.name, func(t *testing.T) { want(t, d.at(t, r.args...), r.code, r.said...) })
	}
}

// summed prints sums, for tools that know nothing of signatures.
func summedUp(t *testing.T, d *desk) {
	r := d.Verify(t.Context(), "--print-sums", "--only", "files")
	want(t, r, 0)
	if !strings.Contains(r.Stderr, "in part") || strings.Contains(r.Stdout, "OK ") {
		t.Errorf("the verdict is on stdout:\n%s", r.Stdout)
	}
	lines := strings.Split(strings.TrimSuffix(r.Stdout, "\n"), "\n")
	seen := map[string]bool{}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		raw := sha256.Sum256(d.read(t, filepath.Join("state", "files", name)))
		if seen[name] = true; sum != hex.EncodeToString(raw[:]) {
			t.Errorf("%q, want %x", line, raw)
		}
	}
	if !seen[lamp] || !seen["SHA256SUMS"] || !seen[releasemanifest.Name] || len(seen) != len(lines) {
		t.Errorf("the sums are of %v", seen)
	}
	if r := d.at(t, "--print-sums", "hand/lantern"); !strings.HasSuffix(r.Stdout, "  hand/lantern\n") || strings.Count(r.Stdout, "\n") != 1 {
		t.Errorf("the sum of a given file: %q %s", r.Stdout, r.Stderr)
	}
	if r := d.at(t, "--print-sums", "hand/lantern", "hand/stranger"); r.Code != 1 || r.Stdout != "" {
		t.Errorf("sums of what was refused: %d %q", r.Code, r.Stdout)
	}
}

// scopedAttacks: what is out of scope is not looked at, and what is in scope is
// refused as ever.
func scopedAttacks(t *testing.T, d *desk) {
	for _, a := range scene.Attacks() {
		if a.Name != "one flipped byte" && a.Name != "one extra file and one extra tag" {
			continue
		}
		undo, err := a.Do(t.Context(), d.Scene)
		if err != nil {
			t.Fatal(err)
		}
		if a.Name == "one flipped byte" {
			want(t, d.Verify(t.Context(), "--platform", "linux/arm64"), 0, "in part")
			want(t, d.Verify(t.Context(), "--only", "images"), 0, "in part")
			want(t, d.Verify(t.Context(), "--platform", "linux/amd64"), 1, "TAMPERED", lamp)
			want(t, d.at(t, "hand/lantern"), 0, "OK ") // what is here is whole
			r := d.Verify(t.Context(), "--only", "files", "--print-sums")
			if want(t, r, 1, "TAMPERED"); r.Stdout != "" {
				t.Errorf("sums of what was refused:\n%s", r.Stdout)
			}
		} else {
			want(t, d.Verify(t.Context(), "--platform", "linux/amd64", "--only", "files"), 1, "EXTRA")
			want(t, d.Verify(t.Context(), "--only", "images"), 1, "EXTRA")
		}
		if err := undo(); err != nil {
			t.Fatal(err)
		}
	}
	want(t, d.Verify(t.Context()), 0, "nothing extra")
}

// flip changes one byte of the published lamp, until it is called.
func (d *desk) flip(t *testing.T) func() {
	t.Helper()
	for _, a := range scene.Attacks() {
		if a.Name != "one flipped byte" {
			continue
		}
		undo, err := a.Do(t.Context(), d.Scene)
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if err := undo(); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Fatal("there is no such attack")
	return nil
}

// downloads: nothing is visible before it is accepted; what an earlier run
// fetched is taken over if it is whole, and nothing else is.
func downloads(t *testing.T, d *desk) {
	keep := []string{"--only", "files", "--download", "got"}
	d.write(t, "occupied", nil)
	want(t, d.Verify(t.Context(), "--download", "."), 2, "name one that does not exist")
	want(t, d.Verify(t.Context(), "--download", "occupied"), 2)
	undo := d.flip(t)
	want(t, d.Verify(t.Context(), keep...), 1, "TAMPERED", "Nothing was downloaded")
	undo()
	d.absent(t, "got")
	for name, raw := range map[string]string{"SHA256SUMS": "torn", "left-over": "of another release", "SHA512SUMS.sigstore.json": ""} {
		d.write(t, filepath.Join("got.part", "files", name), []byte(raw))
	}
	d.absent(t, filepath.Join("got.part", "files", lamp)) // it was refused
	want(t, d.Verify(t.Context(), keep...), 0, "Not checked: images.", "Downloaded to", "left there: ")
	d.absent(t, "got/left-over")
	if got := d.read(t, "got.part/left/left-over"); string(got) != "of another release" {
		t.Errorf("a file that no run wrote is %q", got)
	}
	r := d.at(t, "--only", "files", "--offline", "--files", "got")
	want(t, r, 0, "Not checked: images.") // closed: nothing is there but the release
	r = d.Verify(t.Context(), "--platform", "linux/amd64", "--depth", "files", "--download", "less")
	want(t, r, 0, "of which 0 by an earlier run")
	d.absent(t, "less/bin/linux/arm64")
	if got := d.read(t, filepath.Join("less", lamp)); len(got) == 0 {
		t.Error("the file of the platform is not there")
	}
}
