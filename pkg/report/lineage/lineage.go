// Package lineage leads from an artifact to every run that touched it, and from
// a run, or a line of its log, to everything that it made.
//
// A release says in its own evidence which runs made it: each step's provenance,
// the manifest, the summaries and the records of promotions name the trace in
// which they came to be. A [Trail] collects that from wherever the release lies:
// the state directory in which it was made, the places where it is published,
// the registries that it was promoted to. A [Lineage] is the part of it that
// touches one [Target].
//
//	t := lineage.Start(lineage.Believed{Verifier: v, Policy: &p})
//	t.State(ctx, workspace)
//	t.Published(ctx, lineage.Published{Name: "release", Files: files, Images: images})
//	found, err := t.Of(target)
//	err = lineage.Writer{Format: lineage.Table}.Write(os.Stdout, found)
//
// What a signature holds for, by somebody who may say it, is [Verified].
// Everything else is a [Hint]: annotations in a registry, the notes of the
// machine that made the release, evidence that nobody was asked to verify. Where
// a hint names another id than what is signed, the signed one is shown, and the
// difference is a finding. Nothing is guessed: what names no trace has none, as
// whatever is older than the ids.
//
// A lineage explains; it accepts nothing. Whether a release may be used is for
// pkg/gate to say.
package lineage

import (
	"time"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Schema names the JSON form of a [Lineage].
const Schema = "waybill/lineage/v1"

// Mark says how much stands behind something. The empty mark: nothing was said.
type Mark string

// The marks.
const (
	// Verified is what the policy accepts: see [policy.States].
	Verified Mark = "verified"
	// Hint is what somebody wrote.
	Hint Mark = "hint"
)

// Lineage is what is known of a target.
type Lineage struct {
	Schema string `json:"schema"`
	Target Target `json:"target"`
	// Releases are the releases that it belongs to, each revision once.
	Releases []Release `json:"releases,omitempty"`
	// Artifacts are those that were asked about, or that the runs made.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	// Runs are in the order in which they began; what names no run comes last.
	Runs []Run `json:"runs"`
	// Findings are contradictions, and evidence that does not hold.
	Findings []verdict.Finding `json:"findings,omitempty"`
	// Unasked are the places that did not answer: what they hold is not known.
	Unasked []verdict.Finding `json:"unasked,omitempty"`
	Notes   []string          `json:"notes,omitempty"`
}

// Release is a release, or one revision of it.
type Release struct {
	Name     string `json:"name"`
	Version  string `json:"version"`
	Commit   string `json:"commit,omitempty"`
	Revision int    `json:"revision,omitempty"`
	// Initial is the trace in which the release came to be; zero where that is
	// not known.
	Initial trace.ID `json:"initialTraceId,omitzero"`
	Mark    Mark     `json:"mark"`
	// Found are the places where it was found.
	Found []string `json:"found"`
}

// Artifact is something that was made, by its bytes.
type Artifact struct {
	Name   string        `json:"name,omitempty"`
	SHA256 digest.Digest `json:"sha256,omitzero"`
	SHA512 digest.Digest `json:"sha512,omitzero"`
}

// Run is one run of a command, or all that is known to have happened within one
// trace.
type Run struct {
	IDs trace.IDs `json:"ids,omitzero"`
	// Mark says how sure the ids are; empty where there are none.
	Mark Mark `json:"mark,omitempty"`
	// Invocations are what provenance calls the run.
	Invocations []string `json:"invocations,omitempty"`
	// Kinds say what the run did, as manifests list it: build, sign, seal.
	Kinds []string `json:"kinds,omitempty"`
	// Command is what was typed, without arguments: as a manifest says, or else
	// as the state directory remembers it.
	Command string    `json:"command,omitempty"`
	Began   time.Time `json:"began,omitzero"`
	Ended   time.Time `json:"ended,omitzero"`
	// By are those who signed in it.
	By   []string `json:"by,omitempty"`
	Acts []Act    `json:"acts,omitempty"`
	// Others counts the acts of the run that touch something else.
	Others int `json:"others,omitempty"`
}

// Kind is what an act is.
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
	Statement  Kind = "statement" // of another kind
	Command    Kind = "command"   // that the state directory remembers
)

// Act is one thing that was done.
type Act struct {
	Kind Kind `json:"kind"`
	// Name is that of the step, the release, the verifier or the predicate type.
	Name string    `json:"name,omitempty"`
	IDs  trace.IDs `json:"ids,omitzero"`
	// Traced says how sure the ids are; empty where there are none.
	Traced     Mark      `json:"traced,omitempty"`
	Invocation string    `json:"invocation,omitempty"`
	Began      time.Time `json:"began,omitzero"`
	Ended      time.Time `json:"ended,omitzero"`
	Signer
	// Artifacts are what it made, signed or carried. Of counts them where only
	// those that were asked about are listed.
	Artifacts []Artifact `json:"artifacts,omitempty"`
	Of        int        `json:"of,omitempty"`
	// Uses is what a step was made from.
	Uses []Artifact `json:"uses,omitempty"`
	// Log is what the step wrote while it ran.
	Log *Log `json:"log,omitempty"`
	// Route is the way of a promotion, and what a verifier's summary is of.
	Route Route `json:"route,omitzero"`
	// Result is what was decided, or how a command ended: done, failed, running,
	// or nothing if it was stopped.
	Result string `json:"result,omitempty"`
	// Typed is a command with its arguments, as a journal keeps it.
	Typed []string `json:"typed,omitempty"`
	// Upstream says that it made something that the target was made from.
	Upstream bool `json:"upstream,omitempty"`
	// Found are the places where its evidence lies.
	Found []string `json:"found,omitempty"`
}

// Signer is who says that something was done.
type Signer struct {
	// Mark says whether a signature holds, and Why not where it is only a hint.
	Mark     Mark          `json:"mark"`
	Why      string        `json:"why,omitempty"`
	By       string        `json:"by,omitempty"`
	Role     string        `json:"role,omitempty"`
	SignedAt time.Time     `json:"signedAt,omitzero"`
	Entry    *Entry        `json:"logEntry,omitempty"`
	Evidence digest.Digest `json:"evidence,omitzero"`
}

// Entry is a place in a transparency log.
type Entry struct {
	Log   string `json:"log"`
	Index int64  `json:"index"`
}

// Log is what a step wrote.
type Log struct {
	Digest digest.Digest `json:"digest"`
	// Path is where it lies on this machine, if it does and is still that log.
	Path string `json:"path,omitempty"`
}

// Route is the way that something took.
type Route struct {
	From string   `json:"from,omitempty"`
	To   string   `json:"to,omitempty"`
	Tags []string `json:"tags,omitempty"`
}

// IsZero says that there is none.
func (r Route) IsZero() bool { return r.From == "" && r.To == "" && len(r.Tags) == 0 }

// is reports whether two artifacts are the same bytes.
func (a Artifact) is(other Artifact) bool {
	return a.SHA256.Equal(other.SHA256) || a.SHA512.Equal(other.SHA512)
}

// when is the time by which an act is ordered.
func (a Act) when() time.Time {
	switch {
	case !a.Began.IsZero():
		return a.Began
	case !a.SignedAt.IsZero():
		return a.SignedAt
	}
	return a.Ended
}

// until is when it was over.
func (a Act) until() time.Time {
	if !a.Ended.IsZero() {
		return a.Ended
	}
	return a.when()
}
