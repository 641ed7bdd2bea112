package manifest

import (
	"encoding/json"
	"fmt"
	"slices"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The kinds of runs. Readers also accept others.
const (
	RunBuild    = "build"
	RunSign     = "sign"
	RunSeal     = "seal" // if it is the first run: nothing was built, files of another tool were taken over
	RunAmend    = "amend"
	RunWithdraw = "withdraw"
)

// Run is one run that contributed to the release. Its ids help to find it; no
// decision depends on them, so they are parsed only on request: see [IDsOf].
type Run struct {
	// Kind says what the run did. ID is its invocation, as provenance names it;
	// a run that writes no provenance uses its trace.
	Kind, ID string
	// TraceID is the trace, as the manifest says: any text, or empty.
	TraceID string
	more    releasemanifest.RunTrace
}

// command is the form of a command. It is shown to people and contains no
// arguments, which could be secrets.
var command = pattern.Lazy(`\A[a-z][a-z-]*( [a-z][a-z-]*){0,3}\z`)

// RunOf describes a run in a trace. A name that is not a command is left out.
func RunOf(kind, id string, ids trace.IDs, typed string) Run {
	r := Run{Kind: kind, ID: id, TraceID: ids.Trace.String()}
	r.more = releasemanifest.RunTrace{SpanID: ids.Span.String(), InitialTraceID: ids.Initial.String()}
	if command().MatchString(typed) {
		r.more.Command = typed
	}
	return r
}

// IDsOf returns the ids of a run. If the trace is not in W3C's form, there are
// none.
func IDsOf(r Run) trace.IDs {
	id, err := trace.ParseID(r.TraceID)
	if err != nil {
		return trace.IDs{}
	}
	span, _ := trace.ParseSpanID(r.more.SpanID)
	initial, _ := trace.ParseID(r.more.InitialTraceID)
	return trace.IDs{Trace: id, Span: span, Initial: initial}
}

// CommandOf is the command of a run without arguments, such as "waybill stage".
// It is empty if it is unknown or has another form.
func CommandOf(r Run) string {
	if !command().MatchString(r.more.Command) {
		return ""
	}
	return r.more.Command
}

// By returns the manifest with one more run.
func By(m Manifest, r Run) Manifest {
	m.Runs = append(slices.Clone(m.Runs), r)
	return m
}

// OriginOf is the trace in which a release began, by its first run. Zero if the
// manifest does not say: it is older than the ids, or made by another program.
func OriginOf(m Manifest) trace.ID {
	if len(m.Runs) == 0 {
		return trace.ID{}
	}
	return IDsOf(m.Runs[0]).Initial
}

// addRuns writes the additional fields of the runs to an extension: readers
// that do not know these fields would refuse them in the list, and ignore the
// extension.
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

// runsOf joins the runs with their fields in the extension.
func runsOf(wire releasemanifest.Predicate) (runs []Run, err error) {
	runs = slice.Map(wire.Runs, func(r releasemanifest.Run) Run { return Run{Kind: r.Kind, ID: r.ID, TraceID: r.TraceID} })
	raw, there := wire.Extensions[releasemanifest.RunTraces]
	if !there {
		return runs, nil
	}
	var all []releasemanifest.RunTrace
	if err := strictjson.Unmarshal(raw, &all); err != nil {
		return nil, err
	}
	if len(all) != len(runs) {
		return nil, verdict.Refuse(verdict.ManifestParse, "manifest", "%d runs, but %d in the extension", len(runs), len(all))
	}
	for i := range all {
		runs[i].more = all[i]
	}
	return runs, nil
}
