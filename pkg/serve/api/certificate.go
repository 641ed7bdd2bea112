package api

import (
	"crypto/tls"
	"errors"
	"net"
	"reflect"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Certificate reads a client certificate, with those between it and its
// authority, and its key, both PEM: for the transport of a [Client]. A gate
// knows a caller by the one URI in it. An error quotes nothing of the key.
func Certificate(certificate, key []byte) (tls.Certificate, error) {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return tls.Certificate{}, verdict.Refuse(verdict.Usage, "client certificate", "%v", err).
			Advise("want PEM: the certificate, then those between it and its authority; and, in a file of its own, the private key of the certificate, not encrypted")
	}
	return pair, nil
}

// Alerts by which a server ends a connection for the certificate that it was
// shown, or was not (RFC 8446, 6.2).
const (
	alertBadCertificate  = 42
	alertExpired         = 45
	alertUnknown         = 46
	alertUnknownCA       = 48
	alertDecrypt         = 51 // who shows it has not its key
	alertWantCertificate = 116
)

// refusal is what a gate says that ends a connection for the certificate that
// it was shown; nil where it was for anything else, or was not.
func refusal(gate string, err error) error {
	refuse := func(what, act string) error {
		f := verdict.Find(verdict.TokenSub, gate, "%s (%v)", what, err)
		f.Fix = act
		return &verdict.Error{Finding: f, Cause: err}
	}
	switch n := alertOf(err); {
	case n == alertExpired:
		return refuse("the gate lets nobody in by this client certificate: it has expired, or is not valid yet", "have a new one issued, and look whether the clocks of both sides are right")
	case n == alertUnknownCA:
		return refuse("the gate lets nobody in by this client certificate: it does not know the authority", "show one by an authority in tls.clients of the gate's file, with those in between; or have the gate's operators add this one's")
	case n == alertWantCertificate:
		return refuse("the gate lets nobody in without a client certificate", "show one, by an authority that it knows")
	case n >= alertBadCertificate && n <= alertUnknown, n == alertDecrypt:
		return refuse("the gate lets nobody in by this client certificate", "show one that is for clients, by an authority in tls.clients of the gate's file")
	}
	return nil
}

// alertOf is the alert by which the other side ended a connection; zero for
// none. Package crypto/tls tells its number by its kind alone.
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
