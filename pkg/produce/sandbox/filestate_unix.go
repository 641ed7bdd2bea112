//go:build unix

package sandbox

import (
	"os"
	"syscall"
)

// openFlags open a file that may have been replaced: never through a link,
// never blocking.
const openFlags = syscall.O_NOFOLLOW | syscall.O_NONBLOCK

func fileStatus(f *os.File) (fileState, error) {
	info, err := f.Stat()
	if err != nil {
		return fileState{}, err
	}
	l := fileState{regular: info.Mode().IsRegular(), size: info.Size(), links: 1, blocks: -1, mode: info.Mode()}
	l.times[0] = info.ModTime().UnixNano()
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		l.links, l.blocks = uint64(st.Nlink), st.Blocks*512 //nolint:unconvert // its width differs between systems
		l.times[1] = changed(st)
	}
	return l, nil
}
