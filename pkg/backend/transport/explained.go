package transport

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
)

// explainedError adds the next act to an error. It is in every other respect the
// error that it wraps.
type explainedError struct {
	error
	act string
}

// Unwrap returns the error.
func (e *explainedError) Unwrap() error { return e.error }

// NextAct is what to do about the error; package verdict reads it.
func (e *explainedError) NextAct() string { return e.act }

// Timeout is asked by [net/http], which does not look at wrapped errors.
func (e *explainedError) Timeout() bool {
	var late net.Error
	return errors.As(e.error, &late) && late.Timeout()
}

// explained adds the next act to errors that trying again does not help.
func explained(err error) error {
	var (
		certificate *tls.CertificateVerificationError
		host        x509.HostnameError
		invalid     x509.CertificateInvalidError
		name        *net.DNSError
	)
	act := ""
	switch {
	case errors.As(err, &host):
		act = "use a host name that is in the server's certificate, or ask its operators for another certificate; nothing was decided"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		act = "check the clock; if it is right, ask the server's operators to renew its certificate; nothing was decided"
	case errors.As(err, &certificate):
		act = "if an authority of your own issued the server's certificate, name a PEM file with its certificate in SSL_CERT_FILE; nothing was decided"
	case errors.As(err, &name) && name.IsNotFound:
		act = "check the spelling of the host name, the network and HTTPS_PROXY; nothing was decided"
	default:
		return err
	}
	return &explainedError{err, act}
}
