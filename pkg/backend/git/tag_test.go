package git

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// key makes an SSH key and returns its file and its public half.
func key(t *testing.T) (file, public string) {
	t.Helper()
	if _, err := exec.LookPath("ssh-keygen"); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("ssh-keygen is not installed")
	}
	file = filepath.Join(t.TempDir(), "key")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", file).CombinedOutput(); err != nil {
		t.Fatalf("ssh-keygen: %v: %s", err, out)
	}
	raw, err := os.ReadFile(file + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	return file, strings.TrimSpace(string(raw))
}

// sign makes a tag that git itself signs.
func (r repository) sign(key, name string, args ...string) {
	r.t.Helper()
	r.git(append([]string{"-c", "gpg.format=ssh", "-c", "user.signingKey=" + key, "tag", "--sign", "--message=" + name, name}, args...)...)
}

func (r repository) tagOf(name string, signers string) (Tag, error) {
	r.t.Helper()
	c, err := Resolve(r.t.Context(), r.dir, name)
	if err != nil {
		r.t.Fatal(err)
	}
	return VerifyTag(r.t.Context(), c, []byte(signers))
}

// TestVerifyTag: each row has one fact that differs from the first.
func TestVerifyTag(t *testing.T) {
	r, id := released(t)
	mine, public := key(t)
	_, other := key(t)
	r.sign(mine, "v2", id)
	r.git("update-ref", "refs/tags/v3", "v2")
	r.sign(mine, "v4", "v2")
	object := func(name, body string) { r.git("update-ref", "refs/tags/"+name, r.object("tag", body)) }
	signed := r.git("cat-file", "tag", "v2") + "\n"
	_, signature, _ := splitTag([]byte(signed))
	object("v5", strings.Replace(strings.Replace(signed, "tag v2\n", "tag v5\n", 1), "\n\nv2", "\n\nv5", 1))
	object("v6", "object "+id+"\ntype commit\ntag v6\ntagger A <a@b> 1 +0000\n\nx\n-----BEGIN PGP SIGNATURE-----\n\nx\n-----END PGP SIGNATURE-----\n")
	object("v7", "object "+id+"\ntype commit\ntag v7\ntagger A <a@b> 1 +0000\n\nx\n-----BEGIN SIGNED MESSAGE-----\nx\n-----END SIGNED MESSAGE-----\n")
	object("v8", "object "+id+"\ntype commit\ntag v8\ntagger A <a@b> 1 +0000\n\nx\n-----BEGIN SSH SIGNATURE-----\nx\n-----END SSH SIGNATURE-----\n")
	object("v9", "object "+id+"\ntype commit\ntag v9\ntagger A <a@b> 1 +0000\n\nx\n"+string(signature))
	allowed := "# who releases\nanna@example.test " + public + "\n"
	for _, c := range []struct {
		name, ref, signers, kind, signer, why string
	}{
		{"as git signs", "v2", allowed, SignatureSSH, "anna@example.test", ""},
		{"allowed for git only", "v2", `anna@example.test namespaces="git" ` + public + "\n", SignatureSSH, "anna@example.test", ""},
		{"allowed for files only", "v2", `anna@example.test namespaces="file" ` + public + "\n", SignatureSSH, "", "signature is invalid"},
		{"a key that is no longer allowed", "v2", `anna@example.test valid-before="20200101" ` + public + "\n", SignatureSSH, "", "allowed signer"},
		{"another key is allowed", "v2", "anna@example.test " + other + "\n", SignatureSSH, "", "does not belong to an allowed signer"},
		{"nobody was named", "v2", "", SignatureSSH, "", "no allowed signers were given"},
		{"a signed tag under another name", "v3", allowed, SignatureSSH, "", "another name"},
		{"a signed tag of a tag", "v4", allowed, SignatureSSH, "", "of another commit"},
		{"a tag with another name inside", "v5", allowed, SignatureSSH, "", "signature is invalid"},
		{"a signature of OpenPGP", "v6", allowed, SignatureOpenPGP, "", "only SSH"},
		{"a signature with a certificate", "v7", allowed, SignatureX509, "", "only SSH"},
		{"a signature that is none", "v8", allowed, SignatureSSH, "", "does not belong to an allowed signer"},
		{"the signature of another tag", "v9", allowed, SignatureSSH, "", "signature is invalid"},
		{"an annotated tag", "v1.0.0-annotated", allowed, Unsigned, "", "not signed"},
		{"a plain tag", "v1.0.0", allowed, Unsigned, "", "is lightweight"},
		{"a branch", "main", allowed, "", "", ""},
		{"a commit", id, allowed, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := r.tagOf(c.ref, c.signers)
			if err != nil || got.Signature != c.kind || got.Signer != c.signer || (c.why == "") != (got.NotVerified == "") || !strings.Contains(got.NotVerified, c.why) {
				t.Errorf("%+v, %v, want %q by %q, or %q", got, err, c.kind, c.signer, c.why)
			}
		})
	}
	for _, signers := range []string{"anna@example.test\n", "# nobody\n", "\n", "anna ssh-ed25519\n"} {
		if got, err := r.tagOf("v2", signers); code(err) != "USAGE" || got != (Tag{}) {
			t.Errorf("%q: %+v, %v, want USAGE", signers, got, err)
		}
	}
	t.Run("no ssh-keygen", func(t *testing.T) {
		git, err := exec.LookPath("git")
		if err != nil {
			t.Fatal(err)
		}
		bin := t.TempDir()
		if err := os.Symlink(git, filepath.Join(bin, "git")); err != nil {
			t.Fatal(err)
		}
		t.Setenv("PATH", bin)
		if got, err := r.tagOf("v2", allowed); code(err) != "UNAVAILABLE" || got != (Tag{}) {
			t.Errorf("%+v, %v, want UNAVAILABLE", got, err)
		}
	})
}

// TestVerifyTagFromFar: the tag object is fetched by its id, also behind an
// empty release commit.
func TestVerifyTagFromFar(t *testing.T) {
	r, built := released(t)
	mine, public := key(t)
	release := r.git("commit-tree", "-m", "release", "-p", built, built+"^{tree}")
	r.sign(mine, "v2", release)
	c, err := Resolve(t.Context(), r.dir, "v2")
	if err != nil {
		t.Fatal(err)
	}
	if c, err = Built(t.Context(), c, EmptyChild); err != nil || c.Release != release {
		t.Fatalf("%+v, %v", c, err)
	}
	got, err := r.remote().verifyTag(t.Context(), c, []byte("anna@example.test "+public))
	if err != nil || got.Signer != "anna@example.test" {
		t.Errorf("%+v, %v", got, err)
	}
}
