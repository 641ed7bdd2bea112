package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/test/lab"
)

// renewEvery leaves a token more than half of its ten minutes.
const renewEvery = 4 * time.Minute

// writeTokens writes tokens/ROLE below dir: an identity token of each role.
func writeTokens(ctx context.Context, issuer, dir string) error {
	at := filepath.Join(dir, lab.TokenDir)
	if err := os.MkdirAll(at, 0o700); err != nil {
		return fmt.Errorf("writing tokens: %w", err)
	}
	for _, role := range lab.Roles() {
		token, err := lab.RequestToken(ctx, issuer, lab.TokenRequest{As: role})
		if err != nil {
			return err
		}
		tmp := filepath.Join(at, "."+role)
		if err := errors.Join(os.WriteFile(tmp, []byte(token), 0o600), os.Rename(tmp, filepath.Join(at, role))); err != nil {
			return fmt.Errorf("writing tokens: %w", err)
		}
	}
	return nil
}

// renewTokens writes them again until ctx ends. One that could not be written
// expires, and a command that reads it says so.
func renewTokens(ctx context.Context, issuer, dir string) {
	tick := time.NewTicker(renewEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = writeTokens(ctx, issuer, dir)
		}
	}
}
