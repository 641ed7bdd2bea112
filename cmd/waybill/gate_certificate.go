package main

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxCertificate bounds a client certificate, with those between it and its
// authority, and its key.
const maxCertificate = 256 << 10

// clientCertificate is what a caller shows a gate in place of a token, or the
// door before the gate besides one.
type clientCertificate struct{ certificate, key string }

func (o *clientCertificate) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.certificate, "client-certificate", "", "PEM file with the certificate to show the gate, and those between it and its authority (only with --server and --client-key)")
	f.StringVar(&o.key, "client-key", "", "PEM file with the private key of that certificate (only with --server and --client-certificate)")
}

// isZero reports whether no certificate is to be shown.
func (o *clientCertificate) isZero() bool { return o.certificate == "" && o.key == "" }

// transport is how a gate is reached, and nobody else: whoever else was reached
// by it would be shown the certificate, too.
func (o *clientCertificate) transport(server string) (http.RoundTripper, error) {
	if o.isZero() {
		return cli.Transport(false), nil
	}
	const both = "a certificate is shown with its key; give --client-certificate and --client-key"
	switch u, err := url.Parse(server); {
	case o.key == "":
		return nil, verdict.Refuse(verdict.Usage, "--client-key", "required with --client-certificate").Advise(both)
	case o.certificate == "":
		return nil, verdict.Refuse(verdict.Usage, "--client-certificate", "required with --client-key").Advise(both)
	case err == nil && u.Scheme == "http":
		return nil, verdict.Refuse(verdict.Usage, "--client-certificate", "%q is reached without TLS, where nobody asks for a certificate", server).
			Advise("ask at the gate's https address, or leave the certificate out")
	}
	certificate, err := store.ReadNamed(o.certificate, maxCertificate)
	if err != nil {
		return nil, err
	}
	key, err := store.ReadNamed(o.key, maxCertificate)
	if err != nil {
		return nil, err
	}
	pair, err := api.Certificate(certificate, key)
	clear(key)
	if err != nil {
		return nil, err
	}
	return transport.New(transport.Config{UserAgent: "waybill/" + cli.BuildVersion(), Certificate: &pair}), nil
}
