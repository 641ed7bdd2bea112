package gate

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// compareEarlier refuses fewer kinds of evidence than the earlier release had, and
// other signers. Evidence that the policy asks for must be verified, other evidence
// listed. It returns the lines for a later release, nil if this one has less or is
// not asked about as a whole: "CLASS CHECK", what all of a class have, and
// "CLASS CHECK by SIGNER".
func compareEarlier(s *sealed, j *judge) (lines []string, f facts) {
	var before version.Version
	for v, had := range s.Earlier {
		if len(had) > 0 && v.Less(s.Version) && (before.IsZero() || before.Less(v)) {
			before = v
		}
	}
	say := f.note
	if s.Earlier != nil {
		say = f.tell
	}
	say("Kinds of evidence and signers are compared with those of an earlier release: %s.", cmp.Or(before.String(), "none, because none is remembered"))
	has, lacks, signers, had := map[string]bool{}, map[string]bool{}, signersOf(s, j.v.Proofs), s.Earlier[before]
	_, list := s.manifest.Find(sbomlist.Name)
	for _, a := range append(slices.Clone(s.manifest.Artifacts), manifest.Artifact{Artifact: plan.Artifact{Name: releasemanifest.Name, Class: classManifest}, Signature: releasemanifest.Name}) {
		if !s.covers(a) || !j.holds(a.Name) {
			continue // its own finding decides, or the exception from that
		}
		for check, listed := range map[policy.Check]bool{policy.Provenance: a.Provenance != "", policy.Signature: a.Signature != "" || list && a.Class == plan.SBOM, policy.SBOM: a.SBOM != ""} {
			kind, by := string(a.Class)+" "+string(check), signers[string(check)+" "+a.Name]
			unread := check == policy.SBOM || s.Options.AcceptSummaries || s.Policy.Asks(s.Stage, a.Class, check) == policy.Off
			missing := !listed || !unread && len(by) == 0
			has[kind], lacks[kind] = true, lacks[kind] || missing
			known := len(by) == 0 || !slices.ContainsFunc(had, func(line string) bool { return strings.HasPrefix(line, kind+" by ") })
			for _, who := range by {
				has[kind+" by "+who] = true
				known = known || slices.Contains(had, kind+" by "+who)
			}
			if slices.Contains(had, kind) && missing {
				f.weigh(policy.Regression(s.Policy), verdict.Find(verdict.Regressed, a.Name, "no verified evidence of the kind %q, which all of its class had in %s", kind, before))
			} else if !known {
				f.weigh(policy.Regression(s.Policy), verdict.Find(verdict.Regressed, a.Name, "%q is signed by %s, which signed none of it in %s", kind, strings.Join(by, " and "), before))
			}
		}
	}
	if s.asked != nil || s.Options.Scope.Depth != allEvidence || s.Options.AcceptSummaries || len(f.differences) > 0 && policy.Regression(s.Policy) != policy.Off {
		return nil, f
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(has)), func(line string) bool {
		kind, _, _ := strings.Cut(line, " by ")
		return lacks[kind]
	}), f
}

// signers names who signed what, by check and subject. A workflow that ran for the
// tag of the version has another name in each release.
func signersOf(s *sealed, proofs []verdict.Proof) map[string][]string {
	by, checks := map[string][]string{}, map[string]policy.Check{string(policy.Builder): policy.Provenance, string(policy.Release): policy.Signature}
	for _, p := range proofs {
		key, who := string(checks[p.Role])+" "+p.Subject, p.Issuer+" "+p.Identity+p.Key.String()
		by[key] = append(by[key], strings.TrimSuffix(who, "refs/tags/"+s.Version.String()))
	}
	return by
}
