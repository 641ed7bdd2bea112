// Package keyfile opens long-lived signing keys: encrypted PEM files as cosign
// and sigstore write them.
//
//	password, err := keyfile.ParsePassword("env:COSIGN_PASSWORD", world)
//	key, err := keyfile.Open("cosign.key", password)
//	signer, err := sign.NewKeyed(config, key)
//
// A password comes from the environment, from a file, from an open file
// descriptor or from a person at a terminal, never from a command line, which every other process
// can read. A key that is not encrypted is refused.
//
// A key that never leaves the service that keeps it is opened with OpenKMS, in
// builds with the tag kms: through sigstore's interface to such services, whose
// plugins are programs named sigstore-kms-SERVICE in the PATH.
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

// Bounds of what is read.
const (
	maxKey      = 64 << 10
	maxPassword = 4 << 10
)

// Password tells a password when it is needed.
type Password func() ([]byte, error)

// World is where passwords come from.
type World struct {
	// Env looks up an environment variable, as os.LookupEnv does.
	Env func(string) (string, bool)
	// Prompt asks the person at the terminal, without showing what is typed.
	// Nil where there is nobody.
	Prompt func(question string) ([]byte, error)
}

// Words are what [ParsePassword] understands, for help texts.
func Words() string { return "env:NAME, file:PATH, fd:NUMBER or prompt" }

// Variable is where cosign looks for the password, and [Usual] too.
const Variable = "COSIGN_PASSWORD"

// Usual is the password of whoever names no source of it: the environment's
// COSIGN_PASSWORD if it is set, else that of the person at the terminal. It is
// an error, when it is needed, if there is neither.
func Usual(w World) Password {
	if _, set := w.Env(Variable); set || w.Prompt == nil {
		return func() ([]byte, error) {
			if value, set := w.Env(Variable); set {
				return []byte(value), nil
			}
			return nil, refuse("password", "the environment has no %s, and nobody is at the terminal who could be asked; name a source of it: %s", Variable, Words())
		}
	}
	return func() ([]byte, error) { return w.Prompt(question) }
}

const question = "password of the signing key: "

// ParsePassword finds the password where a word says: env:NAME, file:PATH,
// fd:NUMBER or prompt.
func ParsePassword(word string, w World) (Password, error) {
	kind, of, _ := strings.Cut(word, ":")
	switch {
	case kind == "env" && of != "":
		return func() ([]byte, error) {
			value, set := w.Env(of)
			if !set {
				return nil, refuse("password", "the environment has no %s", of)
			}
			return []byte(value), nil
		}, nil
	case kind == "file" && of != "":
		return func() ([]byte, error) { return fromFile(of) }, nil
	case kind == "fd":
		number, err := strconv.ParseUint(of, 10, 16)
		if err != nil {
			return nil, refuse("password", "%q names no file descriptor", word)
		}
		return func() ([]byte, error) { return fromDescriptor(uintptr(number)) }, nil
	case word == "prompt":
		if w.Prompt == nil {
			return nil, refuse("password", "nobody is at the terminal who could be asked; use env:NAME, file:PATH or fd:NUMBER")
		}
		return func() ([]byte, error) { return w.Prompt(question) }, nil
	}
	// The word is not repeated: it may be the password.
	return nil, refuse("password", "it is named by %s, and never given itself", Words())
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

// readPassword reads one line, and closes what it stands in.
func readPassword(f *os.File, what string) ([]byte, error) {
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxPassword+1))
	if err != nil || len(raw) > maxPassword {
		return nil, refuse("password", "%s gives none that can be read", what)
	}
	return bytes.TrimSuffix(bytes.TrimSuffix(raw, []byte("\n")), []byte("\r")), nil
}

// Open opens an encrypted key. The password is asked for only when the file
// has been found to be one.
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
	return Parse(raw, password)
}

// Parse is [Open] for a file that was read. Its errors quote nothing of it.
func Parse(raw []byte, password Password) (crypto.Signer, error) {
	if len(raw) > maxKey {
		return nil, refuse("key", "more than %d bytes are no key", maxKey)
	}
	block, rest := pem.Decode(raw)
	switch {
	case block == nil:
		return nil, refuse("key", "it is not PEM")
	case len(bytes.TrimSpace(rest)) > 0:
		return nil, refuse("key", "the file has more than one key")
	case strings.HasSuffix(block.Type, "PRIVATE KEY") && !strings.HasPrefix(block.Type, "ENCRYPTED "):
		return nil, refuse("key", "it is not encrypted; encrypt it with cosign import-key-pair")
	case block.Type != "ENCRYPTED SIGSTORE PRIVATE KEY" && block.Type != "ENCRYPTED COSIGN PRIVATE KEY":
		return nil, refuse("key", "it is no private key that cosign or sigstore encrypted")
	}
	secret, err := password()
	if err != nil {
		return nil, err
	}
	private, err := cryptoutils.UnmarshalPEMToPrivateKey(pem.EncodeToMemory(block), cryptoutils.StaticPasswordFunc(secret))
	clear(secret)
	if err != nil {
		return nil, refuse("key", "the password does not open it")
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
