// Package known is the table of Waybill's own features: what each requires, since which
// version, and the tasks of switching it. The implementations of tasks are elsewhere; a
// third party has its own table.
//
//	r := known.Registry()
//
// Other projects should not import this package: it changes without notice.
package known

import (
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// The features of Waybill.
const (
	RequireProvenance = "RequireProvenance" // promoted images have provenance
	RequireSignoff    = "RequireSignoff"    // a release has a sign-off
	TraceAnnotations  = "TraceAnnotations"  // attached evidence names the run that attached it
	EmitVSA           = "EmitVSA"           // accepted artifacts get a verification summary
	BundleReferrers   = "BundleReferrers"   // evidence is attached as referrers
	StatusPage        = "StatusPage"        // the gate has a page for people
	KMSSigning        = "KMSSigning"        // KMS keys can sign
)

// The tasks of the features.
const (
	CoverageAudit    = "CoverageAudit"    // everything public would be accepted
	SignoffAudit     = "SignoffAudit"     // every release has its sign-off
	StripAnnotations = "StripAnnotations" // no referrer has trace annotations
	VSAsInForce      = "VSAsInForce"      // no summary is still relied on
	Backfill         = "Backfill"         // evidence in tags is also attached as referrers
	ReemitTags       = "ReemitTags"       // evidence in referrers is also attached by tags
)

// The minor versions of Waybill in the table.
const (
	first  = "v0.1.0" // the first with features
	second = "v0.2.0" // attaches evidence only as referrers
)

func at(text string) version.Version {
	v, err := version.Parse(text)
	if err != nil {
		panic("known: " + err.Error()) // the constants above are versions
	}
	return v
}

// Newest is the newest version in the table: a build without a version counts as that.
func Newest() version.Version { return at(second) }

// Namespace has the features of Waybill, for a table that also has those of others.
func Namespace() feature.Namespace {
	since := func(stage feature.Stage, by feature.State) []feature.Version {
		return []feature.Version{{Since: at(first), Stage: stage, Default: by}}
	}
	sweep := func(name string) []feature.Job { return []feature.Job{{Kind: feature.Sweep, Name: name}} }
	return feature.Namespace{Name: feature.CoreNamespace, Features: []feature.Definition{
		{
			Name: RequireProvenance, About: "promoted images have provenance that the policy accepts", Requirement: true,
			Versions: since(feature.Beta, feature.Off), OnTasks: sweep(CoverageAudit),
			Keys: []string{RequireProvenance},
		},
		{
			Name: RequireSignoff, About: "a release has a sign-off of its enhancement documents", Requirement: true,
			Versions: since(feature.Alpha, feature.Off), OnTasks: sweep(SignoffAudit),
			Keys: []string{RequireSignoff, "signoff"},
		},
		{
			Name: TraceAnnotations, About: "evidence attached to an image has annotations with the trace of the run that attached it",
			Versions: since(feature.Beta, feature.On), OffTasks: sweep(StripAnnotations), Pristine: true,
			Keys: []string{trace.AnnotationTrace, trace.AnnotationSpan, trace.AnnotationInitial},
		},
		{
			Name: EmitVSA, About: "accepted artifacts get a verification summary",
			Versions: since(feature.Beta, feature.On), OffTasks: []feature.Job{{Kind: feature.Hold, Name: VSAsInForce}},
		},
		{
			Name: BundleReferrers, About: "evidence is attached to images only as referrers, not by tags",
			Versions: []feature.Version{
				{Since: at(first), Stage: feature.Beta, Default: feature.On, Schema: 1},
				{Since: at(second), Stage: feature.GA, Default: feature.On, Schema: 2},
			},
			OffTasks: sweep(ReemitTags), UpgradeTasks: sweep(Backfill), DowngradeTasks: sweep(ReemitTags),
		},
		{
			Name: StatusPage, About: "the gate service has a status page for people",
			Versions: since(feature.Beta, feature.On), Dynamic: true,
		},
		{
			Name: KMSSigning, About: "KMS keys, which --key names, can sign",
			Versions: since(feature.Beta, feature.On), RequiresFlags: []string{"key"},
			Keys: []string{"NAME=SERVICE://KEY"},
		},
	}}
}

// Registry is the table.
func Registry() feature.Registry {
	r, err := feature.NewRegistry(Namespace())
	if err != nil {
		panic("known: " + err.Error()) // a test reads the table
	}
	return r
}
