//go:build !unix

package sandbox

import "os"

const openFlags = 0

// look asks the system about an open file.
func look(f *os.File) (looked, error) {
	info, err := f.Stat()
	if err != nil {
		return looked{}, err
	}
	return looked{
		regular: info.Mode().IsRegular(), size: info.Size(), links: 1, blocks: -1, mode: info.Mode(),
		times: [2]int64{info.ModTime().UnixNano()},
	}, nil
}
