//go:build !amd64 || purego

package lanes

// Available reports whether this processor has lanes to hash in; only those of
// amd64 are known here.
func Available() bool { return false }

func blocks512(*[8][Width512]uint64, *[Width512]*byte, int) { panic("lanes: this processor has none") }

func blocks256(*[8][Width256]uint32, *[Width256]*byte, int) { panic("lanes: this processor has none") }
