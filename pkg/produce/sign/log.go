package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/digitorus/timestamp"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	rekor "github.com/sigstore/protobuf-specs/gen/pb-go/rekor/v1"
	tiles "github.com/sigstore/rekor-tiles/v2/pkg/generated/protobuf"
	"github.com/sigstore/sigstore-go/pkg/root"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
	raw, response, err := l.send(transport.Batched(ctx), question{path: "/api/v2/log/entries", mediaType: mediaJSON, body: body}, http.StatusCreated, http.StatusConflict)
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

// A signature that was not timestamped while its certificate was valid proves
// nothing and must be made again.
var (
	errLapsed = errors.New("the certificate expired before its signature was timestamped")
	errLate   = errors.New("the timestamp is later than the certificate's validity")
)

// stampAuthority is a timestamp authority, and the trust material with which
// its answers are checked.
type stampAuthority struct {
	*service
	material root.TrustedMaterial
}

// stamp gets a timestamp of a signature and checks it. It waits for the
// authority only while the certificate is valid.
func (a *stampAuthority) stamp(ctx context.Context, c *credential, signature []byte) (answer []byte, err error) {
	lives := func() bool { return c.usableAt(a.clock()) }
	err = a.retry(ctx, lives, func(ctx context.Context) (err error) {
		answer, err = a.ask(ctx, signature)
		return err
	})
	var away *awayError
	switch {
	case errors.As(err, &away) && !lives() && a.work.Patience > 0 && ctx.Err() == nil:
		return nil, errLapsed
	case err != nil:
		return nil, err
	}
	at, err := a.check(answer, signature)
	switch {
	case err != nil:
		return nil, err
	case c.leaf != nil && at.After(c.leaf.NotAfter):
		return nil, errLate
	case !c.validAt(at):
		return nil, verdict.Refuse(verdict.TimeCert, "timestamp", "timestamp %s is before the certificate's validity, which begins at %s; the clock of one of the two authorities is wrong",
			at.UTC().Format(time.RFC3339), c.leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return answer, nil
}

// ask sends one query (RFC 3161).
func (a *stampAuthority) ask(ctx context.Context, signature []byte) ([]byte, error) {
	sum := sha256.Sum256(signature)
	query, err := (&timestamp.Request{HashAlgorithm: crypto.SHA256, HashedMessage: sum[:]}).Marshal()
	if err != nil {
		return nil, verdict.Wrap(verdict.InternalBug, "timestamp", err)
	}
	body, _, err := a.send(ctx, question{mediaType: "application/timestamp-query", body: query}, http.StatusOK, http.StatusCreated)
	return body, err
}

// check demands a timestamp of this signature by an authority of the trust
// root.
func (a *stampAuthority) check(answer, signature []byte) (time.Time, error) {
	read, err := timestamp.ParseResponse(answer)
	if err != nil {
		return time.Time{}, verdict.Wrap(verdict.TimeInvalid, "timestamp", err)
	}
	sum := sha256.Sum256(signature)
	if read.HashAlgorithm != crypto.SHA256 || !bytes.Equal(read.HashedMessage, sum[:]) {
		return time.Time{}, verdict.Refuse(verdict.TSAImprint, "timestamp", "the timestamp is not of our signature")
	}
	var all []error
	for _, trusted := range a.material.TimestampingAuthorities() {
		stamp, err := trusted.Verify(answer, signature)
		if err == nil {
			return stamp.Time, nil
		}
		all = append(all, err)
	}
	return time.Time{}, verdict.Wrap(verdict.TSAUntrusted, "timestamp", errors.Join(append(all, errors.New("no timestamp authority of the trust root signed it"))...))
}
