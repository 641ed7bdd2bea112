package pipeline

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/journal"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/provenance"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/sandbox"
	"github.com/waybill-release/waybill/pkg/seal"
	"github.com/waybill-release/waybill/pkg/sign"
	"github.com/waybill-release/waybill/pkg/sign/token"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/verify"
	"github.com/waybill-release/waybill/pkg/workspace"
)

// ForecastSchema names the form of a forecast's JSON.
const ForecastSchema = "waybill/forecast/v1"

// Forecast says what acts would sign if they were done now: how much of what,
// as whom, and with which services. Making one writes nothing and asks no
// signing service.
type Forecast struct {
	Schema     string       `json:"schema"`
	Name       string       `json:"name"`
	Version    string       `json:"version"`
	Commit     string       `json:"commit,omitempty"`
	State      string       `json:"state"`
	Time       time.Time    `json:"time"`
	Services   Services     `json:"services"`
	Signatures []Signatures `json:"signatures"`
	// Asked is who was asked besides the state directory.
	Asked []string `json:"asked"`
	// Against is what would stop it.
	Against []verdict.Finding `json:"against,omitempty"`
}

// Services are the addresses that signatures are made with.
type Services struct {
	Authority string   `json:"certificateAuthority"`
	Stamps    []string `json:"timestampAuthorities"`
	Logs      []string `json:"transparencyLogs"`
	// Legacy is the log of the signatures in the legacy forms, if there are any.
	Legacy string `json:"olderTransparencyLog,omitempty"`
}

// Signatures are what one act would sign in one role.
type Signatures struct {
	Act  string      `json:"act"`
	Role policy.Role `json:"role"`
	// Token is its name on the command line, From where it comes from: empty
	// if none was given.
	Token string `json:"token"`
	From  string `json:"from,omitempty"`
	// Expected are those who may sign, by the policy. As is whom the token
	// names, which is one of them; empty if it was not asked, or does not tell.
	Expected []string `json:"expected"`
	As       string   `json:"as,omitempty"`
	What     []Heap   `json:"what"`
	// Certificates are at least so many: a new one is fetched when one lapses.
	Certificates int `json:"certificates"`
	Timestamps   int `json:"timestamps"`
	Entries      int `json:"logEntries"`
	// Unfinished signatures an earlier run made, and the log may have; Kept
	// ones are whole, and are only put in their place.
	Unfinished int `json:"unfinished,omitempty"`
	Kept       int `json:"kept,omitempty"`
}

// Heap is how many things of a kind get a signature, and have one.
type Heap struct {
	Kind   string `json:"kind"`
	Due    int    `json:"due"`
	Signed int    `json:"signed"`
	legacy bool   // they are in the legacy forms
}

// The acts that sign.
const (
	ActBuild    = "build"
	ActSign     = "sign"
	ActSeal     = "seal"
	actSealFrom = "seal from " // a place
	actAmend    = "amend"
	actWithdraw = "withdraw"
	actSBOM     = "sbom"

	actToStaging = "promote to staging"
	actToRelease = "promote to release"
	actChannel   = "channel"
)

// Kinds of heaps beside the classes of artifacts.
const (
	documents  = "SBOM of an image"        // attached to it
	legacyForm = "file in the legacy form" // its .sig and .cert
	legacyTag  = "image in the legacy form"
	legacySBOM = "SBOM of an image in the legacy form"
)

// Err is what stands against it.
func (f Forecast) Err() error {
	if len(f.Against) == 0 {
		return nil
	}
	v := verdict.New("sign "+f.Name+" "+f.Version, f.Time)
	v.Counts.Required = len(f.Against)
	v.Add(f.Against...)
	return v.Err()
}

// Due is how many signatures are to be made or finished.
func (f Forecast) Due() (n int) {
	for _, s := range f.Signatures {
		for _, h := range s.What {
			n += h.Due
		}
	}
	return n
}

// ForecastActs looks ahead at signing or sealing what was built.
func (p *Pipeline) ForecastActs(ctx context.Context, acts ...string) (Forecast, error) {
	if err := p.needLegacy(); err != nil {
		return Forecast{}, err
	}
	planned, w, err := p.resume(ctx)
	if err != nil {
		return Forecast{}, err
	}
	v := &view{p: p, plan: planned, w: w}
	f := p.forecast(planned, w.Identity().Commit.Commit)
	if v.outlook, err = seal.Look(ctx, p.request(planned, w)); err != nil {
		return Forecast{}, err
	}
	f.Against = v.outlook.Findings
	if !slices.Contains(acts, ActSign) { // the seal demands that the others did their work
		for _, a := range v.outlook.Due {
			f.Against = append(f.Against, verdict.Find(verdict.Unsigned, a.Name, "it has no signature yet that holds; run waybill sign first"))
		}
	}
	return v.fill(ctx, f, acts)
}

// ForecastStage looks ahead at everything that [Pipeline.Stage] signs, with
// what an earlier run has done in the state directory.
func (p *Pipeline) ForecastStage(ctx context.Context) (Forecast, error) {
	planned, source, err := p.Plan(ctx)
	if err != nil {
		return Forecast{}, err
	}
	if planned.IsGiven() {
		return Forecast{}, anotherTool()
	}
	if planned, err = p.withLegacy(planned); err != nil {
		return Forecast{}, err
	}
	f := p.forecast(planned, source.Commit.Commit)
	f.Asked = append(f.Asked, "the source "+source.Commit.Repository)
	f.Against = p.withdrawn(release.Manifest{})
	v := &view{p: p, plan: planned}
	id := found{plan: planned, source: source}.identity("")
	if err := workspace.Check(p.State, id); err != nil {
		return Forecast{}, err
	}
	if v.w, err = workspace.Open(p.State); err != nil {
		v.w = nil // nothing was begun there
	} else if v.outlook, err = seal.Look(ctx, p.request(planned, v.w)); err != nil {
		return Forecast{}, err
	}
	for _, finding := range v.outlook.Findings {
		if finding.Code == verdict.SealExtra { // what is missing will be made
			f.Against = append(f.Against, finding)
		}
	}
	return v.fill(ctx, f, []string{ActBuild, ActSign, ActSeal})
}

// withdrawn is what the lists of known defects withdraw of the release; the
// gate lets nothing of it out.
func (p *Pipeline) withdrawn(m release.Manifest) []verdict.Finding {
	return p.Gate.Withdrawn(p.Version, m, p.Clock())
}

func (p *Pipeline) forecast(planned plan.Plan, commit string) Forecast {
	return Forecast{
		Schema: ForecastSchema, Name: planned.Name, Version: planned.Version.String(), Commit: commit, State: p.State, Time: p.Clock().UTC(),
		Asked: []string{},
	}
}

// request is a request to look at a release: it has no signer.
func (p *Pipeline) request(planned plan.Plan, w *workspace.Workspace) seal.Request {
	return seal.Request{Plan: planned, Workspace: w, Verifier: p.verifier, Policy: p.Profile.Policy, Clock: p.Clock, Report: p.Report, Hints: p.Ways.Hint}
}

// view is what a forecast is made from.
type view struct {
	p       *Pipeline
	plan    plan.Plan
	w       *workspace.Workspace // nil where nothing was begun
	outlook seal.Outlook
}

// fill adds what each act would sign.
func (v *view) fill(ctx context.Context, f Forecast, acts []string) (Forecast, error) {
	services, err := v.p.services(v.p.Profile)
	if err != nil {
		return Forecast{}, err
	}
	f.Services = Services{Stamps: services.TSAs, Logs: services.Logs}
	if v.plan.Legacy() && slices.Contains(acts, ActSign) {
		f.Services.Legacy = services.LogV1
	}
	for _, act := range acts {
		s := Signatures{Act: act, Role: policy.Release, Token: TokenRelease}
		if act == ActBuild {
			s.Role, s.Token = policy.Builder, TokenUnisolated
			if sandbox.Examine(ctx).Mode == sandbox.Isolated {
				s.Token = TokenBuilder
			}
		}
		if act == actChannel {
			s.Role, s.Token = policy.Channels, TokenChannel
		}
		signer, err := v.signer(s)
		if err == nil && act == ActSign && v.plan.Legacy() {
			err = signer.NeedLegacy()
		}
		if err != nil {
			return Forecast{}, err
		}
		if v.p.Keys[s.Token] == nil { // a key has no certificate
			f.Services.Authority = services.Fulcio
		}
		if s, err = v.signing(ctx, s, signer); err != nil {
			return Forecast{}, err
		}
		if s.From != "" && !slices.Contains(f.Asked, s.From) {
			f.Asked = append(f.Asked, s.From)
		}
		f.Signatures = append(f.Signatures, s)
	}
	return f, nil
}

// signer counts, with what was kept of signatures. It signs nothing.
func (v *view) signer(s Signatures) (*sign.Signer, error) {
	w := v.p.World
	if v.w != nil {
		entries, err := journal.Read(v.w.Signatures())
		if err != nil {
			return nil, err
		}
		if w.Work.Kept, err = sign.Recall(entries); err != nil {
			return nil, err
		}
	}
	if key := v.p.Keys[s.Token]; key != nil {
		return w.keyedSigner(v.p.Profile, v.p.verifier, s.Role, key)
	}
	source := v.p.Tokens[s.Token]
	if source == nil {
		source = noSource{}
	}
	return w.signer(v.p.Profile, v.p.verifier, s.Role, source)
}

// noSource is where no token comes from.
type noSource struct{}

// Token has none.
func (noSource) Token(context.Context) (string, error) { return "", errors.New("there is none") }

// String names nothing.
func (noSource) String() string { return "" }

// signing says what one act would sign, and as whom. A token that is there is
// compared with the policy now; nobody is asked to log in for that.
func (v *view) signing(ctx context.Context, s Signatures, signer *sign.Signer) (Signatures, error) {
	orders := v.ordersOf(s.Act)
	f, err := signer.Count(orders)
	if err != nil {
		return Signatures{}, err
	}
	s.What, s.Expected = v.heaps(ctx, s.Act), f.Expected
	bundles, legacy := unknown(s.What, orders)
	s.Unfinished, s.Kept = f.Unfinished, f.Found
	s.Timestamps = bundles*len(f.Services.TSAs) + f.Stamps
	s.Entries = bundles*len(f.Services.Logs) + legacy + f.Entries
	if bundles+legacy+f.New > 0 || s.Act == ActBuild { // a build has one before its first step
		s.Certificates = 1
	}
	if v.p.Keys[s.Token] != nil {
		s.Certificates, s.From = 0, "a key"
		s.As, err = signer.As(ctx)
		return s, err
	}
	source := v.p.Tokens[s.Token]
	if source == nil {
		return s, nil
	}
	if s.From = source.String(); !token.IsPerson(source) {
		s.As, err = signer.As(ctx)
	}
	return s, err
}

// unknown is how many signatures are due of which there is no order: of what is
// not made yet it is known only that it will be signed. Those in the legacy forms
// have no timestamp, and are in one log.
func unknown(what []Heap, orders []sign.Order) (bundles, legacy int) {
	for _, h := range what {
		if h.legacy {
			legacy += h.Due
		} else {
			bundles += h.Due
		}
	}
	for _, o := range orders {
		if o.Legacy {
			legacy--
		} else {
			bundles--
		}
	}
	return max(bundles, 0), max(legacy, 0)
}

// ordersOf are the orders of an act that are known already.
func (v *view) ordersOf(act string) []sign.Order {
	if act == ActSign {
		return v.outlook.Orders
	}
	return nil
}

// heaps counts what is planned of each kind, and what has a signature.
func (v *view) heaps(ctx context.Context, act string) []Heap {
	switch act {
	case ActBuild:
		return v.provenance(ctx)
	case ActSeal:
		h := Heap{Kind: "release manifest", Due: 1}
		if v.outlook.Sealed {
			h.Due, h.Signed = 0, 1
		}
		return []Heap{h}
	case actAmend, actWithdraw:
		return []Heap{{Kind: "revision of the manifest", Due: 1}}
	case actChannel:
		return []Heap{{Kind: "channel index", Due: 1}}
	}
	var list []Heap
	put := func(kind string, signed bool) {
		i := slices.IndexFunc(list, func(h Heap) bool { return h.Kind == kind })
		if i < 0 {
			i, list = len(list), append(list, Heap{Kind: kind, legacy: slices.Contains([]string{legacyForm, legacyTag, legacySBOM}, kind)})
		}
		if signed {
			list[i].Signed++
		} else {
			list[i].Due++
		}
	}
	for _, a := range v.plan.Artifacts {
		of := a
		_, legacy := a.SignedBySig()
		switch {
		case a.IsStatement():
			put("statement", v.outlook.Sealed)
			continue
		case a.IsLegacy() && !legacy || a.Class != plan.Signature && !a.IsImage():
			continue
		case a.Class == plan.Signature && !legacy:
			of, _ = v.plan.Find(a.Of)
		}
		signed := slices.ContainsFunc(v.outlook.Signed, func(s plan.Artifact) bool { return s.Name == of.Name })
		if legacy {
			put(legacyForm, signed)
			continue
		}
		put(string(of.Class), signed)
		index, _ := v.plan.Find(of.Of)
		described := of.Has(plan.KindSBOM) && of.Class == plan.Image || of.Class == plan.ImageChild && index.Has(plan.KindSBOM)
		if described {
			put(documents, signed)
		}
		if !of.IsImage() || !v.plan.Legacy() {
			continue
		}
		attached := slices.ContainsFunc(v.outlook.Attached, func(s plan.Artifact) bool { return s.Name == of.Name })
		put(legacyTag, attached)
		if described {
			put(legacySBOM, attached)
		}
	}
	return list
}

// provenance counts the steps' provenance, in each form that is planned. What
// is there counts if the builder signed it in this release's run; the build
// also holds it against what the step took and made.
func (v *view) provenance(ctx context.Context) []Heap {
	var list []Heap
	for _, class := range []plan.Class{plan.Provenance, plan.ProvenanceV02} {
		h := Heap{Kind: string(class)}
		for _, a := range v.plan.Artifacts {
			switch {
			case a.Class != class:
			case v.w != nil && v.p.attested(ctx, v.w, a.Name):
				h.Signed++
			default:
				h.Due++
			}
		}
		if h.Due+h.Signed > 0 {
			list = append(list, h)
		}
	}
	return list
}

// attested reports whether a bundle is there that the builder signed in this
// release's run.
func (p *Pipeline) attested(ctx context.Context, w *workspace.Workspace, name string) bool {
	raw, err := store.Read(ctx, w.Files(), name, verify.MaxBundle)
	if err != nil {
		return false
	}
	e, err := p.verifier.Attestation(raw)
	if err != nil {
		return false
	}
	said, err := provenance.Parse(e.Statement())
	if err != nil || said.RunDetails.Metadata.InvocationID != w.Identity().Invocation {
		return false
	}
	role, err := p.Profile.Policy.Acts(e, policy.Question{Stage: policy.Staging, Subject: name})
	return err == nil && role == policy.Builder
}

func anotherTool() error {
	return verdict.Refuse(verdict.Usage, plan.ConfigName, "its outputs are made by another tool: there is nothing to build; take them over with waybill seal --from PLACE")
}
