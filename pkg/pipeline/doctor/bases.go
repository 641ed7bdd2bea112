package doctor

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// Bases checks whether the pinned base images can be resolved. A missing one
// is a warning: an interrupted build that is continued has a copy.
func Bases(pins plan.Lock, rt http.RoundTripper) Ask {
	return func(ctx context.Context) (checks []Check) {
		for _, name := range slices.Sorted(maps.Keys(pins.Bases)) {
			base, check := pins.Bases[name], "base image "+name
			if strings.HasPrefix(base.Image, "oci:") {
				continue // part of the source
			}
			host, repo, _ := strings.Cut(base.Image, "/")
			err := resolves(ctx, host, repo, base.Digest.String(), rt)
			if err != nil {
				checks = append(checks, Doubt(check, "make the base image available, unless an earlier run of this release has fetched it", "%v", err))
				continue
			}
			checks = append(checks, Fine(check, "%s has %s", base.Image, base.Digest))
		}
		return checks
	}
}

func resolves(ctx context.Context, host, repo, sum string, rt http.RoundTripper) error {
	remote, err := registry.OpenRemote(host, rt)
	if err != nil {
		return err
	}
	if _, err := remote.Resolve(ctx, repo, sum); err != nil {
		return fmt.Errorf("resolving %s: %w", sum, err)
	}
	return nil
}
