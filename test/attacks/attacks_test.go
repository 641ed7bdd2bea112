// Package attacks does to releases, bundles and signers what an attacker
// would, one fact at a time, and demands the refusal that is meant for it: not
// any refusal. Every attack has a twin in which that one fact is left alone,
// and which passes.
package attacks

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/checkout"
)

// sceneDir holds everything that the package makes.
var sceneDir string

func TestMain(m *testing.M) {
	if code, ok := checkout.Serve(); ok { // the steps of its builds run here
		syscall.Exit(code) // with a race detector os.Exit sleeps a second
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "waybill-attacks-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	sceneDir = dir
	defer func() {
		if opened.world != nil {
			err = opened.world.Close()
		}
		if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = 1
		}
	}()
	if code = m.Run(); code != 0 {
		return code
	}
	for _, err := range append(unprovoked(), unanswered()...) {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}
