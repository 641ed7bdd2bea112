package sbom

import (
	"errors"
	"fmt"
	"io"

	"github.com/waybill-release/waybill/pkg/sbom/gomod"
)

// errUnread says that a file is a Go program of which not all can be read.
var errUnread = errors.New("a Go program whose build information can not be read")

// readProgram reads the build information of an executable. Of one that is no
// Go program it is [gomod.ErrNoBuildInfo]. A Go program of which not all can be
// read is errUnread, beside what could be read: nobody may take it for a program without modules.
func readProgram(at io.ReaderAt) (gomod.Binary, error) {
	bin, err := gomod.Read(at)
	switch {
	case errors.Is(err, gomod.ErrNoBuildInfo) && gomod.IsGo(at):
		return gomod.Binary{}, fmt.Errorf("%w: %s", errUnread, err.Error()) // not as what says that it is none
	case err == nil && bin.Package == "" && bin.Main.Path == "" && len(bin.Deps) == 0:
		return bin, fmt.Errorf("%w: it names a toolchain and no modules", errUnread)
	}
	return bin, err
}
