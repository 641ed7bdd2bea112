package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/component-base/featuregate"
	"k8s.io/klog/v2"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// gatesFlag names the flag that switches features for one run.
const gatesFlag = "feature-gates"

// reporting is how long a command may take to say which features it found.
const reporting = 10 * time.Second

// featureFlags are the options of every command that does one thing or another
// by a feature.
type featureFlags struct {
	place    string // the site
	identity string // as whom to report
	gate     *componentbase.Gate

	offline func() bool
	opened  bool // and what it was opened to
	at      featurestore.Site
	failed  error
}

// addFlags adds --feature-gates, and those of [featureFlags.addSiteFlags].
func (f *featureFlags) addFlags(cmd *cobra.Command) {
	f.addSiteFlags(cmd)
	addGatesFlag(cmd, f.gate)
	explain(cmd, `--feature-gates switches features for one run. Without TraceAnnotations what is
attached to an image does not name the run that attached it; without EmitVSA
nothing is vouched for by a summary, and promotions are recorded all the same;
without KMSSigning no key of a service signs.`)
}

// addGatesFlag adds --feature-gates alone, which help obeys, too.
func addGatesFlag(cmd *cobra.Command, g *componentbase.Gate) {
	usage := "NAME=true or NAME=false, with commas between several: features of this run. A GA feature is not listed. Options are:\n"
	cmd.Flags().Var(gateValue{g}, gatesFlag, usage+strings.Join(g.KnownFeatures(), "\n"))
	leaveOutHelp(cmd, g)
}

// explain puts a paragraph into the help of a command, above the exit status.
func explain(cmd *cobra.Command, text string) {
	cmd.Long = strings.Replace(cmd.Long, exit.Table, text+"\n\n"+exit.Table, 1)
}

// addSiteFlags adds the flags by which a command goes by the features of a
// site, and reports there what it found. It comes after the command has what
// it runs.
func (f *featureFlags) addSiteFlags(cmd *cobra.Command) {
	f.gate = newGate()
	f.offline = func() bool { return isSet(cmd, "offline") }
	cmd.Flags().StringVar(&f.place, "features", "", "site of the features that the policy leaves to it, and to report to: a directory or bucket that waybill feature reconcile keeps")
	cmd.Flags().StringVar(&f.identity, "report-as", "", "with --features: report which features this run asked for, and what it found, under this name of the place that it runs in")
	explain(cmd, `--features names the site whose features the policy goes by, where it says so.
With --report-as the run tells it which features it found how, so that nobody
switches one while a program is behind. A site that does not answer costs the
report; if the policy goes by it, nothing is decided.`)
	do := cmd.RunE
	cmd.RunE = func(c *cobra.Command, args []string) error {
		end, err := f.begin(c)
		if err != nil {
			return err
		}
		defer end()
		return do(c, args)
	}
}

// newGate is the gate of this program, with the features that it knows.
func newGate() *componentbase.Gate {
	v := featureVersion()
	g, err := componentbase.At(v.Major(), v.Minor())
	if err == nil {
		err = componentbase.Add(g, known.Registry(), feature.CoreNamespace)
	}
	if err != nil {
		panic("feature gates: " + err.Error()) // a test reads the table
	}
	return g
}

// featureVersion is the version of this program as features are counted by. A
// build that has none is taken for the newest.
func featureVersion() version.Version {
	v, err := version.Parse(cli.BuildVersion())
	if err != nil {
		return known.Newest()
	}
	return v
}

// asks is a feature, to be asked for where something is decided by it: whoever
// does not come there has not used it.
func (f *featureFlags) asks(name featuregate.Feature) func() bool {
	return func() bool { return f.gate.Enabled(name) }
}

// ways are what is left out of what is signed and attached: nothing by a
// command that has no such flag.
func (f *featureFlags) ways() attest.Options {
	if f.gate == nil {
		return attest.Options{}
	}
	return attest.Options{Summaries: f.asks(known.EmitVSA), Hints: f.asks(known.TraceAnnotations)}
}

// site is the site that the command goes by, and whether there is one.
func (f *featureFlags) site() (featurestore.Site, bool, error) {
	if f.place == "" {
		return featurestore.Site{}, false, nil
	}
	if !f.opened {
		f.at, f.failed = openSite(f.place, f.offline())
		f.opened = true
	}
	return f.at, f.failed == nil, f.failed
}

// switches are how far the requirements of a policy count by the features of
// the site; nil without one, or where the policy leaves nothing to one, and
// then they count as they are written.
func (f *featureFlags) switches(ctx context.Context, p policy.Policy, v *verify.Verifier) (gate.Switches, error) {
	floors := p.Floors()
	if len(floors) == 0 {
		return nil, nil
	}
	site, there, err := f.site()
	if err != nil || !there {
		return nil, err
	}
	s, err := effective.Read(ctx, effective.Config{Site: site, Policy: p, Verifier: v})
	if err != nil {
		return nil, err
	}
	for _, l := range f.gate.Lines() {
		if _, left := floors[l.Name]; left { // it is here that a command goes by it
			f.gate.Enabled(featuregate.Feature(l.Name))
		}
	}
	return s, nil
}

// openSite opens a site at a directory or in a bucket.
func openSite(uri string, offline bool) (featurestore.Site, error) {
	rt := cli.Transport(offline)
	return featurestore.OpenSite(uri, func(uri string) (featurestore.Place, error) {
		at, err := cloud.OpenPlace(uri, rt)
		if err != nil {
			return featurestore.Place{}, err
		}
		w, err := openWriter(uri, rt)
		return featurestore.Place{Place: at, Writer: w}, err
	})
}

// begin follows what is wanted in the store, where a command reports, and
// answers what reports at its end. A store that does not answer costs the
// report, and nothing else.
func (f *featureFlags) begin(c *cobra.Command) (end func(), err error) {
	nothing := func() {}
	if f.identity == "" {
		return nothing, nil
	}
	if f.place == "" {
		return nil, verdict.Refuse(verdict.Usage, "--report-as", "to whom? --features names the site")
	}
	use := feature.Use{Identity: f.identity, Version: featureVersion().String(), LastSeen: time.Now()}
	if _, err := feature.Report(feature.Feature{}, use); err != nil {
		return nil, verdict.Refuse(verdict.Usage, "--report-as", "%q: want one short line", f.identity)
	}
	ctx, stop := context.WithTimeout(c.Context(), reporting)
	defer stop()
	if err := f.follow(ctx); err != nil {
		if verdict.OutcomeOf(err) == verdict.Malformed {
			return nil, err
		}
		unreported(c, err)
		return nothing, nil
	}
	return func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(c.Context()), reporting)
		defer stop()
		if err := f.gate.Report(ctx); err != nil {
			unreported(c, err)
		}
	}, nil
}

// follow sets what the store decides: the requirements of the gate, and what
// may be switched while programs run. What a flag sets stays.
func (f *featureFlags) follow(ctx context.Context) error {
	site, _, err := f.site()
	if err != nil {
		return err
	}
	err = f.gate.InitReporter(componentbase.Reporter{Store: site.Features, Namespace: feature.CoreNamespace, Identity: f.identity, Version: featureVersion()})
	if err != nil {
		return err
	}
	names := []featuregate.Feature{known.RequireProvenance, known.RequireSignoff}
	for _, d := range known.Namespace().Features {
		if d.Dynamic {
			names = append(names, featuregate.Feature(d.Name))
		}
	}
	return f.gate.Follow(ctx, names...)
}

// unreported says once that nothing was reported.
func unreported(c *cobra.Command, err error) {
	first, _, _ := strings.Cut(err.Error(), "\n") // the others are about other features
	loggerOf(c.Context()).WarnContext(c.Context(), "WARNING: the features of this run are not reported: "+first)
}

// gateValue is a gate as a flag has it: given again, it adds to what was given.
type gateValue struct{ *componentbase.Gate }

// Set sets features, as component-base reads them.
func (v gateValue) Set(text string) error {
	err := v.set(text)
	if err == nil {
		return nil
	}
	var names []string
	for _, l := range v.Lines() {
		names = append(names, l.Name)
	}
	return fmt.Errorf("%w; known are %s", err, strings.Join(names, ", "))
}

func (v gateValue) set(text string) error {
	// The log of component-base says that a GA feature will be removed, which
	// nobody here has decided.
	quiet, is := v.MutableVersionedFeatureGate.(featuregate.MutableFeatureGateWithLogger)
	if !is {
		return v.Gate.Set(text)
	}
	return quiet.SetWithLogger(klog.Logger{}, text)
}

// String is what was set.
func (v gateValue) String() string {
	if v.Gate == nil { // as pflag asks of a zero value
		return ""
	}
	return strings.Join(v.GetSlice(), ",")
}

// Type is what Kubernetes' programs call it.
func (v gateValue) Type() string { return "mapStringBool" }

// Append implements [pflag.SliceValue], by which a flag may be given again.
func (v gateValue) Append(text string) error { return v.Set(text) }

// Replace implements [pflag.SliceValue].
func (v gateValue) Replace([]string) error {
	return errors.New("features that were set stay set")
}

// GetSlice implements [pflag.SliceValue]: what was set explicitly.
func (v gateValue) GetSlice() []string {
	var list []string
	for _, l := range v.Lines() {
		if v.ExplicitlySet(featuregate.Feature(l.Name)) {
			list = append(list, fmt.Sprintf("%s=%t", l.Name, l.Enabled))
		}
	}
	return list
}

var _ pflag.SliceValue = gateValue{}

// switchedOff are the keys of the features that a flag switches off: nobody is
// to be shown what he cannot use.
func switchedOff(g *componentbase.Gate) (keys []string) {
	lines := g.Lines()
	for _, d := range known.Namespace().Features {
		off := slices.ContainsFunc(lines, func(l componentbase.Line) bool { return l.Name == d.Name && !l.Enabled })
		if off && g.ExplicitlySet(featuregate.Feature(d.Name)) {
			keys = append(keys, d.Keys...)
		}
	}
	return keys
}

// leaveOutHelp has the help of a command leave out what belongs to a feature
// that --feature-gates switches off on the same command line: a flag of that
// name, and a choice between others, as in "FILE or KEY".
func leaveOutHelp(cmd *cobra.Command, g *componentbase.Gate) {
	show := cmd.HelpFunc()
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, key := range switchedOff(g) {
			c.Flags().VisitAll(func(f *pflag.Flag) {
				f.Usage = strings.ReplaceAll(f.Usage, " or "+key, "")
				f.Hidden = f.Hidden || f.Name == key
			})
		}
		show(c, args)
	})
}
