package channel

import (
	"testing"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// TestForkOfOneChannel: two indexes of one number that differ in nothing but
// the version of one channel, and name the same releases, are a fork.
func TestForkOfOneChannel(t *testing.T) {
	latest := func(version string) Index {
		return seventh(t, func(p *channelindex.Predicate, _ map[string]digest.Set) {
			p.Channels = []channelindex.Entry{
				{Channel: "stable", Version: "v0.2.0"}, {Channel: "rc", Version: "v0.3.0-rc.1"}, {Channel: "latest", Version: version},
			}
		})
	}
	old, now := latest("v0.2.0"), latest("v0.3.0-rc.1")
	wants(t, now.Follows(now), "")
	wants(t, now.Follows(old), "CHANNEL_FORK")
	wants(t, old.Follows(now), "CHANNEL_FORK")
}
