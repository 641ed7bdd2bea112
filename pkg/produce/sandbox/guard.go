package sandbox

import (
	"fmt"
	"net/netip"
)

// closed are blocks that look public to the standard library and are not:
// they lead into somebody's own network, to a cloud's own services, or wrap an
// address that does.
var closed = []netip.Prefix{
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

// public refuses every address that is not of the public network. It is asked
// about the address that is dialled, after all names are resolved.
func public(addr netip.Addr) error {
	addr = addr.Unmap()
	switch {
	case !addr.IsValid() || addr.Zone() != "":
		return fmt.Errorf("address %s is of one link only", addr)
	case addr.IsLoopback():
		return fmt.Errorf("address %s is this machine's", addr)
	case addr.IsLinkLocalUnicast():
		return fmt.Errorf("address %s is link-local, where metadata services are", addr)
	case addr.IsPrivate():
		return fmt.Errorf("address %s is private", addr)
	case !addr.IsGlobalUnicast():
		return fmt.Errorf("address %s is no host's", addr)
	}
	for _, p := range closed {
		if p.Contains(addr) {
			return fmt.Errorf("address %s is in %s, which is not public", addr, p)
		}
	}
	return nil
}
