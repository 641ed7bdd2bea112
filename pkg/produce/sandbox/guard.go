package sandbox

import (
	"fmt"
	"net/netip"
)

// notPublic are blocks that the standard library considers public and that are
// not: they lead into private networks, to services of a cloud, or contain
// such an address in another form.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),
	netip.MustParsePrefix("100.64.0.0/10"),    // carriers, and one cloud's metadata
	netip.MustParsePrefix("168.63.129.16/32"), // one cloud's services to its machines
	netip.MustParsePrefix("192.0.0.0/24"),     // protocol assignments, metadata of another
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.88.99.0/24"),   // relays of 6to4
	netip.MustParsePrefix("198.18.0.0/15"),    // measurements
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, and broadcast
	netip.MustParsePrefix("::/96"),            // IPv4 in disguise
	netip.MustParsePrefix("64:ff9b::/96"),     // the same
	netip.MustParsePrefix("64:ff9b:1::/48"),   // the same
	netip.MustParsePrefix("100::/64"),         // nowhere
	netip.MustParsePrefix("2001::/23"),        // protocol assignments, Teredo
	netip.MustParsePrefix("2001:db8::/32"),    // documentation
	netip.MustParsePrefix("2002::/16"),        // 6to4
	netip.MustParsePrefix("fec0::/10"),        // sites
}

// checkPublic refuses every address that is not on the public network. It checks
// the address that is dialled, after name resolution.
func checkPublic(addr netip.Addr) error {
	addr = addr.Unmap()
	switch {
	case !addr.IsValid() || addr.Zone() != "":
		return fmt.Errorf("address %s is valid on one link only", addr)
	case addr.IsLoopback():
		return fmt.Errorf("address %s is this machine's", addr)
	case addr.IsLinkLocalUnicast():
		return fmt.Errorf("address %s is link-local, where metadata services are", addr)
	case addr.IsPrivate():
		return fmt.Errorf("address %s is private", addr)
	case !addr.IsGlobalUnicast():
		return fmt.Errorf("address %s is not of a host", addr)
	}
	for _, p := range notPublic {
		if p.Contains(addr) {
			return fmt.Errorf("address %s is in %s, which is not public", addr, p)
		}
	}
	return nil
}
