package serve

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/govern/feature/componentbase"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/tool/slice"
)

// saidFor is how long a report stays valid if no process waits for a new one.
const saidFor = time.Hour

// flags are the feature gates of the service, and the source of each value.
type flags struct {
	gate *componentbase.Gate

	mu sync.Mutex // guards the fields below
	by map[featuregate.Feature]string
}

// Sources of a value.
const (
	byDefault = "default"
	byFlag    = "flag"
	byStore   = "store"
)

// newFlags returns the flags of a gate; without one, those of Waybill with
// their defaults.
func newFlags(gate *componentbase.Gate) (*flags, error) {
	f := &flags{gate: gate, by: map[featuregate.Feature]string{}}
	if gate == nil {
		var err error
		newest := known.Newest()
		if f.gate, err = componentbase.At(newest.Major(), newest.Minor()); err != nil {
			return nil, err
		}
		if err := componentbase.Add(f.gate, known.Registry(), feature.CoreNamespace); err != nil {
			return nil, err
		}
	}
	for name := range f.gate.GetAll() {
		if f.by[name] = byDefault; f.gate.ExplicitlySet(name) {
			f.by[name] = byFlag
		}
	}
	return f, nil
}

// enabled returns whether a feature is enabled, and counts as a use of it. An
// unknown feature is disabled.
func (f *flags) enabled(name string) bool {
	if _, has := f.gate.GetAll()[featuregate.Feature(name)]; !has {
		return false
	}
	return f.gate.Enabled(featuregate.Feature(name))
}

// follow updates the flags to the states in force: a requirement of the policy
// is on if its state leads there, and a dynamic flag if the store enables it.
// Features that the policy does not name are never enabled here. Values set on
// the command line remain.
func (f *flags) follow(now *switched) {
	for _, name := range []string{known.RequireProvenance, known.RequireSignoff} {
		value, by := false, byDefault
		for _, s := range now.States() {
			if s.Namespace == feature.CoreNamespace && s.Name == name {
				value, by = leadsOn(s.State), fmt.Sprintf("transition %d", s.Number)
			}
		}
		f.set(name, value, by)
	}
	r := known.Registry()
	for _, o := range now.objects {
		if d, is := r.Definition(o.Key()); is && d.Dynamic {
			f.set(d.Name, o.Wants() == feature.On, byStore)
		}
	}
}

// leadsOn reports whether a state is On, or leads to On.
func leadsOn(state string) bool {
	return state == string(feature.On) || state == string(feature.TurningOn)
}

func (f *flags) set(name string, value bool, by string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := featuregate.Feature(name)
	if _, has := f.by[key]; !has || f.by[key] == byFlag {
		return
	}
	if f.gate.SetFromMap(map[string]bool{name: value}) == nil {
		f.by[key] = by
	}
}

// needsReport reports whether the store lacks something that the service found. A
// process that waits for uses clears them first, so that they are reported
// again.
func (f *flags) needsReport(objects []feature.Feature, as *Features, now time.Time) bool {
	lines := f.gate.Lines()
	return slices.ContainsFunc(objects, func(o feature.Feature) bool {
		i := slices.IndexFunc(lines, func(l componentbase.Line) bool {
			return o.Key() == (feature.Key{Namespace: feature.CoreNamespace, Name: l.Name})
		})
		return i >= 0 && !slices.ContainsFunc(o.Status.Uses, func(u feature.Use) bool {
			return u.Identity == as.Identity && u.Version == as.Version && u.Value == lines[i].Enabled &&
				(u.Checked || !lines[i].Checked) && now.Sub(u.LastSeen) < saidFor
		})
	})
}

// flag is a line of /flagz.
type flag struct {
	componentbase.Line
	// Source is who set it: default, flag, store, or the number of a signed
	// transition.
	Source string `json:"source"`
}

func (f *flags) lines() (all []flag) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slice.Map(f.gate.Lines(), func(l componentbase.Line) flag { return flag{l, f.by[featuregate.Feature(l.Name)]} })
}

// schemaFlags is the schema of the JSON form of /flagz.
const schemaFlags = "waybill/flags/v1"

// flagz answers GET /flagz: the features of the program, and the source of each
// value.
func (s *Server) flagz(w http.ResponseWriter, r *http.Request) {
	all := s.flags.lines()
	if strings.Contains(r.Header.Get("Accept"), "application/json") {
		writeJSON(w, http.StatusOK, struct {
			Schema string `json:"schema"`
			Flags  []flag `json:"flags"`
		}{schemaFlags, all})
		return
	}
	var out bytes.Buffer
	t := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTAGE\tENABLED\tCHECKED\tSOURCE")
	for _, l := range all {
		fmt.Fprintf(t, "%s\t%s\t%t\t%t\t%s\n", l.Name, l.Stage, l.Enabled, l.Checked, l.Source)
	}
	_ = t.Flush() // writes to memory cannot fail
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(out.Bytes())
}

// states are all states of a feature, as labels of a metric.
func states() []feature.State {
	return []feature.State{feature.Off, feature.TurningOn, feature.On, feature.TurningOff}
}

// measure writes metrics of the features known to the program.
func (f *featureReader) measure(w io.Writer, now *switched) {
	head := func(name, help string) { fmt.Fprintf(w, "# HELP %[1]s %[2]s\n# TYPE %[1]s gauge\n", name, help) }
	number := func(is bool) int {
		if is {
			return 1
		}
		return 0
	}
	head("waybill_feature_enabled", "Features of the program, 1 if enabled.")
	for _, l := range f.flags.gate.Lines() {
		fmt.Fprintf(w, "waybill_feature_enabled{name=%q,stage=%q} %d\n", l.Name, l.Stage, number(l.Enabled))
	}
	if now == nil {
		return
	}
	head("waybill_feature_state", "Features that switch requirements of the policy, 1 for the state in force.")
	if now.Switches != nil {
		for _, one := range now.States() {
			for _, state := range states() {
				fmt.Fprintf(w, "waybill_feature_state{name=%q,state=%q} %d\n", one.Name, string(state), number(one.State == string(state)))
			}
		}
	}
	head("waybill_features_known", "1 if the states of the features are known; at 0 every decision is unavailable.")
	fmt.Fprintf(w, "waybill_features_known %d\n", number(f.checkKnown(now) == nil))
	head("waybill_features_age_seconds", "Seconds since the features were read.")
	if now.Switches != nil {
		fmt.Fprintf(w, "waybill_features_age_seconds %g\n", max(0, f.world.Clock().Sub(now.at).Seconds()))
	}
}
