//go:build !unix

package sandbox

import "os"

const openFlags = 0

// look reads the status of an open file.
func fileStatus(f *os.File) (fileState, error) {
	info, err := f.Stat()
	if err != nil {
		return fileState{}, err
	}
	return fileState{
		regular: info.Mode().IsRegular(), size: info.Size(), links: 1, blocks: -1, mode: info.Mode(),
		times: [2]int64{info.ModTime().UnixNano()},
	}, nil
}
