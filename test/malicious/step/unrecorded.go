package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// uses are inputs that it takes without saying so.
func uses() map[string]func() error {
	return map[string]func() error{
		"use-toolchain":   func() error { return dial("tcp", "go.dev:443") },
		"use-names":       useNames,
		"use-header":      func() error { return readFile("/usr/include/stdio.h") },
		"use-program":     func() error { return readFile("/usr/bin/env") },
		"use-outside":     func() error { return readFile(filepath.Join(os.Getenv("SOURCE"), "..", "outside.txt")) },
		"use-path":        func() error { return readFile(filepath.Join(os.Getenv("CPATH"), "outside.h")) },
		"use-environment": useEnvironment,
		"use-cache":       func() error { return readFile(filepath.Join(os.Getenv("CACHE"), "object")) },
		"use-clock":       useClock,
		"use-kernel":      useKernel,
		"use-proc":        useProc,
	}
}

// useNames asks for the addresses of a name, which are an input as well.
func useNames() error {
	_, err := net.LookupHost("example.test")
	return err
}

// useEnvironment takes a variable of the account that builds.
func useEnvironment() error {
	if os.Getenv("WAYBILL_UNRECORDED") == "" {
		return errors.New("no such variable")
	}
	return nil
}

// useClock writes the time into the output.
func useClock() error {
	return os.WriteFile(output(), []byte(time.Now().UTC().Format(time.RFC3339Nano)), 0o644)
}

// useKernel writes what the kernel says of itself and the processors.
func useKernel() error {
	var u syscall.Utsname
	if err := syscall.Uname(&u); err != nil {
		return err
	}
	var release strings.Builder
	for _, c := range u.Release {
		if c == 0 {
			break
		}
		release.WriteByte(byte(c))
	}
	return os.WriteFile(output(), fmt.Appendf(nil, "%s %d", &release, runtime.NumCPU()), 0o644)
}

// useProc reads what the machine says of itself in files.
func useProc() error {
	return all([]string{"/proc/cpuinfo", "/proc/version", "/proc/sys/kernel/random/boot_id", "/proc/meminfo", "/sys/class/dmi/id/product_name", "/etc/machine-id"}, readFile)
}
