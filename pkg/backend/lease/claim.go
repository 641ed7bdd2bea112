package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/tool/strictjson"
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

func parse(raw []byte) (claim, error) {
	var c claim
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

// isFree reports whether a lease can be claimed: there is none, it was
// released, or it expired more than the given clock difference ago.
func (c claim) isFree(now time.Time, differ time.Duration) bool {
	return c.Holder == "" || now.Round(0).After(c.Expires.Add(differ))
}
