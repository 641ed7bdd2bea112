package span

import (
	"go.opentelemetry.io/otel/attribute"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
)

// Name is the name of a span. There are few; details are in its attributes.
type Name string

// The names of spans. [Command] names that of a command.
const (
	Preflight   Name = "preflight"    // checking the preconditions
	Plan        Name = "plan"         // reading release.yaml at the commit
	Build       Name = "build"        // all steps
	BuildStep   Name = "build step"   // one isolated step
	SBOM        Name = "sbom"         // describing what was built
	Sign        Name = "sign"         // all signatures of a kind of thing
	Signature   Name = "signature"    // one signature
	Seal        Name = "seal"         // the signed release manifest
	Promote     Name = "promote"      // a release from one place to another
	PromoteEdge Name = "promote edge" // one thing from one place to another
	Gate        Name = "gate"         // one decision
	Record      Name = "record"       // one record of what was decided
	Mark        Name = "mark"         // version markers

	commandPrefix = "waybill."
)

// Command is the span of a whole command, such as waybill.promote.apply.
func Command(path string) Name { return Name(commandPrefix + path) }

// isTask says that the span is a part of a run, not the run.
func (n Name) isTask() bool {
	return len(n) < len(commandPrefix) || n[:len(commandPrefix)] != commandPrefix
}

// Keys of attributes, by OpenTelemetry's semantic conventions.
const (
	PipelineName       = semconv.CICDPipelineNameKey          // release of which project
	pipelineRunID      = semconv.CICDPipelineRunIDKey         // the trace id of the run
	pipelineResult     = semconv.CICDPipelineResultKey        // of the root span
	PipelineTaskName   = semconv.CICDPipelineTaskNameKey      // compile-linux-amd64
	PipelineTaskType   = semconv.CICDPipelineTaskTypeKey      // build, test or deploy
	pipelineTaskRunID  = semconv.CICDPipelineTaskRunIDKey     // the span id; set by Start
	pipelineTaskResult = semconv.CICDPipelineTaskRunResultKey // result of one task

	ArtifactFilename = semconv.ArtifactFilenameKey
	ArtifactHash     = semconv.ArtifactHashKey // algorithm:hex
	ArtifactVersion  = semconv.ArtifactVersionKey
	AttestationHash  = semconv.ArtifactAttestationHashKey

	RepositoryURL = semconv.VCSRepositoryURLFullKey
	HeadRevision  = semconv.VCSRefHeadRevisionKey

	errorTypeKey = semconv.ErrorTypeKey // refused, malformed, unavailable or internal

	// initialTraceID has no convention: it is the trace in which the object
	// that is acted on was created.
	initialTraceID = attribute.Key("waybill.initial_trace_id")
)
