package kubernetes

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/lease"
	"github.com/waybill-release/waybill/pkg/backend/store"
)

const leases = "apis/coordination.k8s.io/v1"

// microTime is the form of times with microseconds.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// leaseObject is a Lease.
type leaseObject struct {
	Metadata Meta `json:"metadata"`
	Spec     struct {
		Holder      string `json:"holderIdentity,omitempty"`
		Seconds     int    `json:"leaseDurationSeconds"`
		Renewed     string `json:"renewTime"`
		Transitions int    `json:"leaseTransitions"`
	} `json:"spec"`
}

// leaseName is the name of a Lease: that of the part, and of the object.
func (p *Place) leaseName(name string) string {
	return strings.Trim(p.part+"."+strings.TrimSuffix(name, ".lease.json"), ".")
}

// ReadClaim implements [lease.Store]. The times in a Lease are those of its
// holder's clock, and are not used: a claim lasts for its duration from when this
// process first saw this version of it.
func (p *Place) ReadClaim(ctx context.Context, name string) (lease.Claimed, error) {
	var o leaseObject
	err := p.Do(ctx, http.MethodGet, p.At(leases, "leases/"+p.leaseName(name)), nil, &o)
	if errors.Is(err, store.ErrNotFound) {
		return lease.Claimed{}, nil
	}
	if err != nil {
		return lease.Claimed{}, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[name].version != o.Metadata.ResourceVersion {
		p.seen[name] = sighting{o.Metadata.ResourceVersion, time.Now()}
	}
	return lease.Claimed{
		Holder: o.Spec.Holder, Number: o.Spec.Transitions + 1, Version: o.Metadata.ResourceVersion,
		Expires: p.seen[name].at.Add(time.Duration(o.Spec.Seconds) * time.Second),
	}, nil
}

// WriteClaim implements [lease.Store].
func (p *Place) WriteClaim(ctx context.Context, name string, c lease.Claimed, term time.Duration) (version string, err error) {
	var o leaseObject
	o.Metadata = Meta{Name: p.leaseName(name), ResourceVersion: c.Version}
	o.Spec.Holder, o.Spec.Seconds, o.Spec.Transitions = c.Holder, max(1, int(math.Ceil(term.Seconds()))), c.Number-1
	o.Spec.Renewed = time.Now().UTC().Format(microTime)
	if c.Version == "" {
		err = p.Do(ctx, http.MethodPost, p.At(leases, "leases"), o, &o)
	} else {
		err = p.Do(ctx, http.MethodPut, p.At(leases, "leases/"+o.Metadata.Name), o, &o)
	}
	return o.Metadata.ResourceVersion, err
}
