package reconcile

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/store"
	featurestore "github.com/waybill-release/waybill/pkg/govern/feature/store"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// Members implements [Live] by objects in a place of its own, one for each identity, with
// an expiry. Expired objects are not removed, so identities must be fixed names, such as
// gate-0, and not one per run.
type Members struct {
	at    featurestore.Place
	self  string
	term  time.Duration
	clock func() time.Time
}

// member is the content of such an object.
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

// memberNames matches valid identities.
var memberNames = pattern.Lazy(`\A[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\z`)

// NewMembers makes Members in which self counts as live for a term after each pass.
func NewMembers(at featurestore.Place, self string, term time.Duration, clock func() time.Time) (*Members, error) {
	if !memberNames().MatchString(self) || term <= 0 || clock == nil {
		return nil, usage("identity %q for %s: want lower-case letters, digits and -, a term and a clock", self, term)
	}
	return &Members{at: at, self: self, term: term, clock: clock}, nil
}

// Identities implements [Live]. It first renews its own object. Clocks may differ by a
// quarter of the term.
func (m *Members) Identities(ctx context.Context) (live []string, err error) {
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
		return nil, usage("%d reconcilers at %q: give each reconciler a fixed identity, not one per run", len(objects), m.at.URI())
	}
	for _, o := range objects {
		if store.IsStaging(o.Name) {
			continue // an unfinished write
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

func (m *Members) read(ctx context.Context, name string) (who member, err error) {
	raw, err := store.Read(ctx, m.at, name, maxMember)
	if err != nil {
		return member{}, fmt.Errorf("reading reconciler %q: %w", name, err)
	}
	if err := strictjson.Unmarshal(raw, &who, strictjson.MaxSize(maxMember)); err != nil {
		return member{}, fmt.Errorf("reading reconciler %q: %w", name, err)
	}
	if who.Schema != memberSchema || who.Identity+".json" != name || who.Expires.IsZero() {
		return member{}, usage("%q at %q is not the object of a reconciler; remove it", name, m.at.URI())
	}
	return who, nil
}
