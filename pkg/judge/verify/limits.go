package verify

import (
	protobundle "github.com/sigstore/protobuf-specs/gen/pb-go/bundle/v1"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits that are checked before anything is decoded or computed.
const (
	MaxBundle       = 64 << 20
	maxEntries      = 32
	maxTimestamps   = 32
	maxCertificates = 64
	maxCertificate  = 64 << 10
	// maxBody is the size of a log entry's body: a certificate, a signature
	// and some digests.
	maxBody = 256 << 10
	// maxTimestamp is the size of one signed timestamp with its certificates.
	maxTimestamp = 256 << 10
	// maxCheckpoint is the size of a log's signed checkpoint.
	maxCheckpoint = 64 << 10
	// maxStructure and maxBodyStructure limit the total number of members and
	// elements in a bundle and in the body of one log entry. An empty element
	// costs two bytes in a file and a hundred times that in memory; a bundle
	// that reaches every other limit has about 4000.
	maxStructure     = 16 << 10
	maxBodyStructure = 1 << 10
)

// checkStructure counts the brackets and commas outside of strings, in one pass
// and without allocation. It does not check that raw is JSON.
func checkStructure(what string, raw []byte, limit int) error {
	count := 0
	for range strictjson.Marks(raw) {
		if count++; count > limit {
			return verdict.Refuse(verdict.Limit, what, "more than %d members and elements", limit)
		}
	}
	return nil
}

// checkCounts limits the contents of a bundle before any of it is parsed.
func checkCounts(b *protobundle.Bundle) error {
	vm := b.GetVerificationMaterial()
	chain := vm.GetX509CertificateChain().GetCertificates()
	stamps := vm.GetTimestampVerificationData().GetRfc3161Timestamps()
	for _, c := range []struct {
		what     string
		n, limit int
	}{
		{"log entries", len(vm.GetTlogEntries()), maxEntries},
		{"timestamps", len(stamps), maxTimestamps},
		{"certificates", len(chain), maxCertificates},
	} {
		if c.n > c.limit {
			return verdict.Refuse(verdict.Limit, "bundle", "%d %s, the limit is %d", c.n, c.what, c.limit)
		}
	}
	for _, c := range append(chain[:len(chain):len(chain)], vm.GetCertificate()) {
		if n := len(c.GetRawBytes()); n > maxCertificate {
			return verdict.Refuse(verdict.CertLimit, "certificate", "%d bytes, the limit is %d", n, maxCertificate)
		}
	}
	for _, s := range stamps {
		if n := len(s.GetSignedTimestamp()); n > maxTimestamp {
			return verdict.Refuse(verdict.Limit, "timestamp", "%d bytes, the limit is %d", n, maxTimestamp)
		}
	}
	return checkEntries(b)
}

// checkEntries limits each log entry: its body is a document of its own.
func checkEntries(b *protobundle.Bundle) error {
	for _, e := range b.GetVerificationMaterial().GetTlogEntries() {
		if n := len(e.GetCanonicalizedBody()); n > maxBody {
			return verdict.Refuse(verdict.Limit, "log entry", "the body has %d bytes, the limit is %d", n, maxBody)
		}
		if err := checkStructure("log entry", e.GetCanonicalizedBody(), maxBodyStructure); err != nil {
			return err
		}
		if n := len(e.GetInclusionProof().GetCheckpoint().GetEnvelope()); n > maxCheckpoint {
			return verdict.Refuse(verdict.Limit, "log entry", "the checkpoint has %d bytes, the limit is %d", n, maxCheckpoint)
		}
	}
	return nil
}
