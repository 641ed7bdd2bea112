package gate

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/verify"
)

// attached is the evidence that refers to a manifest in a registry.
type attached struct {
	holds  []verify.Evidence
	failed int     // bundles that do not hold: strangers may attach anything
	why    []error // they do not hold
	unread int     // bundles that are too large to be read after all the others
}

// readAttached verifies each bundle that refers to a manifest as it is read, and
// keeps what holds. A manifest that is not there has none.
func readAttached(ctx context.Context, v verifier, of registry.Target, kinds ...string) (attached, error) {
	var a attached
	heard, err := registry.EachBundle(ctx, of, func(raw []byte) {
		e, err := v.Attestation(raw)
		if err != nil {
			a.failed, a.why = a.failed+1, append(a.why, err)
			return
		}
		a.holds = append(a.holds, e)
	}, kinds...)
	if err != nil && !errors.Is(err, registry.ErrNotFound) {
		return attached{}, err
	}
	a.unread = heard.Unread
	return a, nil
}

// note says what counted for nothing.
func (a attached) note(f *facts, name string) {
	if a.failed > 0 {
		f.note("%s: %d of %d bundles that refer to it do not hold; they count for nothing", name, a.failed, a.failed+len(a.holds))
	}
	a.noteUnread(f, name)
}

func (a attached) noteUnread(f *facts, name string) {
	if a.unread > 0 {
		f.note("%s: bundles that refer to it and were not read, because all of them together are too large: %d, the largest", name, a.unread)
	}
}
