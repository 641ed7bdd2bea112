package tuf

import "context"

// Hold reads the cache as a refresh does at its beginning, and returns what the
// refresh does at its end.
func Hold(ctx context.Context, c Config) (end func() error) {
	cl, err := open(c, cache{dir: c.Cache})
	if err != nil {
		return func() error { return err }
	}
	return func() error { return cl.cache.write(ctx, cl.state, cl.floor) }
}
