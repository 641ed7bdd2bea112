package profile

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
)

// The names of the built-in profiles. To use a file of such a name, write
// ./kubernetes.
const (
	// Kubernetes describes how its releases are published today, without a
	// manifest.
	Kubernetes = "kubernetes"
	// KubernetesSealed describes how they should be published, with a manifest.
	KubernetesSealed = "kubernetes-sealed"
)

const kubernetesLog = "https://rekor.sigstore.dev"

// kubernetes is a built-in profile for releases of Kubernetes: its public
// addresses, an embedded policy and the embedded known defects. The trust root
// is the reader's.
func kubernetes(with Reader, name string) (Profile, error) {
	if with.Trust == nil {
		return Profile{}, verdict.Refuse(verdict.ConfigParse, "profile", "the built-in profile needs a trust root, and this command fetches none")
	}
	p := Profile{
		Name: name, Path: name, ModuleProxy: defaultModuleProxy,
		files:    mapping{Canonical: "https://dl.k8s.io/release/{version}/", Release: "https://dl.k8s.io/release/{version}/"},
		images:   mapping{Canonical: "registry.k8s.io", Release: "registry.k8s.io"},
		Channels: Channels{Markers: "https://dl.k8s.io/release/{channel}.txt"},
	}
	if name == "kubernetes-today" {
		p.Unsealed = &Unsealed{Layout: layoutKubernetes, Log: kubernetesLog}
	}
	raw, err := policies.Read(name)
	if err != nil {
		return Profile{}, err
	}
	if p.Policy, err = policy.Parse(raw, with.Rules); err != nil {
		return Profile{}, err
	}
	if raw, err = policies.Read("kubernetes-known-defects"); err != nil {
		return Profile{}, err
	}
	list, err := waiver.CarriedList(raw)
	if err != nil {
		return Profile{}, err
	}
	p.Defects = append(p.Defects, list)
	p.TrustRoot, err = with.Trust()
	return p, err
}

// layoutKubernetes is how Kubernetes publishes today.
const layoutKubernetes = "kubernetes"

// Unsealed says that the releases of a project have no manifest, and how they
// are published instead. The profile must say so: a missing manifest does not
// make a release unsealed.
type Unsealed struct {
	// Layout names how they are published; the only one is kubernetes.
	Layout string `yaml:"layout"`
	// Log is the Rekor v1 log that says when the signatures were made; empty if
	// the signatures carry that themselves.
	Log string `yaml:"log"`
}

func (u *Unsealed) check() error {
	if u != nil && u.Layout != layoutKubernetes {
		return fmt.Errorf("unsealed.layout: %q: want %s, the only known layout", u.Layout, layoutKubernetes)
	}
	return nil
}
