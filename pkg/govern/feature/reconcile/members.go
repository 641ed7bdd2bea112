package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// Members is [Live] by objects in a place, one for each identity, which says
// until when it is to be counted. The place is one of its own. Nobody removes
// what ran out, so identities are those of slots, such as gate-0, and not of
// runs.
type Members struct {
	at    featurestore.Place
	self  string
	term  time.Duration
	clock func() time.Time
}

// member is what such an object says.
type member struct {
	Schema   string    `json:"schema"`
	Identity string    `json:"identity"`
	Expires  time.Time `json:"expires"`
}

const (
	memberSchema = "waybill/member/v1"
	maxMember    = 4096
	maxMembers   = 1000
)

// memberNames are the identities that an object can be named by.
var memberNames = regexp.MustCompile(`\A[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\z`)

// NewMembers counts an identity for a term after each pass that it makes.
func NewMembers(at featurestore.Place, self string, term time.Duration, clock func() time.Time) (*Members, error) {
	if !memberNames.MatchString(self) || term <= 0 || clock == nil {
		return nil, usage("identity %q for %s: want lower-case letters, digits and -, a term and a clock", self, term)
	}
	return &Members{at: at, self: self, term: term, clock: clock}, nil
}

// Identities implements [Live]. It says first that this one is there. Clocks may
// differ by a quarter of the term.
func (m *Members) Identities(ctx context.Context) ([]string, error) {
	now := m.clock()
	raw, err := json.Marshal(member{Schema: memberSchema, Identity: m.self, Expires: now.Add(m.term).UTC().Truncate(time.Second)})
	if err != nil {
		return nil, err
	}
	if err := m.at.Put(ctx, m.self+".json", int64(len(raw)), bytes.NewReader(raw), store.PutOptions{MediaType: "application/json"}); err != nil {
		return nil, fmt.Errorf("joining the reconcilers: %w", err)
	}
	objects, err := m.at.List(ctx)
	if err != nil {
		return nil, fmt.Errorf("listing the reconcilers: %w", err)
	}
	if len(objects) > maxMembers {
		return nil, usage("%d reconcilers at %q: identities are those of slots, not of runs", len(objects), m.at.URI())
	}
	var live []string
	for _, o := range objects {
		if store.IsStaging(o.Name) {
			continue // a write that never ended: it was never there
		}
		who, err := m.read(ctx, o.Name)
		if err != nil {
			return nil, err
		}
		if now.Before(who.Expires.Add(m.term / 4)) {
			live = append(live, who.Identity)
		}
	}
	return live, nil
}

func (m *Members) read(ctx context.Context, name string) (member, error) {
	raw, err := store.Read(ctx, m.at, name, maxMember)
	if err != nil {
		return member{}, fmt.Errorf("reading reconciler %q: %w", name, err)
	}
	var who member
	if err := strictjson.Unmarshal(raw, &who, strictjson.MaxSize(maxMember)); err != nil {
		return member{}, fmt.Errorf("reading reconciler %q: %w", name, err)
	}
	if who.Schema != memberSchema || who.Identity+".json" != name || who.Expires.IsZero() {
		return member{}, usage("%q at %q is no reconciler: move it away", name, m.at.URI())
	}
	return who, nil
}
