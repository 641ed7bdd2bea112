package seal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/atonce"
	"github.com/waybill-release/waybill/pkg/document/unpack"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// archives refuses an archive without files, a file that is not an archive
// although its name says so, and an archive whose programs are all for
// another platform than planned. One program that fits is enough: test data
// may be for any platform.
func (l carriedFiles) archives(ctx context.Context) (findings []verdict.Finding, err error) {
	refusals := make([]error, len(l.Plan.Artifacts))
	if err := atonce.Try(ctx, runtime.GOMAXPROCS(0), l.Plan.Artifacts, func(ctx context.Context, i int, a plan.Artifact) error {
		if a.Class != plan.Archive {
			return nil
		}
		err := l.archive(ctx, a)
		if verdict.OutcomeOf(err) == verdict.Refused {
			refusals[i], err = err, nil
		}
		return err
	}); err != nil {
		return nil, err
	}
	for i, a := range l.Plan.Artifacts {
		if refusals[i] != nil {
			findings = append(findings, findingFor(a.Name, refusals[i]))
		}
	}
	return findings, nil
}

// archive reads one archive, but not archives inside it.
func (l carriedFiles) archive(ctx context.Context, a plan.Artifact) error {
	file, err := l.Workspace.OpenFile(a.Name)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	files, platforms := 0, []string{}
	err = unpack.New().Archive(file, info.Size(), func(e unpack.Entry, body io.Reader) error {
		if e.Kind != unpack.File {
			return ctx.Err()
		}
		files++
		head := make([]byte, maxHead)
		n, err := io.ReadFull(body, head)
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if got := platformOf(head[:n]); got != "" && !slices.Contains(platforms, got) {
			platforms = append(platforms, got)
		}
		return ctx.Err()
	})
	switch {
	case errors.Is(err, unpack.ErrXZ), errors.Is(err, unpack.ErrFormat) && info.Size() > 0 && !namesArchive(a.Name):
		return nil // of a format that is not supported, such as a distribution package
	case errors.Is(err, unpack.ErrFormat):
		return verdict.Refuse(verdict.StatementParse, a.Name, "planned as an archive, but the file is not one").
			Advise("let the tool make the file again, or correct its class in release.yaml")
	case err != nil && ctx.Err() == nil && verdict.OutcomeOf(err) == verdict.Internal:
		return verdict.Wrap(verdict.StatementParse, a.Name, fmt.Errorf("the archive is broken: %w", err)).
			Advise("let the tool make the archive again")
	case err != nil:
		return fmt.Errorf("reading %q: %w", a.Name, err)
	case files == 0:
		return verdict.Refuse(verdict.SealMissing, a.Name, "the archive contains no file").
			Advise("let the tool make the archive again; its input was missing")
	}
	anyFits := slices.ContainsFunc(platforms, func(got string) bool { return fits(a.Platform, got) })
	if a.Platform != "" && len(platforms) > 0 && !anyFits {
		return verdict.Refuse(verdict.Platform, a.Name, "every program in the archive is for another platform").Differ(a.Platform, strings.Join(platforms, " and ")).
			Advise("pack the programs of the platform that is planned, or correct its platform in release.yaml")
	}
	return nil
}

// namesArchive reports whether a name promises an archive of a supported format.
func namesArchive(name string) bool {
	return slices.ContainsFunc([]string{".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".zip"}, func(end string) bool { return strings.HasSuffix(name, end) })
}
