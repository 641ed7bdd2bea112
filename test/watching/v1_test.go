package watching

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sigstore/rekor/pkg/types"
	_ "github.com/sigstore/rekor/pkg/types/intoto/v0.0.2" // a kind of entry
	"github.com/sigstore/sigstore-go/pkg/sign"

	"github.com/waybill-release/waybill/pkg/judge/watched"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/test/lab"
)

// newWorldV1 watches the Rekor v1 log of a lab, from its first entry.
func newWorldV1(t *testing.T) *world {
	t.Helper()
	w := worldOf(t, lab.New(t), true)
	w.From = 0
	return w
}

// statement is an attestation about nothing in particular.
func statement(text string) *sign.DSSEData {
	return &sign.DSSEData{PayloadType: "application/vnd.in-toto+json", Data: fmt.Appendf(nil, `{"_type":"https://in-toto.io/Statement/v1","subject":[{"name":"a","digest":{"sha256":"%064x"}}],"predicateType":"https://example.test/v1","predicate":{"text":%q}}`, 1, text)}
}

// logInToto logs the envelope of a bundle as kind intoto 0.0.2, as cosign does when told to.
func (w *world) logInToto(t *testing.T, bundle []byte) {
	t.Helper()
	var b struct {
		unpacked
		Envelope struct {
			Payload, PayloadType string
			Signatures           []map[string]string
		} `json:"dsseEnvelope"`
	}
	if err := json.Unmarshal(bundle, &b); err != nil {
		t.Fatal(err)
	}
	der, err := base64.StdEncoding.DecodeString(b.Material.Certificate.Raw)
	if err != nil {
		t.Fatal(err)
	}
	envelope, err := json.Marshal(map[string]any{"payload": b.Envelope.Payload, "payloadType": b.Envelope.PayloadType, "signatures": b.Envelope.Signatures})
	if err != nil {
		t.Fatal(err)
	}
	proposed, err := types.NewProposedEntry(t.Context(), "intoto", "0.0.2", types.ArtifactProperties{
		ArtifactBytes: envelope, PublicKeyBytes: [][]byte{pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})},
	})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(proposed)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Post(w.RekorV1+"/api/v1/log/entries", "application/json", bytes.NewReader(raw))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if said, _ := io.ReadAll(resp.Body); resp.StatusCode != http.StatusCreated {
		t.Fatalf("%s: %s", resp.Status, said)
	}
}

// TestV1Kinds: entries of each kind that clients write are found by their certificate, and
// explained by a bundle over the same bytes. Those of strangers are not ours.
func TestV1Kinds(t *testing.T) {
	w := newWorldV1(t)
	w.sign(t, lab.RoleVerifier, "of no interest")
	w.logInToto(t, w.signAs(t, lab.RoleVerifier, statement("of no interest")))
	w.pass(t)
	blob := w.sign(t, lab.RoleRelease, "planted")
	w.pass(t, "LOG_UNEXPLAINED")
	envelope := w.signAs(t, lab.RoleBuilder, statement("planted"))
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	w.logInToto(t, envelope)
	if kinds := strings.Join(w.LoggedV1(), ""); strings.Count(kinds, `"kind":"hashedrekord"`) != 2 || strings.Count(kinds, `"kind":"dsse"`) != 2 || strings.Count(kinds, `"kind":"intoto"`) != 2 {
		t.Fatal(kinds)
	}
	w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	for name, raw := range map[string][]byte{"blob": blob, "envelope": envelope} {
		if err := os.WriteFile(filepath.Join(w.Explained.Dirs[0], name+".sigstore.json"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w.pass(t)
}

// TestV1Shards: trees that get no more entries are read like the one that does, and entries
// have the numbers that bundles have.
func TestV1Shards(t *testing.T) {
	w := newWorldV1(t)
	for i := range 23 { // more than two batches
		w.sign(t, lab.RoleVerifier, fmt.Sprint("another ", i))
	}
	w.release(t, "a", "first")
	w.pass(t)
	w.release(t, "b", "second")
	w.RotateV1()
	w.pass(t)
	w.sign(t, lab.RoleRelease, "planted")
	v := w.pass(t, "LOG_UNEXPLAINED")
	if !strings.HasSuffix(v.Findings[0].Subject, "/25") {
		t.Error(v.Findings[0].Subject)
	}
	w.release(t, "c", "planted")
	w.pass(t)
	if files, err := filepath.Glob(filepath.Join(w.State, "*.cursor.json")); err != nil || len(files) != 2 {
		t.Error(files, err)
	}
	w.State = filepath.Join(w.State, "from the end")
	w.From = -1
	w.pass(t)
	w.sign(t, lab.RoleRelease, "planted later")
	w.pass(t, "LOG_UNEXPLAINED")
	// Two trees of one log contradict each other as little as two logs do.
	var trees struct {
		SignedTreeHead string
		InactiveShards []struct{ SignedTreeHead string }
	}
	answer := httptest.NewRecorder()
	w.real.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/api/v1/log", nil))
	if err := json.Unmarshal(answer.Body.Bytes(), &trees); err != nil || len(trees.InactiveShards) != 1 {
		t.Fatal(answer.Body, err)
	}
	v1 := w.Gate.Verifier()
	name, now, _, err := v1.Checkpoint([]byte(trees.SignedTreeHead))
	if err != nil {
		t.Fatal(err)
	}
	before := trees.InactiveShards[0].SignedTreeHead
	if _, n, _, err := v1.Checkpoint([]byte(before)); err != nil || n <= now {
		t.Fatalf("the tree of before has %d entries, the one of now %d: %v", n, now, err)
	}
	p := watched.Contradiction{Code: watched.Rollback, Log: name, First: before, Second: trees.SignedTreeHead}
	if err := p.Check(v1); err == nil || verdict.FindingOf("", err).Code != verdict.LogProof {
		t.Errorf("two trees: %v", err)
	}
}

// TestV1Answers: each answer differs from the log's in one fact. What the log did not sign
// is refused, what it does not serve leaves the question open, and then the honest log is
// read from where it was.
func TestV1Answers(t *testing.T) {
	replaced := func(old, by string) func(string) string {
		return func(s string) string { return strings.Replace(s, old, by, 1) }
	}
	last := func(s string) string { // the list without its last entry
		return s[:strings.LastIndex(s, `,{"`)] + "]"
	}
	for name, c := range map[string]struct {
		path   string
		change func(string) string // nil: status 503
		want   []verdict.Code
	}{
		"the log itself":        {"log", func(s string) string { return s }, nil},
		"no trees":              {"log", nil, []verdict.Code{verdict.PlaceDown, "LOG_UNEXPLAINED"}},
		"no entries":            {"log/entries/retrieve", nil, []verdict.Code{"LOG_UNEXPLAINED", verdict.PlaceDown}},
		"no proof":              {"log/proof", nil, []verdict.Code{"LOG_UNEXPLAINED", verdict.PlaceDown}},
		"a page":                {"log", func(string) string { return "<!DOCTYPE html>" }, []verdict.Code{verdict.LogEntryParse, "LOG_STALLED", "LOG_UNEXPLAINED", "LOG_STALLED"}},
		"a changed checkpoint":  {"log", replaced(`rekor-v1.insecure-lab.invalid - `, `rekor-v1.insecure-lab.invalid - 1`), []verdict.Code{verdict.CheckpointSig, "LOG_STALLED", "LOG_UNEXPLAINED", "LOG_STALLED"}},
		"a shard that vanished": {"log", func(s string) string { return `{` + s[strings.Index(s, `],`)+2:] }, []verdict.Code{verdict.LogProof, "LOG_STALLED", "LOG_UNEXPLAINED"}},
		"fewer entries":         {"log/entries/retrieve", last, []verdict.Code{"LOG_UNEXPLAINED", verdict.PlaceDown}},
		"another entry": {"log/entries/retrieve", func(s string) string {
			at := strings.Index(s, `"body":"`) + len(`"body":"`)
			return s[:at] + "eHh4" + s[strings.Index(s[at:], `"`)+at:]
		}, []verdict.Code{"LOG_UNEXPLAINED", verdict.LogEntryParse}},
		"an entry hidden by another": {"log/entries/retrieve", func(s string) string {
			at := strings.Index(s, `"body":"`) + len(`"body":"`)
			return s[:at] + "e30=" + s[strings.Index(s[at:], `"`)+at:]
		}, []verdict.Code{"LOG_UNEXPLAINED", verdict.LogProof}},
		"another number of an entry": {"log/entries/retrieve", replaced(`"logIndex":`, `"logIndex":1`), []verdict.Code{"LOG_UNEXPLAINED", verdict.PlaceDown}},
		"another promise": {"log/entries/retrieve", func(s string) string {
			return strings.ReplaceAll(s, `"signedEntryTimestamp":"M`, `"signedEntryTimestamp":"N`)
		}, []verdict.Code{"LOG_UNEXPLAINED", verdict.LogPromise}},
		"another time of an entry": {"log/entries/retrieve", func(s string) string { return strings.ReplaceAll(s, `"integratedTime":1`, `"integratedTime":2`) }, []verdict.Code{"LOG_UNEXPLAINED", verdict.LogPromise}},
		"another proof":            {"log/proof", func(string) string { return `{"hashes":[],"rootHash":""}` }, []verdict.Code{"LOG_UNEXPLAINED", verdict.LogProof}},
		"an unreadable proof":      {"log/proof", func(string) string { return `{"hashes":["00"]}` }, []verdict.Code{"LOG_UNEXPLAINED", verdict.LogEntryParse}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorldV1(t)
			w.release(t, "a", "first")
			w.sign(t, lab.RoleRelease, "planted")
			w.RotateV1()
			w.release(t, "b", "second")
			w.pass(t, "LOG_UNEXPLAINED")
			w.release(t, "c", "third")
			w.release(t, "d", "fourth")
			honest := w.answer.Load()
			w.answer.Store(func(rw http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path != "/api/v1/"+c.path {
					return false
				}
				if c.change == nil {
					rw.WriteHeader(http.StatusServiceUnavailable)
					return true
				}
				back := httptest.NewRecorder()
				w.real.ServeHTTP(back, r)
				_, _ = io.WriteString(rw, c.change(back.Body.String()))
				return true
			})
			if c.want == nil {
				c.want = []verdict.Code{"LOG_UNEXPLAINED"}
			}
			w.pass(t, c.want...)
			w.answer.Store(honest)
			w.pass(t, "LOG_UNEXPLAINED")
			w.release(t, "e", "planted")
			w.pass(t)
		})
	}
}

// TestV1Interrupted: a pass that ends at any request loses no entry and reports none twice.
func TestV1Interrupted(t *testing.T) {
	w := newWorldV1(t)
	w.release(t, "a", "first")
	w.sign(t, lab.RoleRelease, "planted")
	w.RotateV1()
	for i := range 11 {
		w.sign(t, lab.RoleVerifier, fmt.Sprint("another ", i))
	}
	w.sign(t, lab.RoleRelease, "planted too")
	states := t.TempDir()
	// pass makes a pass that ends at a request, and says how many there were.
	pass := func(at int64) int64 {
		ctx, end := context.WithCancel(t.Context())
		defer end()
		var requests atomic.Int64
		w.answer.Store(func(http.ResponseWriter, *http.Request) bool {
			if requests.Add(1) == at {
				end()
			}
			return false
		})
		w.State = filepath.Join(states, fmt.Sprint(at))
		w.Once(ctx, w.now)
		return requests.Load()
	}
	all := pass(-1)
	if all < 5 {
		t.Fatal(all)
	}
	for at := range all {
		pass(at)
		w.pass(t, "LOG_UNEXPLAINED", "LOG_UNEXPLAINED")
	}
}
