package gate

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// onceVerified verifies each bundle once: one provenance is attached to every
// image that the build made.
type onceVerified struct {
	verifier
	kept atonce.Memo[verify.Evidence] // by the digest of the bundle
}

// Attestation implements [verifier].
func (o *onceVerified) Attestation(raw []byte) (verify.Evidence, error) {
	return o.kept.Get(digest.Of(digest.SHA256, raw).String(), func() (verify.Evidence, error) { return o.verifier.Attestation(raw) })
}

// readReferrers adds the provenance and the verification summaries that refer to
// an image to its item, and returns all statements that do. A policy that asks for
// neither has none read. If they cannot be read, there may be some.
func (u unsealed) readReferrers(ctx context.Context, p pulled, i *item) (all []verify.Evidence) {
	asks := func(check policy.Check) bool { return u.Policy.Asks(u.Stage, p.class, check) != policy.Off }
	if !asks(policy.Provenance) && !asks(policy.Summary) {
		return nil
	}
	a, err := readAttached(ctx, u.once, registry.Target{Source: u.Images, Repository: p.repository, Digest: p.digest})
	if err == nil && a.unread > 0 {
		err = verdict.Refuse(verdict.Limit, p.name, "the attached bundles are together too large; not read: the largest %d", a.unread)
	}
	if err != nil {
		i.question.Why[policy.Provenance], i.question.Why[policy.Summary] = about(p.name, err), about(p.name, err)
		return nil
	}
	for _, e := range a.holds {
		if kind := e.Kind(); kind == vsa.PredicateType || strings.HasPrefix(kind, provenancePrefix) {
			i.evidence = append(i.evidence, e)
		}
	}
	return slices.Concat([]verify.Evidence{}, a.holds)
}

// provenancePrefix begins the predicate types of all versions of provenance.
const provenancePrefix = "https://slsa.dev/provenance/"

// attachments counts what refers to the images.
type attachments struct {
	images, ignored     int
	provenance, summary map[string]int // images with some that counts, by signer
	levels              map[string]int
	late                map[string]int // by predicate type and signer
}

// countAttached counts the statements that refer to the judged images. Late
// evidence is of a kind and by a role that the policy lists. All others are
// foreign: anyone who can write to the registry can attach some.
func countAttached(by policy.Policy, images []pulled, items []item) attachments {
	a := attachments{provenance: map[string]int{}, summary: map[string]int{}, levels: map[string]int{}, late: map[string]int{}}
	for n, p := range images {
		i := items[n]
		if i.attached == nil || !i.isProven() {
			continue
		}
		a.images++
		counts := map[digest.Digest]bool{}
		for _, proof := range i.answer.Proofs {
			counts[proof.Bundle] = true
			if proof.Role == string(policy.Builder) {
				a.provenance[proof.Identity]++
			}
		}
		for _, e := range i.attached {
			q := i.question
			switch {
			case !counts[e.Bundle()] && e.CoversBytes(p.digest) && by.IsLate(e, q):
				a.late[e.Kind()+" by "+policy.Who(e).Subject]++
			case !counts[e.Bundle()]:
				a.ignored++
			case e.Kind() == vsa.PredicateType:
				a.summary[policy.Who(e).Subject]++
				a.countLevels(e)
			}
		}
	}
	return a
}

func (a attachments) countLevels(e verify.Evidence) {
	said, err := vsa.Parse(e.Statement())
	if err != nil {
		return // the policy has parsed it
	}
	for _, l := range said.Levels {
		word := string(l)
		if l.Track() == "" {
			word = fmt.Sprintf("%.100q, which is no SLSA level and does not count", word)
		}
		a.levels[word]++
	}
}

// note reports what refers to the images.
func (a attachments) note(f *facts) {
	if a.images == 0 {
		return
	}
	of := plural.Of(a.images, "manifest")
	for _, who := range slices.Sorted(maps.Keys(a.provenance)) {
		f.note("provenance of images: signed by %s for %d of %s", who, a.provenance[who], of)
	}
	for _, who := range slices.Sorted(maps.Keys(a.summary)) {
		f.note("verification summaries of images: PASSED, signed by %s for %d of %s", who, a.summary[who], of)
	}
	words := slices.SortedFunc(maps.Keys(a.levels), func(x, y string) int {
		return cmp.Or(cmp.Compare(strings.IndexByte(x, '"'), strings.IndexByte(y, '"')), cmp.Compare(x, y))
	})
	for _, word := range words {
		f.note("verification summaries of images: level for %d of %s: %s", a.levels[word], of, word)
	}
	for _, kind := range slices.Sorted(maps.Keys(a.late)) {
		f.note("late evidence of images, as the policy allows: %d of %s", a.late[kind], kind)
	}
	if a.ignored > 0 {
		f.note("ignored %s of images that the policy does not list, or that are about something else", plural.Of(a.ignored, "attached statement"))
	}
}

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
