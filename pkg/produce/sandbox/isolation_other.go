//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"runtime"
)

// Serve says that this process is not a runner: there are none on this
// system.
func Serve() (code int, ok bool) { return 0, false }

// probe refuses: isolation needs Linux, and the filter supports two
// architectures.
func probe(_ context.Context, mode Mode) (Report, error) {
	return Report{}, &ModeError{Mode: mode, Reason: "isolation is not implemented on " + runtime.GOOS + "/" + runtime.GOARCH}
}

// isolated refuses.
func isolated(ctx context.Context, mode Mode, _ Step, _ *Log) (Report, error) {
	return probe(ctx, mode)
}
