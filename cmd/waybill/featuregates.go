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
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/effective"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/produce/attest"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// gatesFlag names the flag that switches features for one run.
const gatesFlag = "feature-gates"

// reporting is how long a command may take to report its features.
const reporting = 10 * time.Second

// featureFlags are the options of every command that depends on features.
type featureFlags struct {
	place    string // the site
	identity string // the name to report under
	gate     *componentbase.Gate

	offline func() bool
	opened  bool // the site was opened, with the result in at and failed
	at      featurestore.Site
	failed  error
}

// addFlags adds --feature-gates, and those of [featureFlags.addSiteFlags].
func (f *featureFlags) addFlags(cmd *cobra.Command) {
	f.addSiteFlags(cmd)
	addGatesFlag(cmd, f.gate)
	addHelp(cmd, `--feature-gates switches features for one run. With TraceAnnotations=false the
evidence that is attached to an image does not name the run that attached it; with
EmitVSA=false no verification summaries are made, but promotions are still recorded;
with KMSSigning=false no KMS key signs.`)
}

// addGatesFlag adds only --feature-gates. Help leaves out what it switches off.
func addGatesFlag(cmd *cobra.Command, g *componentbase.Gate) {
	usage := "NAME=true or NAME=false, comma-separated: features of this run. GA features are not listed. Options are:\n"
	cmd.Flags().Var(gateValue{g}, gatesFlag, usage+strings.Join(g.KnownFeatures(), "\n"))
	leaveOutHelp(cmd, g)
}

// addHelp puts a paragraph into the help of a command, above the exit status.
func addHelp(cmd *cobra.Command, text string) {
	cmd.Long = exit.Above(cmd.Long, text)
}

// addSiteFlags adds the flags that make a command use the features of a site, and
// report its values there. Call it after the command has its RunE, which it wraps.
func (f *featureFlags) addSiteFlags(cmd *cobra.Command) {
	f.gate = newGate()
	f.offline = func() bool { return isSet(cmd, "offline") }
	cmd.Flags().StringVar(&f.place, "features", "", "directory, bucket or kubernetes://NAMESPACE with the features of the site, written by waybill feature reconcile: it switches the requirements that the policy lets a site switch, and receives the report of --report-as")
	cmd.Flags().StringVar(&f.identity, "report-as", "", "with --features: report the features that this run used, and their values, under this name")
	addHelp(cmd, `--features names the place where a site stores its features. They switch those
requirements of the policy that it allows a site to switch. With --report-as the run
reports the values of its features to the site, which completes no transition before
every program has the new value. If the site does not answer, the report is lost; if
the policy depends on the site, nothing is decided.`)
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

// newGate makes the feature gate of this program, with the features that it knows.
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

// featureVersion is the version of this program that features depend on. A build
// without a version counts as the newest.
func featureVersion() version.Version {
	v, err := version.Parse(cli.BuildVersion())
	if err != nil {
		return known.Newest()
	}
	return v
}

// asks returns a function to call where the feature makes a difference. Calling it
// records that this run used the feature.
func (f *featureFlags) asks(name featuregate.Feature) func() bool {
	return func() bool { return f.gate.Enabled(name) }
}

// evidenceOptions says which optional evidence is made. A command without --feature-gates
// makes all of it.
func (f *featureFlags) evidenceOptions() attest.Options {
	if f.gate == nil {
		return attest.Options{}
	}
	return attest.Options{Summaries: f.asks(known.EmitVSA), Hints: f.asks(known.TraceAnnotations)}
}

// site is the site of --features, and whether the flag was given.
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

// switches say which requirements of a policy are enforced, by the features of the
// site. They are nil without a site, or if the policy lets a site switch nothing;
// then every requirement is enforced as written.
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
		if _, left := floors[l.Name]; left { // record that this run used it
			f.gate.Enabled(featuregate.Feature(l.Name))
		}
	}
	return s, nil
}

// openSite opens a site in a directory, a bucket or a namespace of a cluster.
func openSite(uri string, offline bool) (featurestore.Site, error) {
	rt := cli.Transport(offline)
	return featurestore.OpenSite(uri, func(uri string) (featurestore.Place, error) {
		at, err := openPlace(uri, rt)
		if err != nil {
			return featurestore.Place{}, err
		}
		w, err := openWriter(uri, rt)
		return featurestore.Place{Place: at, Writer: w}, err
	})
}

// begin sets the features of the run from the site, if the run reports to it, and
// returns the function that reports when the run ends. If the site does not answer,
// only the report is lost.
func (f *featureFlags) begin(c *cobra.Command) (end func(), err error) {
	nothing := func() {}
	if f.identity == "" {
		return nothing, nil
	}
	if f.place == "" {
		return nil, verdict.Refuse(verdict.Usage, "--report-as", "needs --features, the site to report to")
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
		warnUnreported(c, err)
		return nothing, nil
	}
	return func() {
		ctx, stop := context.WithTimeout(context.WithoutCancel(c.Context()), reporting)
		defer stop()
		if err := f.gate.Report(ctx); err != nil {
			warnUnreported(c, err)
		}
	}, nil
}

// follow sets the features that the site decides: the requirements of the gate, and
// dynamic features. A feature that a flag sets keeps that value.
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

// warnUnreported warns that nothing was reported.
func warnUnreported(c *cobra.Command, err error) {
	first, _, _ := strings.Cut(err.Error(), "\n") // the other lines are about other features
	loggerOf(c.Context()).WarnContext(c.Context(), "WARNING: the features of this run are not reported: "+first)
}

// gateValue is a feature gate as the value of a flag, which may be given again.
type gateValue struct{ *componentbase.Gate }

// Set sets features, as component-base reads them.
func (v gateValue) Set(text string) error {
	err := v.set(text)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%w; known are %s", err, strings.Join(slice.Map(v.Lines(), func(l componentbase.Line) string { return l.Name }), ", "))
}

func (v gateValue) set(text string) error {
	// The log of component-base claims that a GA feature will be removed; that
	// does not apply here.
	quiet, is := v.MutableVersionedFeatureGate.(featuregate.MutableFeatureGateWithLogger)
	if !is {
		return v.Gate.Set(text)
	}
	return quiet.SetWithLogger(klog.Logger{}, text)
}

// String lists the features that were set.
func (v gateValue) String() string {
	if v.Gate == nil { // pflag calls this on a zero value
		return ""
	}
	return strings.Join(v.GetSlice(), ",")
}

// Type is the name that Kubernetes' programs give this type.
func (v gateValue) Type() string { return "mapStringBool" }

// Append implements [pflag.SliceValue], by which a flag may be given again.
func (v gateValue) Append(text string) error { return v.Set(text) }

// Replace implements [pflag.SliceValue].
func (v gateValue) Replace([]string) error {
	return errors.New("features that were set cannot be unset")
}

// GetSlice implements [pflag.SliceValue]: the features that were set explicitly.
func (v gateValue) GetSlice() (list []string) {
	for _, l := range v.Lines() {
		if v.ExplicitlySet(featuregate.Feature(l.Name)) {
			list = append(list, fmt.Sprintf("%s=%t", l.Name, l.Enabled))
		}
	}
	return list
}

var _ pflag.SliceValue = gateValue{}

// switchedOff are the flags and schema keys of the features that --feature-gates
// switches off. Help and schema leave them out.
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

// leaveOutHelp makes the help of a command leave out what belongs to a feature that
// --feature-gates switches off on the same command line: a flag of that name, and
// an alternative in a usage text, as in "FILE or KEY".
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
