//go:build kms

package keyfile

import (
	"context"
	"crypto"

	"github.com/sigstore/sigstore/pkg/signature/kms"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// OpenKMS opens a key that stays in a service: SERVICE://KEY. The available
// services depend on the providers linked in, and on the plugins in PATH.
func OpenKMS(ctx context.Context, reference string) (crypto.Signer, error) {
	service, err := kms.Get(ctx, reference, crypto.SHA256)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "key", err)
	}
	key, _, err := service.CryptoSigner(ctx, func(error) {})
	if err != nil {
		return nil, verdict.Wrap(verdict.PlaceDown, "key", err)
	}
	return key, nil
}
