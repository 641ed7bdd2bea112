package waiver

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// standing says how a list is authenticated.
type standing uint8

const (
	unsigned standing = iota // for explanations only
	carried
	signed
)

// List is a list of known defects and withdrawals. The zero List is empty.
type List struct {
	said     knowndefects.Predicate
	standing standing
	by       string
	evidence digest.Digest // of the bundle, or of the file
	content  digest.Digest // of the contents, independent of their encoding
	proof    verdict.Proof
}

// ParseList reads a list from verified evidence. It must be signed by the
// policy's officer.
func ParseList(e verify.Evidence, p policy.Policy) (List, error) {
	proof, err := p.Judge(e, policy.Ask{Role: policy.Officer, Kind: knowndefects.PredicateType, Subject: "known defects", Whole: true})
	if err != nil {
		return List{}, err
	}
	said, err := knowndefects.Parse(e.Statement())
	if err != nil {
		return List{}, err
	}
	proof.Subject = "known defects " + said.Name
	l, err := newList(said, signed, e.Bundle())
	l.by, l.proof = policy.Who(e).String(), proof
	return l, err
}

// CarriedList reads a list that is embedded in this program. Never pass it a
// file from elsewhere: see [UnsignedList].
func CarriedList(raw []byte) (List, error) {
	l, err := UnsignedList(raw)
	if err != nil {
		return List{}, err
	}
	l.standing, l.by = carried, "carried by this program"
	return l, nil
}

// UnsignedList reads a list in its YAML form. It only explains findings; it
// waives and withdraws nothing, because anybody could have written it.
func UnsignedList(raw []byte) (List, error) {
	said, err := knowndefects.ParseFile(raw)
	if err != nil {
		return List{}, err
	}
	l, err := newList(said, unsigned, digest.Of(digest.SHA256, raw))
	l.by = "an unknown author"
	return l, err
}

func newList(said knowndefects.Predicate, s standing, evidence digest.Digest) (List, error) {
	raw, err := json.Marshal(said)
	if err != nil {
		return List{}, fmt.Errorf("encoding known defects: %w", err)
	}
	return List{said: said, standing: s, evidence: evidence, content: digest.Of(digest.SHA256, raw)}, nil
}

// Name is the name of the list.
func (l List) Name() string { return l.said.Name }

// Sequence is the number of the list; a higher one replaces a lower one of the
// same name.
func (l List) Sequence() int { return l.said.Sequence }

// Digest identifies the contents of the list and its signer; zero for the zero
// List.
func (l List) Digest() digest.Digest {
	if l.content.IsZero() {
		return digest.Digest{}
	}
	return digest.Of(digest.SHA256, fmt.Append(nil, l.content, l.standing, l.by))
}

// StateAt identifies the list and its effect at a time: it changes when the
// list is replaced, when it expires, and when one of its withdrawals begins, so
// that a cached decision must be made again.
func (l List) StateAt(at time.Time) string {
	begun := slice.Count(l.said.Withdrawals, func(gone knowndefects.Withdrawal) bool { return !at.Before(gone.Since) })
	return fmt.Sprintf("%s, %d withdrawals, live %t", l.Digest(), begun, !at.Before(l.said.Issued) && at.Before(l.said.Expires))
}

// Proof is what was proven about the list, and its signer; zero for an unsigned
// list.
func (l List) Proof() verdict.Proof { return l.proof }

// String returns the list's name, number and signer.
func (l List) String() string {
	return fmt.Sprintf("known defects %s number %d, by %s", l.said.Name, l.said.Sequence, l.by)
}

func (l List) waiver(d knowndefects.Defect) verdict.Waiver {
	return verdict.Waiver{
		Kind: verdict.ByDefect, ID: d.ID, Reason: d.Explanation, By: l.by, Expires: l.said.Expires, Evidence: l.evidence,
	}
}

// choose keeps, for every name, the authenticated list with the highest number
// and puts those first. It refuses if two lists with one number differ, or if
// the policy requires a later one.
func (w *work) choose() {
	var chosen, others []List
	for _, l := range w.Lists {
		if l.content.IsZero() {
			continue
		}
		i := slices.IndexFunc(chosen, func(have List) bool { return have.said.Name == l.said.Name })
		switch {
		case l.standing == unsigned:
			others = append(others, l)
		case i < 0:
			chosen = append(chosen, l)
		case chosen[i].said.Sequence == l.said.Sequence && chosen[i].content != l.content:
			w.v.Add(verdict.Find(verdict.PolicyStale, "known defects "+l.said.Name, "two different lists have number %d", l.said.Sequence).
				Citing(chosen[i].evidence, l.evidence))
		case chosen[i].said.Sequence < l.said.Sequence:
			chosen[i], l = l, chosen[i]
			fallthrough
		case chosen[i].said.Sequence > l.said.Sequence:
			w.v.Note("%s: not used, because number %d is newer", l, chosen[i].said.Sequence)
		}
	}
	w.demand(chosen)
	w.Lists = slices.Concat(chosen, others)
	for _, l := range w.Lists {
		w.v.Inputs = append(w.v.Inputs, verdict.Input{Name: l.String(), Digest: l.evidence})
		if l.standing == signed {
			w.v.Proofs = append(w.v.Proofs, l.proof)
		}
		if why := w.idle(l); why != "" {
			w.v.Note("%s: %s; shown for information only", l, why)
		}
	}
}

// demand refuses if the policy requires a list, or a later one, or if the given
// one has expired.
func (w *work) demand(chosen []List) {
	least := w.Policy.Defects()
	if least == 0 {
		return
	}
	late := slices.DeleteFunc(slices.Clone(chosen), func(l List) bool { return l.said.Sequence < least })
	switch live := func(l List) bool { return w.v.Time.Before(l.said.Expires) }; {
	case len(late) == 0:
		w.v.Add(verdict.Find(verdict.PolicyStale, "known defects", "the policy requires a signed list with number %d or later", least))
	case !slices.ContainsFunc(late, live):
		w.v.Add(verdict.Find(verdict.PolicyExpired, "known defects", "the list that the policy requires expired at %s", late[0].said.Expires.Format(time.RFC3339)))
	}
}

// idle says why a list waives nothing in this verdict; "" if it can.
func (w *work) idle(l List) string {
	switch {
	case l.standing == unsigned:
		return "the list is unsigned"
	case w.v.Time.Before(l.said.Issued):
		return "the list is not valid before " + l.said.Issued.Format(time.RFC3339)
	case !w.v.Time.Before(l.said.Expires):
		return "the list expired at " + l.said.Expires.Format(time.RFC3339)
	}
	return ""
}

// explain attaches to each finding the known defect that explains it, if there
// is one.
func (w *work) explain(findings []verdict.Finding) {
	for i := range findings {
		for _, l := range w.Lists {
			for _, d := range l.said.Defects {
				if findings[i].Known == nil && w.explains(d, findings[i]) {
					findings[i].Known = &verdict.Known{ID: d.ID, Explanation: d.Explanation, Source: d.Source}
				}
			}
		}
	}
}

// explains reports whether a defect is about a finding: its code, this version,
// this artifact, and these bytes if it names any.
func (w *work) explains(d knowndefects.Defect, f verdict.Finding) bool {
	if d.Code != f.Code || !d.Versions.Contains(w.Version) || !slices.Contains(d.Artifacts, f.Subject) {
		return false
	}
	s, _ := w.find(f.Subject)
	return len(d.Digests) == 0 || slices.ContainsFunc(d.Digests, s.Digests.SHA256.Equal)
}

// withdraw adds a finding for everything that an authenticated list has
// withdrawn, even if the list has expired.
func (w *work) withdraw() {
	for _, l := range w.Lists {
		for _, gone := range l.said.Withdrawals {
			for _, subject := range w.withdrawn(gone) {
				if l.standing == unsigned {
					w.v.Tell("%s is withdrawn by an unsigned list, which is ignored: %s", subject, gone.Reason)
					continue
				}
				if w.v.Time.Before(gone.Since) {
					w.v.Tell("%s will be withdrawn at %s: %s", subject, gone.Since.Format(time.RFC3339), gone.Reason)
					continue
				}
				f := verdict.Find(verdict.Withdrawn, subject, "withdrawn at %s: %s", gone.Since.Format(time.RFC3339), gone.Reason).Citing(l.evidence)
				f.Known = &verdict.Known{ID: l.said.Name, Explanation: gone.Reason, Source: gone.Source}
				w.v.Add(f)
			}
		}
	}
}

// withdrawn lists the subjects of this case that a withdrawal covers. If no
// release is named in the case, a withdrawal of a digest applies to it in every
// release.
func (w *work) withdrawn(gone knowndefects.Withdrawal) (subjects []string) {
	anyRelease := w.Version.IsZero() && !gone.Digest.IsZero()
	if gone.Version != w.Version.String() && !anyRelease {
		return nil
	}
	if gone.Artifact == "" && gone.Digest.IsZero() {
		return []string{gone.Version}
	}
	for _, s := range w.Subjects {
		named := gone.Artifact == "" || gone.Artifact == s.Name || anyRelease
		if named && (gone.Digest.IsZero() || gone.Digest.Equal(s.Digests.SHA256)) {
			subjects = append(subjects, s.Name)
		}
	}
	return subjects
}
