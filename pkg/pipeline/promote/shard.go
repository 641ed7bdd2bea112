package promote

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxShards limits the number of parts of a plan.
const maxShards = 10_000

// Shard is the part of a plan that one of several workers does. Images are
// assigned to shards by digest, so each digest is judged by one worker. The
// zero Shard is the whole plan.
type Shard struct {
	Index int `json:"index"` // from 0
	Of    int `json:"of"`
}

// ParseShard parses "i/n", with i from 0 to n-1, as Kubernetes Indexed Jobs
// count.
func ParseShard(text string) (Shard, error) {
	index, of, found := strings.Cut(text, "/")
	i, err := strconv.Atoi(index)
	n, err2 := strconv.Atoi(of)
	if !found || err != nil || err2 != nil || n < 1 || n > maxShards || i < 0 || i >= n {
		return Shard{}, verdict.Refuse(verdict.Usage, "--shard", "%q: want i/n, with i from 0 to n-1 and n at most %d", text, maxShards)
	}
	return Shard{Index: i, Of: n}, nil
}

// String is what [ParseShard] reads.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index, max(s.Of, 1)) }

// suffix names a shard in a title.
func (s Shard) suffix() string {
	if s.Of <= 1 {
		return ""
	}
	return ", shard " + s.String()
}

// IsEmpty reports whether the plan has images, but none in this shard.
func (s Shard) IsEmpty(p promotionplan.Plan) bool { return len(p.Edges) > 0 && len(s.edges(p)) == 0 }

// takes reports whether an image is in the shard.
func (s Shard) takes(e promotionplan.Edge) bool { return s.Of <= 1 || shardOf(e, s.Of) == s.Index }

// shardOf is the index of the shard that has an image.
func shardOf(e promotionplan.Edge, of int) int {
	first, err := hex.DecodeString(e.Digest.Hex()[:16])
	if err != nil {
		panic("promote: digest is not hexadecimal")
	}
	return int(binary.BigEndian.Uint64(first) % uint64(of))
}

// edges are the indexes of the images in the shard.
func (s Shard) edges(p promotionplan.Plan) []int {
	var mine []int
	for i, e := range p.Edges {
		if s.takes(e) {
			mine = append(mine, i)
		}
	}
	return mine
}

func byEdge(a, b Item) int { return cmp.Or(cmp.Compare(a.Edge, b.Edge), cmp.Compare(a.To, b.To)) }
