package profile

import (
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/policies"
)

// The names of the profiles that every verifier carries. A file of such a name
// is meant by ./kubernetes.
const (
	// Kubernetes is how its releases are published today, without a manifest.
	Kubernetes = "kubernetes"
	// KubernetesSealed is how they should be.
	KubernetesSealed = "kubernetes-sealed"
)

// kubernetesLog is the log in which the signatures of Kubernetes stand.
const kubernetesLog = "https://rekor.sigstore.dev"

// kubernetes is the profile of the releases of Kubernetes: its public
// addresses, a policy and the known defects that are shipped, and no trust
// root but the reader's.
func kubernetes(with Reader, name string) (Profile, error) {
	if with.Trust == nil {
		return Profile{}, verdict.Refuse(verdict.ConfigParse, "profile", "the built-in profile names no trust root, and no repository is asked here")
	}
	p := Profile{
		Name: name, Path: name, ModuleProxy: DefaultModuleProxy,
		files:    mapping{Canonical: "https://dl.k8s.io/release/{version}/", Release: "https://dl.k8s.io/release/{version}/"},
		images:   mapping{Canonical: "registry.k8s.io", Release: "registry.k8s.io"},
		Channels: Channels{Markers: "https://dl.k8s.io/release/{channel}.txt"},
	}
	if name == "kubernetes-today" {
		p.Unsealed = &Unsealed{Layout: LayoutKubernetes, Log: kubernetesLog}
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
