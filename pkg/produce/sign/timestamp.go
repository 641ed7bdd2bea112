package sign

import (
	"bytes"
	"context"
	"crypto"
	"crypto/sha256"
	"errors"
	"net/http"
	"time"

	"github.com/digitorus/timestamp"
	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
