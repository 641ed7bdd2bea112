//go:build !unix

package store

// access cannot be asked here.
func access(string) error { return ErrNotAsked }
