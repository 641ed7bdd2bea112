package gate_test

import (
	"context"
	"fmt"

	"github.com/waybill-release/waybill/pkg/gate"
)

// A program that verifies a release asks what k8s-verify-release asks, withdrawals
// and known defects included.
func ExampleOpen() {
	ctx := context.Background()
	g, err := gate.Open(ctx, "profile.yaml", gate.Opening{})
	if err != nil {
		fmt.Println("nothing could be asked:", err)
		return
	}
	v, err := g.Verify(ctx, "v1.2.3")
	if err != nil {
		fmt.Println("nothing could be asked:", err)
		return
	}
	if err := v.Err(); err != nil {
		fmt.Println("not accepted:", err)
	}
}
