package gate

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/rekorv1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// inputJudge verifies inputs by the rows of a policy, each once.
type inputJudge struct {
	policy policy.Policy
	root   trust.Root
	now    time.Time
	finder rekorv1.Finder
	world  *Opening // nil: the request was not made by a [Gate]
}

// judgedInput is the answer about an input that a row of the policy names.
type judgedInput struct {
	*verdict.Verdict
	level *slsa.Report // of its provenance; nil if it does not count for what it is used in
}

// judge verifies each input. Facts are what is to be reported; the answers are
// by subject.
func (j inputJudge) judge(ctx context.Context, list []input) (answers map[string]judgedInput, f facts) {
	unnamed, _ := j.policy.JudgesInputs()
	answers = map[string]judgedInput{}
	seen := map[string]bool{}
	var rest []string
	for _, in := range list {
		name := in.subject()
		if seen[name] {
			continue
		}
		seen[name] = true
		row, named := j.policy.NewSession().OfInput(in.repository(), in.tool())
		if !named {
			f.weigh(unnamed, verdict.Find(verdict.Extra, name, "%s was used in the build, and no row of inputs in the policy names it", in.name).
				Advise("add a row for it to inputs in the policy, or use another one"))
			rest = append(rest, name)
			continue
		}
		if len(answers) == maxInputs {
			f.refuse(verdict.Find(verdict.Limit, "inputs", "the builds used more than %d images, programs and downloads", maxInputs))
			break
		}
		a := j.one(ctx, row, in)
		f.refuse(a.Findings...)
		f.weigh(policy.Warn, a.Warnings...)
		for i := range a.Proofs {
			a.Proofs[i].Role = roleInput
		}
		f.prove(a.Proofs...)
		f.notes = append(f.notes, a.Notes...)
		f.addInputs(verdict.Input{Name: in.name, Place: in.uri, Digest: in.digest})
		answers[name] = a
	}
	if len(rest) > 0 && unnamed == policy.Off {
		f.note("not verified, because no row of inputs names them: %s: %s", plural.Of(len(rest), "input"), firstFew(rest))
	}
	return answers, f
}

// roleInput replaces the role of a signer of an input in proofs: inside the row it
// is "release" or "builder", but it has no role in the release.
const roleInput = "input"

func (j inputJudge) one(ctx context.Context, row policy.Policy, in input) judgedInput {
	fail := func(err error) judgedInput {
		v := verdict.New(in.subject(), j.now)
		v.AddError(in.subject(), err)
		return judgedInput{v, nil}
	}
	if err := in.check(); err != nil {
		return fail(err)
	}
	if j.world == nil {
		return fail(verdict.Refuse(verdict.Usage, in.subject(), "the policy has inputs, which only a request made by gate.Open can verify"))
	}
	v, err := verify.NewWith(j.root, row.Verification())
	if err != nil {
		return fail(err)
	}
	req := PolicyRequest{Policy: row, Verifier: v, Stage: policy.Published, Now: j.now, Finder: j.finder}
	i, notes, err := j.evidence(ctx, req, in)
	if err != nil {
		return fail(err)
	}
	session := row.NewSession()
	answer := session.Decide(i.evidence, i.question)
	answer.Notes = append(answer.Notes, notes...)
	for _, list := range [][]verdict.Finding{answer.Findings, answer.Warnings} {
		for n, f := range list {
			list[n] = verdict.FindingOf(in.subject(), about(in.subject(), &verdict.Error{Finding: f}))
		}
	}
	if len(session.Demands(policy.Published, i.question.Class)) == 0 {
		return judgedInput{answer, nil}
	}
	best := slsa.Report{Artifact: in.subject(), Levels: []slsa.Reached{{Track: slsa.Build, Most: 3}}}
	for _, e := range i.evidence {
		if row.Provenance(e, "") != nil {
			continue // also if it is no provenance
		}
		if r, err := session.Level(e, i.question); err == nil && r.Level(slsa.Build) >= best.Level(slsa.Build) {
			best = r
		}
	}
	return judgedInput{answer, &best}
}

// evidence reads the evidence about an input, and asks about its digest. Of an
// index the evidence of the index counts: it lists all images in it by digest.
func (j inputJudge) evidence(ctx context.Context, req PolicyRequest, in input) (i item, notes []string, err error) {
	repository := in.repository()
	if repository == "" {
		i.question = req.question(plan.Other, in.subject(), digest.Set{SHA256: in.digest})
		i.evidence = j.besideTool(ctx, req, in, i.question.Why)
		i.question.ByDigest = true
		return i, nil, nil
	}
	host, path, _ := strings.Cut(repository, "/")
	remote, err := registry.OpenRemote(host, j.world.Transport)
	if err != nil {
		return item{}, nil, err
	}
	image, done := remembered(Image{Source: remote, Name: in.subject(), Repository: path, Digest: in.digest})
	defer done()
	node, err := registry.Target{Source: image.Source, Repository: path}.Graph(ctx, in.digest.String())
	if err == nil {
		f := req.collectManifest(ctx, image, plan.Image, imageManifest{Node: node, subject: in.subject()})
		for _, i := range f.items {
			missingFrom(i.question.Why, in.subject(), "the registry has none beside it")
			return i, f.notes, i.err
		}
	}
	if errors.Is(err, registry.ErrNotFound) {
		err = verdict.Refuse(verdict.FetchMissing, in.subject(), "the registry no longer has %s, so nothing can be verified about it", in.name)
	}
	return item{}, nil, err
}

// besideTool reads the bundles at the addresses of the row. Of a bundle that is
// not there or invalid, why says so.
func (j inputJudge) besideTool(ctx context.Context, req PolicyRequest, in input, why map[policy.Check]error) (found []verify.Evidence) {
	addresses := j.policy.NewSession().BundlesOf(in.tool(), in.uri, in.digest)
	where := "it was looked for at " + strings.Join(addresses, " and ")
	if len(addresses) == 0 {
		where = "a program has no address; name one in bundles, with {sha256}"
	}
	missingFrom(why, in.subject(), where)
	for _, address := range addresses {
		e, err := j.bundleAt(ctx, req, address, in)
		switch {
		case errors.Is(err, store.ErrNotFound):
		case err != nil:
			why[policy.Signature], why[policy.Provenance] = about(in.subject(), err), about(in.subject(), err)
		default:
			found = append(found, e)
		}
	}
	return found
}

func (j inputJudge) bundleAt(ctx context.Context, req PolicyRequest, address string, in input) (verify.Evidence, error) {
	end := strings.LastIndexByte(address, '/') + 1
	if !strings.HasPrefix(address, "https://") && !strings.HasPrefix(address, "http://") {
		return verify.Evidence{}, verdict.Refuse(verdict.Usage, address, "evidence about tools is read by https")
	}
	place, err := store.Open(address[:end], j.world.Transport)
	if err != nil {
		return verify.Evidence{}, verdict.Wrap(verdict.Usage, address, err)
	}
	raw, err := store.Read(ctx, place, address[end:], verify.MaxBundle)
	if err != nil {
		return verify.Evidence{}, err
	}
	return req.verify(raw, digest.Set{SHA256: in.digest})
}

// missingFrom says why a check has no evidence, unless another reason is known.
func missingFrom(why map[policy.Check]error, name, where string) {
	for check, code := range map[policy.Check]verdict.Code{policy.Signature: verdict.Unsigned, policy.Provenance: verdict.NoProvenance} {
		if why[check] == nil {
			why[check] = verdict.Refuse(code, name, "no %s of it was found: %s", check, where).
				Advise("use an input that has it, or require less of it in inputs of the policy")
		}
	}
}
