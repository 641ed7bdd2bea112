package attacks

import (
	"slices"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// codesOfReleases lists the codes that a decision about a whole release can give, in
// every command. Tests provoke each of them in every such command and compare
// the answers.
func codesOfReleases() []verdict.Code {
	return []verdict.Code{
		// The release against its manifest, and the manifest against the plan.
		verdict.Missing, verdict.Tampered, verdict.Extra, verdict.NameSwap, verdict.TagMoved, verdict.Platform, verdict.FileType, verdict.Path, verdict.Version, verdict.Withdrawn, verdict.Expired, verdict.PlaceOther,
		verdict.PlanExtra, verdict.PlanMissing, verdict.LockStale, verdict.ManifestParse, "MANIFEST_CRITICAL",
		"PAGE_MISSING", "PAGE_TAMPERED", "PAGE_TWICE", "PAGE_ORDER", "PAGE_OVERLAP", "PAGE_RANGE",

		// The form and the signatures of evidence.
		verdict.BundleParse, verdict.BundleVersion, verdict.BundleLacks, verdict.Encoding, verdict.SignatureBad, verdict.MaterialKind, verdict.Limit, verdict.LimitSubjects, verdict.SigCount, verdict.PayloadType, verdict.Threshold, verdict.DigestHint,
		verdict.LogMissing, verdict.LogUnknown, verdict.LogEntryUnbound, verdict.LogSigMismatch, verdict.LogKeyMismatch, verdict.LogProof, verdict.LogPromise, verdict.LogKind, verdict.CheckpointSig, verdict.CheckpointOrigin, verdict.KeyExpired,
		verdict.TimeMissing, verdict.TimeUnsigned, verdict.TimeInvalid, verdict.TimeDisagree, verdict.TimeCert, verdict.TSAImprint, verdict.TSAUntrusted, verdict.TSACert, verdict.TSAWindow,
		verdict.CertParse, verdict.CertMissing, verdict.CertLimit, verdict.CertProfile, verdict.ChainUntrusted, verdict.ChainExpired, verdict.SCTMissing, verdict.SCT, verdict.IssuerConflict, verdict.SANCount, verdict.SANType,

		// The content of evidence.
		verdict.EvidenceMissing, verdict.Unsigned, verdict.NoProvenance, verdict.NoSBOM, verdict.SBOMSubject, verdict.StatementParse, verdict.StatementType, verdict.PredicateType, verdict.NotBound, verdict.CertStatement,
		verdict.Identity, verdict.IdentityRole, verdict.IdentityWindow, verdict.Builder, verdict.BuildType, verdict.BuildMix, verdict.Level, verdict.SourceRepo, verdict.SourceRef, verdict.SourceCommit, "PARAM_UNKNOWN", verdict.ParamValue, verdict.RebuildMismatch,
		verdict.SignoffMissing, verdict.SignoffOther, verdict.SignoffExpired,

		// The policy, and what a decision is based on.
		verdict.Stale, "TRUST_LAB", "POLICY_RULE", verdict.PolicySig, verdict.PolicyStale, verdict.PolicyExpired, verdict.PolicyEmpty, verdict.FeatureState, verdict.Clock,
		verdict.ConfigParse, verdict.Usage, verdict.PlaceDown, verdict.NotListable, verdict.TrustRootParse,
	}
}

// ofRelease reports whether a decision about a whole release can give the code.
func ofRelease(c verdict.Code) bool { return slices.Contains(codesOfReleases(), c) }
