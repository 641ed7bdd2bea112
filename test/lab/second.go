package lab

import (
	"context"
	"crypto"
	"crypto/x509"
	"encoding/asn1"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// second is another operator's transparency log and timestamp authority.
type second struct {
	rekor  *rekor
	stamps *stamper
}

// startSecond starts them if the lab has them.
func (l *Lab) startSecond(ctx context.Context, st *state) (*second, error) {
	if l.Rekor2 == "" {
		return nil, nil
	}
	s := &second{}
	var err error
	if s.rekor, err = newRekor(ctx, st, "rekor2", rekor2Origin); err != nil {
		return nil, err
	}
	l.closers = append(l.closers, s.rekor.close)
	l.servers.serve(serviceRekor2, s.rekor)
	if s.stamps, err = newStamper(st); err != nil {
		return nil, err
	}
	l.servers.serve(serviceTSA2, s.stamps)
	return s, nil
}

// stamper is a timestamp authority of our own: upstream's is one to a process.
type stamper struct {
	key   crypto.Signer
	chain []*x509.Certificate
}

func newStamper(st *state) (*stamper, error) {
	key, err := st.key("tsa2", newECDSA)
	if err != nil {
		return nil, err
	}
	chain, err := st.chain("tsa2", func() ([]*x509.Certificate, error) {
		a, err := newAuthority("timestamp authority 2", x509.ExtKeyUsageTimeStamping)
		if err != nil {
			return nil, err
		}
		if err := a.timestamper("timestamps 2", key); err != nil {
			return nil, err
		}
		return a.chain, nil
	})
	if err != nil {
		return nil, err
	}
	return &stamper{key: key, chain: chain}, nil
}

// ServeHTTP answers queries (RFC 3161), and with its chain.
func (s *stamper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasSuffix(r.URL.Path, "/certchain") {
		_, _ = w.Write(encodeChain(s.chain))
		return
	}
	raw, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer, err := s.stamp(raw)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/timestamp-reply")
	w.Header().Set("Content-Length", strconv.Itoa(len(answer)))
	w.WriteHeader(http.StatusCreated)
	_, _ = w.Write(answer)
}

func (s *stamper) stamp(query []byte) ([]byte, error) {
	asked, err := timestamp.ParseRequest(query)
	if err != nil {
		return nil, fmt.Errorf("reading the query: %w", err)
	}
	t := timestamp.Timestamp{
		HashAlgorithm: asked.HashAlgorithm, HashedMessage: asked.HashedMessage, Time: time.Now(), Nonce: asked.Nonce,
		Policy: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 2}, AddTSACertificate: true,
	}
	return t.CreateResponseWithOpts(s.chain[0], s.key, crypto.SHA256)
}

// authority is how a trusted root names it.
func (s *stamper) authority(url string) root.TimestampingAuthority {
	last := len(s.chain) - 1
	return &root.SigstoreTimestampingAuthority{
		Leaf: s.chain[0], Intermediates: s.chain[1:last], Root: s.chain[last], URI: url,
		ValidityPeriodStart: s.chain[0].NotBefore, ValidityPeriodEnd: s.chain[0].NotAfter,
	}
}
