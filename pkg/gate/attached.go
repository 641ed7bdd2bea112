package gate

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/tool/plural"
)

// attached is the evidence that refers to a manifest in a registry.
type attached struct {
	holds  []verify.Evidence
	failed int     // invalid bundles; anyone who can write to the registry can attach one
	why    []error // they are invalid
	unread int     // number of bundles left unread because all together are too large
}

// readAttached verifies each bundle that refers to a manifest while reading it,
// and keeps the valid ones. A manifest that does not exist has none.
func readAttached(ctx context.Context, v verifier, of registry.Target, kinds ...string) (attached, error) {
	var a attached
	heard, err := registry.EachBundle(ctx, of, func(_ registry.Descriptor, raw []byte) {
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

// note reports the bundles that were ignored.
func (a attached) note(f *facts, name string) {
	if a.failed > 0 {
		f.note("%s: ignored %d invalid of %s", name, a.failed, plural.Of(a.failed+len(a.holds), "attached bundle"))
	}
	a.noteUnread(f, name)
}

func (a attached) noteUnread(f *facts, name string) {
	if a.unread > 0 {
		f.note("%s: the attached bundles are together too large; not read: the largest %d", name, a.unread)
	}
}
