//go:build !linux

package sandbox

import "os/exec"

// start runs cmd to its end.
func start(cmd *exec.Cmd) error { return cmd.Run() }
