package transport

import (
	"net/netip"
	"slices"
	"strings"
)

// Addresses that mean something else on each machine, beyond those that package
// netip knows: this network, carrier-shared (and one cloud's metadata service),
// protocol assignments, benchmarks, reserved, and deprecated site-local ones.
var special = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),
	netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"),
	netip.MustParsePrefix("fec0::/10"),
}

// Addresses at which clouds tell each machine about itself, beyond the
// link-local ones.
var metadata = []netip.Prefix{
	netip.MustParsePrefix("100.100.100.200/32"),
	netip.MustParsePrefix("168.63.129.16/32"),
	netip.MustParsePrefix("192.0.0.192/32"),
	netip.MustParsePrefix("fd00:ec2::254/128"),
	netip.MustParsePrefix("fd20:ce::254/128"),
}

// Prefixes of IPv6 addresses that contain an IPv4 address, at this byte: a
// router may forward such packets there.
var carrying = []struct {
	prefix netip.Prefix
	at     int
	mask   byte // XOR mask of the embedded bytes
}{
	{netip.MustParsePrefix("::/96"), 12, 0},           // IPv4-compatible
	{netip.MustParsePrefix("::ffff:0:0:0/96"), 12, 0}, // SIIT
	{netip.MustParsePrefix("64:ff9b::/96"), 12, 0},    // NAT64
	{netip.MustParsePrefix("64:ff9b:1::/48"), 12, 0},  // NAT64 of a local network
	{netip.MustParsePrefix("2002::/16"), 2, 0},        // 6to4
	{netip.MustParsePrefix("2001::/32"), 4, 0},        // Teredo, its server
	{netip.MustParsePrefix("2001::/32"), 12, 0xff},    // Teredo, its client
}

// Loopback reports whether host (without port) is spelled as this machine:
// "localhost" or a loopback address. Names are not resolved.
func Loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && addr.Unmap().IsLoopback()
}

// Internal reports whether host (without port) is spelled as an address that
// means something else on each machine: loopback, private, link-local,
// unspecified, reserved or zoned. Names other than "localhost" are not
// resolved; see [AddressError] for names that resolve to such an address.
func Internal(host string) bool {
	if Loopback(host) {
		return true
	}
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && internal(addr)
}

func internal(addr netip.Addr) bool {
	return slices.ContainsFunc(meanings(addr), func(a netip.Addr) bool {
		return a.IsLoopback() || a.IsPrivate() || isNeverValid(a) ||
			slices.ContainsFunc(special, func(p netip.Prefix) bool { return p.Contains(a) })
	}) || addr.Zone() != ""
}

// neverValid reports whether an address can be no legitimate host on any
// network: above all link-local addresses, where clouds serve their metadata.
func neverValid(addr netip.Addr) bool { return slices.ContainsFunc(meanings(addr), isNeverValid) }

func isNeverValid(a netip.Addr) bool {
	return a.IsLinkLocalUnicast() || a.IsUnspecified() || a.IsMulticast() ||
		slices.ContainsFunc(metadata, func(p netip.Prefix) bool { return p.Contains(a) })
}

// meanings yields an address and the IPv4 addresses that it contains.
func meanings(addr netip.Addr) []netip.Addr {
	addr = addr.WithZone("").Unmap()
	all := []netip.Addr{addr}
	b := addr.As16()
	for _, c := range carrying {
		if !addr.Is6() || !c.prefix.Contains(addr) {
			continue
		}
		four := [4]byte(b[c.at:])
		for i := range four {
			four[i] ^= c.mask
		}
		all = append(all, netip.AddrFrom4(four))
	}
	return all
}

// linkLocal reports whether host is spelled as an address that no redirect may
// lead to, not even from an internal server.
func linkLocal(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && neverValid(addr)
}
