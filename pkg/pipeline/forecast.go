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
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// forecastSchema names the JSON schema of a forecast.
const forecastSchema = "waybill/forecast/v1"

// Forecast is what acts would sign if they ran now: how much of what, as
// whom, and with which services. Making a forecast writes nothing and
// contacts no signing service.
type Forecast struct {
	Schema     string       `json:"schema"`
	Name       string       `json:"name"`
	Version    string       `json:"version"`
	Commit     string       `json:"commit,omitempty"`
	State      string       `json:"state"`
	Time       time.Time    `json:"time"`
	Services   Services     `json:"services"`
	Signatures []Signatures `json:"signatures"`
	// Asked lists what was consulted besides the state directory.
	Asked []string `json:"asked"`
	// Against are the findings that would stop the acts.
	Against []verdict.Finding `json:"against,omitempty"`
}

// Services are the addresses of the signing services.
type Services struct {
	Authority string   `json:"certificateAuthority"`
	Stamps    []string `json:"timestampAuthorities"`
	Logs      []string `json:"transparencyLogs"`
	// Legacy is the log for signatures in the legacy forms, if there are any.
	Legacy string `json:"olderTransparencyLog,omitempty"`
}

// Signatures are what one act would sign in one role.
type Signatures struct {
	Act  string      `json:"act"`
	Role policy.Role `json:"role"`
	// Token is the token's name on the command line, From its source: empty
	// if none was given.
	Token string `json:"token"`
	From  string `json:"from,omitempty"`
	// Expected are the identities that may sign, by the policy. As is the one
	// that the token names; empty if the token was not read, or does not say.
	Expected []string    `json:"expected"`
	As       string      `json:"as,omitempty"`
	What     []KindCount `json:"what"`
	// Certificates is a lower bound: an expired certificate is replaced.
	Certificates int `json:"certificates"`
	Timestamps   int `json:"timestamps"`
	Entries      int `json:"logEntries"`
	// Unfinished signatures were begun by an earlier run and may be in the
	// log; Kept ones are complete and only have to be stored.
	Unfinished int `json:"unfinished,omitempty"`
	Kept       int `json:"kept,omitempty"`
}

// KindCount counts the things of one kind that get a signature or have one.
type KindCount struct {
	Kind   string `json:"kind"`
	Due    int    `json:"due"`
	Signed int    `json:"signed"`
	legacy bool   // in the legacy forms
}

// Kinds of things besides the classes of artifacts.
const (
	documents  = "SBOM of an image"        // attached to the image
	legacyForm = "file in the legacy form" // the .sig and .cert of a file
	legacyTag  = "image in the legacy form"
	legacySBOM = "SBOM of an image in the legacy form"
)

// Err is a refusal if anything would stop the acts.
func (f Forecast) Err() error {
	if len(f.Against) == 0 {
		return nil
	}
	v := verdict.New("sign "+f.Name+" "+f.Version, f.Time)
	v.Counts.Required = len(f.Against)
	v.Add(f.Against...)
	return v.Err()
}

// Due counts the signatures that have to be made or finished.
func (f Forecast) Due() (n int) {
	for _, s := range f.Signatures {
		for _, h := range s.What {
			n += h.Due
		}
	}
	return n
}

// ForecastActs forecasts signing or sealing what was built.
func (p *Pipeline) ForecastActs(ctx context.Context, names ...string) (Forecast, error) {
	if err := (forms{p.job}).requireLog(); err != nil {
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
	if !slices.Contains(names, ActSign) { // sealing requires the results of the other acts
		for _, a := range o.Due {
			f.Against = append(f.Against, verdict.Find(verdict.Unsigned, a.Name, "no valid signature yet; run waybill sign first"))
		}
	}
	return o.fill(ctx, f, slice.Map(names, actNamed)...)
}

// ForecastStage forecasts everything that [Pipeline.Stage] would sign,
// considering what an earlier run did in the state directory.
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

// outlook is the input of a forecast: what is planned, and which of it
// exists.
type outlook struct {
	*job
	plan plan.Plan
	w    *workspace.Workspace // nil before the first run
	seal.Outlook
}

// begun opens the workspace that an earlier run made for f, if there is one,
// and plans the forms in which the release is signed.
func (o *outlook) begun(f found) (err error) {
	if err := (forms{o.job}).requireLog(); err != nil {
		return err
	}
	if err := workspace.Check(o.State, f.identity("")); err != nil {
		return err
	}
	if o.plan, err = (forms{o.job}).planned(f.plan, nil); err != nil {
		return err
	}
	if o.w, err = workspace.Open(o.State); err != nil {
		o.w = nil // no run has begun there
	}
	return nil
}

// forecast returns an empty forecast of the plan.
func (o *outlook) forecast(commit string, asked ...string) Forecast {
	return Forecast{
		Schema: forecastSchema, Name: o.plan.Name, Version: o.plan.Version.String(), Commit: commit, State: o.State, Time: o.Clock().UTC(),
		Asked: append([]string{}, asked...),
	}
}

// elsewhere forecasts one act that needs no state directory.
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
		if slices.ContainsFunc(s.What, func(h KindCount) bool { return h.legacy }) {
			f.Services.Legacy = services.LogV1
		}
		if s.From != "" && !slices.Contains(f.Asked, s.From) {
			f.Asked = append(f.Asked, s.From)
		}
		f.Signatures = append(f.Signatures, s)
	}
	return f, nil
}

// signatures returns what one act would sign, and as whom. An available token
// is compared with the policy now; a forecast never asks a person to log in.
func (o *outlook) signatures(ctx context.Context, a act, services sign.Services) (Signatures, error) {
	name := a.signs.token
	if a.signs.role == policy.Builder {
		name = builderToken(ctx, o.job, sandbox.Examine(ctx).Mode, false)
	}
	s := Signatures{Act: a.name, Role: a.signs.role, Token: name, Expected: o.Profile.Policy.Expected(a.signs.role)}
	key, source := o.Keys[s.Token], o.Tokens[s.Token]
	signer, err := o.counter(s.Role, key, source)
	if err != nil {
		return Signatures{}, err
	}
	var known []sign.Order
	s.What, known = a.signs.orders(ctx, o)
	if slices.ContainsFunc(s.What, func(h KindCount) bool { return h.legacy }) {
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
	case bundles+legacy+due.New > 0 || s.Role == policy.Builder: // builds get a certificate before their first step
		s.Certificates = 1
	}
	if key == nil && source != nil {
		s.From = source.String()
	}
	if key != nil || source != nil && !token.IsPerson(source) {
		var who identity.Identity
		if who, err = signer.As(ctx); who.Subject != "" {
			s.As = who.String()
		}
	}
	return s, err
}

// counter returns a signer that only counts, with the signatures of an
// earlier run. It signs nothing.
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

// unknown counts the due signatures that have no order yet: artifacts that do
// not exist yet are only known by number. Signatures in the legacy forms have
// no timestamp and one log entry.
func unknown(what []KindCount, known []sign.Order) (bundles, legacy int) {
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
	return verdict.Refuse(verdict.Usage, plan.ConfigName, "release.yaml says that another tool makes the outputs, so there is nothing to build; import them with waybill seal --from PLACE")
}
