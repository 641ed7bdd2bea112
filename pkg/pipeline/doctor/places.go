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

// Place is a place for files.
type Place struct {
	Name  string
	Place store.Place
	// Writer is nil if nothing will be written.
	Writer store.Writer
	// Closed means that the policy requires a listing of the place.
	Closed bool
	// Confirm permits a test write, which is removed again.
	Confirm bool
}

// Ask checks whether the place can be listed and written.
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
		return Fine(name, "%s does not exist yet and will be created", p.Place.URI())
	case errors.Is(err, store.ErrNotListable) && !p.Closed:
		return Doubt(name, "use a place that can be listed if extra files must be detected", "%s cannot be listed", p.Place.URI())
	}
	return Fault(name, err)
}

func (p Place) write(ctx context.Context) Check {
	name := p.Name + " files, writing"
	prober, can := p.Writer.(store.Prober)
	if !can {
		return Doubt(name, "test writing there by hand", "not checked: this kind of place has no test for writing")
	}
	ask, says := prober.MayWrite, "%s is writable; nothing was written"
	if p.Confirm {
		ask, says = prober.ProbeWrite, "%s is writable; what was written as a test was removed"
	}
	return permitted(name, says, p.Place.URI(), ask(ctx))
}

// permitted is the result of a check for writing.
func permitted(name, says, where string, err error) Check {
	switch {
	case err == nil:
		return Fine(name, says, where)
	case errors.Is(err, store.ErrNotAsked):
		return Doubt(name, "add --confirm to write a test file and remove it", "not checked: %v", err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return Fault(name, verdict.Wrap(verdict.NotWritable, name, err))
	}
	return Fault(name, err)
}

// Images is a place for images.
type Images struct {
	Name   string
	Remote *registry.Remote
	// Repositories are the ones to check, below the prefix.
	Repositories []string
	// Write means that images will be pushed.
	Write bool
	// Confirm permits a test upload, which is cancelled.
	Confirm bool
}

// Ask checks whether the registry answers, and whether it accepts images.
func (i Images) Ask() Ask {
	return func(ctx context.Context) []Check {
		if len(i.Repositories) == 0 {
			return []Check{Doubt(i.Name+" registry", "give a version whose images are planned", "not checked: the repositories are unknown")}
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
		return Fine(name, "%s answers; the repository does not exist yet", i.Remote.Prefix())
	case err != nil:
		return Fault(name, err)
	}
	return Fine(name, "%s answers, %s", i.Remote.Prefix(), plural.Of(len(tags), "tag"))
}

func (i Images) write(ctx context.Context, repo string) Check {
	name := fmt.Sprintf("%s registry, %s, pushing", i.Name, repo)
	if i.Confirm {
		return permitted(name, "%s accepted the beginning of an upload, which was cancelled", i.Remote.Prefix(), i.Remote.ProbePush(ctx, repo))
	}
	if err := i.Remote.MayPush(ctx, repo); err != nil {
		return permitted(name, "", "", err)
	}
	return Doubt(name, "add --confirm to begin an upload and cancel it", "the credentials were accepted; pushing a blob was not tested")
}
