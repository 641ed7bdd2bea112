package profile

import "fmt"

// LayoutKubernetes is how Kubernetes publishes today.
const LayoutKubernetes = "kubernetes"

// Unsealed says that the releases of a project have no manifest, and how they
// are published instead. A profile must say it: that no manifest is found
// makes no release unsealed.
type Unsealed struct {
	// Layout names how they are published; there is one, [LayoutKubernetes].
	Layout string `yaml:"layout"`
	// Log is the Rekor v1 log that knows when their signatures were made; empty
	// where they say so themselves.
	Log string `yaml:"log"`
}

func (u *Unsealed) check() error {
	if u != nil && u.Layout != LayoutKubernetes {
		return fmt.Errorf("unsealed.layout: %q: want %s, the one that is known", u.Layout, LayoutKubernetes)
	}
	return nil
}
