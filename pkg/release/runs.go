package release

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/strictjson"
	"github.com/waybill-release/waybill/pkg/trace"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// The kinds of runs. Readers take others, too.
const (
	RunBuild    = "build"
	RunSign     = "sign"
	RunSeal     = "seal" // as the first: nothing was built, another tool's files were taken over
	RunAmend    = "amend"
	RunWithdraw = "withdraw"
)

// Run is one run that had a hand in the release. The ids lead to it; nothing is
// decided by them.
type Run struct {
	// Kind says what it did, and ID is its invocation, as provenance names it. A
	// run that writes no provenance has its trace for an ID.
	Kind, ID string
	// TraceID is its trace, as the manifest says: any text, or none.
	TraceID string
	Span    trace.SpanID
	// Initial is the trace in which the release came to be; zero where the
	// manifest does not say.
	Initial trace.ID
	// Command is what was typed, without arguments: "waybill stage".
	Command string
	// Log is the digest of its log; zero where none was kept.
	Log digest.Digest
}

// command is the form of a command: it is shown to people, and holds no
// argument, which could be a secret.
var command = regexp.MustCompile(`\A[a-z][a-z-]*( [a-z][a-z-]*){0,3}\z`)

// RunOf is a run that did something in a trace. What is no command is left out.
func RunOf(kind, id string, ids trace.IDs, typed string) Run {
	r := Run{Kind: kind, ID: id, TraceID: ids.Trace.String(), Span: ids.Span, Initial: ids.Initial}
	if command.MatchString(typed) {
		r.Command = typed
	}
	return r
}

// IDs are those of the run. A trace in another form than W3C's is none.
func (r Run) IDs() trace.IDs {
	id, err := trace.ParseID(r.TraceID)
	if err != nil {
		return trace.IDs{}
	}
	return trace.IDs{Trace: id, Span: r.Span, Initial: r.Initial}
}

// By is the manifest as one more run has it.
func (m Manifest) By(r Run) Manifest {
	m.Runs = append(slices.Clone(m.Runs), r)
	return m
}

// Origin is the trace in which the release came to be, as its first run says.
// Zero means that the manifest does not say: it is older than the ids, or made
// by another program.
func (m Manifest) Origin() trace.ID {
	if len(m.Runs) == 0 {
		return trace.ID{}
	}
	return m.Runs[0].Initial
}

// addRuns says of the runs what their list has no fields for: a reader that
// knows no such fields would refuse them there, and passes over this.
func (m Manifest) addRuns(wire *releasemanifest.Predicate) error {
	all := make([]releasemanifest.RunTrace, len(m.Runs))
	for i, r := range m.Runs {
		all[i] = releasemanifest.RunTrace{SpanID: r.Span.String(), InitialTraceID: r.Initial.String(), Command: r.Command}
		if !r.Log.IsZero() {
			all[i].LogDigest = r.Log.String()
		}
	}
	if !slices.ContainsFunc(all, func(one releasemanifest.RunTrace) bool { return one != releasemanifest.RunTrace{} }) {
		return nil
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encoding the runs: %w", err)
	}
	extend(wire, releasemanifest.RunTraces, raw)
	return nil
}

func extend(wire *releasemanifest.Predicate, name string, raw json.RawMessage) {
	if wire.Extensions == nil {
		wire.Extensions = map[string]json.RawMessage{}
	}
	wire.Extensions[name] = raw
}

// runsOf joins the runs with what the extension says of them.
func runsOf(wire releasemanifest.Predicate) (runs []Run, err error) {
	for _, r := range wire.Runs {
		runs = append(runs, Run{Kind: r.Kind, ID: r.ID, TraceID: r.TraceID})
	}
	raw, there := wire.Extensions[releasemanifest.RunTraces]
	if !there {
		return runs, nil
	}
	var all []releasemanifest.RunTrace
	if err := strictjson.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if len(all) != len(runs) {
		return nil, verdict.Refuse(verdict.ManifestParse, "manifest", "%d runs, and the extension speaks of %d", len(runs), len(all))
	}
	for i, said := range all {
		if err := runs[i].add(said); err != nil {
			return nil, verdict.Refuse(verdict.ManifestParse, "manifest", "run %d: %v", i+1, err)
		}
	}
	return runs, nil
}

// add takes what the extension says of a run, if all of it is what it may be.
func (r *Run) add(said releasemanifest.RunTrace) (err error) {
	if said.SpanID != "" {
		if r.Span, err = trace.ParseSpanID(said.SpanID); err != nil {
			return err
		}
	}
	if said.InitialTraceID != "" {
		if r.Initial, err = trace.ParseID(said.InitialTraceID); err != nil {
			return err
		}
	}
	if said.SpanID != "" || said.InitialTraceID != "" {
		if _, err = trace.ParseID(r.TraceID); err != nil {
			return err
		}
	}
	if said.Command != "" && !command.MatchString(said.Command) {
		return fmt.Errorf("command %.100q: want words, and no argument", said.Command)
	}
	r.Command = said.Command
	if said.LogDigest != "" {
		if r.Log, err = digest.Parse(said.LogDigest); err == nil && r.Log.Algorithm() != digest.SHA256 {
			err = fmt.Errorf("logDigest %.100q: want a sha256 digest", said.LogDigest)
		}
	}
	return err
}
