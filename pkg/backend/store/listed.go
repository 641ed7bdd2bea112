package store

import "context"

// elsewhere is a place whose names another place knows.
type elsewhere struct {
	Place
	names Place
}

// Listed is a place that is read at one address and listed at another: files
// behind a web server or a cache, which lists nothing, and the bucket that they
// come from. What the list says is as good as who answers it: what is only at
// the first address, and unknown at the second, is not seen.
func Listed(at, names Place) Place { return elsewhere{Place: at, names: names} }

// List implements [Place].
func (e elsewhere) List(ctx context.Context) ([]Object, error) { return e.names.List(ctx) }
