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

// A signature that was not stamped within its certificate's life proves
// nothing, and another must be made.
var (
	errLapsed = errors.New("the certificate's life has passed before its signature was stamped")
	errLate   = errors.New("the timestamp is later than the certificate's life")
)

// stampAuthority is the timestamp authority, and what its answers are held
// against.
type stampAuthority struct {
	*service
	material root.TrustedMaterial
}

// stamp fetches a timestamp of a signature and checks it. It waits for the
// authority while the certificate lives, and no longer.
func (a *stampAuthority) stamp(ctx context.Context, c *credential, signature []byte) (answer []byte, err error) {
	lives := func() bool { return c.holds(a.clock()) }
	err = a.ride(ctx, lives, func(ctx context.Context) (err error) {
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
	case !c.lives(at):
		return nil, verdict.Refuse(verdict.TimeCert, "timestamp", "the authority says %s, before the certificate was valid, at %s; one of the two has a wrong clock",
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
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, a.address, bytes.NewReader(query))
	if err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, a.name, err)
	}
	r.Header.Set("Content-Type", "application/timestamp-query")
	body, _, err := a.do(r, "", http.StatusOK, http.StatusCreated)
	return body, err
}

// check demands that an authority of the trust root stamped this very
// signature.
func (a *stampAuthority) check(answer, signature []byte) (time.Time, error) {
	read, err := timestamp.ParseResponse(answer)
	if err != nil {
		return time.Time{}, verdict.Wrap(verdict.TimeInvalid, "timestamp", err)
	}
	sum := sha256.Sum256(signature)
	if read.HashAlgorithm != crypto.SHA256 || !bytes.Equal(read.HashedMessage, sum[:]) {
		return time.Time{}, verdict.Refuse(verdict.TSAImprint, "timestamp", "the authority stamped something else than our signature")
	}
	var all []error
	for _, trusted := range a.material.TimestampingAuthorities() {
		stamp, err := trusted.Verify(answer, signature)
		if err == nil {
			return stamp.Time, nil
		}
		all = append(all, err)
	}
	return time.Time{}, verdict.Wrap(verdict.TSAUntrusted, "timestamp", errors.Join(append(all, errors.New("no authority of the trust root made it"))...))
}
