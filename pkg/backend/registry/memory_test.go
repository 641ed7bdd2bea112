package registry

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// TestMemoryOutlivesItsAskers: two copies of an image wait for one question. If
// the copy that asked it is told to stop, the other one asks again; if the
// registry refused, both are told so, and the next one asks again.
func TestMemoryOutlivesItsAskers(t *testing.T) {
	refused, elsewhere := errors.New("403"), errors.New("the other region refused")
	for _, row := range []struct {
		name  string
		stops bool // or else the registry refuses
		asked int
		want  error
	}{
		{"told to stop", true, 2, nil},
		{"refused", false, 1, refused},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, asked, answers := Remember(nil, false), 0, make(chan error)
				copying := func(ctx context.Context) <-chan error {
					result := make(chan error, 1)
					go func() {
						_, err := m.once(ctx, "a blob", func(*answered) error {
							asked++
							select {
							case err := <-answers:
								return err
							case <-ctx.Done():
								return context.Cause(ctx)
							}
						})
						result <- err
					}()
					synctest.Wait() // it asks, or waits
					return result
				}
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				first, second := copying(ctx), copying(t.Context())
				if row.stops {
					stop(elsewhere)
					if err := <-first; !errors.Is(err, elsewhere) {
						t.Errorf("whoever was told to stop: %v", err)
					}
				}
				answers <- row.want
				if err := <-second; !errors.Is(err, row.want) {
					t.Errorf("whoever waited: %v, want %v", err, row.want)
				}
				if asked != row.asked {
					t.Errorf("asked %d times, want %d", asked, row.asked)
				}
			})
		})
	}
}
