package token

import (
	"context"
	"sync"
	"time"
)

// keep caches the tokens of a source, each until half of its life has passed:
// so a new one is requested early, but not for every certificate. If no new
// one is available, the old one is used while it is valid.
func keep(source Source, clock func() time.Time) Source {
	return &kept{Source: source, clock: clock}
}

type kept struct {
	Source
	clock func() time.Time

	mu      sync.Mutex // guards the fields below
	text    string
	since   time.Time
	expires time.Time
}

// Token returns the cached token, or gets a new one.
func (k *kept) Token(ctx context.Context) (string, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.clock()
	if k.text != "" && now.Sub(k.since) < k.expires.Sub(k.since)/2 {
		return k.text, nil
	}
	text, err := k.Source.Token(ctx)
	if err == nil {
		var said Claims
		if said, err = Read(text); err == nil {
			k.text, k.since, k.expires = text, now, said.Expires
			return text, said.Check(k.clock())
		}
	}
	// Half a minute is reserved for transfer, and for the authority's clock.
	if k.text != "" && now.Add(30*time.Second).Before(k.expires) {
		return k.text, nil
	}
	return "", err
}
