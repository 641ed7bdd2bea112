package signoff

import (
	"strings"

	"github.com/waybill-release/waybill/pkg/govern/feature"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Registry lists the feature gates and metrics of the release.
type Registry struct {
	gates   map[string]registered
	metrics map[string]bool // nil if there is no list
}

// Features makes the registry from a table of features, with their stages in a version.
// Such a table has no metrics.
func Features(table feature.Registry, at version.Version) *Registry {
	r := &Registry{gates: map[string]registered{}}
	for _, k := range table.Keys() {
		d, _ := table.Definition(k) // k is one of its keys
		is, known := d.At(at)
		if !known {
			continue
		}
		name := k.String()
		if k.Namespace == feature.CoreNamespace {
			name = k.Name
		}
		// Every feature can be switched off: the wait for its users is always a task.
		r.gates[name] = registered{Name: name, Stage: stageOf(is.Stage), OffTasks: true}
	}
	return r
}

// stageOf converts a stage of the table to one of documents: a deprecated feature must
// have been stable.
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
	// OffTasks says that the release can switch the feature off again.
	OffTasks bool `yaml:"offTasks"`
}

type registryFile struct {
	Gates   []registered `yaml:"gates"`
	Metrics []string     `yaml:"metrics"`
}

// ParseRegistry reads a list of gates and metrics.
func ParseRegistry(raw []byte) (*Registry, error) {
	var f registryFile
	if err := strictyaml.Unmarshal(raw, &f, strictyaml.MaxSize(maxFile)); err != nil {
		return nil, verdict.Wrap(verdict.ConfigParse, "feature registry", err)
	}
	r := &Registry{gates: map[string]registered{}, metrics: map[string]bool{}}
	for _, g := range f.Gates {
		if _, twice := r.gates[g.Name]; twice || g.Name == "" || !g.Stage.known() {
			return nil, verdict.Refuse(verdict.ConfigParse, "feature registry", "gate %s: want a unique name, and stage alpha, beta or stable", quoted(g.Name))
		}
		r.gates[g.Name] = g
	}
	for _, m := range f.Metrics {
		r.metrics[m] = true
	}
	if len(r.gates)+len(r.metrics) == 0 {
		return nil, verdict.Refuse(verdict.ConfigParse, "feature registry", "the list is empty, so no feature could be in it")
	}
	return r, nil
}

// check compares the gates and metrics of a kep.yaml with those of the release.
func (r *Registry) check(name string, k KEP, at Stage) (found []verdict.Finding) {
	say := func(format string, args ...any) {
		found = append(found, verdict.Find(verdict.SignoffFeature, name, format, args...))
	}
	for _, g := range k.Gates {
		has, there := r.gates[g]
		switch {
		case !there:
			say("the release has no feature gate %s", quoted(g))
		case has.Stage != at:
			found = append(found, verdict.Find(verdict.SignoffFeature, name, "the release has the gate %s at another stage", quoted(g)).
				Differ(string(at), string(has.Stage)))
		case strings.EqualFold(k.DisableSupported, "true") && !has.OffTasks:
			say("disable-supported is true, but the release has no tasks that switch %s off", quoted(g))
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
