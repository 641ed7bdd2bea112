package token

import (
	"context"
	"sync"
	"time"
)

// Keep returns the tokens of a source, each until half of its life has passed:
// whoever gives out tokens is asked in time, and not for every certificate.
// Where no new one can be had, the old one does while it lives.
func Keep(source Source, clock func() time.Time) Source {
	return &kept{Source: source, clock: clock}
}

type kept struct {
	Source
	clock func() time.Time

	mu      sync.Mutex // guards what follows
	text    string
	since   time.Time
	expires time.Time
}

// Token returns the token at hand, or asks for a new one.
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
	// Half a minute is for the authority's clock, and for the way to it.
	if k.text != "" && now.Add(30*time.Second).Before(k.expires) {
		return k.text, nil
	}
	return "", err
}
