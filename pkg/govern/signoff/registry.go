package signoff

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Registry lists the feature gates and metrics that the release really has.
type Registry struct {
	gates   map[string]registered
	metrics map[string]bool // nil where nobody lists any
}

// Features is the registry of a program that has a table of its features: they
// are at the stage that they have in a version. Such a table has no metrics.
func Features(table feature.Registry, at version.Version) *Registry {
	r := &Registry{gates: map[string]registered{}}
	for _, k := range table.Keys() {
		d, _ := table.Definition(k) // it is one of its keys
		is, known := d.At(at)
		if !known {
			continue
		}
		name := k.String()
		if k.Namespace == feature.CoreNamespace {
			name = k.Name
		}
		// Each can be switched off: waiting for whoever uses it comes before the
		// tasks that it has, and where it has none is all there is to do.
		r.gates[name] = registered{Name: name, Stage: stageOf(is.Stage), OffTasks: true}
	}
	return r
}

// stageOf is a stage of the table in the words of documents: what is on its
// way out had to be stable.
func stageOf(s feature.Stage) Stage {
	switch s {
	case feature.GA, feature.Deprecated:
		return Stable
	}
	return Stage(s)
}

type registered struct {
	Name  string `yaml:"name"`
	Stage Stage  `yaml:"stage"`
	// OffTasks says that something is there that switches the feature off
	// again.
	OffTasks bool `yaml:"offTasks"`
}

// ParseRegistry reads a list of gates and metrics.
func ParseRegistry(raw []byte) (*Registry, error) {
	var f struct {
		Gates   []registered `yaml:"gates"`
		Metrics []string     `yaml:"metrics"`
	}
	if err := strictyaml.Unmarshal(raw, &f, strictyaml.MaxSize(maxFile)); err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, "feature registry", err)
	}
	r := &Registry{gates: map[string]registered{}, metrics: map[string]bool{}}
	for _, g := range f.Gates {
		if _, twice := r.gates[g.Name]; twice || g.Name == "" || !g.Stage.known() {
			return nil, verdict.Refuse(verdict.ConfigParse, "feature registry", "gate %s: want a name of its own, and stage alpha, beta or stable", quoted(g.Name))
		}
		r.gates[g.Name] = g
	}
	for _, m := range f.Metrics {
		r.metrics[m] = true
	}
	if len(r.gates)+len(r.metrics) == 0 {
		return nil, verdict.Refuse(verdict.ConfigParse, "feature registry", "it lists nothing; then no feature could ever be in it")
	}
	return r, nil
}

// check compares what a kep.yaml names with what the release has.
func (r *Registry) check(name string, k KEP, at Stage) (found []verdict.Finding) {
	say := func(format string, args ...any) {
		found = append(found, verdict.Find(verdict.SignoffFeature, name, format, args...))
	}
	for _, g := range k.Gates {
		has, there := r.gates[g.Name]
		switch {
		case !there:
			say("the release has no feature gate %s", quoted(g.Name))
		case has.Stage != at:
			found = append(found, verdict.Find(verdict.SignoffFeature, name, "the release has the gate %s at another stage", quoted(g.Name)).
				Differ(string(at), string(has.Stage)))
		case strings.EqualFold(k.DisableSupported, "true") && !has.OffTasks:
			say("it says that the feature can be disabled, and nothing in the release switches %s off again", quoted(g.Name))
		}
	}
	if at.reaches(Beta) && r.metrics != nil {
		for _, m := range k.Metrics {
			if !r.metrics[m] {
				say("the release has no metric %s", quoted(m))
			}
		}
	}
	return found
}
