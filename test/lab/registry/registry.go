// Package registry is an OCI registry.
package registry

import (
	"github.com/google/go-containerregistry/pkg/registry"
	"io"
	"log"
	"net/http"
	"os"
)

// New is temporary.
func New(dir string) (http.Handler, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return registry.New(registry.Logger(log.New(io.Discard, "", 0)), registry.WithReferrersSupport(true)), nil
}
