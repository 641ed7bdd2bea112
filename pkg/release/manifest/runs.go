package manifest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The kinds of runs. Readers take others, too.
const (
	RunBuild    = "build"
	RunSign     = "sign"
	RunSeal     = "seal" // as the first: nothing was built, another tool's files were taken over
	RunAmend    = "amend"
	RunWithdraw = "withdraw"
)

// Run is one run that had a hand in the release. Its ids lead to it; nothing is
// decided by them, so they are read by those who look for it: see [IDsOf].
type Run struct {
	// Kind says what it did, and ID is its invocation, as provenance names it. A
	// run that writes no provenance has its trace for an ID.
	Kind, ID string
	// TraceID is its trace, as the manifest says: any text, or none.
	TraceID string
	more    releasemanifest.RunTrace
}

// command is the form of a command: it is shown to people, and holds no
// argument, which could be a secret.
var command = regexp.MustCompile(`\A[a-z][a-z-]*( [a-z][a-z-]*){0,3}\z`)

// RunOf is a run that did something in a trace. What is no command is left out.
func RunOf(kind, id string, ids trace.IDs, typed string) Run {
	r := Run{Kind: kind, ID: id, TraceID: ids.Trace.String()}
	r.more = releasemanifest.RunTrace{SpanID: ids.Span.String(), InitialTraceID: ids.Initial.String()}
	if command.MatchString(typed) {
		r.more.Command = typed
	}
	return r
}

// IDsOf are the ids of a run. A trace in another form than W3C's is none, and
// so is what is said of it then.
func IDsOf(r Run) trace.IDs {
	id, err := trace.ParseID(r.TraceID)
	if err != nil {
		return trace.IDs{}
	}
	span, _ := trace.ParseSpanID(r.more.SpanID)
	initial, _ := trace.ParseID(r.more.InitialTraceID)
	return trace.IDs{Trace: id, Span: span, Initial: initial}
}

// CommandOf is what was typed for a run, without arguments: "waybill stage". It
// is empty where it is not known, or is more than words.
func CommandOf(r Run) string {
	if !command.MatchString(r.more.Command) {
		return ""
	}
	return r.more.Command
}

// By is a manifest as one more run has it.
func By(m Manifest, r Run) Manifest {
	m.Runs = append(slices.Clone(m.Runs), r)
	return m
}

// OriginOf is the trace in which a release came to be, as its first run says.
// Zero means that the manifest does not say: it is older than the ids, or made
// by another program.
func OriginOf(m Manifest) trace.ID {
	if len(m.Runs) == 0 {
		return trace.ID{}
	}
	return IDsOf(m.Runs[0]).Initial
}

// addRuns says of the runs what their list has no fields for: a reader that
// knows no such fields would refuse them there, and passes over this.
func (m Manifest) addRuns(wire *releasemanifest.Predicate) error {
	all := make([]releasemanifest.RunTrace, len(m.Runs))
	said := false
	for i, r := range m.Runs {
		all[i], said = r.more, said || r.more != releasemanifest.RunTrace{}
	}
	if !said {
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
	for i := range all {
		runs[i].more = all[i]
	}
	return runs, nil
}
