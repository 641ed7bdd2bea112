package componentbase

import (
	"fmt"

	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/component-base/featuregate"

	"github.com/waybill-release/waybill/pkg/govern/feature"
)

// Add adds the features of one namespace to a gate, as the registry defines them.
func Add(to featuregate.MutableVersionedFeatureGate, r feature.Registry, namespace string) error {
	specs := map[featuregate.Feature]featuregate.VersionedSpecs{}
	for _, k := range r.Keys() {
		if k.Namespace != namespace {
			continue
		}
		d, _ := r.Definition(k)
		name := featuregate.Feature(k.Name)
		for _, v := range d.Versions {
			since, err := utilversion.Parse(fmt.Sprintf("%d.%d", v.Since.Major(), v.Since.Minor()))
			if err != nil {
				return fmt.Errorf("adding feature %s: %w", k, err)
			}
			spec := featuregate.FeatureSpec{Version: since, Default: v.Default == feature.On}
			switch {
			case v.Removed:
				spec.PreRelease, spec.LockToDefault = featuregate.Deprecated, true
			case v.Stage == feature.Alpha:
				spec.PreRelease = featuregate.Alpha
			case v.Stage == feature.Beta:
				spec.PreRelease = featuregate.Beta
			case v.Stage == feature.Deprecated:
				spec.PreRelease = featuregate.Deprecated
			default:
				spec.PreRelease = featuregate.GA
			}
			specs[name] = append(specs[name], spec)
		}
	}
	if len(specs) == 0 {
		return fmt.Errorf("adding features: namespace %q has no features", namespace)
	}
	return to.AddVersioned(specs)
}

// At makes an empty gate for a program of this version.
func At(major, minor int) (*Gate, error) {
	v, err := utilversion.Parse(fmt.Sprintf("%d.%d", major, minor))
	if err != nil {
		return nil, fmt.Errorf("making feature gates: %w", err)
	}
	return New(featuregate.NewVersionedFeatureGate(v)), nil
}
