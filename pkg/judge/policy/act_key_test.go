package policy

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/json"
	"encoding/pem"
	"maps"
	"math/big"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestEverySignerKey walks every key of a signer's entry in every place that
// the schema has for one: each changes an answer, or does not load.
func TestEverySignerKey(t *testing.T) {
	if got, want := placesOfSigners(t), seats(); len(got) != len(want) {
		t.Fatalf("the schema has signers at %v, the test knows %d places", got, len(want))
	} else {
		for _, s := range want {
			if !slices.Contains(got, s.at) {
				t.Errorf("the schema has no signers at %s", s.at)
			}
		}
	}
	keys := map[string]struct{ other, same any }{
		"issuer":  {"https://other.example.test", nil},
		"subject": {"other@example.test", nil},
		"pattern": {`other-[a-z]+@example\.test`, nil},
		"type":    {"uri", nil},
		"key":     {keyOf(t), nil},
		"from":    {"2026-11-20", "2026-11-19"},
		"until":   {"2026-11-19", "2026-11-20"},
		"stages":  {[]string{"staging"}, []string{"release"}},
		"classes": {[]string{"image"}, nil},
		"claims":  {map[string]string{"buildTrigger": "schedule"}, map[string]string{"buildTrigger": "push"}},
	}
	if got, want := slices.Sorted(maps.Keys(keys)), keysOf(reflect.TypeFor[signer]()); !slices.Equal(got, want) {
		t.Fatalf("the test changes %v, an entry has %v", got, want)
	}
	answers := map[string]int{}
	for i, s := range seats() {
		base, err := Parse([]byte(court(t, -1, nil)), nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.asks(t, base, s.who()); err != nil {
			t.Fatalf("%s: the twin: %v", s.at, err)
		}
		for key, value := range keys {
			t.Run(s.at+" "+key, func(t *testing.T) {
				p, err := Parse([]byte(court(t, i, s.entry().with(key, value.other))), nil)
				loads := err == nil
				if loads {
					answers["refused"]++
					if err := s.asks(t, p, s.who()); err == nil {
						t.Errorf("the key loads and changes nothing")
					}
				} else {
					answers["not loaded"]++
				}
				same := value.same
				if key == "classes" && s.class != "" {
					same = []plan.Class{s.class}
				}
				if same == nil {
					return
				}
				p, err = Parse([]byte(court(t, i, s.entry().with(key, same))), nil)
				if (err == nil) != loads {
					t.Fatalf("loads with %v: %t, with %v: %v", value.other, loads, same, err)
				}
				if err != nil {
					return
				}
				answers["accepted"]++
				if err := s.asks(t, p, s.who()); err != nil {
					t.Errorf("the twin with %v: %v", same, err)
				}
			})
		}
	}
	t.Log(answers)
	if answers["refused"]+answers["not loaded"] != len(keys)*len(seats()) || answers["refused"] < 48 || answers["accepted"] < 30 {
		t.Errorf("few answers were compared: %v", answers)
	}
}

// TestActsByOneName: a certificate acts as the identity that it names, and as none if
// it names two.
func TestActsByOneName(t *testing.T) {
	p, err := Parse([]byte(court(t, -1, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	issuer := pkix.Extension{Id: asn1.ObjectIdentifier{1, 3, 6, 1, 4, 1, 57264, 1, 1}, Value: []byte("https://accounts.example.test")}
	for want, names := range map[verdict.Code][]string{
		"": {"release@example.test"}, verdict.IdentityRole: {"verifier@example.test"}, verdict.SANCount: {"release@example.test", "verifier@example.test"},
	} {
		made := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Date(2026, 11, 19, 12, 0, 0, 0, time.UTC), EmailAddresses: names, ExtraExtensions: []pkix.Extension{issuer}}
		der, err := x509.CreateCertificate(rand.Reader, made, made, key.Public(), key)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.ActsBy(der, Release, Question{Subject: "lantern.cert"}); (err == nil) != (want == "") || err != nil && verdict.FindingOf("", err).Code != want {
			t.Errorf("%q: %v, want %q", names, err, want)
		}
	}
}

// keyOf is the text of a new key.
func keyOf(t *testing.T) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: der}))
}

// placesOfSigners finds in the published schema every place for signers.
func placesOfSigners(t *testing.T) (found []string) {
	t.Helper()
	var root map[string]any
	if err := json.Unmarshal(Schema(), &root); err != nil {
		t.Fatal(err)
	}
	var walk func(path []string, node any)
	walk = func(path []string, node any) {
		object, _ := node.(map[string]any)
		for key, child := range object {
			switch {
			case key == "$ref" && child == "#/$defs/signers":
				found = append(found, strings.Join(path, "/"))
			case key == "properties":
				walk(path, child)
			default:
				walk(append(slices.Clone(path), key), child)
			}
		}
	}
	walk(nil, root)
	return found
}
