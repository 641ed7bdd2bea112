package gate

import (
	"context"
	"fmt"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// licenceIsListed refuses a release whose manifest lists no LICENSE.
func licenceIsListed(_ context.Context, g gathered) (f facts) {
	if _, listed := g.release.manifest.Find("LICENSE"); !listed {
		f.refuse(verdict.Find(verdict.Missing, "LICENSE", "the manifest does not list it"))
	}
	return f
}

// A check returns facts; docs/architecture.md shows the function above.
func Example_howToAddCheck() {
	f := licenceIsListed(context.Background(), gathered{release: &sealed{}})
	for _, d := range f.differences {
		fmt.Println(d.Code, d.Subject)
	}
	// Output: MISSING LICENSE
}
