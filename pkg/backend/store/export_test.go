package store

import "os"

// NameFirst has a directory's writer give each file a name before it is written,
// as on systems without files that have none.
func NameFirst(w Writer) {
	w.(*dir).unnamed = func(*os.File) (*os.File, func(string) error) { return nil, nil }
}
