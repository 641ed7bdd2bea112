package gate

import (
	"bytes"
	"strings"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// bundleType begins the media type of every Sigstore bundle.
const bundleType = "application/vnd.dev.sigstore.bundle"

// readProvenance reads the provenance of the files: a Sigstore bundle, whose
// signature is verified, or, as published before, a statement without signature.
// What looks like a bundle is never read as an unsigned statement.
func (u unsealed) readProvenance(raw []byte, f *facts) (k8slayout.Witness, error) {
	const name = k8slayout.Provenance
	if !bytes.Contains(raw, []byte(bundleType)) {
		statement, err := intoto.ParseOpen(raw)
		if err != nil {
			return k8slayout.Witness{}, err
		}
		return readUnsigned(statement, u.Version, f)
	}
	e, err := u.signedProvenance(name, raw, f)
	if err != nil {
		return k8slayout.Witness{}, err
	}
	if !judgesProvenance(u.Policy) {
		return readUnsigned(e.Statement(), u.Version, f)
	}
	session := u.Policy.NewSession()
	rate(e.Statement(), "signed by "+e.Identity().Subject, f, func(s intoto.Subject) (slsa.Report, error) {
		q := u.question(k8slayout.KindOf(name).Class, name, s.Digests)
		q.ByDigest = true
		return session.Level(e, q)
	})
	w, err := k8slayout.ReadProvenance(name, e.Statement(), u.Version)
	return w.BySigner(), err
}

// judgesProvenance reports whether the policy says who signs provenance. A
// policy that does not was written for unsigned provenance.
func judgesProvenance(p policy.Policy) bool { return len(p.Expected(policy.Builder)) > 0 }

// signedProvenance verifies a bundle with provenance. Its signer must be one of
// the builder that it names, and source, build type and parameters those of the
// policy.
func (u unsealed) signedProvenance(name string, raw []byte, f *facts) (verify.Evidence, error) {
	e, err := u.Verifier.Attestation(raw)
	if err != nil {
		return verify.Evidence{}, err
	}
	if !judgesProvenance(u.Policy) {
		f.note("%s is signed by %s, but the policy lists no builder, so the signature does not count", name, policy.Who(e))
		return e, nil
	}
	if err := u.Policy.Provenance(e, u.Version.String()); err != nil {
		return verify.Evidence{}, err
	}
	proof, err := u.Policy.Judge(e, policy.Ask{Role: policy.Builder, Kind: e.Kind(), Stage: u.Stage, Subject: name, Whole: true})
	if err != nil {
		return verify.Evidence{}, err
	}
	if err := lint(e.Statement(), name, f); err != nil {
		return verify.Evidence{}, err
	}
	f.proofs = append(f.proofs, proof)
	return e, nil
}

// lint notes what is unusual in provenance.
func lint(statement intoto.Statement, name string, f *facts) error {
	claim, err := provenance.Read(statement)
	if err != nil {
		return err
	}
	for _, note := range provenance.LintPredicate(claim) {
		f.note("lint of %s: %s", name, note)
	}
	return nil
}

// readUnsigned reads unsigned provenance. It only shows that provenance exists;
// the verdict lists all requirements of SLSA.
func readUnsigned(statement intoto.Statement, v version.Version, f *facts) (k8slayout.Witness, error) {
	const name = k8slayout.Provenance
	if err := lint(statement, name, f); err != nil {
		return k8slayout.Witness{}, err
	}
	rate(statement, "unsigned", f, func(s intoto.Subject) (slsa.Report, error) {
		return slsa.Trust{}.Judge(slsa.Question{Name: s.Name, Bytes: s.Digests, Unsigned: statement})
	})
	return k8slayout.ReadProvenance(name, statement, v)
}

// rate reports the SLSA levels of the first subject: one provenance shows the
// same for all of them.
func rate(statement intoto.Statement, basis string, f *facts, judge func(intoto.Subject) (slsa.Report, error)) {
	const name = k8slayout.Provenance
	for _, s := range statement.Subjects() {
		if s.Digests.IsZero() {
			continue
		}
		report, err := judge(s)
		if err != nil {
			f.note("%s: shows no level: %v", name, err)
			return
		}
		for _, track := range tracks() {
			on := report.On(track)
			var joined verdict.Levels
			joined.Join(on)
			f.levels = append(f.levels, joined)
			if track == slsa.Source {
				continue
			}
			f.note("%s is %s and shows level %d of SLSA %s at most; level %d fails for %s", name, basis, on.Level, track, on.Level+1, strings.Join(on.Next, ", "))
		}
		return
	}
}
