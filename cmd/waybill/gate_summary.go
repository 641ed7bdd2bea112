package main

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// summaryAt is where to write the summaries of a gate: a file, or a directory for
// one file per image. The zero value writes none.
type summaryAt struct {
	path      string
	directory bool
}

// summaries finds out where to write summaries, before the gate is asked.
func (o *asking) summaries(images []string) (summaryAt, error) {
	if o.summary == "" {
		return summaryAt{}, nil
	}
	info, err := os.Stat(o.summary)
	at := summaryAt{o.summary, err == nil && info.IsDir()}
	switch {
	case o.to == "":
		return summaryAt{}, verdict.Refuse(verdict.Usage, "--summary", "requires --to, because a summary is for one destination")
	case len(images) > 1 && !at.directory:
		return summaryAt{}, verdict.Refuse(verdict.Usage, "--summary", "%q: want an existing directory for the summaries of several images", o.summary)
	}
	return at, nil
}

// write writes the summaries of an answer that accepts, and nothing otherwise.
func (at summaryAt) write(answer api.Answer) error {
	if at.path == "" || !answer.Accepted() {
		return nil
	}
	for _, d := range answer.Decisions {
		if len(d.Summary) == 0 {
			return verdict.Refuse(verdict.Usage, "--summary", "the gate accepts %s, but signs no summaries", d.Image).
				Advise("leave the flag out, or let the operator of the gate set summaries: true")
		}
	}
	for _, d := range answer.Decisions {
		path := at.path
		if at.directory {
			_, sum, _ := strings.Cut(d.Image, "@")
			path = filepath.Join(path, strings.Replace(sum, ":", "-", 1)+".vsa.sigstore.json")
		}
		if err := cli.WriteFile(path, d.Summary); err != nil {
			return err
		}
	}
	return nil
}
