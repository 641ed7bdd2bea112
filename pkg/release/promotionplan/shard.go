package promotionplan

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxShards limits the number of parts of a plan.
const maxShards = 10_000

// Shard is the part of a plan that one of several workers does. Images and files
// are assigned to shards by digest, so each digest is judged by one worker. The
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

// Suffix names a shard in a title.
func (s Shard) Suffix() string {
	if s.Of <= 1 {
		return ""
	}
	return ", shard " + s.String()
}

// Others says for a verdict which part of the plan it leaves out.
func (s Shard) Others() []string {
	if s.Of <= 1 {
		return nil
	}
	return []string{fmt.Sprintf("the other %d of %d shards", s.Of-1, s.Of)}
}

// IsEmpty reports whether the plan has images, but none in this shard.
func (s Shard) IsEmpty(p Plan) bool { return len(p.Edges) > 0 && len(s.Edges(p)) == 0 }

// Takes reports whether what has a digest is in the shard.
func (s Shard) Takes(d digest.Digest) bool { return s.Of <= 1 || ShardOf(d, s.Of) == s.Index }

// ShardOf is the index of the shard, of so many, that has a digest.
func ShardOf(d digest.Digest, of int) int {
	first, err := strconv.ParseUint(d.Hex()[:16], 16, 64)
	if err != nil {
		panic("promotionplan: digest is not hexadecimal")
	}
	return int(first % uint64(of))
}

// Edges are the indexes of the images in the shard.
func (s Shard) Edges(p Plan) (mine []int) {
	for i, e := range p.Edges {
		if s.Takes(e.Digest) {
			mine = append(mine, i)
		}
	}
	return mine
}
