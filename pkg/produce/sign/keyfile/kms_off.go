//go:build !kms

package keyfile

import (
	"context"
	"crypto"
)

// OpenKMS refuses: this build has no access to services that keep keys.
func OpenKMS(_ context.Context, _ string) (crypto.Signer, error) {
	return nil, refuse("key", "this waybill cannot use services that keep keys; build it with -tags kms")
}
