package lab

import (
	"crypto"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"time"

	ct "github.com/google/certificate-transparency-go"
	"github.com/google/certificate-transparency-go/tls"
	ctx509 "github.com/google/certificate-transparency-go/x509"
)

// ctLog promises to log certificates (RFC 6962 §4.1, §4.2) and keeps none: it
// returns true signed certificate timestamps, and has no tree to read.
type ctLog struct {
	key   crypto.Signer
	der   []byte // public key
	id    [sha256.Size]byte
	clock func() time.Time
}

func newCTLog(st *state, clock func() time.Time) (*ctLog, error) {
	key, err := st.key("ct", newECDSA)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return nil, fmt.Errorf("encoding the CT log's key: %w", err)
	}
	return &ctLog{key: key, der: der, id: sha256.Sum256(der), clock: clock}, nil
}

func (l *ctLog) publicPEM() string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: l.der}))
}

func (l *ctLog) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var kind ct.LogEntryType
	switch r.Method + " " + r.URL.Path {
	case "POST /ct/v1/add-pre-chain":
		kind = ct.PrecertLogEntryType
	case "POST /ct/v1/add-chain":
		kind = ct.X509LogEntryType
	default:
		http.NotFound(w, r)
		return
	}
	var req ct.AddChainRequest
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&req); err != nil {
		http.Error(w, "reading the chain: "+err.Error(), http.StatusBadRequest)
		return
	}
	resp, err := l.promise(req.Chain, kind)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	writeJSON(w, resp)
}

// promise signs the timestamp of one chain, leaf first.
func (l *ctLog) promise(der [][]byte, kind ct.LogEntryType) (*ct.AddChainResponse, error) {
	var chain []*ctx509.Certificate
	for _, b := range der {
		c, err := ctx509.ParseCertificate(b)
		if ctx509.IsFatal(err) {
			return nil, fmt.Errorf("parsing a certificate of the chain: %w", err)
		}
		chain = append(chain, c)
	}
	now := uint64(l.clock().UnixMilli())
	leaf, err := ct.MerkleTreeLeafFromChain(chain, kind, now)
	if err != nil {
		return nil, fmt.Errorf("making the log entry: %w", err)
	}
	sct := ct.SignedCertificateTimestamp{SCTVersion: ct.V1, LogID: ct.LogID{KeyID: l.id}, Timestamp: now}
	input, err := ct.SerializeSCTSignatureInput(sct, ct.LogEntry{Leaf: *leaf})
	if err != nil {
		return nil, fmt.Errorf("encoding the timestamp: %w", err)
	}
	digest := sha256.Sum256(input)
	sig, err := l.key.Sign(rand.Reader, digest[:], crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("signing the timestamp: %w", err)
	}
	signed, err := tls.Marshal(ct.DigitallySigned{
		Algorithm: tls.SignatureAndHashAlgorithm{Hash: tls.SHA256, Signature: tls.ECDSA}, Signature: sig,
	})
	if err != nil {
		return nil, fmt.Errorf("encoding the signature: %w", err)
	}
	return &ct.AddChainResponse{SCTVersion: ct.V1, ID: l.id[:], Timestamp: now, Signature: signed}, nil
}
