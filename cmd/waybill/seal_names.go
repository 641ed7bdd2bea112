package main

import (
	"errors"
	"io/fs"
	"os"
	"strings"

	channelindex "github.com/waybill-release/waybill/attestations/channel/v1"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// checkNames refuses invalid channel names, and a --from directory that does not exist.
func (s *sealing) checkNames() error {
	for _, name := range s.channels {
		if !channelindex.IsChannel(name) {
			return verdict.Refuse(verdict.Usage, "--channel", "%q: want latest, stable, rc, beta or alpha, alone or with -MAJOR or -MAJOR.MINOR", name)
		}
	}
	if s.from.Files == "" || strings.Contains(s.from.Files, "://") {
		return nil
	}
	if _, err := os.Stat(s.from.Files); errors.Is(err, fs.ErrNotExist) {
		return verdict.Refuse(verdict.Usage, "--from", "%q: no such directory", s.from.Files).
			Advise("name the directory or bucket with the release of the other tool")
	}
	return nil
}
