package trace_test

import (
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/trace"
)

// What a run creates keeps the run's trace as its initial one; a later run that
// changes it leaves that as it was.
func ExampleStamp() {
	build, err := trace.ParseTraceparent("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	if err != nil {
		fmt.Println(err)
		return
	}
	promotion, err := trace.ParseTraceparent("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	if err != nil {
		fmt.Println(err)
		return
	}
	made, _ := trace.Stamp(trace.Create, build, trace.IDs{})
	moved, conflict := trace.Stamp(trace.Update, promotion, made)
	fmt.Println(moved.Trace, moved.Initial, conflict == nil)
	// Output: 0af7651916cd43dd8448eb211c80319c 4bf92f3577b34da6a3ce929d0e0e4736 true
}
