// Package attest makes the records of a promotion: for each digest the
// summary of its verdict, and the record of its promotion, signed by the
// verifier identity.
//
//	r, err := attest.New(attest.Config{…})
//	signed, err := r.Image(ctx, attest.Promoted{Source: "staging.example.test/lantern", Digest: d, …})
//
// There is one record of each kind for a digest, whatever the number of
// places and tags. A summary names all the places of the request, because the
// digest was judged for all of them. The promotion record names the places
// that have it, so a place that was unreachable and comes back gets another
// record.
//
// A statement is stored in a journal before it is signed, so an interrupted
// run is continued by signing the same bytes, which the log then has once. An
// equivalent record by the verifier at the destination is reused. Records of
// different runs differ only in the time of judgement and in the run: each
// names the trace and the span in which it was made, and the trace in which
// its subject was made, if that is known.
//
// Other projects should not import this package: it changes without notice.
package attest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/backend/tracing/carry"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/promotionrecord"
	"github.com/waybill-release/waybill/pkg/document/vsa"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// actDrafted is the journal's act of a statement that is about to be signed.
const actDrafted = "drafted"

// Signer signs statements, as
// [*github.com/waybill-release/waybill/pkg/produce/sign.Signer] does in the
// role verifier.
type Signer interface {
	Statement(ctx context.Context, s intoto.Statement) ([]byte, verify.Evidence, error)
}

// Config says who makes records, and where they are stored.
type Config struct {
	Signer Signer
	// Journal stores statements until they are signed. The caller closes it;
	// the signer may store its signatures in the same one.
	Journal *journal.Journal
	// Verifier and Policy judge existing records.
	Verifier *verify.Verifier
	Policy   policy.Policy
	As       As
	Job      promotionrecord.Job
	Clock    func() time.Time
	Options  Options
}

// Options are parts of records that can be switched off. Each function is
// called where it matters, and nowhere else; nil switches nothing off.
type Options struct {
	// Summaries reports whether summaries are made.
	Summaries func() bool
	// Hints reports whether attachments name, in their annotations, the run
	// that made them. The signed statement names it in any case.
	Hints func() bool
}

// Summarize reports whether summaries are made.
func (w Options) Summarize() bool { return w.Summaries == nil || w.Summaries() }

// Hint reports whether attachments name their run.
func (w Options) Hint() bool { return w.Hints == nil || w.Hints() }

// As is the identity that records name.
type As struct {
	// ID is the verifier for which the signer speaks, and Policy the address
	// at which the policy can be read. Without them no summary is made.
	ID, Policy string
	// Promoter is the version and commit of this program.
	promotionrecord.Promoter
}

// The name of this program in a summary, and in a promotion record.
const (
	program = "waybill"
	builder = "https://github.com/waybill-release/waybill"
)

// Records makes records. It is safe for use by several goroutines.
type Records struct {
	config Config

	mu     sync.Mutex // guards drafts
	drafts map[digest.Digest]*draft
}

// draft is a stored statement that is to be signed.
type draft struct {
	once sync.Once // guards the fields below
	s    intoto.Statement
	err  error
}

// New prepares to make records, and reads the drafts of a journal.
func New(c Config) (*Records, error) {
	if c.Signer == nil || c.Journal == nil || c.Verifier == nil || c.Clock == nil {
		return nil, errors.New("preparing records: signer, journal, verifier and clock are required")
	}
	r := &Records{config: c, drafts: map[digest.Digest]*draft{}}
	for _, e := range c.Journal.Entries() {
		if e.Act != actDrafted {
			continue
		}
		var raw []byte
		key, err := digest.Parse(e.Subject)
		if err == nil {
			err = json.Unmarshal(e.Detail, &raw)
		}
		if err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, "journal of records", err)
		}
		d := &draft{}
		if d.s, err = intoto.Parse(raw); err != nil {
			return nil, err
		}
		d.once.Do(func() {})
		r.drafts[key] = d
	}
	return r, nil
}

// Signed is a record that was signed, or existed.
type Signed struct {
	// Of is the manifest to attach it to; zero for a record of a whole
	// release.
	Of     digest.Digest
	Kind   string // its predicate type
	Bundle []byte
	// Found means that the bundle existed already.
	Found bool
	// IDs are of the run that made the record, as the record itself says, for
	// the annotations of its attachment; zero if no hints are wanted.
	IDs trace.IDs
}

// Promoted is an image that was copied, with one verdict.
type Promoted struct {
	// Source is the repository that it came from, as host/path.
	Source string
	Digest digest.Digest
	// Children are the manifests of an index, which the verdict covers, too:
	// clients that pull one platform do not see the index.
	Children []digest.Digest
	// Destinations are where it is now; the first is its canonical name.
	Destinations []Destination
	// For are the repositories for which it was judged, as host/path, whether
	// or not all of them have it yet; the first is its canonical name.
	// Summaries name them, so they do not depend on which destination is
	// unreachable. None means the Destinations.
	For     []string
	Verdict *verdict.Verdict
	// Manifest is the document that requested the promotion; may be zero.
	Manifest promotionrecord.Resource
	// There are the bundles that referred to the image, or to one of the
	// children, at the destination before.
	There [][]byte
}

// Destination is a repository, as host/path, and the tags there.
type Destination struct {
	Ref  string
	Tags []string
}

// Image makes the records of an image: a summary for each of its manifests,
// if the verifier is known, and one of the promotion.
func (r *Records) Image(ctx context.Context, made Promoted) ([]Signed, error) {
	if err := made.check(); err != nil {
		return nil, err
	}
	known := r.known(made.There, plan.Image)
	var all []Signed
	if r.Summarizes() {
		ids := runOf(ctx)
		for _, d := range append([]digest.Digest{made.Digest}, made.Children...) {
			s, err := r.summary(made, d, ids)
			if err != nil {
				return nil, err
			}
			one, err := r.sign(ctx, s, plan.Image, known)
			if err != nil {
				return nil, err
			}
			one.Of = d
			all = append(all, one)
		}
	}
	one, err := r.promoted(ctx, made, known)
	return append(all, one), err
}

// Promotion makes only the record of the promotion, if a summary of many
// artifacts covers the rest.
func (r *Records) Promotion(ctx context.Context, made Promoted) (Signed, error) {
	if err := made.check(); err != nil {
		return Signed{}, err
	}
	return r.promoted(ctx, made, r.known(made.There, plan.Image))
}

func (r *Records) promoted(ctx context.Context, made Promoted, known map[digest.Digest]existing) (Signed, error) {
	s, err := r.promotion(made, runOf(ctx))
	if err != nil {
		return Signed{}, err
	}
	one, err := r.sign(ctx, s, plan.Image, known)
	one.Of = made.Digest
	return one, err
}

// check refuses to record what was not accepted.
func (m Promoted) check() error {
	if m.Verdict == nil || len(m.Destinations) == 0 || m.Digest.IsZero() {
		return errors.New("recording a promotion: want a verdict, a digest and a destination")
	}
	return m.Verdict.Err()
}

// Summarizes reports whether summaries are made: the verifier and the address
// of the policy are known, and summaries are wanted.
func (r *Records) Summarizes() bool {
	return r.config.As.ID != "" && r.config.As.Policy != "" && r.config.Options.Summarize()
}

// Summary makes the summaries of a verdict on many artifacts: as many as
// needed for clients to be able to read them.
func (r *Records) Summary(ctx context.Context, v *verdict.Verdict, resource string, subjects []intoto.Subject, there [][]byte) (all []Signed, err error) {
	if !r.Summarizes() {
		return nil, errors.New("summarizing a verdict: want the verifier's ID and the policy's address")
	}
	known := r.known(there, "")
	for part := range slices.Chunk(subjects, vsa.MaxSubjects) {
		c := r.claim(resource, part, len(subjects))
		c.Trace = runOf(ctx)
		s, err := vsa.New(*v, c)
		if err != nil {
			return nil, err
		}
		one, err := r.sign(ctx, s, "", known)
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func (r *Records) claim(resource string, subjects []intoto.Subject, artifacts int) vsa.Claim {
	as := r.config.As
	return vsa.Claim{
		Verifier: vsa.Verifier{ID: as.ID, Version: map[string]string{program: as.version()}},
		Resource: resource, Policy: as.Policy, Subjects: subjects, Artifacts: artifacts,
	}
}

func (a As) version() string {
	return cmp.Or(a.Version, "unknown")
}

// summary is the verification summary of one manifest. Its resource is the
// image at its canonical place, by digest.
func (r *Records) summary(made Promoted, d digest.Digest, ids trace.IDs) (intoto.Statement, error) {
	canonical, names := made.Destinations[0].Ref, made.names()
	if len(made.For) > 0 {
		canonical, names = made.For[0], slice.Unique(made.For)
	}
	subjects := slice.Map(names, func(name string) intoto.Subject { return intoto.Subject{Name: name, Digests: digest.Set{SHA256: d}} })
	c := r.claim(canonical+"@"+d.String(), subjects, 1+len(made.Children))
	c.Trace = ids
	return vsa.New(*made.Verdict, c)
}

func (r *Records) promotion(made Promoted, ids trace.IDs) (intoto.Statement, error) {
	as, job := r.config.As, r.config.Job
	job.BuildID = cmp.Or(job.BuildID, trace.URI(ids))
	said := promotionrecord.Record{
		Source: made.Source, Destination: made.Destinations[0].Ref, Digest: made.Digest, Time: r.config.Clock().UTC(),
		Builder: builder + "@" + as.version(), Manifest: made.Manifest, Promoter: as.Promoter, Job: job,
	}
	for _, to := range made.Destinations {
		said.Tags = append(said.Tags, to.Tags...)
	}
	return promotionrecord.New(said, made.names()...)
}

// names are the destinations, each once.
func (m Promoted) names() []string {
	return slice.Unique(slice.Map(m.Destinations, func(to Destination) string { return to.Ref }))
}

// existing is an existing record, and the run that made it.
type existing struct {
	bundle []byte
	ids    trace.IDs
}

// runOf is the run of the context, as a record names it. The context has the
// initial trace of the record's subject only if something signed says so: see
// pkg/pipeline/promote.
func runOf(ctx context.Context) trace.IDs {
	now := carry.From(ctx)
	if now.IsZero() {
		return trace.IDs{}
	}
	return trace.IDs{Trace: now.Trace, Span: now.Span, Initial: now.Initial}
}

// madeBy is the run that made a record, as the record says; zero if a job of
// another kind or an older program made it.
func madeBy(s intoto.Statement) trace.IDs {
	if s.PredicateType() == promotionrecord.PredicateType {
		r, err := promotionrecord.Parse(s)
		if err != nil {
			return trace.IDs{}
		}
		ids, _ := trace.ParseURI(r.Job.BuildID)
		return ids
	}
	summary, err := vsa.Parse(s)
	if err != nil {
		return trace.IDs{}
	}
	ids, _ := vsa.TraceOf(summary) // malformed IDs are ignored
	return ids
}

// known are the records among bundles that the verifier signed, by their
// content. Bundles that do not verify, or of others, are left out.
func (r *Records) known(there [][]byte, class plan.Class) map[digest.Digest]existing {
	known := map[digest.Digest]existing{}
	for _, raw := range there {
		e, err := r.config.Verifier.Attestation(raw)
		if err != nil {
			continue
		}
		if r.byVerifier(e, class) != nil {
			continue
		}
		if key, err := gist(e.Statement()); err == nil {
			known[key] = existing{raw, madeBy(e.Statement())}
		}
	}
	return known
}

// byVerifier refuses a record about an artifact class, or about a whole
// release, unless the verifier signed it while permitted to.
func (r *Records) byVerifier(e verify.Evidence, class plan.Class) error {
	_, err := r.config.Policy.Judge(e, policy.Ask{
		Role: policy.Verifier, Kind: e.Kind(), Stage: policy.Published, Class: class, Subject: e.Kind(), Whole: true,
	})
	return err
}

// gist is the content of a record without run and time, by its kind.
func gist(s intoto.Statement) (digest.Digest, error) {
	if s.PredicateType() == promotionrecord.PredicateType {
		return promotionrecord.Gist(s)
	}
	return vsa.Gist(s)
}

// sign signs a record, unless an equivalent one exists. The draft of an
// earlier run with the same content is signed instead.
func (r *Records) sign(ctx context.Context, s intoto.Statement, class plan.Class, known map[digest.Digest]existing) (Signed, error) {
	key, err := gist(s)
	if err != nil {
		return Signed{}, err
	}
	if one, there := known[key]; there {
		return Signed{Kind: s.PredicateType(), Bundle: one.bundle, Found: true, IDs: r.hints(one.ids)}, nil
	}
	if s, err = r.draft(ctx, key, s); err != nil {
		return Signed{}, err
	}
	bundle, e, err := r.config.Signer.Statement(ctx, s)
	if err != nil {
		return Signed{}, err
	}
	if err := r.byVerifier(e, class); err != nil {
		return Signed{}, err
	}
	return Signed{Kind: s.PredicateType(), Bundle: bundle, IDs: r.hints(madeBy(s))}, nil
}

// hints are the IDs of a run for the annotations of an attachment.
func (r *Records) hints(ids trace.IDs) trace.IDs {
	if !r.config.Options.Hint() {
		return trace.IDs{}
	}
	return ids
}

// draft is the statement to sign: the one in the journal, or this one, which
// is stored there first.
func (r *Records) draft(ctx context.Context, key digest.Digest, s intoto.Statement) (intoto.Statement, error) {
	r.mu.Lock()
	d, there := r.drafts[key]
	if !there {
		d = &draft{}
		r.drafts[key] = d
	}
	r.mu.Unlock()
	d.once.Do(func() {
		raw, err := json.Marshal(s.Raw())
		if err == nil {
			e := journal.Entry{Time: r.config.Clock().UTC(), Act: actDrafted, Subject: key.String(), Detail: raw}
			err = r.config.Journal.Append(context.WithoutCancel(ctx), e)
		}
		d.s, d.err = s, err
	})
	return d.s, d.err
}
