// Package verdict has the one result type of Waybill.
//
// A [Verdict] answers one question ("is release v1.2.3 complete?"). It lists
// every [Finding], counts what was verified against what was required, and
// names by digest everything the answer is based on: policy, trust root, inputs
// and the time of judgement. The terminal, JSON, an HTTP answer and a
// verification summary all print this same value.
//
// The zero Verdict is [Undecided], which is not acceptance. Acceptance is
// never stored; [Verdict.Outcome] derives it from what was counted and proven,
// so a verdict that was not filled in cannot pass, and neither can one that
// counts artifacts and has no [Proof]:
//
//	v := verdict.New("release lantern v0.1.0", at)
//	v.Counts.Required++
//	v.Add(verdict.Find(verdict.Missing, "bin/linux/amd64/lantern", "not in the place"))
//	v.Outcome() // Refused
//
// The package does not use terminals, files or the network.
package verdict

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Schema names the JSON form of a Verdict.
const Schema = "waybill/verdict/v1"

// Outcome is the answer a Verdict gives.
type Outcome uint8

// The outcomes. The zero value decides nothing.
const (
	Undecided Outcome = iota
	Accepted
	Refused
	Malformed
	Unavailable
	Internal
)

// String returns the outcome as one lower-case word.
func (o Outcome) String() string {
	return cmp.Or(map[Outcome]string{
		Accepted: "accepted", Refused: "refused", Malformed: "malformed", Unavailable: "unavailable", Internal: "internal",
	}[o], "undecided")
}

// MarshalText writes the outcome as its word.
func (o Outcome) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// Finding is one reason not to accept, with the details to examine it offline and
// the next act.
type Finding struct {
	Code     Code            `json:"code"`
	Subject  string          `json:"subject"`
	Message  string          `json:"message"`
	Want     string          `json:"want,omitempty"`
	Got      string          `json:"got,omitempty"`
	Evidence []digest.Digest `json:"evidence,omitempty"`
	Fix      string          `json:"fix"`
	// Known explains the finding, where a list of known defects does.
	Known *Known `json:"known,omitempty"`
}

// Find makes a finding with the producer's next act of the code table.
func Find(code Code, subject, format string, args ...any) Finding {
	return Finding{Code: code, Subject: subject, Message: shortened(fmt.Sprintf(format, args...)), Fix: code.Fix()}
}

// maxWord is how many bytes of a name a message shows, and shownEnd how many of
// them are its end.
const maxWord, shownEnd = 200, 50

// shortened cuts the middle out of words that are too long to read, such as paths
// of an attacker.
func shortened(text string) string {
	if len(text) <= maxWord {
		return text
	}
	var out strings.Builder
	for part := range strings.SplitAfterSeq(text, " ") {
		word, space := part, ""
		if strings.HasSuffix(part, " ") {
			word, space = part[:len(part)-1], " "
		}
		if len(word) > maxWord {
			word = strings.ToValidUTF8(word[:maxWord-shownEnd], "") + "…" + strings.ToValidUTF8(word[len(word)-shownEnd:], "")
		}
		out.WriteString(word + space)
	}
	return out.String()
}

// Differ returns f with the value that was wanted and the one that was got.
func (f Finding) Differ(want, got string) Finding {
	f.Want, f.Got = want, got
	return f
}

// Advise returns f with another next act than that of the code table.
func (f Finding) Advise(act string) Finding {
	f.Fix = act
	return f
}

// Citing returns f with the digests of the evidence that it speaks of.
func (f Finding) Citing(evidence ...digest.Digest) Finding {
	f.Evidence = append(slices.Clone(f.Evidence), evidence...)
	return f
}

// Counts says how much was required and how much of it was proven.
type Counts struct {
	Verified int `json:"verified"`
	Required int `json:"required"`
	Missing  int `json:"missing"`
	Extra    int `json:"extra"`
	// Excepted counts artifacts that are not proven, and all of whose findings
	// were set aside.
	Excepted int `json:"excepted,omitempty"`
}

// String prints the counts the way every output carries them.
func (c Counts) String() string {
	text := fmt.Sprintf("verified=%d required=%d missing=%d extra=%d", c.Verified, c.Required, c.Missing, c.Extra)
	if c.Excepted != 0 {
		text += fmt.Sprintf(" excepted=%d", c.Excepted)
	}
	return text
}

// Group counts the artifacts of one kind: how many are required and verified.
type Group struct {
	Name     string `json:"name"`
	Verified int    `json:"verified"`
	Required int    `json:"required"`
}

// Object is one file or image that is counted. Proofs about it have its name as
// their subject; without any, the signed manifest lists it.
type Object struct {
	Name     string        `json:"name"`
	Class    string        `json:"class"`
	Digest   digest.Digest `json:"digest,omitzero"`
	Verified bool          `json:"verified"`
}

// Scope lists the requested checks. Only a full scope is called complete.
type Scope struct {
	Checks []string `json:"checks"`
	// Digests are those by which the bytes of files were compared.
	Digests []digest.Algorithm `json:"digests,omitempty"`
	// Left lists what this verdict does not cover and a full one would.
	Left []string `json:"left,omitempty"`
	// NotRequired are those of Left that the policy does not require. The others
	// were left out by the question, or cannot be checked.
	NotRequired []string `json:"notRequired,omitempty"`
}

// Input names one document or place that the verdict is based on.
type Input struct {
	Name   string        `json:"name"`
	Place  string        `json:"place,omitempty"`
	Digest digest.Digest `json:"digest,omitzero"`
}

// Proof is what one piece of verified evidence proved.
type Proof struct {
	Subject   string `json:"subject"`
	Statement string `json:"statement"`
	Role      string `json:"role"`
	Identity  string `json:"identity"`
	Issuer    string `json:"issuer"`
	// SignedAt is zero without a trusted time.
	SignedAt time.Time `json:"signedAt,omitzero"`
	LogIndex int64     `json:"logIndex"`
	// Log is the identifier, in the trust root, of the log that LogIndex
	// counts in; hexadecimal.
	Log    string        `json:"log,omitempty"`
	Bundle digest.Digest `json:"bundle"`
	// Key is the long-lived key that signed, if no identity did.
	Key digest.Digest `json:"key,omitzero"`
	// Claims are what the certificate states about the run that signed, by name.
	Claims map[string]string `json:"claims,omitempty"`
}

// IsZero reports whether p proves nothing: a proof names its evidence.
func (p Proof) IsZero() bool { return p.Bundle.IsZero() }

// VEX is what an OpenVEX document says about products of a release. It informs: it
// removes no finding.
type VEX struct {
	Vulnerability string   `json:"vulnerability"`
	Status        string   `json:"status"`
	Justification string   `json:"justification,omitempty"`
	Products      []string `json:"products"`
	Components    []string `json:"components,omitempty"`
	Signer        string   `json:"signer"`
	// Issued is when it was stated, which is not later than the signature.
	Issued   time.Time     `json:"issued"`
	Document string        `json:"document"`
	Version  int           `json:"version"`
	Place    string        `json:"place"` // the file, or the image that has it
	Bundle   digest.Digest `json:"bundle,omitzero"`
	// Entry is that of the signature in a transparency log, as LOG/INDEX.
	Entry string `json:"entry,omitempty"`
	// Superseded says that a newer one about the same products was found.
	Superseded bool `json:"superseded,omitempty"`
}

// About is x about other products.
func (x VEX) About(products []string) VEX {
	x.Products = products
	return x
}

// String is x in one line.
func (x VEX) String() string {
	text := fmt.Sprintf("VEX %s: %s", x.Vulnerability, strings.TrimSpace(x.Status+" "+x.Justification))
	if x.Superseded {
		text += ", superseded"
	}
	of := plural.Of(len(x.Products), "product")
	if len(x.Products) < 4 {
		of = strings.Join(x.Products, ", ")
	}
	if len(x.Components) > 0 {
		of += "; " + strings.Join(x.Components, ", ")
	}
	return fmt.Sprintf("%s; %s; version %d by %s on %s", text, of, x.Version, cmp.Or(x.Signer, "an unverified signer"), x.Issued.Format(time.DateOnly))
}

// Verdict is the answer to one question.
type Verdict struct {
	Question string `json:"question"`
	// Subject is what the question is about, in a few words, such as "lantern
	// v0.1.0"; empty if the question is as short.
	Subject string    `json:"subject,omitempty"`
	Time    time.Time `json:"time"`
	// Sentences are for every reader: they need no knowledge of the subject, and
	// are printed below the headline.
	Sentences []string `json:"sentences,omitempty"`
	// Basis is what acceptance must be based on; the zero Basis requires a proof.
	Basis  Basis  `json:"basis,omitempty"`
	Scope  Scope  `json:"scope"`
	Counts Counts `json:"counts"`
	// Groups are everything that is counted, by kind, if there are several kinds.
	Groups []Group `json:"groups,omitempty"`
	// Objects are the files and images of a release that are counted.
	Objects []Object `json:"objects,omitempty"`
	// Source is the repository and the commit that a signed manifest names.
	Source   string    `json:"source,omitempty"`
	Findings []Finding `json:"findings"`
	// Warnings are findings of checks that the policy asks to be warned about.
	Warnings []Finding `json:"warnings,omitempty"`
	// Waived are findings that were set aside, with who did and why.
	Waived []Waiver `json:"waived,omitempty"`
	Notes  []string `json:"notes,omitempty"`
	Proofs []Proof  `json:"proofs,omitempty"`
	Levels []Levels `json:"levels,omitempty"`
	// VEX are the statements about vulnerabilities.
	VEX []VEX `json:"vex,omitempty"`
	// Least is the lowest level of all built artifacts; nil if levels were not
	// evaluated.
	Least  *Least        `json:"least,omitempty"`
	Inputs []Input       `json:"inputs,omitempty"`
	Policy digest.Digest `json:"policy,omitzero"`
	// Features are the requirements of the policy that can be switched on and off.
	Features  []Feature     `json:"features,omitempty"`
	TrustRoot digest.Digest `json:"trustRoot,omitzero"`
}

// NewCheck starts a verdict on a question that no signature answers: whether a
// document has the right form, whether a program can be started. Its acceptance
// says nothing about who made anything.
func NewCheck(question string, at time.Time) *Verdict {
	v := New(question, at)
	v.Basis = Checked
	return v
}

// New starts a verdict on a question, judged at a time. Nothing is proven yet.
func New(question string, at time.Time) *Verdict {
	return &Verdict{Question: question, Time: at.UTC().Truncate(time.Second), Scope: Scope{Checks: []string{}}, Findings: []Finding{}}
}

// Add records findings and counts those of missing and extra artifacts.
func (v *Verdict) Add(findings ...Finding) {
	for _, f := range findings {
		switch f.Code {
		case Missing, PlanMissing, SealMissing:
			v.Counts.Missing++
		case Extra, PlanExtra, SealExtra:
			v.Counts.Extra++
		}
		v.Findings = append(v.Findings, f)
	}
}

// AddError records err as a finding about subject. An error without a finding is
// recorded as a bug in Waybill: see [FindingOf].
func (v *Verdict) AddError(subject string, err error) {
	if err != nil {
		v.Add(FindingOf(subject, err))
	}
}

// Note records something worth reading that does not affect acceptance.
func (v *Verdict) Note(format string, args ...any) {
	v.Notes = append(v.Notes, fmt.Sprintf(format, args...))
}

// Tell adds a sentence for every reader.
func (v *Verdict) Tell(format string, args ...any) {
	v.Sentences = append(v.Sentences, fmt.Sprintf(format, args...))
}

// Lab is the sentence which says that anybody can have the keys of the trust root;
// empty if it is no lab's. Every form of a verdict has it.
func (v Verdict) Lab() string {
	return slice.First(v.Sentences, func(sentence string) bool { return strings.Contains(sentence, "INSECURE LAB") })
}

// Outcome derives the answer from the worst finding: a bug in Waybill, malformed
// input, a refusal, then an unreachable service. Without findings, acceptance needs
// at least one proven requirement, each other one proven or excepted, and what the
// [Basis] requires; otherwise nothing is decided.
func (v Verdict) Outcome() Outcome {
	worst := Undecided
	for _, f := range v.unwaived() {
		if k := f.Code.Outcome(); rank(k) > rank(worst) {
			worst = k
		}
	}
	if worst != Undecided {
		return worst
	}
	if v.Counts.Required > 0 && v.Counts.Verified > 0 && v.Counts.Verified+v.excepted() >= v.Counts.Required && v.meetsBasis() {
		return Accepted
	}
	return Undecided
}

func rank(o Outcome) int {
	return slices.Index([]Outcome{Undecided, Accepted, Unavailable, Refused, Malformed, Internal}, o)
}

// Complete reports whether the verdict accepts all of a release, with no finding
// set aside, no warning and nothing unsigned.
func (v Verdict) Complete() bool {
	return v.Outcome() == Accepted && !v.Unsigned() && len(v.Scope.Left)+len(v.Warnings)+len(v.Waived) == 0
}

// Err returns nil if and only if the verdict accepts.
func (v Verdict) Err() error {
	if v.Outcome() == Accepted {
		return nil
	}
	return &NotAcceptedError{Verdict: v}
}

// NotAcceptedError is a verdict seen as an error.
type NotAcceptedError struct{ Verdict Verdict }

// Error is the headline and the first finding.
func (e *NotAcceptedError) Error() string {
	msg := e.Verdict.Headline()
	if n := len(e.Verdict.Findings); n > 0 {
		f := e.Verdict.Findings[0]
		msg += fmt.Sprintf(": %s %s: %s", f.Code, f.Subject, f.Message)
		if n > 1 {
			msg += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	return msg
}

// Outcome is the verdict's outcome.
func (e *NotAcceptedError) Outcome() Outcome { return e.Verdict.Outcome() }
