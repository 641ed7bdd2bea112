package verdict

import "cmp"

// Code is the stable name of one reason to refuse, or to give no answer. Scripts
// match on it; messages may change.
type Code string

// The reasons. Each has one row in table.txt, with its outcome and next acts.
const (
	// The release against its manifest.
	Missing    Code = "MISSING"
	Tampered   Code = "TAMPERED"
	Extra      Code = "EXTRA"
	NameSwap   Code = "NAME_SWAP"
	TagMoved   Code = "TAG_MOVED"
	Platform   Code = "PLATFORM"
	FileType   Code = "FILE_TYPE"
	Path       Code = "PATH"
	Version    Code = "VERSION"
	Withdrawn  Code = "WITHDRAWN"
	Expired    Code = "EXPIRED"
	PlaceOther Code = "RESOURCE"
	// Manifest and channel index: there is one of each, and the newest counts.
	Equivocation Code = "MANIFEST_EQUIVOCATION"
	ChannelStale Code = "CHANNEL_STALE"

	// An archive, which every program must read alike.
	ArchiveParse     Code = "ARCHIVE_PARSE"
	ArchiveAmbiguous Code = "ARCHIVE_AMBIGUOUS"
	ArchiveHidden    Code = "ARCHIVE_HIDDEN"
	ArchiveTwice     Code = "ARCHIVE_TWICE"

	// The manifest against the plan.
	PlanExtra   Code = "PLAN_EXTRA"
	PlanMissing Code = "PLAN_MISSING"
	SealExtra   Code = "SEAL_EXTRA"
	SealMissing Code = "SEAL_MISSING"
	PlanStale   Code = "PLAN_STALE"
	LockStale   Code = "LOCK_STALE"

	// Evidence.
	EvidenceMissing  Code = "EVIDENCE_MISSING"
	Unsigned         Code = "UNSIGNED"
	NoProof          Code = "NO_PROOF"
	NoProvenance     Code = "NO_PROVENANCE"
	NoSBOM           Code = "NO_SBOM"
	SBOMSubject      Code = "SBOM_SUBJECT"
	SBOMGraph        Code = "SBOM_GRAPH"
	SBOMIncomplete   Code = "SBOM_INCOMPLETE"
	SBOMInvalid      Code = "SBOM_INVALID"
	SBOMTwin         Code = "SBOM_TWIN"
	Conflict         Code = "EVIDENCE_CONFLICT"
	Regressed        Code = "EVIDENCE_REGRESSED"
	BundleParse      Code = "BUNDLE_PARSE"
	BundleVersion    Code = "BUNDLE_VERSION"
	BundleLacks      Code = "BUNDLE_INCOMPLETE"
	Encoding         Code = "ENCODING"
	SignatureBad     Code = "SIG_INVALID"
	MaterialKind     Code = "MATERIAL_KIND"
	StatementParse   Code = "PAYLOAD_PARSE"
	StatementType    Code = "STATEMENT_TYPE"
	PredicateType    Code = "PREDICATE_TYPE"
	PredicateNone    Code = "PREDICATE_MISSING"
	NotBound         Code = "NOT_BOUND"
	VersionUnbound   Code = "VERSION_UNBOUND"
	DigestHint       Code = "DIGEST_HINT"
	ManifestParse    Code = "MANIFEST_PARSE"
	Limit            Code = "LIMIT"
	LimitSubjects    Code = "LIMIT_SUBJECTS"
	NoArtifact       Code = "NO_ARTIFACT"
	SigCount         Code = "SIG_COUNT"
	PayloadType      Code = "PAYLOAD_TYPE"
	Threshold        Code = "THRESHOLD"
	LogMissing       Code = "LOG_MISSING"
	LogUnknown       Code = "LOG_UNKNOWN"
	LogEntryParse    Code = "LOG_ENTRY_PARSE"
	LogEntryUnbound  Code = "LOG_ENTRY_UNBOUND"
	LogSigMismatch   Code = "LOG_SIG_MISMATCH"
	LogKeyMismatch   Code = "LOG_KEY_MISMATCH"
	LogProof         Code = "LOG_PROOF"
	LogPromise       Code = "LOG_SET"
	LogKind          Code = "LOG_KIND"
	CheckpointSig    Code = "CHECKPOINT_SIG"
	CheckpointOrigin Code = "CHECKPOINT_ORIGIN"
	KeyExpired       Code = "KEY_EXPIRED"
	LogUnasked       Code = "LOG_UNASKED"
	TimeMissing      Code = "TIME_MISSING"
	TimeUnsigned     Code = "TIME_UNSIGNED"
	TimeInvalid      Code = "TIME_INVALID"
	TimeDisagree     Code = "TIME_DISAGREE"
	TSAImprint       Code = "TSA_IMPRINT"
	TSAUntrusted     Code = "TSA_UNTRUSTED"
	TSACert          Code = "TSA_CERT"
	TSAWindow        Code = "TSA_WINDOW"
	TimeCert         Code = "TIME_CERT"
	CertParse        Code = "CERT_PARSE"
	CertMissing      Code = "CERT_MISSING"
	CertLimit        Code = "CERT_LIMIT"
	CertProfile      Code = "CERT_PROFILE"
	ChainUntrusted   Code = "CHAIN_UNTRUSTED"
	ChainExpired     Code = "CHAIN_EXPIRED"
	SCTMissing       Code = "SCT_MISSING"
	SCT              Code = "SCT_INVALID"
	IssuerConflict   Code = "ISSUER_CONFLICT"
	SANCount         Code = "SAN_COUNT"
	SANType          Code = "SAN_TYPE"

	// Signers and sources.
	Identity      Code = "IDENTITY"
	IdentityRole  Code = "IDENTITY_ROLE"
	Issuer        Code = "ISSUER"
	Workflow      Code = "WORKFLOW"
	SourceRef     Code = "SOURCE_REF"
	SourceID      Code = "SOURCE_ID"
	Runner        Code = "RUNNER"
	Trigger       Code = "TRIGGER"
	Claim         Code = "CERT_CLAIM"
	Revoked       Code = "REVOKED"
	CertStatement Code = "CERT_STATEMENT"
	Builder       Code = "BUILDER"
	BuildType     Code = "BUILD_TYPE"
	BuildMix      Code = "BUILD_MIX"
	Level         Code = "LEVEL"
	SourceRepo    Code = "SOURCE_REPOSITORY"
	SourceCommit  Code = "SOURCE_COMMIT"
	SourceMoved   Code = "SOURCE_MOVED"
	SourceConfig  Code = "SOURCE_CONFIG"

	// Other requirements of the policy, and the policy itself.
	IdentityWindow  Code = "IDENTITY_WINDOW"
	ParamValue      Code = "PARAM_VALUE"
	RebuildMismatch Code = "REBUILD_MISMATCH"
	Stale           Code = "STALE"
	VSAVerifier     Code = "VSA_VERIFIER"
	VSAResult       Code = "VSA_RESULT"
	VSAStale        Code = "VSA_STALE"
	PolicySig       Code = "POLICY_SIG"
	PolicyStale     Code = "POLICY_STALE"
	PolicyExpired   Code = "POLICY_EXPIRED"
	PolicyCases     Code = "POLICY_CASES"
	PolicyEmpty     Code = "POLICY_EMPTY"
	PolicyVacuous   Code = "POLICY_VACUOUS"

	// The trace ids of an artifact's runs.
	TraceConflict Code = "TRACE_CONFLICT"

	// The sign-off of a release, and the documents that are signed off.
	SignoffMissing     Code = "SIGNOFF_MISSING"
	SignoffOther       Code = "SIGNOFF_OTHER_RELEASE"
	SignoffExpired     Code = "SIGNOFF_EXPIRED"
	SignoffSection     Code = "SIGNOFF_SECTION"
	SignoffEmpty       Code = "SIGNOFF_EMPTY"
	SignoffPlaceholder Code = "SIGNOFF_PLACEHOLDER"
	SignoffUnchanged   Code = "SIGNOFF_UNCHANGED"
	SignoffGuidance    Code = "SIGNOFF_GUIDANCE"
	SignoffUnresolved  Code = "SIGNOFF_UNRESOLVED"
	SignoffTitle       Code = "SIGNOFF_TITLE"
	SignoffTOC         Code = "SIGNOFF_TOC"
	SignoffLink        Code = "SIGNOFF_LINK"
	SignoffStatus      Code = "SIGNOFF_STATUS"
	SignoffField       Code = "SIGNOFF_FIELD"
	SignoffApproval    Code = "SIGNOFF_APPROVAL"
	SignoffFeature     Code = "SIGNOFF_FEATURE"
	SignoffChecklist   Code = "SIGNOFF_CHECKLIST"
	SignoffTemplate    Code = "SIGNOFF_TEMPLATE"
	SignoffDocument    Code = "SIGNOFF_DOCUMENT"

	// Sources of trust: TUF metadata and the clock.
	TUFRollback Code = "TUF_ROLLBACK"
	TUFParse    Code = "TUF_PARSE"
	TrustDown   Code = "TRUSTROOT_UNAVAILABLE"
	Clock       Code = "CLOCK"

	// Builds.
	FetchHash    Code = "FETCH_HASH"
	FetchMissing Code = "FETCH_MISSING"
	OutputSize   Code = "OUTPUT_SIZE"
	StepFailed   Code = "STEP_FAILED"
	StepLimit    Code = "STEP_LIMIT"
	NotIsolated  Code = "NOT_ISOLATED"

	// Writing to registries and places.
	TagConflict  Code = "TAG_CONFLICT"
	TagRace      Code = "TAG_RACE"
	FileConflict Code = "FILE_CONFLICT"
	SignedAsElse Code = "SIGNED_AS_ELSE"
	TokenRefused Code = "TOKEN_REFUSED"
	// Callers of the gate service.
	TokenParse  Code = "TOKEN_PARSE"
	TokenAlg    Code = "TOKEN_ALG"
	TokenKey    Code = "TOKEN_KEY"
	TokenTime   Code = "TOKEN_TIME"
	TokenSub    Code = "TOKEN_SUB"
	NotGranted  Code = "NOT_GRANTED"
	NotWritable Code = "NOT_WRITABLE"

	// Features that switch requirements on and off.
	FeatureState Code = "FEATURE_STATE"

	// The machine that a release is made on.
	Busy Code = "BUSY"
	// The directory of a download.
	ToolMissing Code = "TOOL_MISSING"

	// Services that signatures need.
	ServiceRefused Code = "SERVICE_REFUSED"

	// Wrong use, unreachable services, and bugs of Waybill.
	ConfigParse    Code = "CONFIG"
	Usage          Code = "USAGE"
	PolicyWeak     Code = "POLICY_WEAK"
	PlaceDown      Code = "UNAVAILABLE"
	NotListable    Code = "NOT_LISTABLE"
	TrustRootParse Code = "TRUST_ROOT"
	InternalBug    Code = "INTERNAL"
)

// Audience is who reads a next act.
type Audience uint8

// The audiences.
const (
	Producer Audience = iota // makes the release
	Consumer                 // checks a release that somebody else made
)

// ExitCode maps an outcome to the process exit status, the same for every
// command: see [HTTPStatus] for the same table over HTTP.
func ExitCode(o Outcome) int {
	switch o {
	case Accepted:
		return 0
	case Refused, Undecided:
		return 1
	case Malformed:
		return 2
	case Unavailable:
		return 3
	}
	return 4
}

// HTTPStatus maps an outcome to the status of an HTTP answer.
func HTTPStatus(o Outcome) int {
	return cmp.Or(map[Outcome]int{Accepted: 200, Refused: 403, Undecided: 403, Malformed: 422, Unavailable: 503}[o], 500)
}
