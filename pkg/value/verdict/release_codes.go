package verdict

import "slices"

// ofReleases lists the codes that a decision about a whole release can give, in
// whatever command. Tests provoke each of them in every such command and compare
// the answers.
var ofReleases = []Code{
	// The release against its manifest, and the manifest against the plan.
	Missing, Tampered, Extra, NameSwap, TagMoved, Platform, FileType, Path, Version, Withdrawn, Expired, PlaceOther,
	PlanExtra, PlanMissing, LockStale, ManifestParse, ManifestCrit,
	PageMissing, PageTampered, PageTwice, PageOrder, PageOverlap, PageRange,

	// The form and the signatures of evidence.
	BundleParse, BundleVersion, BundleLacks, Encoding, SignatureBad, MaterialKind, Limit, LimitSubjects, SigCount, PayloadType, Threshold, DigestHint,
	LogMissing, LogUnknown, LogEntryUnbound, LogSigMismatch, LogKeyMismatch, LogProof, LogPromise, LogKind, CheckpointSig, CheckpointOrigin, KeyExpired,
	TimeMissing, TimeUnsigned, TimeInvalid, TimeDisagree, TimeCert, TSAImprint, TSAUntrusted, TSACert, TSAWindow,
	CertParse, CertMissing, CertLimit, CertProfile, ChainUntrusted, ChainHasRoot, ChainExpired, SCTMissing, SCT, IssuerConflict, SANCount, SANType,

	// The content of evidence.
	EvidenceMissing, Unsigned, NoProvenance, NoSBOM, SBOMSubject, StatementParse, StatementType, PredicateType, NotBound, CertStatement,
	Identity, IdentityRole, IdentityWindow, Builder, BuildType, BuildMix, Level, SourceRepo, SourceCommit, ParamUnknown, ParamValue, RebuildMismatch,
	SignoffMissing, SignoffOther, SignoffExpired,

	// The policy, and what a decision is based on.
	Stale, TrustLab, PolicyRule, PolicySig, PolicyStale, PolicyExpired, PolicyEmpty, FeatureState, Clock,
	ConfigParse, Usage, PlaceDown, NotListable, TrustRootParse,
}

// OfRelease reports whether a decision about a whole release can give the code.
func (c Code) OfRelease() bool { return slices.Contains(ofReleases, c) }
