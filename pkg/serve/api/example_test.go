package api_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// refusing answers as a gate that refuses one image.
type refusing string

func (image refusing) RoundTrip(*http.Request) (*http.Response, error) {
	v := verdict.New("image "+string(image), time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	v.Add(verdict.Find(verdict.Unsigned, string(image), "unsigned"))
	raw, err := json.Marshal(api.Answer{
		Schema: api.SchemaAnswer, RequestID: "1", Outcome: v.Outcome().String(),
		Decisions: []api.Decision{{Image: string(image), Outcome: v.Outcome().String(), Verdict: v}},
	})
	return &http.Response{StatusCode: verdict.HTTPStatus(v.Outcome()), Body: io.NopCloser(bytes.NewReader(raw))}, err
}

// A client asks a gate over HTTP whether images would be accepted.
func ExampleClient_Decide() {
	const image = "registry.example.test/hello@sha256:2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"
	token := func(context.Context) (string, error) { return "an identity token", nil }
	c, err := api.New("https://gate.example.test", refusing(image), token)
	if err != nil {
		fmt.Println(err)
		return
	}
	answer, err := c.Decide(context.Background(), []api.Question{{Verb: api.Verify, Image: image}})
	fmt.Println(answer.Outcome, answer.Accepted(), err)
	// Output: refused false <nil>
}
