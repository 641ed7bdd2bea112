package keyfile

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/secure-systems-lab/go-securesystemslib/encrypted"
	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const secret = "correct horse battery staple"

func generated(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// written is a key as cosign writes it, under a title.
func written(t testing.TB, key *ecdsa.PrivateKey, title string) []byte {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasPrefix(title, "ENCRYPTED ") {
		if der, err = encrypted.EncryptWithCustomKDFParameters(der, []byte(secret), encrypted.Legacy); err != nil {
			t.Fatal(err)
		}
	}
	return pem.EncodeToMemory(&pem.Block{Type: title, Bytes: der})
}

func telling(password string) Password {
	return func() ([]byte, error) { return []byte(password), nil }
}

func TestParse(t *testing.T) {
	key := generated(t)
	unasked := func() ([]byte, error) { return nil, errors.New("the password was asked for") }
	cosign, sigstore := written(t, key, "ENCRYPTED COSIGN PRIVATE KEY"), written(t, key, "ENCRYPTED SIGSTORE PRIVATE KEY")
	for name, c := range map[string]struct {
		raw      []byte
		password Password
		ok       bool
	}{
		"cosign's":           {cosign, telling(secret), true},
		"sigstore's":         {sigstore, telling(secret), true},
		"the wrong password": {cosign, telling("wrong"), false},
		"no password":        {cosign, telling(""), false},
		"damaged":            {[]byte(strings.Replace(string(cosign), "a", "b", 3)), telling(secret), false},
		"not encrypted":      {written(t, key, "PRIVATE KEY"), unasked, false},
		"two keys":           {append(append([]byte{}, cosign...), sigstore...), unasked, false},
		"another's":          {written(t, key, "ENCRYPTED PRIVATE KEY"), unasked, false},
		"a public key":       {pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: []byte("x")}), unasked, false},
		"no PEM":             {[]byte("x"), unasked, false},
		"far too much":       {make([]byte, maxKey+1), unasked, false},
	} {
		got, err := parse(c.raw, c.password)
		switch {
		case c.ok && (err != nil || !key.Equal(got)):
			t.Errorf("%s: %v", name, err)
		case !c.ok && (verdict.OutcomeOf(err) != verdict.Malformed || got != nil):
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestPasswords(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	if err := os.WriteFile(path, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	descriptor := func() string {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return "fd:" + strconv.FormatUint(uint64(f.Fd()), 10)
	}
	w := World{
		Env:    func(name string) (string, bool) { return secret, name == "COSIGN_PASSWORD" },
		Prompt: func(string) ([]byte, error) { return []byte(secret), nil },
	}
	for word, ok := range map[string]bool{
		"env:COSIGN_PASSWORD": true, descriptor(): true, "prompt": true, "file:" + path: true,
		"file:" + path + "x": false, "file:": false,
		"env:OTHER": false, "fd:65535": false,
		"env:": false, "fd:": false, "fd:-1": false, "": false, secret: false, "prompt:x": false,
	} {
		p, err := ParsePassword(word, w)
		var got []byte
		if err == nil {
			got, err = p()
		}
		if ok != (err == nil) || ok && string(got) != secret {
			t.Errorf("%s: %v", word, err)
		}
		if err != nil && strings.Contains(err.Error(), secret) {
			t.Errorf("%s: the error tells the password", word)
		}
	}
	if _, err := ParsePassword("prompt", World{}); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("nobody there: %v", err)
	}
}

// TestOpen opens a key as the library writes it today.
func TestOpen(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cosign.key")
	raw, _, err := cryptoutils.GeneratePEMEncodedECDSAKeyPair(elliptic.P256(), cryptoutils.StaticPasswordFunc([]byte(secret)))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := Open(path, telling(secret)); err != nil || got == nil {
		t.Errorf("%v", err)
	}
	if _, err := Open(path+"x", telling(secret)); verdict.OutcomeOf(err) != verdict.Malformed {
		t.Errorf("%v", err)
	}
}

// TestUsualPassword: the environment's, else a person's, else none.
func TestUsualPassword(t *testing.T) {
	env := func(set bool) func(string) (string, bool) {
		return func(name string) (string, bool) { return "from the environment", set && name == Variable }
	}
	person := func(string) ([]byte, error) { return []byte("typed"), nil }
	for name, c := range map[string]struct {
		world World
		want  string
	}{
		"environment":            {World{Env: env(true)}, "from the environment"},
		"environment and person": {World{Env: env(true), Prompt: person}, "from the environment"},
		"person":                 {World{Env: env(false), Prompt: person}, "typed"},
		"neither":                {World{Env: env(false)}, ""},
	} {
		got, err := Usual(c.world)()
		if string(got) != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}
