package profile

import (
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/verdict"
	"github.com/waybill-release/waybill/pkg/waiver"
	"github.com/waybill-release/waybill/policies"
)

// Kubernetes is the name of the profile that every verifier carries. A file of
// this name is meant by ./kubernetes.
const Kubernetes = "kubernetes"

// kubernetes is the profile of the releases of Kubernetes: its public
// addresses, the policy and the known defects that are shipped, and no trust
// root but the reader's.
func kubernetes(with Reader) (Profile, error) {
	if with.Trust == nil {
		return Profile{}, verdict.Refuse(verdict.ConfigParse, "profile", "the built-in profile names no trust root, and no repository is asked here")
	}
	p := Profile{
		Name: Kubernetes, ModuleProxy: DefaultModuleProxy,
		files:  mapping{Canonical: "https://dl.k8s.io/release/{version}/", Release: "https://dl.k8s.io/release/{version}/"},
		images: mapping{Canonical: "registry.k8s.io", Release: "registry.k8s.io"},
	}
	raw, err := policies.Read("kubernetes-release")
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
