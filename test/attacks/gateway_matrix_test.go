package attacks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/serve/caller"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// matrixBook is the book of the matrix. What it grants is written in the test
// once more, by hand.
const matrixBook = `audience: %[1]s
callers:
- {name: release-ci, token: {issuer: %[2]q, subject: "release-ci"}}
- {name: nightly, token: {issuer: %[2]q, subject: "nightly"}}
- {name: officer, token: {issuer: %[2]q, subject: "officer"}}
- {name: auditor, token: {issuer: %[2]q, subject: "auditor"}}
- {name: everything, token: {issuer: %[2]q, subject: "everything"}}
grants:
- {caller: release-ci, verbs: [verify, promote], from: [staging.example.test/lantern], to: [prod.example.test/lantern], channels: [stable, beta]}
- {caller: release-ci, verbs: [verify], from: [staging.example.test/], to: [staging.example.test/], channels: [none]}
- {caller: nightly, verbs: [verify, promote], from: [staging.example.test/nightly/], to: [prod.example.test/nightly/], channels: [nightly]}
- {caller: officer, verbs: [override], from: [staging.example.test/lantern], to: [prod.example.test/lantern], channels: [stable]}
- {caller: auditor, verbs: [audit], from: [staging.example.test/], to: [prod.example.test/lantern], channels: [stable, nightly]}
- {caller: everything, verbs: [promote], from: [staging.example.test/, prod.example.test/], to: [staging.example.test/, prod.example.test/], channels: [none, stable, beta, nightly]}
`

// matrix is a gate whose registries are all one, and its callers' tokens.
type matrix struct {
	*gatehouse
	sum       string
	exception []byte
	ids       int
	tokens    map[string]string
}

func openMatrix(t *testing.T) *matrix {
	t.Helper()
	w := theWorld(t)
	g := &gatehouse{t: t, w: w, image: stagedImage(t, w)}
	_, rest, _ := strings.Cut(g.image, "/")
	name, sum, _ := strings.Cut(rest, "@")
	m := &matrix{gatehouse: g, sum: sum, tokens: map[string]string{}}
	from := must[*registry.Remote](t)(registry.OpenRemote(w.Lab.Registry, http.DefaultTransport))
	to := must[*registry.Remote](t)(registry.OpenRemote(w.Lab.Registry+"/matrix", http.DefaultTransport))
	d := must[registry.Descriptor](t)(from.Resolve(t.Context(), name, sum))
	for _, path := range []string{"lantern", "nightly/lantern", "lantern-evil"} {
		if _, err := registry.Copy(t.Context(), to, moved{from, name}, path, d); err != nil {
			t.Fatal(err)
		}
	}
	now := time.Now().UTC().Truncate(time.Second)
	s := must[intoto.Statement](t)(intoto.New(exception.PredicateType, []intoto.Subject{{Name: "lantern@" + sum, Digests: digest.Set{SHA256: d.Digest}}}, exception.Predicate{
		Code: verdict.NoSBOM, Reason: "for the matrix", Destination: "prod.example.test/lantern", Policy: w.profile.Policy.Digest(), Issued: now, Expires: now.Add(time.Hour),
	}))
	m.exception = must[[]byte](t)(w.Sign(t.Context(), "policy", s.Raw()))
	issuer, _ := w.Lab.Identity("verifier")
	book := must[caller.Book](t)(caller.Parse(fmt.Appendf(nil, matrixBook, gateAudience, issuer)))
	m.server = must[*serve.Server](t)(serve.New(t.Context(), serve.World{
		Load: func(context.Context) (serve.Basis, error) {
			return serve.Basis{PolicyRequest: gate.PolicyRequest{Policy: w.profile.Policy, Verifier: w.verifier}, Callers: book}, nil
		},
		Open: func(string) (*registry.Remote, error) { return to, nil },
		Keys: serve.IssuerKeys(http.DefaultTransport), Clock: time.Now, Log: slog.New(slog.DiscardHandler), Record: io.Discard, Approvals: approvals(t, t.TempDir()),
	}, serve.Limits{PerCaller: 1_000_000}))
	return m
}

// moved is a registry in which a repository has another name.
type moved struct {
	registry.Source
	name string
}

func (m moved) Resolve(ctx context.Context, _, tag string) (registry.Descriptor, error) {
	return m.Source.Resolve(ctx, m.name, tag)
}

func (m moved) Fetch(ctx context.Context, _ string, d registry.Descriptor) (io.ReadCloser, error) {
	return m.Source.Fetch(ctx, m.name, d)
}

func (m moved) Referrers(ctx context.Context, _ string, d digest.Digest) ([]registry.Descriptor, error) {
	return m.Source.Referrers(ctx, m.name, d)
}

func (m moved) Tags(ctx context.Context, _ string) ([]string, error) {
	return m.Source.Tags(ctx, m.name)
}

// cell is one cell: who wants what.
type cell struct{ who, verb, from, to, channel string }

// ask asks for a cell, and returns the status and the code that was said.
func (m *matrix) ask(c cell) (int, string) {
	q := api.Question{Verb: api.Verb(c.verb), Image: c.from + "@" + m.sum, To: c.to, Channel: c.channel, Version: m.w.version.String()}
	claims := map[string]any{"sub": c.who}
	if c.verb == "override" {
		q.Exceptions = [][]byte{m.exception}
	}
	if c.verb == "override" && c.who == "officer" { // each may be let in, and uses its token up
		m.ids++
		claims["jti"] = fmt.Sprint(m.ids)
	}
	raw := must[[]byte](m.t)(json.Marshal(api.Request{Schema: api.SchemaRequest, Decisions: []api.Question{q}}))
	return m.send(http.MethodPost, "/v1/decisions", claims, raw)
}

func (m *matrix) send(method, path string, claims map[string]any, raw []byte) (int, string) {
	req := httptest.NewRequest(method, path, bytes.NewReader(raw))
	if claims["sub"] != "nobody" {
		key := fmt.Sprint(claims)
		if m.tokens[key] == "" {
			m.tokens[key] = m.token(claims)
		}
		req.Header.Set("Authorization", "Bearer "+m.tokens[key])
	}
	w := httptest.NewRecorder()
	m.server.ServeHTTP(w, req)
	return w.Code, w.Body.String()
}

// TestGatewayMatrix asks a running gate for every verb, by everybody, from and
// to everywhere, in every channel: what is granted is answered 200, for the
// image is a good one, and everything else is not.
func TestGatewayMatrix(t *testing.T) {
	m := openMatrix(t)
	granted := map[cell]bool{}
	grant := func(who, verbs string, from, to, channels []string) {
		for verb := range strings.FieldsSeq(verbs) {
			for _, f := range from {
				for _, d := range to {
					for _, c := range channels {
						granted[cell{who, verb, f, d, c}] = true
					}
				}
			}
		}
	}
	lantern, nightly, evil, prod := "staging.example.test/lantern", "staging.example.test/nightly/lantern", "staging.example.test/lantern-evil", "prod.example.test/lantern"
	prodNightly := "prod.example.test/nightly/lantern"
	grant("release-ci", "promote", []string{lantern}, []string{prod}, []string{"stable", "beta"})
	for _, name := range []string{lantern, nightly, evil} { // to verify is to ask about going nowhere
		grant("release-ci", "verify", []string{name}, []string{name}, []string{"none"})
	}
	grant("nightly", "promote", []string{nightly}, []string{prodNightly}, []string{"nightly"})
	grant("officer", "override", []string{lantern}, []string{prod}, []string{"stable"})
	grant("auditor", "audit", []string{lantern, nightly, evil}, []string{prod}, []string{"stable", "nightly"})
	grant("everything", "promote", []string{lantern, nightly, evil, prod}, []string{prod, prodNightly, lantern, nightly, evil}, []string{"stable", "beta", "nightly", "none"})

	froms := []string{lantern, nightly, evil, prod, "staging.example.test//lantern", "staging.example.test/../lantern", "staging.example.test.evil.test/lantern"}
	tos := []string{prod, prodNightly, lantern, nightly, evil, "prod.example.test/lantern/"}
	channels := []string{"stable", "beta", "nightly", "none", "*"}
	asked, yes := 0, 0
	each := func(visit func(from, to, channel string)) {
		for _, from := range froms {
			for _, to := range tos {
				for _, channel := range channels {
					visit(from, to, channel)
				}
			}
		}
	}
	for _, who := range []string{"release-ci", "nightly", "officer", "auditor", "everything", "stranger", "nobody"} {
		for _, verb := range []string{"verify", "promote", "override", "audit", "*"} {
			if verb == "audit" {
				continue // below
			}
			each(func(from, to, channel string) {
				c := cell{who, verb, from, to, channel}
				status, said := m.ask(c)
				asked++
				if granted[c] {
					yes++
				}
				want := map[bool]string{true: `"outcome":"accepted"`, false: `"problem"`}[granted[c]]
				if (status == http.StatusOK) != granted[c] || !strings.Contains(said, want) || !granted[c] && strings.Contains(said, `"verdict"`) {
					t.Errorf("%+v: %d, granted %v: %.300s", c, status, granted[c], said)
				}
			})
		}
	}
	audited, seen := m.audited(t, each, granted)
	asked, yes = asked+audited, yes+seen
	if t.Logf("%d cells, %d of them granted", asked, yes); asked < 500 || yes != len(granted) {
		t.Errorf("%d cells, %d granted of %d", asked, yes, len(granted))
	}
}

// audited reads what was decided as everybody: of each decision that was made
// the auditor sees those that are granted, and nobody else sees any.
func (m *matrix) audited(t *testing.T, each func(func(from, to, channel string)), granted map[cell]bool) (asked, yes int) {
	t.Helper()
	for _, who := range []string{"release-ci", "nightly", "officer", "auditor", "everything", "stranger", "nobody"} {
		status, raw := m.send(http.MethodGet, "/v1/audit?limit=1000", map[string]any{"sub": who}, nil)
		var told api.Audit
		_ = json.Unmarshal([]byte(raw), &told)
		if (status == http.StatusOK) != (who == "auditor") {
			t.Errorf("%s reads what was decided: %d %.200s", who, status, raw)
		}
		visible := map[cell]bool{}
		for _, l := range told.Decisions {
			from, _, _ := strings.Cut(l.Image, "@")
			visible[cell{who, "audit", from, l.To, l.Channel}] = true
		}
		each(func(from, to, channel string) {
			c := cell{who, "audit", from, to, channel}
			asked++
			if visible[c] != granted[c] {
				t.Errorf("%+v: seen %v, granted %v", c, visible[c], granted[c])
			}
			if visible[c] {
				yes++
			}
		})
	}
	return asked, yes
}
