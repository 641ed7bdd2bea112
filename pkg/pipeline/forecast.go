package pipeline

import (
	"context"
	"crypto"
	"slices"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/produce/seal"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
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
func (p *Pipeline) ForecastActs(ctx context.Context, names ...string) (Forecast, error) {
	if err := (forms{p.job}).need(); err != nil {
		return Forecast{}, err
	}
	here, err := built(ctx, p.job, facts{})
	if err != nil {
		return Forecast{}, err
	}
	o := &outlook{job: p.job, plan: here.plan, w: here.w}
	if o.Outlook, err = seal.Look(ctx, p.request(o.plan, o.w)); err != nil {
		return Forecast{}, err
	}
	f := o.forecast(o.w.Identity().Commit.Commit)
	f.Against = o.Findings
	if !slices.Contains(names, ActSign) { // the seal demands that the others did their work
		for _, a := range o.Due {
			f.Against = append(f.Against, verdict.Find(verdict.Unsigned, a.Name, "it has no signature yet that holds; run waybill sign first"))
		}
	}
	var acts []act
	for _, name := range names {
		acts = append(acts, actNamed(name))
	}
	return o.fill(ctx, f, acts...)
}

// ForecastStage looks ahead at everything that [Pipeline.Stage] signs, with
// what an earlier run has done in the state directory.
func (p *Pipeline) ForecastStage(ctx context.Context) (Forecast, error) {
	planned, source, err := p.plan(ctx)
	if err != nil {
		return Forecast{}, err
	}
	if planned.IsGiven() {
		return Forecast{}, anotherTool()
	}
	o := &outlook{job: p.job}
	if err := o.begun(found{plan: planned, source: source}); err != nil {
		return Forecast{}, err
	}
	if o.w != nil {
		if o.Outlook, err = seal.Look(ctx, p.request(o.plan, o.w)); err != nil {
			return Forecast{}, err
		}
	}
	f := o.forecast(source.Commit.Commit, "the source "+source.Commit.Repository)
	f.Against = p.withdrawn(manifest.Manifest{})
	for _, finding := range o.Findings {
		if finding.Code == verdict.SealExtra { // what is missing will be made
			f.Against = append(f.Against, finding)
		}
	}
	return o.fill(ctx, f, stageAct().steps...)
}

// outlook is what a forecast is made from: what is planned, and what of it is
// there.
type outlook struct {
	*job
	plan plan.Plan
	w    *workspace.Workspace // nil where nothing was begun
	seal.Outlook
}

// begun opens the workspace that was begun of what was found, if one was, and
// plans the forms in which the release is signed.
func (o *outlook) begun(f found) (err error) {
	if err := (forms{o.job}).need(); err != nil {
		return err
	}
	if err := workspace.Check(o.State, f.identity("")); err != nil {
		return err
	}
	if o.plan, err = (forms{o.job}).planned(f.plan, nil); err != nil {
		return err
	}
	if o.w, err = workspace.Open(o.State); err != nil {
		o.w = nil // nothing was begun there
	}
	return nil
}

// forecast is an empty forecast of what is planned.
func (o *outlook) forecast(commit string, asked ...string) Forecast {
	return Forecast{
		Schema: ForecastSchema, Name: o.plan.Name, Version: o.plan.Version.String(), Commit: commit, State: o.State, Time: o.Clock().UTC(),
		Asked: append([]string{}, asked...),
	}
}

// elsewhere is the forecast of one act that needs no state directory.
func (o *outlook) elsewhere(ctx context.Context, a act, commit string, asked ...string) (Forecast, error) {
	f := o.forecast(commit, asked...)
	f.State = ""
	return o.fill(ctx, f, a)
}

// fill adds what each act would sign.
func (o *outlook) fill(ctx context.Context, f Forecast, acts ...act) (Forecast, error) {
	services, err := servicesOf(o.job)
	if err != nil {
		return Forecast{}, err
	}
	f.Services = Services{Stamps: services.TSAs, Logs: services.Logs}
	for _, a := range acts {
		if a.signs.role == "" {
			continue
		}
		s, err := o.signatures(ctx, a, services)
		if err != nil {
			return Forecast{}, err
		}
		if o.Keys[s.Token] == nil { // a key has no certificate
			f.Services.Authority = services.Fulcio
		}
		if slices.ContainsFunc(s.What, func(h Heap) bool { return h.legacy }) {
			f.Services.Legacy = services.LogV1
		}
		if s.From != "" && !slices.Contains(f.Asked, s.From) {
			f.Asked = append(f.Asked, s.From)
		}
		f.Signatures = append(f.Signatures, s)
	}
	return f, nil
}

// signatures says what one act would sign, and as whom. A token that is there is
// compared with the policy now; nobody is asked to log in for that.
func (o *outlook) signatures(ctx context.Context, a act, services sign.Services) (Signatures, error) {
	mode := sandbox.Isolated
	if a.signs.role == policy.Builder {
		mode = sandbox.Examine(ctx).Mode
	}
	s := Signatures{Act: a.name, Role: a.signs.role, Token: a.signs.tokenIn(mode), Expected: o.Profile.Policy.Expected(a.signs.role)}
	key, source := o.Keys[s.Token], o.Tokens[s.Token]
	signer, err := o.counter(s.Role, key, source)
	if err != nil {
		return Signatures{}, err
	}
	var known []sign.Order
	s.What, known = a.signs.orders(ctx, o)
	if slices.ContainsFunc(s.What, func(h Heap) bool { return h.legacy }) {
		if err := signer.NeedLegacy(); err != nil {
			return Signatures{}, err
		}
	}
	due, err := signer.Due(known)
	if err != nil {
		return Signatures{}, err
	}
	bundles, legacy := unknown(s.What, known)
	s.Unfinished, s.Kept = due.Unfinished, due.Found
	s.Timestamps = bundles*len(services.TSAs) + due.Stamps
	s.Entries = bundles*len(services.Logs) + legacy + due.Entries
	switch {
	case key != nil:
		s.From = "a key"
	case bundles+legacy+due.New > 0 || s.Role == policy.Builder: // which fetches one before its first step
		s.Certificates = 1
	}
	if key == nil && source != nil {
		s.From = source.String()
	}
	if key != nil || source != nil && !token.IsPerson(source) {
		s.As, err = signer.As(ctx)
	}
	return s, err
}

// counter is a signer that counts, with what was kept of signatures. It signs
// nothing.
func (o *outlook) counter(role policy.Role, key crypto.Signer, source token.Source) (*sign.Signer, error) {
	w := o.World
	if o.w != nil {
		entries, err := journal.Read(o.w.Signatures())
		if err != nil {
			return nil, err
		}
		if w.Work.Kept, err = sign.Recall(entries); err != nil {
			return nil, err
		}
	}
	return signers{w, o.Profile, o.verifier}.signer(role, key, source)
}

// unknown is how many signatures are due of which there is no order: of what is
// not made yet it is known only that it will be signed. Those in the legacy forms
// have no timestamp, and are in one log.
func unknown(what []Heap, known []sign.Order) (bundles, legacy int) {
	for _, h := range what {
		if h.legacy {
			legacy += h.Due
		} else {
			bundles += h.Due
		}
	}
	for _, o := range known {
		if o.Legacy {
			legacy--
		} else {
			bundles--
		}
	}
	return max(bundles, 0), max(legacy, 0)
}

func anotherTool() error {
	return verdict.Refuse(verdict.Usage, plan.ConfigName, "its outputs are made by another tool: there is nothing to build; take them over with waybill seal --from PLACE")
}
