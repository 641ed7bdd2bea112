// Package vsa reads SLSA verification summaries: a verifier's signed result of
// checking an artifact against a policy.
//
// A [Summary] is parsed, not verified. It counts only if its signer may sign
// for the verifier that it names, which pkg/judge/policy checks, and only if it
// matches what is required, which [Summary.Answer] checks.
//
//	s, err := vsa.Parse(statement)
//	err = s.Answer(vsa.Question{ResourceURI: uri, VerifierID: id, Levels: levels, Now: now, MaxAge: age})
//
// Waybill's summaries may have an extension field, waybill_trace: the traceId
// and spanId of the verifying run, and the initialTraceId of its subject. It
// helps to find that run. Other readers ignore it, and verification does not
// depend on it.
//
// Specification: SLSA v1.2, Verification Summary Attestation,
// https://slsa.dev/verification_summary/v1.
package vsa

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// PredicateType is the type of verification summaries, version 1.
const PredicateType = "https://slsa.dev/verification_summary/v1"

// The limits of a summary.
const (
	maxPredicate = 2 << 20
	maxInputs    = 10_000
	maxLevels    = 64
)

// Result is the verifier's decision. The zero Result is invalid.
type Result string

// The two results.
const (
	Passed Result = "PASSED"
	Failed Result = "FAILED"
)

// Verifier is the verifier that the summary names.
type Verifier struct {
	ID      string            `json:"id"`
	Version map[string]string `json:"version"`
}

// Summary is a parsed verification summary.
type Summary struct {
	Verifier    Verifier
	Verified    time.Time // zero if not given
	ResourceURI string
	Policy      intoto.Resource
	// Inputs are the attestations that were checked: all of them, or none.
	Inputs []intoto.Resource
	Result Result
	Levels []Level
	// Dependencies counts transitive dependencies by level. Nil means not
	// given; empty means that there are none.
	Dependencies map[Level]int64
	SLSAVersion  string
	statement    intoto.Statement
}

type wire struct {
	Verifier     Verifier         `json:"verifier"`
	Time         string           `json:"timeVerified"`
	ResourceURI  string           `json:"resourceUri"`
	Policy       json.RawMessage  `json:"policy"`
	Inputs       json.RawMessage  `json:"inputAttestations"`
	Result       Result           `json:"verificationResult"`
	Levels       []string         `json:"verifiedLevels"`
	Dependencies map[string]int64 `json:"dependencyLevels"`
	SLSAVersion  string           `json:"slsaVersion"`
}

var slsaVersion = pattern.Lazy(`\A[0-9]{1,3}\.[0-9]{1,3}\z`)

// Parse parses a summary in a statement. Unknown fields are ignored, as the
// specification requires of every consumer; known fields must have valid
// values.
func Parse(s intoto.Statement) (Summary, error) {
	if s.PredicateType() != PredicateType {
		return Summary{}, verdict.Refuse(verdict.PredicateType, "summary", "says %q, not a verification summary", short(s.PredicateType()))
	}
	var w wire
	if err := strictjson.UnmarshalOpen(s.Predicate(), &w, strictjson.MaxSize(maxPredicate)); err != nil {
		return Summary{}, verdict.Wrap(verdict.StatementParse, "summary", err)
	}
	out := Summary{
		Verifier: w.Verifier, ResourceURI: w.ResourceURI, Result: w.Result, SLSAVersion: w.SLSAVersion, statement: s,
	}
	for _, read := range []func(*wire) error{out.required, out.policy, out.inputs, out.levels, out.dependencies} {
		if err := read(&w); err != nil {
			return Summary{}, err
		}
	}
	return out, nil
}

func (s *Summary) required(w *wire) error {
	switch {
	case w.Verifier.ID == "":
		return refuse("verifier.id: missing")
	case w.ResourceURI == "":
		return refuse("resourceUri: missing")
	case w.Result != Passed && w.Result != Failed:
		return refuse("verificationResult: %q is neither PASSED nor FAILED", short(string(w.Result)))
	case w.SLSAVersion != "" && !slsaVersion().MatchString(w.SLSAVersion):
		return refuse("slsaVersion: %q is not of the form 1.0", short(w.SLSAVersion))
	case w.Time == "":
		return nil
	}
	at, err := time.Parse(time.RFC3339, w.Time)
	if err != nil || at.IsZero() {
		return refuse("timeVerified: %q is not a valid RFC 3339 time", short(w.Time))
	}
	s.Verified = at.UTC()
	return nil
}

func (s *Summary) policy(w *wire) error {
	list, err := intoto.ParseResources(slices.Concat(json.RawMessage("["), w.Policy, json.RawMessage("]")), 1)
	if err != nil {
		return err
	}
	if len(list) != 1 || list[0].URI == "" {
		return refuse("policy.uri: missing")
	}
	s.Policy = list[0]
	return nil
}

func (s *Summary) inputs(w *wire) (err error) {
	if s.Inputs, err = intoto.ParseResources(w.Inputs, maxInputs); err != nil {
		return err
	}
	for i, r := range s.Inputs {
		if len(r.Digest) == 0 {
			return refuse("inputAttestations: entry %d has no digest", i)
		}
	}
	return nil
}

func (s *Summary) levels(w *wire) error {
	if w.Levels == nil {
		return refuse("verifiedLevels: empty")
	}
	if len(w.Levels) > maxLevels {
		return verdict.Refuse(verdict.Limit, "summary", "%d levels, the limit is %d", len(w.Levels), maxLevels)
	}
	tracks := map[string]bool{}
	for _, text := range w.Levels {
		l, err := parseLevel(text)
		if err != nil {
			return err
		}
		key := cmp.Or(l.Track(), string(l)) // a custom value without a track may occur once
		if tracks[key] {
			return refuse("verifiedLevels: %q is a second level on its track", short(text))
		}
		tracks[key] = true
		s.Levels = append(s.Levels, l)
	}
	// A summary with contradicting results says nothing.
	if failed := slices.Contains(s.Levels, levelFailed); failed != (s.Result == Failed) && (failed || len(s.Levels) > 0) {
		return refuse("verifiedLevels: contradict the result %s", s.Result)
	}
	return nil
}

func (s *Summary) dependencies(w *wire) error {
	if w.Dependencies == nil {
		return nil
	}
	s.Dependencies = make(map[Level]int64, len(w.Dependencies))
	for _, text := range slices.Sorted(maps.Keys(w.Dependencies)) {
		n := w.Dependencies[text]
		l, err := parseLevel(text)
		if err != nil {
			return err
		}
		if n < 0 {
			return refuse("dependencyLevels: %d dependencies at %s", n, l)
		}
		s.Dependencies[l] = n
	}
	return nil
}

// Statement is the statement that the summary was read from, with its raw
// bytes.
func (s Summary) Statement() intoto.Statement { return s.statement }

// Level is the level that the summary states on a track, such as "BUILD"; false
// if the track was not evaluated or the verification failed.
func (s Summary) Level(track string) (int, bool) {
	for _, l := range s.Levels {
		if n, ok := l.Number(); ok && s.Result == Passed && l.Track() == track {
			return n, true
		}
	}
	return 0, false
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "summary", format, args...)
}

// short limits untrusted text in a message.
func short(s string) string {
	if len(s) > 200 {
		return s[:200] + "…"
	}
	return s
}

// TraceOf returns the run that made a summary, and the trace in which its
// subject was made. Zero ids mean that the summary does not give them. They do
// not affect verification; they are for finding the run.
func TraceOf(s Summary) (trace.IDs, error) {
	var w struct {
		Trace trace.IDs `json:"waybill_trace"`
	}
	if err := strictjson.UnmarshalOpen(s.statement.Predicate(), &w, strictjson.MaxSize(maxPredicate)); err != nil {
		return trace.IDs{}, verdict.Wrap(verdict.StatementParse, "summary", err)
	}
	return w.Trace, nil
}
