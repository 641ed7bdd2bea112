package lab

import (
	"bufio"
	"bytes"
	"crypto"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// state is what a lab must remember to be the same world after a restart.
// It lives in <Dir>/state. The keys there are worth nothing: see [Mark].
type state struct {
	dir string

	// Ports are the ports of the services: certificates name the issuer's URL.
	Ports map[string]int `json:"ports"`
	// TUFVersion grows with every start, so that clients see no rollback.
	TUFVersion int64 `json:"tufVersion"`
}

func openState(dir string) (*state, error) {
	s := &state{dir: filepath.Join(dir, "state")}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, fmt.Errorf("making the state directory: %w", err)
	}
	b, err := os.ReadFile(s.path("state.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the lab's state: %w", err)
	}
	if err := json.Unmarshal(b, s); err != nil {
		return nil, fmt.Errorf("reading the lab's state %q: %w", s.path("state.json"), err)
	}
	return s, nil
}

func (s *state) path(name string) string { return filepath.Join(s.dir, name) }

func (s *state) save() error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("encoding the lab's state: %w", err)
	}
	return s.write("state.json", append(b, '\n'))
}

// write replaces one file of the state as a whole.
func (s *state) write(name string, b []byte) error {
	tmp := s.path(name) + ".tmp"
	if err := os.WriteFile(tmp, b, 0o600); err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	if err := os.Rename(tmp, s.path(name)); err != nil {
		return fmt.Errorf("writing %q: %w", name, err)
	}
	return nil
}

// remember returns the file's bytes, made by fresh when there is no such file.
func (s *state) remember(name string, fresh func() ([]byte, error)) ([]byte, error) {
	b, err := os.ReadFile(s.path(name))
	if err == nil {
		return b, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading %q: %w", name, err)
	}
	if b, err = fresh(); err != nil {
		return nil, fmt.Errorf("making %q: %w", name, err)
	}
	return b, s.write(name, b)
}

// openLines opens a log's file, shows each line to load, and drops a last line
// that was torn. The file is open for adding lines.
func openLines(path string, load func(line []byte) error) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the log: %w", err)
	}
	var whole int64
	for in := bufio.NewReader(f); ; {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = load(bytes.TrimSuffix(line, []byte("\n")))
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("reading the log: %w", err), f.Close())
		}
		whole += int64(len(line))
	}
	if err := f.Truncate(whole); err != nil {
		return nil, errors.Join(fmt.Errorf("mending the log: %w", err), f.Close())
	}
	if _, err := f.Seek(whole, io.SeekStart); err != nil {
		return nil, errors.Join(fmt.Errorf("mending the log: %w", err), f.Close())
	}
	return f, nil
}

// key returns the remembered private key of that name.
func (s *state) key(name string, fresh func() (crypto.Signer, error)) (crypto.Signer, error) {
	b, err := s.remember(name+".key", func() ([]byte, error) {
		k, err := fresh()
		if err != nil {
			return nil, err
		}
		der, err := x509.MarshalPKCS8PrivateKey(k)
		if err != nil {
			return nil, err
		}
		return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}), nil
	})
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(b)
	if block == nil {
		return nil, fmt.Errorf("reading %q: not PEM", name+".key")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name+".key", err)
	}
	signer, ok := k.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("reading %q: a %T cannot sign", name+".key", k)
	}
	return signer, nil
}

// chain returns the remembered certificate chain of that name, leaf first.
func (s *state) chain(name string, fresh func() ([]*x509.Certificate, error)) ([]*x509.Certificate, error) {
	b, err := s.remember(name+".pem", func() ([]byte, error) {
		certs, err := fresh()
		if err != nil {
			return nil, err
		}
		return encodeChain(certs), nil
	})
	if err != nil {
		return nil, err
	}
	certs, err := decodeChain(b)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", name+".pem", err)
	}
	return certs, nil
}

func encodeChain(certs []*x509.Certificate) []byte {
	var out bytes.Buffer
	for _, c := range certs {
		out.Write(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Raw}))
	}
	return out.Bytes()
}

func decodeChain(b []byte) ([]*x509.Certificate, error) {
	var certs []*x509.Certificate
	for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, c)
	}
	if len(certs) == 0 {
		return nil, errors.New("no certificates")
	}
	return certs, nil
}
