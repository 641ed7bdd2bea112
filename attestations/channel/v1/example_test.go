package channelindex_test

import (
	"fmt"
	"time"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// An index names the release of each channel, and binds it to the manifest of
// that release. Parse does not verify who signed it; package channel does.
func Example() {
	issued := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	made, err := channelindex.New(channelindex.Predicate{
		Name: "hello", Number: 7, Issued: issued, Expires: issued.AddDate(0, 3, 0),
		Channels: []channelindex.Entry{{Channel: "stable", Version: "v1.2.3"}},
	}, map[string]digest.Set{"v1.2.3": digest.SetOf([]byte("the bundle of the manifest"))})
	if err != nil {
		fmt.Println(err)
		return
	}
	read, err := intoto.Parse(made.Raw())
	if err != nil {
		fmt.Println(err)
		return
	}
	index, err := channelindex.Parse(read)
	fmt.Println(index.Number, index.Channels, err)
	// Output: 7 [{stable v1.2.3}] <nil>
}
