package promote

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/journal"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// actPromoted is noted in the journal for an image that is at a destination.
const actPromoted = "promoted"

// Ledger remembers in a journal which images earlier runs brought to which
// destination, and with which evidence. It is a hint: what it says is held
// against the destination, which then need not be copied to again to know that
// it has all. A nil Ledger remembers nothing.
type Ledger struct {
	journal *journal.Journal
	rules   string
	clock   func() time.Time

	mu   sync.Mutex // owns done
	done map[string]entry
}

// entry is what was left at a destination.
type entry struct {
	Tags  []string        `json:"tags,omitempty"`
	Refer []digest.Digest `json:"refer,omitempty"` // to the image itself
	Rules digest.Digest   `json:"rules"`           // by which it was decided
	// Proof is one of what the decision rested on; zero if that was nothing signed.
	Proof verdict.Proof `json:"proof,omitzero"`
}

// OpenLedger reads what a journal says of earlier promotions. The rules name
// what decides now, and whether it is recorded: what was brought under others
// is not known, so it is decided about again.
func OpenLedger(j *journal.Journal, rules string, clock func() time.Time) *Ledger {
	l := &Ledger{journal: j, rules: rules, clock: clock, done: map[string]entry{}}
	for _, e := range j.Entries() {
		var left entry
		if e.Act == actPromoted && json.Unmarshal(e.Detail, &left) == nil {
			l.done[e.Subject] = left
		}
	}
	return l
}

// under is the digest of all by which an image of a route is decided about: the
// rules, and what its manifest demands itself.
func (l *Ledger) under(r promotionplan.Route) (digest.Digest, error) {
	raw, err := json.Marshal(struct {
		Rules    string
		Manifest any
	}{l.rules, r.Policy})
	if err != nil {
		return digest.Digest{}, err
	}
	return digest.Of(digest.SHA256, raw), nil
}

// find returns what must refer to an image at a destination, and what proved
// it, if a run is known to have left it there under all these tags, by the same
// rules. An entry without a proof is none: the image is decided about again.
func (l *Ledger) find(ref string, r promotionplan.Route, tags []string) (entry, bool) {
	if l == nil {
		return entry{}, false
	}
	rules, err := l.under(r)
	if err != nil {
		return entry{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	left, known := l.done[ref]
	if !known || left.Proof.IsZero() || !left.Rules.Equal(rules) || slices.ContainsFunc(tags, func(t string) bool { return !slices.Contains(left.Tags, t) }) {
		return entry{}, false
	}
	return left, true
}

// add notes an image that is at a destination.
func (l *Ledger) add(ctx context.Context, ref string, r promotionplan.Route, left entry) (err error) {
	if l == nil {
		return nil
	}
	if left.Rules, err = l.under(r); err != nil {
		return err
	}
	detail, err := json.Marshal(left)
	if err != nil {
		return err
	}
	l.mu.Lock()
	l.done[ref] = left
	l.mu.Unlock()
	return l.journal.Append(ctx, journal.Entry{Time: l.clock(), Act: actPromoted, Subject: ref, Detail: detail})
}
