package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Place is where files lie or will lie.
type Place struct {
	Name  string
	Place store.Place
	// Writer is nil where nothing is to be written.
	Writer store.Writer
	// Closed says that the policy demands a listing.
	Closed bool
	// Confirm writes a probe and removes it.
	Confirm bool
}

// Ask looks whether the place can be listed and written.
func (p Place) Ask() Ask {
	return func(ctx context.Context) []Check {
		checks := []Check{p.list(ctx)}
		if p.Writer != nil {
			checks = append(checks, p.write(ctx))
		}
		return checks
	}
}

func (p Place) list(ctx context.Context) Check {
	name := p.Name + " files"
	objects, err := p.Place.List(ctx)
	switch {
	case err == nil:
		return Fine(name, "%s can be listed, %s", p.Place.URI(), plural.Of(len(objects), "object"))
	case errors.Is(err, fs.ErrNotExist) && p.Writer != nil:
		return Fine(name, "%s is not there yet, and will be made", p.Place.URI())
	case errors.Is(err, store.ErrNotListable) && !p.Closed:
		return Doubt(name, "name a place that can be listed, if extra files are to be found", "%s cannot be listed", p.Place.URI())
	}
	return Fault(name, err)
}

func (p Place) write(ctx context.Context) Check {
	name := p.Name + " files, writing"
	prober, can := p.Writer.(store.Prober)
	if !can {
		return Doubt(name, "write something there once by hand", "not asked: this kind of place cannot be asked")
	}
	ask, says := prober.MayWrite, "%s may be written; nothing was"
	if p.Confirm {
		ask, says = prober.ProbeWrite, "%s was written, and what was written is removed"
	}
	return permitted(name, says, p.Place.URI(), ask(ctx))
}

// permitted is the answer to whether something may be written.
func permitted(name, says, where string, err error) Check {
	switch {
	case err == nil:
		return Fine(name, says, where)
	case errors.Is(err, store.ErrNotAsked):
		return Doubt(name, "add --confirm to write a probe and remove it", "not asked: %v", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return Fault(name, verdict.Wrap(verdict.NotWritable, name, err))
	}
	return Fault(name, err)
}

// Images is where images lie or will lie.
type Images struct {
	Name   string
	Remote *registry.Remote
	// Repositories are those that are meant, below the prefix.
	Repositories []string
	// Write says that images are to be pushed.
	Write bool
	// Confirm begins an upload and cancels it.
	Confirm bool
}

// Ask looks whether the registry answers, and whether it takes images.
func (i Images) Ask() Ask {
	return func(ctx context.Context) []Check {
		if len(i.Repositories) == 0 {
			return []Check{Doubt(i.Name+" registry", "name a version whose images are known", "not asked: nobody knows which repositories")}
		}
		var checks []Check
		for _, repo := range i.Repositories {
			checks = append(checks, i.read(ctx, repo))
			if i.Write {
				checks = append(checks, i.write(ctx, repo))
			}
		}
		return checks
	}
}

func (i Images) read(ctx context.Context, repo string) Check {
	name := fmt.Sprintf("%s registry, %s", i.Name, repo)
	tags, err := i.Remote.Tags(ctx, repo)
	switch {
	case errors.Is(err, registry.ErrNotFound) && i.Write:
		return Fine(name, "%s answers; there is no such repository yet", i.Remote.Prefix())
	case err != nil:
		return Fault(name, err)
	}
	return Fine(name, "%s answers, %s", i.Remote.Prefix(), plural.Of(len(tags), "tag"))
}

func (i Images) write(ctx context.Context, repo string) Check {
	name := fmt.Sprintf("%s registry, %s, pushing", i.Name, repo)
	if i.Confirm {
		return permitted(name, "%s took the beginning of an upload, which was cancelled", i.Remote.Prefix(), i.Remote.ProbePush(ctx, repo))
	}
	if err := i.Remote.MayPush(ctx, repo); err != nil {
		return permitted(name, "", "", err)
	}
	return Doubt(name, "add --confirm to begin an upload and cancel it", "its credentials were taken; not asked whether it takes a blob")
}
