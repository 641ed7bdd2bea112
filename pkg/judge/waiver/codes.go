package waiver

import (
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// exceptable lists the codes that can be waived, with the reason. The rule:
// what is absent, or less than required, can be accepted for a while if
// somebody takes responsibility. What is present and wrong cannot, and what is
// unavailable or unreadable is not yet known. A code that is not in this table,
// including every new one, is never waived.
//
// Left out on purpose, though they sound harmless:
//
//   - BUILD_TYPE, PARAM_UNKNOWN, PARAM_VALUE and SBOM_INCOMPLETE: checks of
//     evidence stop at the first failure, so waiving one of these would skip
//     the checks after it. Change the policy instead;
//   - MISSING and EVIDENCE_MISSING: something that was sealed is gone;
//   - SBOM_SUBJECT: the SBOM is present, but describes other bytes;
//   - EXPIRED, STALE and VSA_STALE: a replayed old release looks the same;
//   - POLICY_RULE: all rules of a policy share it, so one exception would waive
//     every rule;
//   - IDENTITY_WINDOW, RUNNER and TRIGGER: they are about the signer.
var exceptable = map[verdict.Code]string{
	verdict.NoSBOM:       "only the list of contents is absent; the manifest still binds the bytes",
	verdict.NoProvenance: "no builder says how it was built; the release identity takes responsibility for the bytes",
	verdict.Unsigned:     "the artifact's own signature is absent; the signed manifest lists its bytes",
	verdict.TagConflict:  "a promoter found the tag on another image; the policy officer takes responsibility for moving it to this one only",
	verdict.Regressed:    "verified, but of fewer kinds or by another signer than in the release before; all that the policy requires is still checked",
	verdict.Level:        "the provenance is authentic and as expected, but shows a lower level; this check is the last",
}

// Exceptable says why a code can be waived, and whether it can at all.
func Exceptable(c verdict.Code) (why string, may bool) {
	why, may = exceptable[c]
	return why, may && c.Outcome() == verdict.Refused
}

// Codes lists the codes that can be waived, for documentation and help.
func Codes() []verdict.Code { return slices.Sorted(maps.Keys(exceptable)) }

// checkCode refuses a code that can never be waived.
func checkCode(c verdict.Code) error {
	if _, may := Exceptable(c); !may {
		return verdict.Refuse("NEVER_EXCEPTED", string(c), "findings of this code cannot be waived; codes that can: %v", Codes())
	}
	return nil
}
