package sbom

import (
	"errors"
	"fmt"
	"io"

	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/sbom/gomod"
)

// errUnread says that a file is a Go program of which some parts cannot be
// read.
var errUnread = errors.New("a Go program whose build information cannot be read")

// readProgram reads the build information of an executable. For anything but a
// Go program it returns [gomod.ErrNoBuildInfo]. For a Go program that cannot be
// read completely it returns errUnread and what could be read: it must not be
// taken for a program without modules.
func readProgram(at io.ReaderAt) (gomod.Binary, error) {
	bin, err := gomod.Read(at)
	switch {
	case errors.Is(err, gomod.ErrNoBuildInfo) && gomod.IsGo(at):
		return gomod.Binary{}, fmt.Errorf("%w: %s", errUnread, err.Error()) // not wrapped: that error says "no Go program"
	case err == nil && bin.Package == "" && bin.Main.Path == "" && len(bin.Deps) == 0:
		return bin, fmt.Errorf("%w: it names a toolchain and no modules", errUnread)
	}
	return bin, err
}

// goProgram reads a file that may be a Go program, and records what cannot be
// read of one. is is false for anything else.
func (x *examiner) goProgram(name string, at io.ReaderAt) (bin gomod.Binary, is bool) {
	bin, err := readProgram(at)
	if err != nil && !errors.Is(err, gomod.ErrNoBuildInfo) {
		x.missed(name, err)
	}
	return bin, bin.GoVersion != ""
}

// headOf reads the beginning of a file, by which its type is recognised.
func headOf(at io.ReaderAt) ([]byte, error) {
	head := make([]byte, unpack.HeadSize)
	n, err := at.ReadAt(head, 0)
	if err == io.EOF {
		err = nil
	}
	return head[:n], err
}
