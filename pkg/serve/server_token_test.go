package serve

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestIssuerRotatesKeys: a token that is signed with a new key of its issuer is
// accepted without a restart; an issuer is asked once in ten seconds at most, and
// a key that it does not have is never accepted (TOKEN_KEY).
func TestIssuerRotatesKeys(t *testing.T) {
	const issuer = "https://token.example.test"
	now, asked := time.Now(), 0
	var published jose.JSONWebKeySet
	signers := map[string]*ecdsa.PrivateKey{}
	for _, id := range []string{"one", "two", "three"} {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		signers[id] = key
	}
	publish := func(id string) {
		published.Keys = append(published.Keys, jose.JSONWebKey{Key: signers[id].Public(), KeyID: id, Algorithm: "ES256", Use: "sig"})
	}
	publish("one")
	f := openFront(t, func(w *World) {
		w.Clock = func() time.Time { return now }
		w.Keys = func(context.Context, string) (caller.Keys, error) {
			asked++
			raw, err := json.Marshal(published)
			if err != nil {
				return caller.Keys{}, err
			}
			return caller.ParseKeys(raw)
		}
	})
	book, err := caller.Parse(fmt.Appendf(nil, `audience: gate
callers: [{name: one, token: {issuer: %q, subject: one}}]
grants: [{caller: one, verbs: [verify], from: [a.example.test/], to: [a.example.test/], channels: [none]}]
`, issuer))
	if err != nil {
		t.Fatal(err)
	}
	f.basis.Load().Callers = book
	for i, row := range []struct {
		by    string
		wait  time.Duration
		asked int
		good  bool
	}{
		{"one", 0, 1, true}, {"two", 0, 1, false}, {"two", keysPause, 2, false}, {"one", 0, 2, true},
		{"two", 0, 2, false}, {"two", keysPause, 3, true}, {"three", keysPause, 4, false}, {"two", 0, 4, true},
	} {
		if i == 4 {
			publish("two")
		}
		now = now.Add(row.wait)
		signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jose.JSONWebKey{Key: signers[row.by], KeyID: row.by}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		signed, err := signer.Sign(fmt.Appendf(nil, `{"iss":%q,"sub":"one","aud":"gate","iat":%d,"exp":%d,"jti":"%d"}`, issuer, now.Unix(), now.Add(time.Hour).Unix(), i))
		if err != nil {
			t.Fatal(err)
		}
		token, err := signed.CompactSerialize()
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodGet, "/v2/", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		who, err := f.admission.identify(t.Context(), r, f.basis.Load(), "")
		if (err == nil) != row.good || row.good && who.Name() != "one" || err != nil && verdict.FindingOf("", err).Code != verdict.TokenKey || asked != row.asked {
			t.Errorf("%d: %q by key %s: %v; the issuer was asked %d times, want %d", i, who.Name(), row.by, err, asked, row.asked)
		}
	}
}
