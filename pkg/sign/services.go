package sign

import (
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// Services are the addresses that a signature needs.
type Services struct {
	Fulcio, TSA, Log string
	// Login is where a person logs in; empty where nobody is to.
	Login string
}

// ParseServices reads a Sigstore signing_config.json and picks what is valid
// at a time: version 1 of the certificate and timestamp services, version 2
// of the log.
func ParseServices(raw []byte, now time.Time) (Services, error) {
	config, err := root.NewSigningConfigFromJSON(raw)
	if err != nil {
		return Services{}, verdict.Wrap(verdict.ConfigParse, "signing config", err)
	}
	pick := func(what string, list []root.Service, version uint32) string {
		s, e := root.SelectService(list, []uint32{version}, now)
		if e != nil && err == nil {
			err = verdict.Refuse(verdict.ConfigParse, "signing config", "%s: %v", what, e)
		}
		return s.URL
	}
	s := Services{
		Fulcio: pick("certificate authority", config.FulcioCertificateAuthorityURLs(), 1),
		TSA:    pick("timestamp authority", config.TimestampAuthorityURLs(), 1),
		Log:    pick("transparency log v2", config.RekorLogURLs(), 2),
	}
	if login, none := root.SelectService(config.OIDCProviderURLs(), []uint32{1}, now); none == nil {
		s.Login = login.URL
	}
	return s, err
}
