package transport

import (
	"errors"
	"net/netip"
	"strings"
)

// Addresses that mean something else to each machine, beyond what package
// netip knows: this network, shared by carriers (and one cloud's metadata),
// protocol assignments, benchmarks, reserved.
var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	carrier     = netip.MustParsePrefix("100.64.0.0/10")
	protocols   = netip.MustParsePrefix("192.0.0.0/24")
	benchmarks  = netip.MustParsePrefix("198.18.0.0/15")
	reserved    = netip.MustParsePrefix("240.0.0.0/4")
	translated  = netip.MustParsePrefix("64:ff9b::/96") // an IPv4 address in its last four bytes
)

// Loopback reports whether host (without port) is this machine by its
// spelling: "localhost" or a loopback address. Names are not resolved.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// Internal reports whether host (without port) is spelled as an address that
// means something else to each machine: loopback, private, link-local,
// unspecified, reserved or zoned. Names other than "localhost" are not
// resolved; see [AddressError] for what happens when they are.
func Internal(host string) bool {
	if Loopback(host) {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && internal(addr)
}

func internal(addr netip.Addr) bool {
	zoned := addr.Zone() != ""
	addr = addr.WithZone("").Unmap()
	if translated.Contains(addr) {
		b := addr.As16()
		addr = netip.AddrFrom4([4]byte(b[12:]))
	}
	for _, p := range []netip.Prefix{thisNetwork, carrier, protocols, benchmarks, reserved} {
		if p.Contains(addr) {
			return true
		}
	}
	return zoned || addr.IsLoopback() || addr.IsPrivate() || nowhere(addr)
}

// nowhere reports whether an address names no host that could be meant, on
// whatever network: link-local, where clouds keep their metadata, above all.
func nowhere(addr netip.Addr) bool {
	return addr.IsLinkLocalUnicast() || addr.IsUnspecified() || addr.IsMulticast()
}

// linkLocal reports whether host is spelled as an address that no redirect may
// lead to, wherever it comes from.
func linkLocal(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && nowhere(addr.WithZone("").Unmap())
}

func asAddressError(err error) (*AddressError, bool) {
	var refused *AddressError
	ok := errors.As(err, &refused)
	return refused, ok
}
