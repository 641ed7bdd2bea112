package waiver

import (
	"maps"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// exceptable lists the codes that can ever be set aside, and why each can. The
// rule behind it: what is absent, or less than was asked, can be done without
// for a while, if somebody answers for it. What is present and wrong is not a
// matter of opinion, and what is unavailable or unreadable is not yet known. A
// code that is not here, a new one above all, is never set aside.
//
// Left out on purpose, though they sound harmless:
//
//   - BUILD_TYPE, PARAM_UNKNOWN, PARAM_VALUE and SBOM_INCOMPLETE: evidence is
//     asked one thing after the other and refuses at the first, so with these
//     set aside nobody would have asked the rest. Change the policy instead;
//   - MISSING and EVIDENCE_MISSING: something that was sealed is gone;
//   - SBOM_SUBJECT: the SBOM is there, and of other bytes;
//   - EXPIRED, STALE and VSA_STALE: an old release replayed looks just so;
//   - POLICY_RULE: all rules of a policy share it, so one exception would be for
//     every rule;
//   - IDENTITY_WINDOW, RUNNER and TRIGGER: who signed.
var exceptable = map[verdict.Code]string{
	verdict.NoSBOM:       "the list of what is inside is absent; the manifest binds the bytes all the same",
	verdict.NoProvenance: "nobody says how it was built; the release identity answers for the bytes",
	verdict.Unsigned:     "its own signature is absent; the signed manifest lists its bytes",
	verdict.TagConflict:  "a promoter found the tag on another image; the officer answers for moving it to this one, and to no other",
	verdict.Level:        "its provenance is genuine and as expected, and shows a lower level; that is asked last",
}

// Exceptable says why a code can be set aside, and whether it can at all.
func Exceptable(c verdict.Code) (why string, may bool) {
	why, may = exceptable[c]
	return why, may && c.Outcome() == verdict.Refused
}

// Codes lists the codes that can be set aside, for documentation and help.
func Codes() []verdict.Code { return slices.Sorted(maps.Keys(exceptable)) }

// checkCode refuses a code that is never set aside.
func checkCode(c verdict.Code) error {
	if _, may := Exceptable(c); !may {
		return verdict.Refuse(verdict.NeverExcepted, string(c), "findings of this code are never set aside; these can be: %v", Codes())
	}
	return nil
}
