package lab

import (
	"context"
	"testing"
)

// New starts a lab for one test and closes it when the test ends.
func New(t testing.TB) *Lab {
	t.Helper()
	return NewWith(t, Options{})
}

// NewWith is [New] with options.
func NewWith(t testing.TB, o Options) *Lab {
	t.Helper()
	l, err := Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Errorf("closing the lab: %v", err)
		}
	})
	return l
}
