package api

import (
	"crypto/tls"
	"errors"
	"net"
	"reflect"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Certificate parses a client certificate with its intermediates, and its key,
// both PEM, for the transport of a [Client]. A gate identifies a caller by the
// one URI in the certificate. Errors quote nothing of the key.
func Certificate(certificate, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, verdict.Refuse(verdict.Usage, "client certificate", "%v", err).
			Advise("provide PEM files: one with the certificate followed by its intermediates, and one with its unencrypted private key")
	}
	return pair, nil
}

// TLS alerts by which a server rejects a client certificate, or demands one
// (RFC 8446, 6.2).
const (
	alertBadCertificate  = 42
	alertExpired         = 45
	alertUnknown         = 46
	alertUnknownCA       = 48
	alertDecrypt         = 51 // the key does not match the certificate
	alertWantCertificate = 116
)

// refusal returns the error of a gate that ended the connection because of the
// client certificate; nil for any other error.
func refusal(gate string, err error) error {
	refuse := func(what, act string) error {
		return &verdict.Error{Finding: verdict.Find(verdict.TokenSub, gate, "%s (%v)", what, err).Advise(act), Cause: err}
	}
	switch n := alertOf(err); {
	case n == alertExpired:
		return refuse("the gate rejects this client certificate: expired or not yet valid", "renew the certificate, and check the clocks of both sides")
	case n == alertUnknownCA:
		return refuse("the gate rejects this client certificate: unknown certificate authority", "use a certificate, with its intermediates, from an authority in tls.clients of the gate's configuration; or ask the gate's operators to add yours")
	case n == alertWantCertificate:
		return refuse("the gate requires a client certificate", "use a certificate from an authority that the gate accepts")
	case n >= alertBadCertificate && n <= alertUnknown, n == alertDecrypt:
		return refuse("the gate rejects this client certificate", "use a certificate for client authentication from an authority in tls.clients of the gate's configuration")
	}
	return nil
}

// alertOf returns the TLS alert by which the other side ended a connection;
// zero if none. Package crypto/tls exposes its number only through reflection.
func alertOf(err error) uint64 {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" {
		return 0
	}
	if v := reflect.ValueOf(op.Err); v.Kind() == reflect.Uint8 {
		return v.Uint()
	}
	return 0
}
