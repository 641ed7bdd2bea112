package sign_test

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
)

// config is a signer's: who signs, by which policy, with which services.
func config() (c sign.Config, err error) {
	c = sign.Config{
		Role:      policy.Release,
		Transport: http.DefaultTransport, // a program uses transport.New, which bounds and repeats
		Token:     func(context.Context) (string, error) { return "an identity token", nil },
		Clock:     func() time.Time { return time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC) },
		Services:  sign.Services{Fulcio: "https://ca.example.test", TSAs: []string{"https://tsa.example.test"}, Logs: []string{"https://log.example.test"}},
	}
	if c.Verifier, err = verify.New(trust.Embedded()); err != nil {
		return c, err
	}
	raw, err := policies.Read("slsa-build-l2")
	if err != nil {
		return c, err
	}
	c.Policy, err = policy.Parse(raw, nil)
	return c, err
}

// A signer signs only the statements that its role may make. The release identity
// never signs provenance: that is refused before any service is asked.
func ExampleSigner_Statement() {
	c, err := config()
	if err != nil {
		fmt.Println(err)
		return
	}
	signer, err := sign.New(c)
	if err != nil {
		fmt.Println(err)
		return
	}
	s, err := intoto.New(provenance.PredicateType, []intoto.Subject{{Name: "hello", Digests: digest.SetOf([]byte("hello"))}}, struct{}{})
	if err != nil {
		fmt.Println(err)
		return
	}
	bundle, _, err := signer.Statement(context.Background(), s)
	fmt.Println(len(bundle), verdict.FindingOf("hello", err).Code)
	// Output: 0 IDENTITY_ROLE
}
