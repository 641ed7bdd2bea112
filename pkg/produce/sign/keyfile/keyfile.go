// Package keyfile opens long-lived signing keys: encrypted PEM files as
// cosign and sigstore write them.
//
//	password, err := keyfile.ParsePassword("env:COSIGN_PASSWORD", world)
//	key, err := keyfile.Open("cosign.key", password)
//	signer, err := sign.NewKeyed(config, key)
//
// A password comes from the environment, a file, an open file descriptor or a
// person at a terminal, never from a command line, which every other process
// can read. An unencrypted key is refused.
//
// A key that stays in a key management service is opened with OpenKMS, in
// builds with the tag kms: through sigstore's interface to such services,
// whose plugins are programs named sigstore-kms-SERVICE in PATH.
//
// Other projects should not import this package: it changes without notice.
package keyfile

import (
	"bytes"
	"crypto"
	"encoding/pem"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/sigstore/sigstore/pkg/cryptoutils"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of what is read.
const (
	maxKey      = 64 << 10
	maxPassword = 4 << 10
)

// Password returns a password when it is needed.
type Password func() ([]byte, error)

// World is where passwords come from.
type World struct {
	// Env looks up an environment variable, as os.LookupEnv does.
	Env func(string) (string, bool)
	// Prompt asks the person at the terminal, without echoing the input. Nil
	// if there is no terminal.
	Prompt func(question string) ([]byte, error)
}

// Words lists what [ParsePassword] understands, for help texts.
func Words() string { return "env:NAME, file:PATH, fd:NUMBER or prompt" }

// Variable is where cosign looks for the password, and [Usual] too.
const Variable = "COSIGN_PASSWORD"

// Usual is the default password source: the variable COSIGN_PASSWORD if it is
// set, else a prompt at the terminal. If neither is possible, it is an error
// when the password is needed.
func Usual(w World) Password {
	if _, set := w.Env(Variable); set || w.Prompt == nil {
		return func() ([]byte, error) {
			if value, set := w.Env(Variable); set {
				return []byte(value), nil
			}
			return nil, refuse("password", "the variable %s is not set and there is no terminal to ask; give a source of the password: %s", Variable, Words())
		}
	}
	return func() ([]byte, error) { return w.Prompt(question) }
}

const question = "password of the signing key: "

// ParsePassword returns the password source that a word names: env:NAME,
// file:PATH, fd:NUMBER or prompt.
func ParsePassword(word string, w World) (Password, error) {
	kind, of, _ := strings.Cut(word, ":")
	switch {
	case kind == "env" && of != "":
		return func() ([]byte, error) {
			value, set := w.Env(of)
			if !set {
				return nil, refuse("password", "the variable %s is not set", of)
			}
			return []byte(value), nil
		}, nil
	case kind == "file" && of != "":
		return func() ([]byte, error) { return fromFile(of) }, nil
	case kind == "fd":
		number, err := strconv.ParseUint(of, 10, 16)
		if err != nil {
			return nil, refuse("password", "%q is not a file descriptor", word)
		}
		return func() ([]byte, error) { return fromDescriptor(uintptr(number)) }, nil
	case word == "prompt":
		if w.Prompt == nil {
			return nil, refuse("password", "there is no terminal to ask; use env:NAME, file:PATH or fd:NUMBER")
		}
		return func() ([]byte, error) { return w.Prompt(question) }, nil
	}
	// The word is not quoted: it may be the password.
	return nil, refuse("password", "want %s; never give the password itself", Words())
}

func fromFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "password", err)
	}
	return readPassword(f, "the file")
}

func fromDescriptor(number uintptr) ([]byte, error) {
	f := os.NewFile(number, "password")
	if f == nil {
		return nil, refuse("password", "the file descriptor %d is not open", number)
	}
	return readPassword(f, "the file descriptor")
}

// readPassword reads one line, and closes the file.
func readPassword(f *os.File, what string) ([]byte, error) {
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err != nil || len(raw) > maxPassword {
		return nil, refuse("password", "no password can be read from %s", what)
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r")), nil
}

// Open opens an encrypted key. The password is requested only after the file
// is found to be one.
func Open(path string, password Password) (crypto.Signer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "key", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "key", err)
	}
	return parse(raw, password)
}

// parse is [Open] for a file that was read. Its errors never quote the file.
func parse(raw []byte, password Password) (crypto.Signer, error) {
	if len(raw) > maxKey {
		return nil, refuse("key", "the file has more than %d bytes, so it is not a key", maxKey)
	}
	block, rest := pem.Decode(raw)
	switch {
	case block == nil:
		return nil, refuse("key", "the key is not PEM")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, refuse("key", "the file has more than one key")
	case strings.HasSuffix(block.Type, "PRIVATE KEY") && !strings.HasPrefix(block.Type, "ENCRYPTED "):
		return nil, refuse("key", "the key is not encrypted; encrypt it with cosign import-key-pair")
	case block.Type != "ENCRYPTED SIGSTORE PRIVATE KEY" && block.Type != "ENCRYPTED COSIGN PRIVATE KEY":
		return nil, refuse("key", "not a private key encrypted by cosign or sigstore")
	}
	secret, err := password()
	if err != nil {
		return nil, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(pem.EncodeToMemory(block), cryptoutils.StaticPasswordFunc(secret))
	clear(secret)
	if err != nil {
		return nil, refuse("key", "wrong password, or a damaged key")
	}
	key, ok := private.(crypto.Signer)
	if !ok {
		return nil, refuse("key", "a key of type %T cannot sign", private)
	}
	return key, nil
}

func refuse(subject, format string, args ...any) error {
	return verdict.Refuse(verdict.Usage, subject, format, args...)
}
