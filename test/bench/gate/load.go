package gate

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// sent is what came of requests.
type sent struct {
	took []time.Duration
	err  error // of the first that was not answered as it should be
}

// accepted demands that the answer is yes.
func accepted(_ int, status int, raw []byte) error {
	if status != http.StatusOK || !bytes.Contains(raw, []byte(`"outcome":"accepted"`)) {
		return fmt.Errorf("answered %d: %.1000s", status, raw)
	}
	return nil
}

// all sends bodies, some at a time, and holds each answer against what it must
// be.
func (s *scene) all(ctx context.Context, bodies [][]byte, abreast int, must func(i, status int, raw []byte) error) sent {
	out := sent{took: make([]time.Duration, len(bodies))}
	s.each(len(bodies), abreast, &out, func(i int) error {
		req, err := s.request(ctx, bodies[i])
		if err != nil {
			return err
		}
		began := time.Now()
		status, raw, err := s.do(req)
		out.took[i] = time.Since(began)
		if err != nil {
			return err
		}
		return must(i, status, raw)
	})
	return out
}

// each does n things, some at a time, and stops at the first that goes wrong.
func (s *scene) each(n, abreast int, out *sent, do func(i int) error) {
	var next atomic.Int64
	var once sync.Once
	var wait sync.WaitGroup
	for range min(abreast, n) {
		wait.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					once.Do(func() { out.err = err })
					next.Store(int64(n))
					return
				}
			}
		})
	}
	wait.Wait()
}

func (s *scene) do(req *http.Request) (int, []byte, error) {
	resp, err := s.client.Do(req)
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err == nil && s.Secure && resp.ProtoMajor != 2 {
		err = fmt.Errorf("it speaks %s, want HTTP/2", resp.Proto)
	}
	return resp.StatusCode, raw, err
}

// quantile is in microseconds.
func quantile(took []time.Duration, q float64) int {
	if len(took) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(took))
	return int(sorted[int(q*float64(len(sorted)-1))] / time.Microsecond)
}

// writeTLS writes a certificate of the service, if callers use TLS, and returns
// a client that keeps its connections.
func (s *scene) writeTLS() (*http.Client, error) {
	to := &http.Transport{MaxIdleConnsPerHost: s.Abreast, DisableCompression: true}
	if !s.Secure {
		return &http.Client{Transport: to}, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	to.TLSClientConfig, to.ForceAttemptHTTP2 = &tls.Config{RootCAs: x509.NewCertPool()}, true
	to.TLSClientConfig.RootCAs.AppendCertsFromPEM(public)
	return &http.Client{Transport: to}, errors.Join(
		os.WriteFile(filepath.Join(s.dir, "tls.crt"), public, 0o600),
		os.WriteFile(filepath.Join(s.dir, "tls.key"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
}
