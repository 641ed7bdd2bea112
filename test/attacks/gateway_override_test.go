package attacks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const overridden = "prod.example.test/lantern"

// approvals is a directory of used approvals.
func approvals(t *testing.T, dir string) serve.Ledger {
	t.Helper()
	return serve.Ledger{Place: must[store.Place](t)(store.Open(dir, nil)), Writer: must[store.Writer](t)(store.OpenWriter(dir))}
}

// overriding opens a gate whose policy asks of every image for a level that the
// builder does not have, and which serves overrides.
func overriding(t *testing.T, dir string, edits ...func(*gatehouse)) *gatehouse {
	t.Helper()
	return openGatehouse(t, append([]func(*gatehouse){func(g *gatehouse) {
		issuer, _ := g.w.Lab.Identity("builder")
		text := string(must[[]byte](t)(os.ReadFile(g.w.Path("policy.yaml"))))
		for _, change := range [][2]string{
			{"  level: 2\n", "  level: 1\n"},
			{"source: {", fmt.Sprintf("- id: https://builder.example.test\n  level: 2\n  signers: [{issuer: %q, subject: hosted@lab.invalid, type: email}]\nsource: {", issuer)},
			{"sbom: require}\n", "sbom: require}\n  level: 2\n"},
			{"provenance: require, signature: require}}", "provenance: require, signature: require}, level: 2}"},
		} {
			text = string(replaceOne(t, []byte(text), change[0], change[1]))
		}
		p := must[policy.Policy](t)(policy.Parse([]byte(text), nil))
		g.policy.Store(&p)
		g.verbs = "verify, promote, override"
		if dir != "" {
			g.approvals = approvals(t, dir)
		}
	}}, edits...)...)
}

// lacking are the manifests of the image whose level the policy finds too low.
func (g *gatehouse) lacking() (all []digest.Digest) {
	g.t.Helper()
	host, rest, _ := strings.Cut(g.image, "/")
	name, sum, _ := strings.Cut(rest, "@")
	d := must[digest.Digest](g.t)(digest.Parse(sum))
	src := must[*registry.Remote](g.t)(registry.OpenRemote(host, http.DefaultTransport))
	v := gate.PolicyRequest{Policy: *g.policy.Load(), Verifier: g.w.verifier, Stage: policy.Staging, Version: g.w.version.String(), Now: time.Now()}.
		Image(g.t.Context(), gate.Image{Source: src, Name: g.image, Repository: name, Digest: d})
	for _, f := range v.Findings {
		if f.Code != verdict.Level {
			g.t.Fatalf("not only the level lacks: %+v", f)
		}
		_, of, _ := strings.Cut(f.Subject, "@")
		all = append(all, must[digest.Digest](g.t)(digest.Parse(of)))
	}
	if len(all) == 0 {
		g.t.Fatal("nothing lacks")
	}
	return all
}

// word is one exception, before it is signed.
type word struct {
	exception.Predicate
	name string
	of   digest.Digest
	by   string // role
}

// excepts signs an exception for each manifest that lacks the level, each with
// the same thing changed.
func (g *gatehouse) excepts(change func(*word)) (bundles [][]byte) {
	g.t.Helper()
	now := time.Now().UTC().Truncate(time.Second)
	_, rest, _ := strings.Cut(g.image, "/")
	repository, _, _ := strings.Cut(rest, "@")
	for _, d := range g.lacking() {
		w := word{exception.Predicate{
			Code: verdict.Level, Reason: "the hosted builder was down", Destination: overridden, Policy: g.policy.Load().Digest(), Issued: now, Expires: now.Add(time.Hour),
		}, repository + "@" + d.String(), d, "policy"}
		if change != nil {
			change(&w)
		}
		s := must[intoto.Statement](g.t)(intoto.New(exception.PredicateType, []intoto.Subject{{Name: w.name, Digests: digest.Set{SHA256: w.of}}}, w.Predicate))
		bundles = append(bundles, must[[]byte](g.t)(g.w.Sign(g.t.Context(), w.by, s.Raw())))
	}
	return bundles
}

// override is a request to override, with a token of an ID.
func (g *gatehouse) override(id string, q api.Question) *http.Request {
	g.t.Helper()
	req := must[*http.Request](g.t)(http.NewRequestWithContext(g.t.Context(), http.MethodPost, "http://"+g.host+"/v1/decisions",
		strings.NewReader(string(must[[]byte](g.t)(json.Marshal(api.Request{Schema: api.SchemaRequest, Decisions: []api.Question{q}}))))))
	claims := map[string]any{}
	if id != "" {
		claims["jti"] = id
	}
	req.Header.Set("Authorization", "Bearer "+g.token(claims))
	return req
}

func (g *gatehouse) question(bundles [][]byte) api.Question {
	return api.Question{Verb: api.Override, Image: g.image, To: overridden, Channel: "stable", Version: g.w.version.String(), Exceptions: bundles}
}

// TestOverride: the officer's exceptions count for exactly what they say, and
// are judged like evidence: each row changes one thing of them, or of the
// question.
func TestOverride(t *testing.T) {
	g := overriding(t, t.TempDir())
	good := g.excepts(nil)
	other := digest.Of(digest.SHA256, []byte("another"))
	for i, c := range []struct {
		name   string
		change func(*word)         // of the exceptions
		edit   func(*api.Question) // of the question
		status int
		code   verdict.Code
	}{
		{"nothing", nil, nil, 200, ""},
		{"to be promoted without them", nil, func(q *api.Question) { q.Verb, q.Exceptions = api.Promote, nil }, 403, verdict.Level},
		{"for another destination", func(w *word) { w.Destination = "prod.example.test/other" }, nil, 403, verdict.Level},
		{"for a destination above it", func(w *word) { w.Destination = "prod.example.test" }, nil, 403, verdict.Level},
		{"under another policy", func(w *word) { w.Policy = other }, nil, 403, verdict.Level},
		{"for another image", func(w *word) { w.of, w.name = other, strings.Replace(w.name, w.of.String(), other.String(), 1) }, nil, 403, verdict.Level},
		{"for another repository", func(w *word) { w.name = "evil/" + w.name }, nil, 403, verdict.Level},
		{"for another finding", func(w *word) { w.Code = verdict.Unsigned }, nil, 403, verdict.Level},
		{"for what is never excepted", func(w *word) { w.Code = verdict.Tampered }, nil, 403, "NEVER_EXCEPTED"},
		{"by the release identity", func(w *word) { w.by = "release" }, nil, 403, verdict.IdentityRole},
		{"by the builder", func(w *word) { w.by = "builder" }, nil, 403, verdict.IdentityRole},
		{"that expired", func(w *word) { w.Issued, w.Expires = w.Issued.Add(-50*time.Minute), w.Issued.Add(-time.Minute) }, nil, 403, verdict.Level},
		{"that are for later", func(w *word) { w.Issued = w.Issued.Add(10 * time.Minute) }, nil, 403, verdict.Level},
		{"that last", func(w *word) { w.Expires = w.Issued.Add(exception.MaxLife + time.Hour) }, nil, 403, verdict.StatementParse},
		{"one of them", nil, func(q *api.Question) { q.Exceptions = q.Exceptions[:len(q.Exceptions)-1] }, 403, ""},
		{"none", nil, func(q *api.Question) { q.Exceptions = nil }, 422, verdict.Usage},
		{"too many", nil, func(q *api.Question) {
			for len(q.Exceptions) <= api.MaxExceptions {
				q.Exceptions = append(q.Exceptions, q.Exceptions[0])
			}
		}, 422, verdict.Usage},
		{"one that is none", nil, func(q *api.Question) { q.Exceptions = append(q.Exceptions, []byte("{}")) }, 403, verdict.BundleVersion},
		{"a large one", nil, func(q *api.Question) { q.Exceptions = append(q.Exceptions, make([]byte, api.MaxException+1)) }, 422, verdict.Usage},
		{"with a question to promote", nil, func(q *api.Question) { q.Verb = api.Promote }, 422, verdict.Usage},
		{"to a destination that is not granted", nil, func(q *api.Question) { q.To = "evil.example.test/lantern" }, 403, verdict.NotGranted},
		{"in a channel that is not", nil, func(q *api.Question) { q.Channel = "beta" }, 403, verdict.NotGranted},
		{"nothing, after all that", nil, nil, 200, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			bundles := good
			if c.change != nil {
				bundles = g.excepts(c.change)
			}
			q := g.question(bundles)
			if c.edit != nil {
				c.edit(&q)
			}
			status, codes, raw := g.do(g.override(fmt.Sprint("row-", i), q))
			if status != c.status || c.code != "" && (len(codes) == 0 || codes[0] != c.code) {
				t.Errorf("%d %v, want %d %s: %s", status, codes, c.status, c.code, raw)
			}
			if (status == http.StatusOK) != strings.Contains(raw, `"outcome":"accepted"`) || status == http.StatusOK && !strings.Contains(raw, "the hosted builder was down") {
				t.Errorf("a yes must be one everywhere, and show on whose word: %s", raw)
			}
			if strings.Contains(raw, `"cached":true`) {
				t.Error("an override is remembered")
			}
		})
	}
	// What was overridden is no decision about anything else.
	if status, _, raw := g.do(g.request()); status != http.StatusForbidden {
		t.Errorf("after an override, without one: %d %s", status, raw)
	}
}

// TestOverrideOnce: a token is good for one override, whoever asks, where and
// when (H06); two tokens are good for two.
func TestOverrideOnce(t *testing.T) {
	dir := t.TempDir()
	g := overriding(t, dir)
	q := g.question(g.excepts(nil))
	try := func(at *gatehouse, id string, status int, code verdict.Code) {
		t.Helper()
		got, codes, raw := at.do(at.override(id, q))
		if got != status || code != "" && (len(codes) == 0 || codes[0] != code) {
			t.Errorf("%d %v, want %d %s: %s", got, codes, status, code, raw)
		}
	}
	try(g, "one", 200, "")
	try(g, "one", 403, "REPLAY")
	try(g, "two", 200, "") // the twin
	try(g, "", 403, "REPLAY")

	again := overriding(t, dir) // after a restart, and another replica
	try(again, "one", 403, "REPLAY")
	try(again, "three", 200, "")
	try(g, "three", 403, "REPLAY")

	var yes, no atomic.Int64
	var wait sync.WaitGroup
	for i := range 16 {
		wait.Go(func() {
			at := []*gatehouse{g, again}[i%2]
			req := at.override("many", q)
			resp, err := http.DefaultClient.Do(req)
			if err != nil {
				t.Error(err)
				return
			}
			raw, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			switch {
			case resp.StatusCode == http.StatusOK:
				yes.Add(1)
			case resp.StatusCode == http.StatusForbidden && strings.Contains(string(raw), "REPLAY"):
				no.Add(1)
			default:
				t.Errorf("%d %s", resp.StatusCode, raw)
			}
		})
	}
	wait.Wait()
	if yes.Load() != 1 || no.Load() != 15 {
		t.Errorf("of 16 that show the same token at once %d were let in, %d refused", yes.Load(), no.Load())
	}
	if log := g.log.String(); !strings.Contains(log, `"code":"REPLAY"`) || !strings.Contains(log, `"waived":["LEVEL sha256:`) {
		t.Error("the record does not have the replay, or the exceptions")
	}
	// A refused request uses its token up, too.
	q.Exceptions = q.Exceptions[:1]
	q.To = "prod.example.test/other"
	try(g, "refused", 403, verdict.Level)
	try(g, "refused", 403, "REPLAY")
}

// TestOverridePlace: where it cannot be written down that a token was used,
// nothing is overridden; everything else is decided as before.
func TestOverridePlace(t *testing.T) {
	gone := filepath.Join(t.TempDir(), "not-mounted")
	g := overriding(t, gone)
	q := g.question(g.excepts(nil))
	if status, codes, raw := g.do(g.override("one", q)); status != http.StatusServiceUnavailable || len(codes) != 1 || codes[0] != verdict.PlaceDown {
		t.Errorf("a directory that is not there: %d %v %s", status, codes, raw)
	}
	if err := g.server.Check(t.Context()); !errors.As(err, new(*verdict.UnavailableError)) {
		t.Errorf("a check of a place that is not there: %v", err)
	}
	if _, err := os.Stat(gone); err == nil {
		t.Error("the directory was made: where a share is not mounted, every token would be good once more")
	}
	if status, codes, raw := g.do(g.request()); status != http.StatusForbidden || codes[0] != verdict.Level {
		t.Errorf("to verify meanwhile: %d %v %s", status, codes, raw)
	}
	if err := os.Mkdir(gone, 0o755); err != nil {
		t.Fatal(err)
	}
	if status, _, raw := g.do(g.override("one", q)); status != http.StatusOK {
		t.Errorf("once it is there: %d %s", status, raw)
	}
	if err := g.server.Check(t.Context()); err != nil {
		t.Errorf("a check of a place that is there: %v", err)
	}

	none := overriding(t, "")
	if status, codes, raw := none.do(none.override("one", q)); status != http.StatusForbidden || codes[0] != verdict.NotGranted || !strings.Contains(raw, "approvals: PLACE") {
		t.Errorf("without a place: %d %v %s", status, codes, raw)
	}

	// A write that was sent again because its answer was lost finds itself.
	dir := t.TempDir()
	lost := overriding(t, dir, func(g *gatehouse) { g.approvals.Writer = twice{g.approvals.Writer} })
	for _, c := range []struct {
		id     string
		status int
	}{{"one", 200}, {"one", 403}, {"two", 200}} {
		if status, _, raw := lost.do(lost.override(c.id, q)); status != c.status {
			t.Errorf("with an answer that was lost, %s: %d %s", c.id, status, raw)
		}
	}
}

// twice sends every write twice, and tells what became of the second.
type twice struct{ store.Writer }

func (w twice) Put(ctx context.Context, name string, size int64, r io.Reader, opts store.PutOptions) error {
	raw, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	_ = w.Writer.Put(ctx, name, size, strings.NewReader(string(raw)), opts)
	return w.Writer.Put(ctx, name, size, strings.NewReader(string(raw)), opts)
}
