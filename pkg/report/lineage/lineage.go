// Package lineage finds every run that made or moved an artifact, and
// everything that a run, or a line of its log, made.
//
// The evidence of a release names the runs that made it: each step's
// provenance, the manifest, the summaries and the promotion records name their
// trace. A [Trail] collects this evidence from the state directory in which the
// release was made, the places where it is published, and the registries that
// it was promoted to. A [Lineage] is the part of the trail about one [Target].
//
//	t := lineage.Start(lineage.Believed{Verifier: v, Policy: &p})
//	t.State(ctx, workspace)
//	t.Published(ctx, lineage.Published{Name: "release", Files: files, Images: images})
//	found, err := t.Of(target)
//	err = lineage.Writer{Format: lineage.Table}.Write(os.Stdout, found)
//
// Evidence with a valid signature by a signer whom the policy accepts for it is
// [Verified]. Everything else is a [Hint]: annotations in a registry, the
// journal of the machine that made the release, unverified evidence. If a hint
// contradicts signed evidence, the signed id is shown, and the difference is a
// finding. Nothing is guessed: evidence without a trace id has none, for example
// evidence from before there were ids.
//
// A lineage explains and accepts nothing. Package gate decides whether a release
// may be used.
//
// Other projects should not import this package: it changes without notice.
package lineage

import (
	_ "embed"
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// lineageForm names the JSON form of a [Lineage].
const lineageForm = "waybill/lineage/v1"

// Mark says how far something is trusted. The empty Mark means that nothing is
// known.
type Mark string

// The marks.
const (
	// Verified is signed by someone whom the policy accepts for it: see
	// [policy.States].
	Verified Mark = "verified"
	// Hint is unsigned, or signed by someone whom the policy does not accept
	// for it.
	Hint Mark = "hint"
)

// Lineage is everything known about a target.
type Lineage struct {
	Schema string `json:"schema"`
	Target Target `json:"target"`
	// Releases are the releases that contain the target, each revision once.
	Releases []Release `json:"releases,omitempty"`
	// Artifacts are the target's artifacts, or those that its runs made.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Runs are ordered by their beginning; acts without a run come last.
	Runs []Run `json:"runs"`
	// Findings are contradictions and invalid evidence.
	Findings []verdict.Finding `json:"findings,omitempty"`
	// Unasked are the places that did not answer.
	Unasked []verdict.Finding `json:"unasked,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
}

// Release is a release, or one revision of it.
type Release struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Revision int    `json:"revision,omitempty"`
	// Initial is the trace in which the release began; zero if unknown.
	Initial trace.ID `json:"initialTraceId,omitzero"`
	Mark    Mark     `json:"mark"`
	// Found are the places where the release was found.
	Found []string `json:"found"`
}

// Artifact is a file or image, by its digest.
type Artifact struct {
	Name   string        `json:"name,omitempty"`
	SHA256 digest.Digest `json:"sha256,omitzero"`
	SHA512 digest.Digest `json:"sha512,omitzero"`
}

// Run is one run of a command, or all that is known to have happened within one
// trace.
type Run struct {
	IDs trace.IDs `json:"ids,omitzero"`
	// Mark says how far the ids are trusted; empty without ids.
	Mark Mark `json:"mark,omitempty"`
	// Invocations are the run's ids in provenance.
	Invocations []string `json:"invocations,omitempty"`
	// Kinds say what the run did, in the words of manifests: build, sign, seal.
	Kinds []string `json:"kinds,omitempty"`
	// Command is the command without arguments: from a manifest, or else from
	// the state directory.
	Command string    `json:"command,omitempty"`
	Began   time.Time `json:"began,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// By are the signers of the run's acts.
	By   []string `json:"by,omitempty"`
	Acts []Act    `json:"acts,omitempty"`
	// Others counts the acts of the run about other artifacts.
	Others int `json:"others,omitempty"`
}

// Kind is the kind of an act.
type Kind string

// The kinds.
const (
	Step       Kind = "step"
	Signature  Kind = "signature"
	Seal       Kind = "seal"
	Amendment  Kind = "amendment"
	Withdrawal Kind = "withdrawal"
	Promotion  Kind = "promotion"
	Summary    Kind = "summary"
	Statement  Kind = "statement" // of another predicate type
	Command    Kind = "command"   // recorded in the state directory
)

// Act is one thing that was done.
type Act struct {
	Kind Kind `json:"kind"`
	// Name is the name of the step, release, verifier or predicate type.
	Name string    `json:"name,omitempty"`
	IDs  trace.IDs `json:"ids,omitzero"`
	// Traced says how far the ids are trusted; empty without ids.
	Traced     Mark      `json:"traced,omitempty"`
	Invocation string    `json:"invocation,omitempty"`
	Began      time.Time `json:"began,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	Signer
	// Artifacts are what the act made, signed or moved. Of counts them if only
	// those of the target are listed.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	Of        int        `json:"of,omitempty"`
	// Uses are the inputs of a step.
	Uses []Artifact `json:"uses,omitempty"`
	// Log is the log of a step.
	Log *Log `json:"log,omitempty"`
	// Route is the source and destination of a promotion, or the place of a
	// verifier's summary.
	Route Route `json:"route,omitzero"`
	// Result is a decision, or how a command ended: done, failed, running, or
	// empty if it was stopped.
	Result string `json:"result,omitempty"`
	// Typed is a command with its arguments, from a journal.
	Typed []string `json:"typed,omitempty"`
	// Upstream means that the act made an input of the target.
	Upstream bool `json:"upstream,omitempty"`
	// Found are the places where the act's evidence was found.
	Found []string `json:"found,omitempty"`
}

// Signer says who signed an act.
type Signer struct {
	// Mark says whether the signature is valid and accepted; if it is only a
	// hint, Why says why.
	Mark     Mark          `json:"mark"`
	Why      string        `json:"why,omitempty"`
	By       string        `json:"by,omitempty"`
	Role     string        `json:"role,omitempty"`
	SignedAt time.Time     `json:"signedAt,omitzero"`
	Entry    *Entry        `json:"logEntry,omitempty"`
	Evidence digest.Digest `json:"evidence,omitzero"`
}

// Entry is an entry in a transparency log.
type Entry struct {
	Log   string `json:"log"`
	Index int64  `json:"index"`
}

// Log is the log of a step.
type Log struct {
	Digest digest.Digest `json:"digest"`
	// Path is its path on this machine, if it is here and unchanged.
	Path string `json:"path,omitempty"`
}

// Route is a source and a destination.
type Route struct {
	From string   `json:"from,omitempty"`
	To   string   `json:"to,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

// IsZero reports whether there is no route.
func (r Route) IsZero() bool { return r.From == "" && r.To == "" && len(r.Tags) == 0 }

// is reports whether two artifacts are the same bytes.
func (a Artifact) is(other Artifact) bool {
	return a.SHA256.Equal(other.SHA256) || a.SHA512.Equal(other.SHA512)
}

// when is the time that orders an act.
func (a Act) when() time.Time {
	switch {
	case !a.Began.IsZero():
		return a.Began
	case !a.SignedAt.IsZero():
		return a.SignedAt
	}
	return a.Ended
}

// until is when an act ended.
func (a Act) until() time.Time {
	if !a.Ended.IsZero() {
		return a.Ended
	}
	return a.when()
}

//go:embed schema/lineage.json
var lineageSchema []byte

// JSONSchema is the JSON schema of the form [JSON].
func JSONSchema() []byte { return lineageSchema }
