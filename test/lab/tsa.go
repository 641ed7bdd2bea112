package lab

import (
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	fulciolog "github.com/sigstore/fulcio/pkg/log"
	tsalog "github.com/sigstore/timestamp-authority/v2/pkg/log"
	tsaserver "github.com/sigstore/timestamp-authority/v2/pkg/server"
	"github.com/spf13/viper"
	"go.uber.org/zap"
)

// tsaPolicy is the policy that the public timestamp authority states.
const tsaPolicy = "1.3.6.1.4.1.57264.2"

// tsa is the timestamp authority's own REST server without its listener. Its
// key and settings are package variables upstream, so one process has one.
type tsa struct {
	http.Handler
	// chains are the certificate chains of all timestamps that this lab ever
	// gave, the present one first: a directory may outlive several processes.
	chains [][]*x509.Certificate
}

// process is what upstream code allows only once: its loggers and the
// timestamp authority. This is the one place where the lab is not a value.
var process struct {
	quiet sync.Once
	tsa   sync.Once // owns what follows; read after Do
	serve http.Handler
	chain []*x509.Certificate
	err   error
}

// quietUpstream silences the loggers of Fulcio and the timestamp authority,
// which report every request on the terminal.
func quietUpstream() {
	process.quiet.Do(func() {
		fulciolog.Logger = zap.NewNop().Sugar()
		tsalog.Logger = zap.NewNop().Sugar()
	})
}

func newTSA(st *state) (*tsa, error) {
	quietUpstream()
	process.tsa.Do(func() { process.serve, process.chain, process.err = startTSA(st) })
	if process.err != nil {
		return nil, fmt.Errorf("starting the timestamp authority: %w", process.err)
	}
	chains, err := tsaChains(st, process.chain)
	if err != nil {
		return nil, err
	}
	return &tsa{Handler: process.serve, chains: chains}, nil
}

// startTSA configures the upstream server with the first lab's key.
func startTSA(st *state) (h http.Handler, chain []*x509.Certificate, err error) {
	key, err := st.key("tsa", newECDSA)
	if err != nil {
		return nil, nil, err
	}
	chain, err = st.chain("tsa", func() ([]*x509.Certificate, error) {
		a, err := newAuthority("timestamp authority", x509.ExtKeyUsageTimeStamping)
		if err != nil {
			return nil, err
		}
		between, err := newECDSA()
		if err != nil {
			return nil, err
		}
		if err := a.intermediate("timestamp authority", between); err != nil {
			return nil, err
		}
		if err := a.timestamper("timestamps", key); err != nil {
			return nil, err
		}
		return a.chain, nil
	})
	if err != nil {
		return nil, nil, err
	}
	defer func() { // upstream reports bad settings by panicking
		if p := recover(); p != nil {
			err = fmt.Errorf("configuring the upstream server: %v", p)
		}
	}()
	for name, value := range map[string]any{
		"timestamp-signer":       "file",
		"timestamp-signer-hash":  "sha256",
		"file-signer-key-path":   st.path("tsa.key"),
		"certificate-chain-path": st.path("tsa.pem"),
		"accepted-policy-oids":   []string{tsaPolicy},
		"default-policy-oid":     tsaPolicy,
		"max-request-body-size":  1 << 20,
	} {
		viper.Set(name, value)
	}
	srv := tsaserver.NewRestAPIServer("127.0.0.1", 0, []string{"http"}, false, 10*time.Second, 10*time.Second)
	return srv.GetHandler(), chain, nil
}

// tsaChains adds the present chain to the directory's and returns all.
func tsaChains(st *state, present []*x509.Certificate) ([][]*x509.Certificate, error) {
	sum := sha256.Sum256(present[0].Raw)
	name := "tsa-" + hex.EncodeToString(sum[:8]) + ".pem"
	if err := st.write(name, encodeChain(present)); err != nil {
		return nil, err
	}
	files, err := filepath.Glob(st.path("tsa-*.pem"))
	if err != nil {
		return nil, fmt.Errorf("listing the timestamp authority's chains: %w", err)
	}
	all := [][]*x509.Certificate{present}
	for _, f := range slices.DeleteFunc(files, func(f string) bool { return filepath.Base(f) == name }) {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("reading a timestamp authority's chain: %w", err)
		}
		chain, err := decodeChain(b)
		if err != nil {
			return nil, fmt.Errorf("reading %q: %w", f, err)
		}
		all = append(all, chain)
	}
	return all, nil
}
