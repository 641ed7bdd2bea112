package lease

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

const (
	schema    = "waybill/lease/v1"
	mediaType = "application/json"
	// maxClaim bounds what is read of a lease.
	maxClaim = 4096
)

// claim is the content of a lease. A claim without a holder was released.
type claim struct {
	Schema  string    `json:"schema"`
	Holder  string    `json:"holder,omitempty"`
	Number  int       `json:"number"`
	Expires time.Time `json:"expires"`
}

func parse(raw []byte) (c claim, err error) {
	if err := strictjson.Unmarshal(raw, &c, strictjson.MaxSize(maxClaim)); err != nil {
		return claim{}, err
	}
	switch {
	case c.Schema != schema:
		return claim{}, fmt.Errorf("schema %q, want %s", c.Schema, schema)
	case c.Number < 1 || c.Expires.IsZero():
		return claim{}, errors.New("a lease needs a number and an expiry")
	}
	return c, nil
}

// Claimed is the current claim of a lease; the zero Claimed if there is none. A
// claim without a holder was released.
type Claimed struct {
	Holder  string
	Number  int
	Expires time.Time
	// Version is what the next write replaces; "" if nothing is there.
	Version string
}

// isFree reports whether a lease can be claimed: there is none, it was
// released, or it expired more than the given clock difference ago.
func (c Claimed) isFree(now time.Time, differ time.Duration) bool {
	return c.Holder == "" || now.After(c.Expires.Add(differ))
}

// Store has leases of its own kind. A claim that it reads expires by the clock of
// this process: a term after this process first saw that version. So [Claim]
// watches a lease that is held, and takes it if no renewal comes within the term.
type Store interface {
	// ReadClaim reads the claim of a lease.
	ReadClaim(ctx context.Context, name string) (Claimed, error)
	// WriteClaim replaces the version of c, and returns the new one, or an error
	// of package store if another process wrote first.
	WriteClaim(ctx context.Context, name string, c Claimed, term time.Duration) (version string, err error)
}

// objects stores each claim as an object.
type objects struct{ Place }

// ReadClaim implements [Store].
func (o objects) ReadClaim(ctx context.Context, name string) (Claimed, error) {
	raw, err := store.Read(ctx, o, name, maxClaim)
	if errors.Is(err, store.ErrNotFound) {
		return Claimed{}, nil
	}
	if err != nil {
		return Claimed{}, err
	}
	c, err := parse(raw)
	if err != nil {
		return Claimed{}, verdict.Wrap(verdict.ConfigParse, name+" at "+o.URI(), err).
			Advise("find out who wrote the object; remove it if it is not a lease in use")
	}
	return Claimed{c.Holder, c.Number, c.Expires, string(raw)}, nil
}

// WriteClaim implements [Store].
func (o objects) WriteClaim(ctx context.Context, name string, c Claimed, _ time.Duration) (string, error) {
	raw, err := json.Marshal(claim{schema, c.Holder, c.Number, c.Expires})
	switch {
	case err != nil:
	case c.Version == "":
		err = o.Put(ctx, name, int64(len(raw)), bytes.NewReader(raw), store.PutOptions{IfAbsent: true, MediaType: mediaType})
	default:
		err = store.Replace(ctx, o.Place.Place, o.Writer, name, store.Replacement{Old: digest.Of(digest.SHA256, []byte(c.Version)), New: raw, MediaType: mediaType})
	}
	return string(raw), err
}
