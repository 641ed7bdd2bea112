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

// maxCertificate bounds the file of a client certificate with its intermediates,
// and that of its key.
const maxCertificate = 256 << 10

// clientCertificate identifies a caller to a gate instead of a token, or, besides
// one, to a proxy in front of the gate.
type clientCertificate struct{ certificate, key string }

func (o *clientCertificate) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.certificate, "client-certificate", "", "PEM file with the client certificate for the gate, and its intermediates (only with --server and --client-key)")
	f.StringVar(&o.key, "client-key", "", "PEM file with the private key of that certificate (only with --server and --client-certificate)")
}

func (o *clientCertificate) isZero() bool { return o.certificate == "" && o.key == "" }

// transport makes the transport to the gate. Use it for no other server, because it
// would present the certificate there, too.
func (o *clientCertificate) transport(server string) (http.RoundTripper, error) {
	if o.isZero() {
		return cli.Transport(false), nil
	}
	const both = "a certificate is used with its key; give both --client-certificate and --client-key"
	switch u, err := url.Parse(server); {
	case o.key == "":
		return nil, verdict.Refuse(verdict.Usage, "--client-key", "required with --client-certificate").Advise(both)
	case o.certificate == "":
		return nil, verdict.Refuse(verdict.Usage, "--client-certificate", "required with --client-key").Advise(both)
	case err == nil && u.Scheme == "http":
		return nil, verdict.Refuse(verdict.Usage, "--client-certificate", "%q is an http address, and a client certificate needs TLS", server).
			Advise("use the gate's https address, or leave the certificate out")
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
