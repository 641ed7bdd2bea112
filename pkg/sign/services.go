package sign

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/root"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// Services are the addresses that a signature needs.
type Services struct {
	Fulcio, TSA, Log string
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
	return s, err
}

// checkToken reads the expiry of an identity token. The certificate authority
// verifies the token; this only turns its refusal into a clear sentence.
func checkToken(token string, now time.Time) error {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return verdict.Refuse(verdict.Usage, "identity token", "it is not a signed web token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return verdict.Refuse(verdict.Usage, "identity token", "it is not a signed web token")
	}
	var claims struct {
		Expires int64 `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return verdict.Refuse(verdict.Usage, "identity token", "its claims are not readable")
	}
	if expires := time.Unix(claims.Expires, 0); !now.Before(expires) {
		return verdict.Refuse(verdict.Usage, "identity token", "it expired %s ago; fetch a new one", fmt.Sprint(now.Sub(expires).Round(time.Second)))
	}
	return nil
}
