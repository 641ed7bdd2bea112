package profile_test

import (
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// A profile says where releases are, and names policy and trust root. The one of
// Kubernetes is built in; others are files.
func ExampleLoad() {
	p, err := profile.Load(profile.Kubernetes, profile.Reader{
		Now:   time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC),
		Trust: func() (trust.Root, error) { return trust.Embedded(), nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := version.Parse("v1.31.2")
	if err != nil {
		fmt.Println(err)
		return
	}
	files, images := p.Canonical(v)
	fmt.Println(p.Name, p.Policy.Name(), files, images)
	// Output: kubernetes-today kubernetes-today https://dl.k8s.io/release/v1.31.2/ registry.k8s.io
}
