package gate_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/policies"
)

// A place without a signed manifest is refused: an empty directory proves nothing.
func ExampleGate_Verify() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	policy, err := policies.Read("slsa-build-l2")
	if err != nil {
		fmt.Println(err)
		return
	}
	for name, text := range map[string]string{
		"policy.yaml": string(policy), "root.json": string(trust.Embedded().Raw()), "v1.2.3/hello": "hello",
		"profile.yaml": "apiVersion: waybill/v1\nkind: Profile\nname: hello\npolicy: policy.yaml\ntrustedRoot: root.json\n" +
			"places: {files: {canonical: 'https://dl.example.test/{version}/', release: 'file://" + filepath.ToSlash(dir) + "/{version}/'}}\n",
	} {
		if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(name)), 0o755); err != nil {
			fmt.Println(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			fmt.Println(err)
		}
	}
	ctx, now := context.Background(), time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	g, err := gate.Open(ctx, filepath.Join(dir, "profile.yaml"), gate.Opening{Offline: true, Reader: profile.Reader{Now: now}})
	if err != nil {
		fmt.Println(err)
		return
	}
	v, err := g.Verify(ctx, "v1.2.3")
	fmt.Println(v.Headline(), err)
	// Output: REFUSED v1.2.3: 1 file without the required evidence: release.manifest.sigstore.json <nil>
}
