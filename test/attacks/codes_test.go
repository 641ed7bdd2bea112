package attacks

import (
	"fmt"
	"go/ast"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// provokedHere names, for each code, a test of this package that makes the
// product refuse with it. Whether it really does is checked when all tests
// have run: see [unprovoked].
func provokedHere() map[verdict.Code]string {
	return map[verdict.Code]string{
		verdict.Missing:          "TestGateFiles",
		verdict.Tampered:         "TestGateFiles",
		verdict.Extra:            "TestGateFiles",
		verdict.NameSwap:         "TestGateFiles",
		verdict.TagMoved:         "TestGateImages",
		verdict.Platform:         "TestGateImages",
		verdict.FileType:         "TestGateFiles",
		verdict.Path:             "TestGateFiles",
		verdict.ArchiveParse:     "TestArchivePlaces",
		verdict.ArchiveAmbiguous: "TestArchivePlaces",
		verdict.ArchiveHidden:    "TestArchivePlaces",
		verdict.ArchiveTwice:     "TestArchivePlaces",
		verdict.Version:          "TestGateQuestions",
		verdict.Withdrawn:        "TestGateManifest",
		verdict.Expired:          "TestGateQuestions",
		verdict.PlaceOther:       "TestGateManifest",
		verdict.PlanExtra:        "TestGateAgainstItsOwnRelease",
		verdict.PlanMissing:      "TestGateAgainstItsOwnRelease",
		verdict.SealExtra:        "TestSealSignsOnlyWhatWasPlannedAndProven",
		verdict.SealMissing:      "TestSealSignsOnlyWhatWasPlannedAndProven",
		verdict.PlanStale:        "TestWorkspaceOfAnotherRelease",
		verdict.EvidenceMissing:  "TestGatePlaces",
		verdict.Unsigned:         "TestGateFiles",
		verdict.NoProvenance:     "TestGateFiles",
		verdict.NoProof:          "TestGateNeedsAProof",
		verdict.NoSBOM:           "TestGateFiles",
		verdict.SBOMSubject:      "TestGateAgainstItsOwnRelease",
		verdict.SBOMGraph:        "TestSBOMsThatLie",
		verdict.SBOMIncomplete:   "TestSBOMsThatLie",
		verdict.Conflict:         "TestSBOMsThatLie",
		verdict.BundleParse:      "TestBundleForm",
		verdict.BundleVersion:    "TestBundleMaterial",
		verdict.MaterialKind:     "TestBundleMaterial",
		verdict.StatementParse:   "TestSignedStatements",
		verdict.StatementType:    "TestSignedStatements",
		verdict.PredicateNone:    "TestSingleFiles",
		verdict.PredicateType:    "TestSignedStatements",
		verdict.NotBound:         "TestBlobBundles",
		verdict.ManifestParse:    "TestGateManifest",
		"MANIFEST_CRITICAL":      "TestGateManifest",
		"PAGE_MISSING":           "TestGatePages",
		"PAGE_TAMPERED":          "TestGatePages",
		"PAGE_TWICE":             "TestGatePages",
		"PAGE_ORDER":             "TestGatePages",
		"PAGE_OVERLAP":           "TestGatePages",
		"PAGE_RANGE":             "TestGatePages",
		verdict.Limit:            "TestBundleForm",
		verdict.NoArtifact:       "TestNothingProvesNothing",
		verdict.Regressed:        "TestLessThanTheReleaseBefore",
		verdict.SigCount:         "TestAttestationBundles",
		verdict.PayloadType:      "TestAttestationBundles",
		verdict.Threshold:        "TestBlobBundles",
		verdict.BundleLacks:      "TestBlobBundles",
		verdict.DigestHint:       "TestBlobBundles",
		verdict.CheckpointSig:    "TestBlobBundles",
		verdict.TSAImprint:       "TestBlobBundles",
		verdict.SCTMissing:       "TestCertificateLog",
		verdict.LogMissing:       "TestBlobBundles",
		verdict.LogUnknown:       "TestBlobBundles",
		verdict.LogEntryUnbound:  "TestBlobBundles",
		verdict.LogSigMismatch:   "TestBlobBundles",
		verdict.LogKeyMismatch:   "TestBlobBundles",
		verdict.LogProof:         "TestBlobBundles",
		verdict.TimeMissing:      "TestBlobBundles",
		verdict.TimeCert:         "TestCertificates",
		verdict.CertParse:        "TestBundleMaterial",
		verdict.CertMissing:      "TestBundleMaterial",
		verdict.CertLimit:        "TestBundleMaterial",
		verdict.CertProfile:      "TestCertificates",
		verdict.ChainUntrusted:   "TestCertificates",
		verdict.SCT:              "TestCertificateLog",
		verdict.IssuerConflict:   "TestCertificates",
		verdict.SANCount:         "TestCertificates",
		verdict.SANType:          "TestCertificates",
		verdict.Identity:         "TestWhoSigned",
		verdict.IdentityRole:     "TestWhoSigned",
		verdict.Builder:          "TestGateAgainstItsOwnRelease",
		verdict.BuildType:        "TestGateAgainstItsOwnRelease",
		verdict.BuildMix:         "TestGateAgainstItsOwnRelease",
		verdict.SourceRepo:       "TestGateAgainstItsOwnRelease",
		verdict.SourceCommit:     "TestGateAgainstItsOwnRelease",
		"SOURCE_DIRTY":           "TestBuildSources",
		verdict.SourceMoved:      "TestBuildSources",
		verdict.SourceConfig:     "TestGateAgainstACheckout",
		"OUTPUT_MISSING":         "TestBuildSteps",
		"OUTPUT_EXTRA":           "TestBuildSteps",
		verdict.StepFailed:       "TestBuildSteps",
		verdict.NotIsolated:      "TestBuildSteps",
		verdict.TagConflict:      "TestPromotionConflicts",
		verdict.FileConflict:     "TestPromotionConflicts",
		verdict.SignedAsElse:     "TestSignersKeepToTheirRoles",
		verdict.TokenRefused:     "TestSignersKeepToTheirRoles",
		verdict.ConfigParse:      "TestBuildSteps",
		verdict.Usage:            "TestCommandAnswers",
		verdict.PlaceDown:        "TestGatePlaces",
		verdict.NotListable:      "TestGatePlaces",
		verdict.TrustRootParse:   "TestOtherWorlds",
		verdict.InternalBug:      "TestErrorsOfNobody",
		"TAG_FIRST":              "TestProxyRefuses",
		"EVIDENCE_KEPT":          "TestProxyRefuses",
		"REPLAY":                 "TestOverrideOnce",
		"IMAGE_TAG":              "TestClusterImages",
		"AUDIT_CHAIN":            "TestAuditChain",
		verdict.FeatureState:     "TestFeatureStates",
		"FEATURE_UNSAFE":         "TestFeaturePreflight",
	}
}

// provokedElsewhere names, for the remaining codes, the file in which another
// package's tests expect them.
func provokedElsewhere() map[verdict.Code]string {
	return map[verdict.Code]string{
		verdict.Equivocation:   "pkg/release/manifest/revise_test.go",
		verdict.TokenParse:     "pkg/serve/caller/token_test.go",
		verdict.TokenAlg:       "pkg/serve/caller/token_test.go",
		verdict.TokenKey:       "pkg/serve/caller/token_test.go",
		verdict.TokenTime:      "pkg/serve/caller/token_test.go",
		"TOKEN_AUD":            "pkg/serve/caller/token_test.go",
		verdict.TokenSub:       "pkg/serve/caller/token_test.go",
		verdict.NotGranted:     "pkg/serve/caller/caller_test.go",
		verdict.VersionUnbound: "test/lab/kubernetes/bound_test.go",
		verdict.TagRace:        "pkg/backend/registry/fault_test.go",
		"REPLICA_DRIFT":        "pkg/pipeline/promote/images_test.go",
		"UPLOAD_STALLED":       "pkg/serve/proxy_stalled_test.go",
		verdict.ChannelStale:   "pkg/judge/channel/channel_test.go",
		"CHANNEL_EXPIRED":      "pkg/judge/channel/channel_test.go",
		"CHANNEL_FORK":         "pkg/judge/channel/channel_test.go",
		verdict.FetchHash:      "pkg/produce/fetch/modules_test.go",
		verdict.FetchMissing:   "pkg/produce/fetch/modules_test.go",
		"CERT_KEY":             "test/signing/lies_test.go",
		verdict.ServiceRefused: "test/signing/lies_test.go",
		"SERVICE_SELECTOR":     "test/signing/several_test.go",
		"KEY_UNKNOWN":          "test/signing/keyed_test.go",

		"LEGACY_NEEDS_REKOR_V1":    "test/signing/legacy_test.go",
		verdict.OutputSize:         "test/malicious/malicious_test.go",
		"SOURCE_SHARED":            "test/malicious/repository_test.go",
		verdict.StepLimit:          "test/malicious/malicious_test.go",
		"OUTPUT_CHANGED":           "pkg/produce/sandbox/collect_test.go",
		verdict.SBOMInvalid:        "pkg/document/spdx/validate_test.go",
		verdict.SBOMTwin:           "pkg/sbom/judge_test.go",
		"FOREIGN_LAYER":            "pkg/pipeline/promote/images_hostile_test.go",
		verdict.TUFRollback:        "pkg/testing/faketuf/attacks.go",
		"TUF_EXPIRED":              "pkg/testing/faketuf/attacks.go",
		"TUF_HASH":                 "pkg/testing/faketuf/attacks.go",
		"TUF_VERSION":              "pkg/testing/faketuf/attacks.go",
		"TUF_THRESHOLD":            "pkg/testing/faketuf/attacks.go",
		verdict.TUFParse:           "pkg/testing/faketuf/attacks.go",
		"TUF_TARGET":               "pkg/testing/faketuf/attacks.go",
		verdict.TimeInvalid:        "pkg/judge/verify/bounds_test.go",
		verdict.Encoding:           "test/attacks/vectors/table.go",
		verdict.LimitSubjects:      "test/attacks/vectors/forgeries.go",
		verdict.LogPromise:         "test/attacks/vectors/table.go",
		verdict.LogKind:            "test/attacks/vectors/checkpoints.go",
		verdict.CheckpointOrigin:   "test/attacks/vectors/checkpoints.go",
		verdict.KeyExpired:         "test/attacks/vectors/windows.go",
		verdict.TimeUnsigned:       "test/attacks/vectors/checkpoints.go",
		verdict.TimeDisagree:       "test/attacks/vectors/stamps.go",
		verdict.TSAUntrusted:       "test/attacks/vectors/stamps.go",
		verdict.TSACert:            "test/attacks/vectors/stamps.go",
		verdict.TSAWindow:          "test/attacks/vectors/stamps.go",
		verdict.ChainExpired:       "test/attacks/vectors/authorities.go",
		verdict.Issuer:             "test/attacks/vectors/forgeries.go",
		verdict.Workflow:           "test/attacks/vectors/demands.go",
		verdict.SourceRef:          "test/attacks/vectors/demands.go",
		verdict.SourceID:           "test/attacks/vectors/demands.go",
		verdict.Runner:             "test/attacks/vectors/demands.go",
		verdict.Trigger:            "test/attacks/vectors/demands.go",
		verdict.Claim:              "test/attacks/vectors/demands.go",
		verdict.Revoked:            "test/attacks/vectors/demands.go",
		verdict.CertStatement:      "test/attacks/vectors/demands.go",
		verdict.PolicyWeak:         "test/attacks/vectors/demands.go",
		"LOG_UNEXPLAINED":          "test/watching/watch_test.go",
		"LOG_FORK":                 "test/watching/attacks_test.go",
		"LOG_ROLLBACK":             "test/watching/attacks_test.go",
		"LOG_STALLED":              "test/watching/attacks_test.go",
		"RELEASE_CHANGED":          "test/stories/watch_test.go",
		"WITNESS_FEW":              "test/watching/witness_test.go",
		"WITNESS_SIG":              "test/watching/witness_test.go",
		verdict.LogUnasked:         "test/legacy/lookup_test.go",
		"NEVER_EXCEPTED":           "test/stories/officer_test.go",
		verdict.LogEntryParse:      "test/legacy/lookup_test.go",
		verdict.Level:              "test/stories/levels_test.go",
		verdict.TrustDown:          "pkg/backend/tuf/tuf_test.go",
		"KIT_BASE":                 "test/stories/kit_delta_test.go",
		"KIT_SELF_TRUST":           "test/stories/kit_test.go",
		verdict.Clock:              "pkg/backend/tuf/cache_test.go",
		verdict.LockStale:          "pkg/release/plan/lock_test.go",
		verdict.NotWritable:        "pkg/pipeline/doctor/doctor_test.go",
		"DISK_SPACE":               "pkg/pipeline/doctor/doctor_test.go",
		"DOWNLOAD_DIR":             "pkg/gate/download/hold_test.go",
		"DOWNLOAD_BUSY":            "pkg/gate/download/hold_test.go",
		verdict.Busy:               "pkg/backend/journal/journal_unix_test.go",
		"CREDENTIAL_REFUSED":       "pkg/backend/store/draft/draft_test.go",
		"PLACE_CHANGED":            "test/stories/github_test.go",
		"SBOM_PROFILE":             "pkg/judge/sbomcheck/profile_test.go",
		verdict.ToolMissing:        "pkg/pipeline/doctor/doctor_test.go",
		"PLAN_DIFFERS":             "pkg/release/plan/diff_test.go",
		verdict.IdentityWindow:     "test/stories/policy_evidence_test.go",
		"PARAM_UNKNOWN":            "test/stories/policy_evidence_test.go",
		verdict.ParamValue:         "test/stories/policy_evidence_test.go",
		verdict.RebuildMismatch:    "test/stories/policy_evidence_test.go",
		"TRUST_LAB":                "test/stories/policy_evidence_test.go",
		"POLICY_RULE":              "test/stories/policy_evidence_test.go",
		verdict.PolicyExpired:      "test/stories/policy_evidence_test.go",
		verdict.PolicyVacuous:      "test/stories/policy_evidence_test.go",
		verdict.VSAVerifier:        "test/stories/policy_summary_test.go",
		"VSA_RESOURCE":             "test/stories/policy_summary_test.go",
		"VSA_POLICY":               "test/stories/policy_summary_test.go",
		verdict.VSAResult:          "test/stories/policy_summary_test.go",
		"VSA_LEVEL":                "test/stories/policy_summary_test.go",
		verdict.VSAStale:           "test/stories/policy_summary_test.go",
		verdict.Stale:              "test/stories/policy_release_test.go",
		verdict.PolicySig:          "test/stories/policy_release_test.go",
		verdict.PolicyStale:        "test/stories/policy_release_test.go",
		verdict.PolicyEmpty:        "test/stories/policy_load_test.go",
		"POLICY_CASES":             "test/stories/policy_load_test.go",
		verdict.TraceConflict:      "pkg/report/lineage/lineage_test.go",
		verdict.SignoffSection:     "pkg/govern/signoff/rules_test.go",
		verdict.SignoffEmpty:       "pkg/govern/signoff/rules_test.go",
		verdict.SignoffPlaceholder: "pkg/govern/signoff/rules_test.go",
		verdict.SignoffUnchanged:   "pkg/govern/signoff/rules_test.go",
		verdict.SignoffGuidance:    "pkg/govern/signoff/rules_test.go",
		verdict.SignoffUnresolved:  "pkg/govern/signoff/rules_test.go",
		verdict.SignoffTitle:       "pkg/govern/signoff/rules_test.go",
		verdict.SignoffTOC:         "pkg/govern/signoff/rules_test.go",
		verdict.SignoffLink:        "pkg/govern/signoff/evade_test.go",
		verdict.SignoffStatus:      "pkg/govern/signoff/rules_test.go",
		verdict.SignoffField:       "pkg/govern/signoff/rules_test.go",
		verdict.SignoffApproval:    "pkg/govern/signoff/rules_test.go",
		verdict.SignoffFeature:     "pkg/govern/signoff/registry_test.go",
		verdict.SignoffChecklist:   "pkg/govern/signoff/rules_test.go",
		verdict.SignoffTemplate:    "pkg/govern/signoff/rules_test.go",
		verdict.SignoffDocument:    "pkg/govern/signoff/hostile_test.go",
		"LAYOUT_RULE":              "pkg/judge/intotolayout/intotolayout_test.go",
		"LAYOUT_INSPECTION":        "pkg/judge/intotolayout/intotolayout_test.go",
		verdict.SignoffMissing:     "test/stories/signoff_test.go",
		"UNATTRIBUTED_OUTPUT":      "test/stories/observe_test.go",
		"SOURCE_GONE":              "test/stories/rebuild_test.go",
		"TOOLCHAIN_UNAVAILABLE":    "test/stories/rebuild_test.go",
		"INPUT_GONE":               "test/stories/rebuild_test.go",
		"REBUILD_FAILED":           "pkg/pipeline/rebuild_test.go",
		"REBUILD_CLAIM":            "pkg/pipeline/rebuild_test.go",
		"REBUILDER":                "test/stories/rebuild_test.go",
		"VEX_COMPONENT":            "test/stories/vex_test.go",
		"VEX_EQUIVOCATION":         "test/stories/vex_test.go",
		"VEX_STATEMENT":            "test/stories/vex_test.go",
		"VEX_SUPERSEDED":           "test/stories/vex_test.go",
		verdict.SignoffOther:       "test/stories/signoff_test.go",
		verdict.SignoffExpired:     "test/stories/signoff_test.go",
	}
}

// provokedNowhere says of the others why nothing provokes them.
func provokedNowhere() map[verdict.Code]string {
	return map[verdict.Code]string{
		verdict.SignatureBad: "needs a log that takes in what nobody signed: any other signature is not the one in the log",
	}
}

// TestEveryCodeIsAccountedFor: a new code needs a test that provokes it, or a
// reason why there is none.
func TestEveryCodeIsAccountedFor(t *testing.T) {
	here, elsewhere, nowhere := provokedHere(), provokedElsewhere(), provokedNowhere()
	known := verdict.Codes()
	for _, c := range known {
		places := 0
		for _, m := range []map[verdict.Code]string{here, elsewhere, nowhere} {
			if m[c] != "" {
				places++
			}
		}
		if places != 1 {
			t.Errorf("%s stands in %d of the three tables, want exactly one", c, places)
		}
	}
	if n := len(here) + len(elsewhere) + len(nowhere); n != len(known) {
		t.Errorf("%d codes in the tables, %d in the product", n, len(known))
	}
	tests := testsHere(t)
	for c, name := range here {
		if !slices.Contains(tests, name) {
			t.Errorf("%s: there is no %s here", c, name)
		}
	}
	names := constants(t)
	for c, file := range elsewhere {
		body := string(must[[]byte](t)(os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(file)))))
		if !strings.Contains(body, "verdict."+names[c]) && !strings.Contains(body, strconv.Quote(string(c))) {
			t.Errorf("%s: %s does not expect it", c, file)
		}
	}
}

// unprovoked lists the codes whose test passed without provoking them. It has
// nothing to say of a run that leaves tests out, see [isWhole].
func unprovoked() []error {
	if !isWhole() {
		return nil
	}
	var missing []error
	for c, name := range provokedHere() {
		if !slices.ContainsFunc(observed.by[c], func(by string) bool { return by == name || strings.HasPrefix(by, name+"/") }) {
			missing = append(missing, fmt.Errorf("%s: %s did not provoke it", c, name))
		}
	}
	return missing
}

// testsHere are the tests of this package.
func testsHere(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, path := range must[[]string](t)(filepath.Glob("*_test.go")) {
		file := parsed(t, path)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && strings.HasPrefix(f.Name.Name, "Test") {
				names = append(names, f.Name.Name)
			}
		}
	}
	return names
}

// constants are the names that the codes have in the product.
func constants(t *testing.T) map[verdict.Code]string {
	t.Helper()
	path := filepath.Join("..", "..", "pkg", "value", "verdict", "code.go")
	file := parsed(t, path)
	names := map[verdict.Code]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if lit, ok := spec.Values[0].(*ast.BasicLit); ok {
			if text, err := strconv.Unquote(lit.Value); err == nil {
				names[verdict.Code(text)] = spec.Names[0].Name
			}
		}
		return true
	})
	return names
}
