package promote

import "github.com/waybill-release/waybill/pkg/routes"

// Takes reports whether an image falls to a shard.
func Takes(s Shard, e routes.Edge) bool { return s.takes(e) }
