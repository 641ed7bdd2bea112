package profile

import "fmt"

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
