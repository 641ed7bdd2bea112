//go:build !linux

package sandbox

import (
	"errors"
	"os/exec"
	"runtime"
)

// probe: namespaces are a thing of Linux.
func probe() error { return errors.New("isolation is not implemented on " + runtime.GOOS) }

// start runs cmd to its end.
func start(cmd *exec.Cmd, _ Mode) error { return cmd.Run() }
