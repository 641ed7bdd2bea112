package sign

import (
	"context"
	"net/http"
	"strconv"

	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	"github.com/sigstore/sigstore-go/pkg/root"
	"google.golang.org/protobuf/encoding/protojson"
)

// indexHeader is where a log gives the index of an existing entry that equals
// the proposed one.
const indexHeader = "X-Log-Index"

// logger is a Rekor v2 log.
type logger struct {
	*service
	material root.TrustedMaterial
}

type answer struct {
	entries []*rekor.TransparencyLogEntry // of each log, in order
	legacy  []byte                        // the raw answer of a Rekor v1 log
	// had means that each log had the entry already.
	had bool
}

// add gets the log to include a signature, and waits for it. If the log has
// it already, the existing entry is read: the same bytes never become two
// entries of a log that detects duplicates.
func (l *logger) add(ctx context.Context, c content, signed made) (entry *rekor.TransparencyLogEntry, had bool, err error) {
	body, err := request(c, signed)
	if err != nil {
		return nil, false, err
	}
	err = l.retry(ctx, always, func(ctx context.Context) (err error) {
		entry, had, err = l.submit(ctx, body)
		return err
	})
	return entry, had, err
}

// request is the hashedrekord entry of a signature.
func request(c content, signed made) ([]byte, error) {
	verifier, err := signed.verifier()
	if err != nil {
		return nil, err
	}
	return protojson.Marshal(&tiles.CreateEntryRequest{Spec: &tiles.CreateEntryRequest_HashedRekordRequestV002{
		HashedRekordRequestV002: &tiles.HashedRekordRequestV002{
			Digest: c.sum, Signature: &tiles.Signature{Content: signed.Signature, Verifier: verifier},
		},
	}})
}

// submit sends an entry once.
func (l *logger) submit(ctx context.Context, body []byte) (entry *rekor.TransparencyLogEntry, had bool, err error) {
	raw, response, err := l.send(ctx, question{path: "/api/v2/log/entries", mediaType: mediaJSON, body: body}, http.StatusCreated, http.StatusConflict)
	if err != nil {
		return nil, false, err
	}
	if response.StatusCode == http.StatusConflict {
		index, err := strconv.ParseInt(response.Header.Get(indexHeader), 10, 64)
		if err != nil || index < 0 {
			return nil, false, errUnplaced
		}
		entry, err := l.existing(ctx, index)
		return entry, true, err
	}
	entry = &rekor.TransparencyLogEntry{}
	if err := protojson.Unmarshal(raw, entry); err != nil {
		return nil, false, l.refuse("the answer is not a log entry: %v", err)
	}
	return entry, false, nil
}

// verifier is the certificate or key of a signature, in the log's format.
func (m made) verifier() (*tiles.Verifier, error) {
	if len(m.Certificate) > 0 {
		return &tiles.Verifier{
			KeyDetails: common.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
			Verifier:   &tiles.Verifier_X509Certificate{X509Certificate: &common.X509Certificate{RawBytes: m.Certificate}},
		}, nil
	}
	kind, err := keyDetails(m.Key)
	return &tiles.Verifier{KeyDetails: kind, Verifier: &tiles.Verifier_PublicKey{PublicKey: &tiles.PublicKey{RawBytes: m.Key}}}, err
}
