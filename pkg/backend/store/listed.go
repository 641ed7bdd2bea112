package store

import "context"

// elsewhere is a place whose names come from another place.
type elsewhere struct {
	Place
	names Place
}

// Listed reads a place at one address and lists it at another: for files behind
// a web server or a cache, which cannot be listed, and the bucket that they
// come from. The list is as trustworthy as the second address; objects that
// exist only at the first are not seen.
func Listed(at, names Place) Place { return elsewhere{Place: at, names: names} }

// List implements [Place].
func (e elsewhere) List(ctx context.Context) ([]Object, error) { return e.names.List(ctx) }

// CheckTag asks each of the two places that belongs to a tag.
func (e elsewhere) CheckTag(ctx context.Context, commit string) error {
	for _, place := range []Place{e.Place, e.names} {
		if tagged, is := place.(*releasePlace); is {
			if err := tagged.CheckTag(ctx, commit); err != nil {
				return err
			}
		}
	}
	return nil
}
