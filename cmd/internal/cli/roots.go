package cli

import (
	"crypto/x509"
	"os"

	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// FallbackRoots makes TLS trust the built-in authorities if the system has no
// directory for certificates, such as an image from scratch. Call it once, at
// the start. It looks for directories first, because to parse all authorities
// would slow down every start.
func FallbackRoots() {
	for _, dir := range []string{"/etc/ssl", "/etc/pki"} {
		if _, err := os.Stat(dir); err == nil {
			return
		}
	}
	pool := x509.NewCertPool()
	for root := range bundle.Roots() {
		cert, err := x509.ParseCertificate(root.Certificate)
		switch {
		case err != nil: // an authority fewer is trusted
		case root.Constraint != nil:
			pool.AddCertWithConstraint(cert, root.Constraint)
		default:
			pool.AddCert(cert)
		}
	}
	x509.SetFallbackRoots(pool) // counts only if the system has none
}
