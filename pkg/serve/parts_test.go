package serve

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestQuestionHasKnownVerb: only a question to verify or to promote is answered;
// other verbs that a caller may have a grant for are refused.
func TestQuestionHasKnownVerb(t *testing.T) {
	for verb, known := range map[api.Verb]bool{api.Verify: true, api.Promote: true, "": false, "audit": false, "pull": false, "*": false, "Verify": false} {
		q := api.Question{Verb: verb, Image: "registry.example.test/demo@sha256:" + strings.Repeat("0", 64)}
		_, err := parseQuestion(q)
		if (err == nil) != known || err != nil && verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%q: %v", verb, err)
		}
	}
}

// TestVerifyNamesOnePlace: a question to verify names no other place than the
// image's own (USAGE); one to promote does.
func TestVerifyNamesOnePlace(t *testing.T) {
	const image = "registry.example.test/demo"
	for _, row := range []struct {
		verb api.Verb
		to   string
		good bool
	}{{api.Verify, "", true}, {api.Verify, image, true}, {api.Verify, "prod.example.test/demo", false}, {api.Promote, "prod.example.test/demo", true}} {
		_, err := parseQuestion(api.Question{Verb: row.verb, Image: image + "@sha256:" + strings.Repeat("0", 64), To: row.to})
		if (err == nil) != row.good || err != nil && verdict.FindingOf("", err).Code != verdict.Usage {
			t.Errorf("%+v: %v", row, err)
		}
	}
}

// TestExceptionsAreAllValid: one exception that is none spoils the others.
func TestExceptionsAreAllValid(t *testing.T) {
	basis := &standing{Basis: Basis{PolicyRequest: gate.PolicyRequest{Verifier: &verify.Verifier{}}}}
	for n, want := range map[int]verdict.Code{0: "", 1: verdict.BundleVersion} {
		_, err := basis.excepting(asked{Question: api.Question{Verb: api.Override, Exceptions: slices.Repeat([][]byte{[]byte("{}")}, n)}})
		if (err == nil) != (want == "") || err != nil && (verdict.FindingOf("", err).Code != want || verdict.FindingOf("", err).Subject != "exception 1") {
			t.Errorf("%d: %v, want %q", n, err, want)
		}
	}
}

// TestRateIsUsedUp: a caller has the requests of ten seconds at once, then no more
// until time has passed, and takes none of another's.
func TestRateIsUsedUp(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	r := rates{perSecond: 2, clock: func() time.Time { return now }}
	for _, row := range []struct {
		name  string
		n     int
		after time.Duration
		want  bool
	}{
		{"a", 19, 0, true}, {"a", 2, 0, false}, {"a", 1, 0, true}, {"a", 1, 0, false},
		{"b", 20, 0, true}, {"a", 3, time.Second, false}, {"a", 2, 0, true}, {"a", 1, 0, false},
	} {
		now = now.Add(row.after)
		if got := r.take(row.name, row.n); got != row.want {
			t.Errorf("%+v: %t", row, got)
		}
	}
}

// brief is a log that drops the end of what it is given, and says so only by the
// number of bytes.
type brief struct {
	bytes.Buffer
	drop int
}

func (b *brief) Write(p []byte) (int, error) { return b.Buffer.Write(p[:len(p)-b.drop]) }

// TestRecordNeedsEveryByte: a line that was not written whole is not counted as written.
func TestRecordNeedsEveryByte(t *testing.T) {
	for drop, want := range map[int]bool{0: true, 1: false} {
		r := record{out: &brief{drop: drop}, clock: time.Now, turn: make(chan struct{}, 1)}
		err := r.add(t.Context(), api.Entry{Message: api.Decided})
		if (err == nil) != want || err != nil && verdict.OutcomeOf(err) != verdict.Unavailable || (len(r.last) == 1) != want {
			t.Errorf("%d bytes are missing: %v, %d lines", drop, err, len(r.last))
		}
	}
}
