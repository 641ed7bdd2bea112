//go:build !linux || !(amd64 || arm64)

package attack

import (
	"context"
	"errors"

	"github.com/waybill-release/waybill/pkg/produce/sandbox"
)

// Serve says that this process is not a step.
func Serve() (code int, ok bool) { return 0, false }

func (Builder) attempt(context.Context, Row, sandbox.Mode) (bool, string, error) {
	return false, "", errors.New("this needs Linux")
}
