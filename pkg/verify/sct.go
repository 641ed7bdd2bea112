package verify

import (
	"crypto/x509"
	"encoding/hex"
	"time"

	ct "github.com/google/certificate-transparency-go"
	ctx509 "github.com/google/certificate-transparency-go/x509"
	"github.com/google/certificate-transparency-go/x509util"
	"github.com/sigstore/sigstore-go/pkg/root"
)

// promises counts the distinct certificate logs that promised to show a
// certificate. The library counts the same, but reads every certificate anew
// for every question; a count that is too low is for it to judge.
func promises(chains [][]*x509.Certificate, logs map[string]*root.TransparencyLog, seen *memory) int {
	leaf, err := ctx509.ParseCertificate(chains[0][0].Raw)
	if err != nil {
		return 0
	}
	scts, err := x509util.ParseSCTsFromSCTList(&leaf.SCTList)
	if err != nil {
		return 0
	}
	by := map[*root.TransparencyLog]bool{}
	for _, sct := range scts {
		log := logs[hex.EncodeToString(sct.LogID.KeyID[:])]
		if log == nil || by[log] || !inWindow(log, ct.TimestampToTime(sct.Timestamp)) {
			continue
		}
		for _, chain := range chains {
			if issuer, ok := seen.issuer(chain); ok && promised(sct, log, leaf, issuer) {
				by[log] = true
				break
			}
		}
	}
	return len(by)
}

// promised reports whether a log signed one of the certificate's SCTs, over the
// certificate as it was before SCTs were put in and the key of its issuer.
func promised(sct *ct.SignedCertificateTimestamp, log *root.TransparencyLog, leaf, issuer *ctx509.Certificate) bool {
	key, err := ct.NewSignatureVerifier(log.PublicKey)
	if err != nil {
		return false
	}
	before, err := ct.MerkleTreeLeafForEmbeddedSCT([]*ctx509.Certificate{leaf, issuer}, sct.Timestamp)
	return err == nil && key.VerifySCTSignature(*sct, ct.LogEntry{Leaf: *before}) == nil
}

// inWindow reports whether the trust root believes a log's key at a time; a
// missing end of its window is no end.
func inWindow(log *root.TransparencyLog, at time.Time) bool {
	return (log.ValidityPeriodStart.IsZero() || !at.Before(log.ValidityPeriodStart)) &&
		(log.ValidityPeriodEnd.IsZero() || !at.After(log.ValidityPeriodEnd))
}

// issuer reads the certificate that issued the first of a chain.
func (m *memory) issuer(chain []*x509.Certificate) (*ctx509.Certificate, bool) {
	if len(chain) < 2 {
		return nil, false
	}
	if c, ok := m.issuers.find(chain[1].Raw); ok {
		return c, true
	}
	c, err := ctx509.ParseCertificate(chain[1].Raw)
	if err != nil {
		return nil, false
	}
	m.issuers.keep(chain[1].Raw, c)
	return c, true
}
