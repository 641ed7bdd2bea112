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

// claim is what a lease says. One without a holder was given back.
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
		return claim{}, fmt.Errorf("its schema is %q, not %s", c.Schema, schema)
	case c.Number < 1 || c.Expires.IsZero():
		return claim{}, errors.New("a lease has a number and an end")
	}
	return c, nil
}

// isFree reports whether a lease can be claimed: there is none, it was given
// back, or it ran out, by a clock that may differ by that much.
func (c claim) isFree(now time.Time, differ time.Duration) bool {
	return c.Holder == "" || now.Round(0).After(c.Expires.Add(differ))
}
