//go:build !linux

package stories

import "testing"

// alone needs namespaces.
func alone(t *testing.T, _ *desk) { t.Skip("network namespaces are of Linux") }
