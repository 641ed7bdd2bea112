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

// actPromoted is recorded in the journal for each image at a destination.
const actPromoted = "promoted"

// Ledger remembers in a journal which images earlier runs copied to which
// destination, and with which evidence. It is a hint: its entries are
// compared with the destination, which then need not be copied to again. A
// nil Ledger remembers nothing.
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
	Rules digest.Digest   `json:"rules"`           // under which the image was accepted
	// Proof is one proof of the acceptance; zero if nothing signed was
	// needed.
	Proof verdict.Proof `json:"proof,omitzero"`
}

// OpenLedger reads earlier promotions from a journal. The rules identify what
// decides now, and whether records are written: entries made under other
// rules are ignored, so those images are judged again.
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

// rulesDigest identifies everything that decides about an image of a route:
// the rules, and the demands of its manifest.
func (l *Ledger) rulesDigest(r promotionplan.Route) (digest.Digest, error) {
	raw, err := json.Marshal(struct {
		Rules    string
		Manifest any
	}{l.rules, r.Policy})
	if err != nil {
		return digest.Digest{}, err
	}
	return digest.Of(digest.SHA256, raw), nil
}

// find returns what must refer to an image at a destination, and its proof,
// if an earlier run left it there with all these tags under the same rules.
// An entry without a proof does not count: the image is judged again.
func (l *Ledger) find(ref string, r promotionplan.Route, tags []string) (entry, bool) {
	if l == nil {
		return entry{}, false
	}
	rules, err := l.rulesDigest(r)
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

// add records an image that is at a destination.
func (l *Ledger) add(ctx context.Context, ref string, r promotionplan.Route, left entry) (err error) {
	if l == nil {
		return nil
	}
	if left.Rules, err = l.rulesDigest(r); err != nil {
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
