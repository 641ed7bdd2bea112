package bench

import (
	"bufio"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
)

// Machine is what the figures depend on.
type Machine struct {
	OS    string `json:"os"`
	Arch  string `json:"arch"`
	CPU   string `json:"cpu,omitempty"`
	Cores int    `json:"cores"`
	Go    string `json:"go"`
	// Flags are those of the processor that decide how fast it hashes.
	Flags   []string `json:"flags"`
	OpenSSL string   `json:"openssl,omitempty"`
	Load    string   `json:"load,omitempty"` // when the run began
}

// ThisMachine reads the facts; what cannot be read is left out.
func ThisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.GOMAXPROCS(0), Go: runtime.Version(), Flags: []string{}}
	m.readCPU()
	if out, err := exec.Command("openssl", "version").Output(); err == nil {
		m.OpenSSL = strings.TrimSpace(string(out))
	}
	if raw, err := os.ReadFile("/proc/loadavg"); err == nil {
		m.Load, _, _ = strings.Cut(string(raw), " ")
	}
	return m
}

// readCPU reads Linux's description of the first processor.
func (m *Machine) readCPU() {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		key, value, _ := strings.Cut(lines.Text(), ":")
		switch strings.TrimSpace(key) {
		case "model name":
			m.CPU = strings.TrimSpace(value)
		case "flags", "Features":
			for _, flag := range strings.Fields(value) {
				if slices.Contains([]string{"sha_ni", "avx2", "avx512f", "avx512bw", "sha2", "sha512"}, flag) {
					m.Flags = append(m.Flags, flag)
				}
			}
			return
		}
	}
}
