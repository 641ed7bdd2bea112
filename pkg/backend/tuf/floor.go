package tuf

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/theupdateframework/go-tuf/v2/metadata"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// A floor is the highest state seen of a repository, below which a refresh must
// not go.
type floor struct {
	URL   string          `json:"url"`
	Roles map[string]mark `json:"roles"`
	// Seen is the evaluation time of the last successful refresh. It comes from
	// the caller, and only decides when to refresh again.
	Seen time.Time `json:"seen"`
	// Proven is the latest point in time that signed metadata proves to have
	// passed.
	Proven time.Time `json:"proven"`
}

// A mark is the highest version of a role, and the keys that signed it.
type mark struct {
	Version int64  `json:"version"`
	Keys    string `json:"keys"`
}

func newFloor(url string) floor { return floor{URL: url, Roles: map[string]mark{}} }

// ahead reports whether f saw more of the same repository than other.
func (f floor) ahead(other floor) bool {
	if f.URL != other.URL {
		return false
	}
	mine, theirs := f.Roles[metadata.ROOT], other.Roles[metadata.ROOT]
	if mine.Version != theirs.Version {
		return mine.Version > theirs.Version
	}
	mine, theirs = f.Roles[metadata.TIMESTAMP], other.Roles[metadata.TIMESTAMP]
	return mine.Keys == theirs.Keys && mine.Version > theirs.Version
}

// raiseFloor refuses a version of a role below the floor, and raises the floor to
// it. A role whose keys were replaced starts anew.
func (c *client) raiseFloor(role string, version int64) error {
	keys := c.keys(role)
	seen := c.floor.Roles[role]
	if seen.Keys == keys && version < seen.Version {
		return verdict.Refuse(verdict.TUFRollback, subject, "%s: version %d is offered, but version %d was seen before", role, version, seen.Version)
	}
	c.floor.Roles[role] = mark{Version: version, Keys: keys}
	return nil
}

// expiryPeriod is the field of a role in the root by which tuf-on-ci declares
// how many days the metadata of that role is valid.
const expiryPeriod = "x-tuf-on-ci-expiry-period"

// proven is the latest point in time that the timestamp proves to have passed:
// when it was signed, if the root declares how long timestamps are valid, but
// never later than the evaluation time. A merely assumed time proves nothing.
func (c *client) proven() time.Time {
	timestamp := c.trusted.Timestamp.Signed
	role := c.trusted.Root.Signed.Roles[metadata.TIMESTAMP]
	if role == nil {
		return time.Time{}
	}
	days, ok := role.UnrecognizedFields[expiryPeriod].(float64)
	if !ok || days < 1 || days > 36500 {
		return time.Time{}
	}
	signed := timestamp.Expires.AddDate(0, 0, -int(days))
	if now := c.cfg.Now.UTC(); signed.After(now) {
		return now
	}
	return signed
}

// keys identifies the keys that can raise the version of a role: its own, and
// those of the role that lists its version. Replacing them recovers from a
// version that was set too high (5.3.11). The root has none: its versions only
// ever go up by one.
func (c *client) keys(role string) string {
	governing := map[string][]string{
		metadata.TIMESTAMP: {metadata.TIMESTAMP},
		metadata.SNAPSHOT:  {metadata.TIMESTAMP, metadata.SNAPSHOT},
		metadata.TARGETS:   {metadata.SNAPSHOT},
	}
	root := c.trusted.Root.Signed
	var parts []string
	for _, name := range governing[role] {
		r := root.Roles[name]
		if r == nil {
			continue
		}
		for _, id := range r.KeyIDs {
			if k := root.Keys[id]; k != nil {
				parts = append(parts, name+" "+k.Type+" "+k.Value.PublicKey)
			}
		}
	}
	if len(parts) == 0 {
		return ""
	}
	slices.Sort(parts)
	sum := sha256.Sum256([]byte(strings.Join(parts, "\n")))
	return hex.EncodeToString(sum[:])
}
