//go:build amd64 && !purego

package lanes

import "golang.org/x/sys/cpu"

// Available reports whether this processor, and the system that runs it, have
// lanes to hash in.
func Available() bool { return cpu.X86.HasAVX512F && cpu.X86.HasAVX512BW }

// blocks512 adds n blocks, at least one, of each message to the state in its
// column.
//
//go:noescape
func blocks512(state *[8][Width512]uint64, data *[Width512]*byte, n int)

// blocks256 is blocks512 for SHA-256.
//
//go:noescape
func blocks256(state *[8][Width256]uint32, data *[Width256]*byte, n int)
