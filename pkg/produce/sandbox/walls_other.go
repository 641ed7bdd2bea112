//go:build !linux || !(amd64 || arm64)

package sandbox

import (
	"context"
	"runtime"
)

// Serve says that this process is no runner: there are none here.
func Serve() (code int, ok bool) { return 0, false }

// probe: the walls are things of Linux, and the filter of two architectures.
func probe(_ context.Context, mode Mode) (Report, error) {
	return Report{}, &ModeError{Mode: mode, Reason: "isolation is not implemented on " + runtime.GOOS + "/" + runtime.GOARCH}
}

// walled runs nothing.
func walled(ctx context.Context, mode Mode, _ Step, _ *Log) (Report, error) {
	return probe(ctx, mode)
}
