package gate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"github.com/waybill-release/waybill/pkg/census"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/expected"
	"github.com/waybill-release/waybill/pkg/intoto"
	"github.com/waybill-release/waybill/pkg/legacy"
	"github.com/waybill-release/waybill/pkg/order"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/slsa"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
)

const (
	// maxUnsealed bounds a file of a release whose sizes nobody signed, and
	// maxUnsealedSum all of them together.
	maxUnsealed    = 4 << 30
	maxUnsealedSum = 64 << 30
	// maxAsked is how many signatures wait for a log side by side.
	maxAsked = 16
)

// gather reads everything else that says what belongs to the release. What can
// not be read is a finding, and the others are heard all the same.
func (u *unsealed) gather(ctx context.Context) error {
	witnesses := []expected.Witness{expected.Layout(), u.signed}
	for _, from := range []struct {
		name string
		read func(name string, raw []byte) (expected.Witness, error)
	}{
		{expected.SHA256Sums, u.readSums}, {expected.SHA512Sums, u.readSums}, {expected.Provenance, u.readProvenance},
	} {
		raw, err := store.Read(ctx, u.Files, from.name, maxDocument)
		if errors.Is(err, store.ErrNotFound) {
			continue // the layout names it, so it is missing
		}
		var w expected.Witness
		if err == nil {
			u.note(from.name, digest.Of(digest.SHA256, raw))
			w, err = from.read(from.name, raw)
		}
		if err == nil {
			_, err = expected.Of(w)
		}
		if err != nil {
			u.fail(from.name, about(from.name, err))
			continue
		}
		witnesses = append(witnesses, w)
	}
	if !u.list.IsZero() {
		witnesses = append(witnesses, u.list.Witness())
	}
	var err error
	u.set, err = expected.Of(witnesses...)
	return err
}

// note remembers a document as it was read.
func (u *unsealed) note(name string, sum digest.Digest) {
	u.read[name] = sum
	u.v.Inputs = append(u.v.Inputs, verdict.Input{Name: name, Place: u.Files.URI(), Digest: sum})
}

func (u *unsealed) readSums(name string, raw []byte) (expected.Witness, error) {
	return expected.ParseSums(name, raw, u.Version)
}

// readProvenance reads what nobody signed. It shows that there is provenance,
// and of the requirements of SLSA no more than that: the verdict has them all.
func (u *unsealed) readProvenance(name string, raw []byte) (expected.Witness, error) {
	statement, err := intoto.ParseOpen(raw)
	if err != nil {
		return expected.Witness{}, err
	}
	claim, err := provenance.Read(statement)
	if err != nil {
		return expected.Witness{}, err
	}
	for _, note := range provenance.LintPredicate(claim) {
		u.v.Note("%s says of itself: %s", name, note)
	}
	u.rate(name, statement)
	return expected.ReadProvenance(name, statement, u.Version)
}

// rate answers the requirements of SLSA for the first subject: what nobody
// signed shows the same of all of them.
func (u *unsealed) rate(name string, statement intoto.Statement) {
	for _, s := range statement.Subjects() {
		if s.Digests.IsZero() {
			continue
		}
		report, err := slsa.Trust{}.Judge(slsa.Question{Name: s.Name, Bytes: s.Digests, Unsigned: statement})
		if err != nil {
			u.v.Note("%s: no level can be read from it: %v", name, err)
			return
		}
		u.v.Levels = append(u.v.Levels, report.On(slsa.Build))
		for _, track := range []slsa.Track{slsa.Build, slsa.V01} {
			on := report.On(track)
			u.v.Note("%s is unsigned: no more than level %d of SLSA %s is shown of any file; level %d fails for %s", name, on.Level, track, on.Level+1, strings.Join(on.Next, ", "))
		}
		return
	}
}

// witnessed says how much a witness names, and how far it is to be believed.
func witnessed(w expected.Witness) string {
	word := "unsigned"
	switch {
	case w.Independent():
		word = "read in the source"
	case w.Name() == expected.ReleaseSBOM:
		word = "signed"
	case w.Name() == expected.Layout().Name():
		word = "what every release has"
	}
	return fmt.Sprintf("%s (%d, %s)", w.Name(), w.Len(), word)
}

// checkFiles hashes what is there once, and holds it against all witnesses.
func (u *unsealed) checkFiles(ctx context.Context) {
	objects, listed := u.listUnsealed(ctx)
	objects = u.asksAbout(objects)
	items := u.hashUnsealed(ctx, objects)
	for _, item := range items {
		if u.digests[item.Name] = item.Digests; !item.Digests.IsZero() {
			u.kept = append(u.kept, item.Name)
		}
		if was, read := u.read[item.Name]; read && !was.Equal(item.Digests.SHA256) {
			u.add(verdict.Find(verdict.Tampered, item.Name, "it changed while it was read").Differ(was.String(), item.Digests.SHA256.String()))
		}
	}
	u.v.Inputs = append(u.v.Inputs, verdict.Input{Name: "files", Place: u.Files.URI()})
	for _, f := range u.set.Compare(items) {
		u.add(f)
	}
	u.checkTags()
	if !listed {
		u.v.Scope.Left = append(u.v.Scope.Left, "extra files: the place can not be listed, so nobody looked")
	}
	signed := 0
	for _, name := range u.set.Names() {
		if expected.KindOf(name).Signed {
			signed++
		}
	}
	u.v.Note("%d of %d objects are signed files; the others are their signatures, and unsigned sums, sidecars, tags and documents, which prove nothing", signed, len(objects))
}

// listUnsealed returns what is in the place. Where it can not be listed, every
// name that is expected is tried.
func (u *unsealed) listUnsealed(ctx context.Context) ([]store.Object, bool) {
	objects, err := u.Files.List(ctx)
	if err == nil {
		return objects, true
	}
	if !errors.Is(err, store.ErrNotListable) || u.Policy.Closes(policy.Files) == policy.Require {
		u.v.AddError(u.Files.URI(), err)
	}
	for _, name := range u.set.Names() {
		objects = append(objects, store.Object{Name: name})
		if expected.KindOf(name).Summed {
			objects = append(objects, store.Object{Name: name + ".sha256"}, store.Object{Name: name + ".sha512"})
		}
	}
	order.Sort(objects, func(a, b store.Object) int { return cmp.Compare(a.Name, b.Name) })
	return slices.CompactFunc(objects, func(a, b store.Object) bool { return a.Name == b.Name }), false
}

// hashUnsealed reads every object to its end. Signatures are read where they
// are needed, and what nobody expects is not read: that it is there is enough
// to refuse.
func (u *unsealed) hashUnsealed(ctx context.Context, objects []store.Object) []census.Item {
	reads := map[string]bool{}
	for _, name := range u.set.Names() {
		reads[name], reads[name+".sha256"], reads[name+".sha512"] = true, true, true
	}
	h := hashing{place: u.Files, all: u.comparesAll(), tell: u.Options.Progress, left: new(atomic.Int64)}
	h.left.Store(maxUnsealedSum)
	items, errs := h.sum(ctx, objects, reads, u.most)
	var there []census.Item
	for i, err := range errs {
		switch {
		case err == nil:
			there = append(there, items[i])
		case !errors.Is(err, store.ErrNotFound):
			u.fail(items[i].Name, err)
			there = append(there, census.Item{Name: items[i].Name}) // it is there, and could not be read
		}
	}
	return there
}

// most is how large a file can be. No document says the size of one; but what
// the SBOM, which is signed, gives no bytes for is a document, or refused for
// that.
func (u *unsealed) most(o store.Object) int64 {
	if u.signed.Bytes(o.Name).IsZero() {
		return maxDocument
	}
	return maxUnsealed
}

// checkSignatures asks the policy about each file, with the signature beside
// it. Files that are bad already are left out: their evidence is of other
// bytes, and what is wrong with them was said. A signature says neither name nor
// version: what it holds of, the SBOM must give for the name.
func (u *unsealed) checkSignatures(ctx context.Context) {
	var due []string
	for _, name := range u.set.Names() {
		if len(policy.ChecksOf(expected.KindOf(name).Class)) > 0 && (u.given == nil || u.given[name] != "") {
			due = append(due, name)
		}
	}
	answers := make([]*verdict.Verdict, len(due))
	var group errgroup.Group
	group.SetLimit(maxAsked) // they wait for a log, not for a processor
	for i, name := range due {
		if u.bad[name] || u.digests[name].IsZero() {
			continue
		}
		group.Go(func() error {
			answers[i] = u.judgeFile(ctx, name)
			return nil
		})
	}
	_ = group.Wait() // no function returns an error: all are answers
	for i, name := range due {
		class := expected.KindOf(name).Class
		if expected.KindOf(name).Signed && proves(answers[i]) {
			if err := u.bindFile(ctx, name); err != nil {
				u.fail(name, err)
			}
		}
		u.judged(class, name, answers[i])
		if proves(answers[i]) && !u.bad[name] {
			u.proves(name)
		}
	}
}

// proves reports whether an answer accepts something by evidence.
func proves(answer *verdict.Verdict) bool {
	return answer != nil && answer.Outcome() == verdict.Accepted && len(answer.Proofs) > 0
}

// judgeFile asks the policy about one file, with the signature beside it.
func (u *unsealed) judgeFile(ctx context.Context, name string) *verdict.Verdict {
	q := u.question(expected.KindOf(name).Class, name, u.digests[name])
	var evidence []verify.Evidence
	if e, err := u.signature(ctx, name); err == nil {
		evidence = append(evidence, e)
	} else {
		q.Why[policy.Signature] = about(name, err)
	}
	return u.hearing.Decide(evidence, q)
}

// about names the file in a refusal that speaks of a part of its evidence.
func about(name string, err error) error {
	var refusal *verdict.Error
	if !errors.As(err, &refusal) || refusal.Finding.Subject == name {
		return err
	}
	f := refusal.Finding
	f.Subject, f.Message = name, f.Subject+": "+f.Message
	return &verdict.Error{Finding: f, Cause: err}
}

// signature proves the signature that lies beside a file, with its
// certificate.
func (u *unsealed) signature(ctx context.Context, name string) (verify.Evidence, error) {
	var parts [2][]byte
	for i, suffix := range []string{expected.SignatureSuffix, expected.CertificateSuffix} {
		raw, err := store.Read(ctx, u.Files, name+suffix, legacy.MaxCertificate)
		if errors.Is(err, store.ErrNotFound) {
			return verify.Evidence{}, verdict.Refuse(verdict.Unsigned, name, "there is no %s beside it", name+suffix).Advise(unsignedAct)
		}
		if err != nil {
			return verify.Evidence{}, err
		}
		parts[i] = raw
	}
	m, err := legacy.ParseFiles(legacy.Certificate, u.digests[name].SHA256, parts[0], parts[1])
	if err != nil {
		return verify.Evidence{}, err
	}
	return u.finder.Prove(ctx, m, func(bundle []byte) (verify.Evidence, error) {
		return u.Verifier.Blob(bundle, u.digests[name])
	})
}
