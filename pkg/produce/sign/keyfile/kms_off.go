//go:build !kms

package keyfile

import (
	"context"
	"crypto"
)

// OpenKMS refuses: this build has no access to key management services.
func OpenKMS(_ context.Context, _ string) (crypto.Signer, error) {
	return nil, refuse("key", "this build of waybill cannot use key management services; build it with -tags kms")
}
