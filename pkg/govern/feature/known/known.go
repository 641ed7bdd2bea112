// Package known is the table of the features that Waybill itself has: what each
// demands, since when, and what is to be done when it is switched. Who does it
// stands elsewhere; a third party has a table of its own.
//
//	r := known.Registry()
package known

import (
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// The features of Waybill.
const (
	RequireProvenance = "RequireProvenance" // what is promoted has provenance
	RequireSignoff    = "RequireSignoff"    // a release has a sign-off
	TraceAnnotations  = "TraceAnnotations"  // what is attached names the run that attached it
	EmitVSA           = "EmitVSA"           // what is accepted is vouched for
	BundleReferrers   = "BundleReferrers"   // evidence is attached as referrers
	StatusPage        = "StatusPage"        // the gate has a page for people
	KMSSigning        = "KMSSigning"        // keys of a service sign
)

// The tasks of the features.
const (
	CoverageAudit    = "CoverageAudit"    // everything public would be accepted
	SignoffAudit     = "SignoffAudit"     // every release has its sign-off
	StripAnnotations = "StripAnnotations" // no hint is left at a referrer
	VSAsInForce      = "VSAsInForce"      // somebody still goes by a summary
	Backfill         = "Backfill"         // what is attached by tags is attached as referrers, too
	ReemitTags       = "ReemitTags"       // what is attached as referrers is attached by tags, too
)

// The minor versions of Waybill that the table speaks of.
const (
	first  = "v0.1.0" // it knows features
	second = "v0.2.0" // it attaches evidence as referrers alone
)

func at(text string) version.Version {
	v, err := version.Parse(text)
	if err != nil {
		panic("known: " + err.Error()) // the constants above are versions
	}
	return v
}

// Newest is the newest version that the table says something of: a build that
// has no version counts as that.
func Newest() version.Version { return at(second) }

// Namespace is the features of Waybill, for a table that has those of others,
// too.
func Namespace() feature.Namespace {
	since := func(stage feature.Stage, by feature.State) []feature.Version {
		return []feature.Version{{Since: at(first), Stage: stage, Default: by}}
	}
	sweep := func(name string) []feature.Job { return []feature.Job{{Kind: feature.Sweep, Name: name}} }
	return feature.Namespace{Name: feature.CoreNamespace, Features: []feature.Definition{
		{
			Name: RequireProvenance, About: "what is promoted has provenance that the policy believes", Requirement: true,
			Versions: since(feature.Beta, feature.Off), OnTasks: sweep(CoverageAudit),
			Keys: []string{RequireProvenance},
		},
		{
			Name: RequireSignoff, About: "a release has a sign-off of the documents that it rests on", Requirement: true,
			Versions: since(feature.Alpha, feature.Off), OnTasks: sweep(SignoffAudit),
			Keys: []string{RequireSignoff, "signoff"},
		},
		{
			Name: TraceAnnotations, About: "what is attached to an image names, as a hint, the run that attached it",
			Versions: since(feature.Beta, feature.On), OffTasks: sweep(StripAnnotations), Pristine: true,
			Keys: []string{trace.AnnotationTrace, trace.AnnotationSpan, trace.AnnotationInitial},
		},
		{
			Name: EmitVSA, About: "what is accepted is vouched for by a verification summary",
			Versions: since(feature.Beta, feature.On), OffTasks: []feature.Job{{Kind: feature.Hold, Name: VSAsInForce}},
		},
		{
			Name: BundleReferrers, About: "evidence is attached to images as referrers, and no longer by tags",
			Versions: []feature.Version{
				{Since: at(first), Stage: feature.Beta, Default: feature.On, Schema: 1},
				{Since: at(second), Stage: feature.GA, Default: feature.On, Schema: 2},
			},
			OffTasks: sweep(ReemitTags), UpgradeTasks: sweep(Backfill), DowngradeTasks: sweep(ReemitTags),
		},
		{
			Name: StatusPage, About: "the gate as a service has a status page for people",
			Versions: since(feature.Beta, feature.On), Dynamic: true,
		},
		{
			Name: KMSSigning, About: "keys that a service keeps can sign, which --key names",
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
