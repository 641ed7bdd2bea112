package promote

import "github.com/waybill-release/waybill/pkg/release/promotionplan"

// Takes reports whether an image falls to a shard.
func Takes(s Shard, e promotionplan.Edge) bool { return s.takes(e) }
