// Package lock finds the digests for release.lock.yaml: of base images,
// tools, Go modules, and downloads.
//
//	lock, err := lock.Lock(ctx, lock.Request{Config: config, Held: old, Source: os.DirFS(dir), …})
//	for _, line := range old.Difference(lock) { fmt.Println(line) }
//
// It writes nothing: the caller reviews the difference and writes the file. A
// name is looked up where the caller says or, by default, where the old lock
// says. A missing item is an error, never left out.
//
// The digest of a program is that of its file. For the go command this covers
// the command, but not the compiler and the standard library beside it. A
// toolchain is pinned by the checksum of all its files, and a tool that is an
// image completely.
//
// Other projects should not import this package: it changes without notice.
package lock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Limits of files that are read.
const (
	maxModule = 16 << 20
	maxIndex  = 4 << 20
)

// Request says what to pin and where to look.
type Request struct {
	Config plan.Config
	Held   plan.Lock // the current lock; the zero Lock if there is none
	// Bases and Tools say what names refer to: HOST/REPOSITORY:TAG,
	// HOST/REPOSITORY@sha256:…, oci:DIRECTORY[:TAG] for a layout in the
	// source, and for a tool the name of a program.
	Bases, Tools map[string]string
	// Platforms, OS/ARCH, are those of the machines that share the lock. With
	// none, the lock keeps its own: of a tool without any, it pins the program
	// of this machine.
	Platforms []string
	Source    fs.FS
	Transport http.RoundTripper
	// Program opens the program of a name, as found in PATH.
	Program func(name string) (fs.File, error)
}

// Lock finds every digest that the configuration needs.
func Lock(ctx context.Context, req Request) (plan.Lock, error) {
	needs := req.Config.Needs()
	if err := errors.Join(unused("--base", req.Bases, needs.Bases), unused("--tool", req.Tools, needs.Tools), platforms(req.Platforms)); err != nil {
		return plan.Lock{}, err
	}
	l := plan.Lock{Bases: map[string]plan.BaseLock{}, Tools: map[string]plan.ToolLock{}, Modules: map[string]plan.ModuleLock{}, Downloads: map[string]plan.DownloadLock{}}
	for _, name := range needs.Bases {
		base, err := req.base(ctx, name)
		if err != nil {
			return plan.Lock{}, fmt.Errorf("pinning base %q: %w", name, err)
		}
		l.Bases[name] = base
	}
	for _, name := range needs.Tools {
		tool, err := req.tool(ctx, name)
		if err != nil {
			return plan.Lock{}, fmt.Errorf("pinning tool %q: %w", name, err)
		}
		l.Tools[name] = tool
	}
	for _, dir := range needs.Modules {
		files, err := module(req.Source, dir)
		if err == nil {
			l.Modules[dir], err = plan.LockModule(dir, files)
		}
		if err != nil {
			return plan.Lock{}, fmt.Errorf("pinning module %q: %w", dir, err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(needs.Downloads)) {
		d, err := req.download(ctx, needs.Downloads[name])
		if err != nil {
			return plan.Lock{}, fmt.Errorf("pinning download %q: %w", name, err)
		}
		l.Downloads[name] = d
	}
	// A step that two tools claim as their own is found here, before anything
	// is written.
	if err := l.Covers(req.Config); err != nil {
		return plan.Lock{}, err
	}
	return l, nil
}

func platforms(list []string) error {
	for _, platform := range list {
		if system, arch, ok := strings.Cut(platform, "/"); !ok || system == "" || arch == "" || strings.Contains(arch, "/") {
			return verdict.Refuse(verdict.Usage, "--platform", "%q: want OS/ARCH, such as linux/amd64", platform)
		}
	}
	return nil
}

// unused refuses a reference for a name that release.yaml does not use.
func unused(flag string, given map[string]string, needed []string) error {
	for name := range given {
		if !slices.Contains(needed, name) {
			return verdict.Refuse(verdict.Usage, flag, "release.yaml uses no %q; it uses %q", name, needed)
		}
	}
	return nil
}

func (r Request) base(ctx context.Context, name string) (plan.BaseLock, error) {
	ref := r.Bases[name]
	held, was := r.Held.Bases[name]
	switch {
	case ref == "" && !was:
		return plan.BaseLock{}, verdict.Refuse(verdict.Usage, "--base", "say which image the base is: --base %s=HOST/REPOSITORY:TAG", name)
	case ref == "" && byDigest(held.Image, held.Tag):
		return held, nil
	case ref == "":
		ref = reference(held.Image, held.Tag)
	}
	image, tag, sum, err := r.resolve(ctx, ref)
	return plan.BaseLock{Image: image, Tag: tag, Digest: sum}, err
}

// byDigest reports whether an image was pinned by digest, so there is nothing
// to look up again.
func byDigest(image, tag string) bool { return tag == "" && !strings.HasPrefix(image, "oci:") }

func reference(image, tag string) string {
	if tag == "" {
		return image
	}
	return image + ":" + tag
}

func (r Request) tool(ctx context.Context, name string) (plan.ToolLock, error) {
	ref := r.Tools[name]
	held, was := r.Held.Tools[name]
	switch {
	case ref == "" && !was:
		ref = name // most tools are programs with the same name
	case ref == "" && held.Program != "":
		ref = held.Program
	case ref == "" && byDigest(held.Image, held.Tag):
		return held, nil
	case ref == "":
		ref = reference(held.Image, held.Tag)
	}
	if strings.ContainsAny(ref, "/:@") {
		image, tag, sum, err := r.resolve(ctx, ref)
		return plan.ToolLock{Image: image, Tag: tag, Digest: sum}, err
	}
	f, err := r.Program(ref)
	if err != nil {
		return plan.ToolLock{}, verdict.Refuse(verdict.Usage, "--tool", "program %q is not in PATH; say what the tool is: --tool %s=PROGRAM or --tool %s=HOST/REPOSITORY:TAG", ref, name, name)
	}
	defer f.Close()
	set, _, err := digest.Sum(f)
	if err != nil {
		return plan.ToolLock{}, err
	}
	return r.program(ctx, plan.ToolLock{Program: ref, Digest: set.SHA256}, held)
}

// program pins a program for the platforms that share the lock, if there are
// any: Go as a toolchain, with the checksums of Go's database; and others as
// they are on this machine, or as the lock had them for other platforms.
func (r Request) program(ctx context.Context, here, held plan.ToolLock) (plan.ToolLock, error) {
	list := r.Platforms
	if list == nil && held.Program == here.Program && held.Platforms != nil {
		list = append(slices.Collect(maps.Keys(held.Platforms)), Host)
	}
	if list == nil {
		return here, nil
	}
	l := plan.ToolLock{Program: here.Program, Platforms: map[string]string{}}
	if here.Program == "go" {
		_, version, err := toolchain(here.Program)
		if err != nil {
			return plan.ToolLock{}, err
		}
		l.Toolchain = version
	}
	for _, platform := range list {
		sum, kept := held.Platforms[platform]
		kept = kept && held.Program == l.Program && held.Toolchain == l.Toolchain
		switch {
		case kept && (l.Toolchain != "" || platform != Host):
			l.Platforms[platform] = sum
		case l.Toolchain != "":
			db, err := sumDB(r.Transport)
			if err != nil {
				return plan.ToolLock{}, err
			}
			if l.Platforms[platform], err = db.toolchain(ctx, l.Toolchain, platform); err != nil {
				return plan.ToolLock{}, err
			}
		case platform == Host:
			l.Platforms[platform] = here.Digest.String()
		}
	}
	switch {
	case len(l.Platforms) == 0:
		return plan.ToolLock{}, verdict.Refuse(verdict.Usage, "--platform", "program %q can only be hashed on this machine, %s; name that platform, too", here.Program, Host)
	case l.Platforms[Host] == "":
		return l, nil
	}
	return l, Check(l.Program, l, here.Digest)
}

// resolve gets the current digest of a reference from a registry, or from a
// layout in the source.
func (r Request) resolve(ctx context.Context, ref string) (image, tag string, sum digest.Digest, err error) {
	if dir, layout := strings.CutPrefix(ref, "oci:"); layout {
		return r.layout(dir)
	}
	if image, text, pinned := strings.Cut(ref, "@"); pinned {
		sum, err := digest.Parse(text)
		if err != nil || sum.Algorithm() != digest.SHA256 || !strings.Contains(image, "/") {
			return "", "", digest.Digest{}, verdict.Refuse(verdict.Usage, ref, "want HOST/REPOSITORY@sha256:…")
		}
		return image, "", sum, nil
	}
	colon := strings.LastIndexByte(ref, ':')
	if colon < strings.LastIndexByte(ref, '/') || colon < 0 {
		return "", "", digest.Digest{}, verdict.Refuse(verdict.Usage, ref, "want a tag or a digest, as in HOST/REPOSITORY:TAG")
	}
	image, tag = ref[:colon], ref[colon+1:]
	host, repository, ok := strings.Cut(image, "/")
	if !ok {
		return "", "", digest.Digest{}, verdict.Refuse(verdict.Usage, ref, "want HOST/REPOSITORY:TAG")
	}
	remote, err := registry.OpenRemote(host, r.Transport)
	if err != nil {
		return "", "", digest.Digest{}, err
	}
	d, err := remote.Resolve(ctx, repository, tag)
	if errors.Is(err, registry.ErrNotFound) {
		return "", "", digest.Digest{}, verdict.Refuse(verdict.Usage, ref, "the registry has no such image")
	}
	return image, tag, d.Digest, err
}

// layout finds the only image of an OCI layout, or the one with a tag.
func (r Request) layout(ref string) (image, tag string, sum digest.Digest, err error) {
	dir, tag, _ := strings.Cut(ref, ":")
	raw, err := readFile(r.Source, path.Join(dir, "index.json"), maxIndex)
	if err != nil {
		return "", "", digest.Digest{}, err
	}
	entries, err := registry.ListedIn(raw)
	if err != nil {
		return "", "", digest.Digest{}, verdict.Wrap(verdict.ConfigParse, ref, err)
	}
	var found []digest.Digest
	for _, m := range entries {
		if tag == "" || m.Annotations[registry.AnnotationRefName] == tag {
			found = append(found, m.Digest)
		}
	}
	if len(found) != 1 || found[0].Algorithm() != digest.SHA256 {
		return "", "", digest.Digest{}, verdict.Refuse(verdict.Usage, "oci:"+ref, "want one image, got %d; name one as oci:DIRECTORY:TAG", len(found))
	}
	return "oci:" + dir, tag, found[0], nil
}

// module reads the files of a module that select its dependencies.
func module(source fs.FS, dir string) (files plan.ModuleFiles, err error) {
	if files.GoMod, err = readFile(source, path.Join(dir, "go.mod"), maxModule); err != nil {
		return plan.ModuleFiles{}, err
	}
	files.GoSum, err = readFile(source, path.Join(dir, "go.sum"), maxModule)
	if errors.Is(err, fs.ErrNotExist) {
		return plan.ModuleFiles{GoMod: files.GoMod}, nil
	}
	return files, err
}

func readFile(source fs.FS, name string, limit int64) ([]byte, error) {
	info, err := fs.Stat(source, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &missingError{verdict.Refuse(verdict.Usage, name, "no such file in the source"), err}
	}
	if err != nil {
		return nil, err
	}
	if info.Size() > limit {
		return nil, verdict.Refuse(verdict.Limit, name, "%d bytes, more than %d", info.Size(), limit)
	}
	return fs.ReadFile(source, name)
}

// missingError is a refusal that is also a missing file.
type missingError struct {
	error
	cause error
}

// Unwrap returns both.
func (e *missingError) Unwrap() []error { return []error{e.error, e.cause} }
