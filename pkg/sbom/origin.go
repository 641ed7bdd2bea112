package sbom

import (
	"cmp"
	"net/url"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/module"

	"github.com/waybill-release/waybill/pkg/document/spdx"
	"github.com/waybill-release/waybill/pkg/judge/sbomcheck"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// tool is the name and version of Waybill, which may be a library.
func (in Input) tool() string {
	version := in.Tool
	if info, ok := debug.ReadBuildInfo(); ok && version == "" {
		for _, m := range append(slices.Clip(info.Deps), &info.Main) {
			if m.Path == "github.com/waybill-release/waybill" {
				version = m.Version
			}
		}
	}
	return "waybill-" + cmp.Or(strings.Trim(version, "()"), "devel")
}

// supplier is the supplier as SPDX writes it, or "".
func (in Input) supplier() string {
	name := clean(in.Supplier)
	if strings.Contains(name, "://") && !strings.Contains(name, " ") {
		name = origin(name)
	}
	if name == "" || strings.HasPrefix(name, "Organization: ") || strings.HasPrefix(name, "Person: ") {
		return name
	}
	return "Organization: " + name
}

// origin names host and owner of a Go module or of the address of a repository,
// or the host alone where owners are not known.
func origin(path string) string {
	if u, err := url.Parse(path); err == nil && u.Scheme != "" {
		path = u.Host + u.Path
	}
	host, rest, _ := strings.Cut(path, "/")
	owner, _, _ := strings.Cut(rest, "/")
	if module.CheckPath(host) != nil || strings.ContainsAny(owner, " ()") {
		return ""
	}
	if owned := []string{"github.com", "gitlab.com", "codeberg.org", "bitbucket.org", "git.sr.ht", "golang.org"}; slices.Contains(owned, host) && owner != "" {
		host += "/" + owner
	}
	return host + " (https://" + host + ")"
}

// beforeBuild is the context of a document about a directory.
const beforeBuild = "Generation context: Source (before the build)."

// published sets the supplier and originator of a package from its address.
func published(p *spdx.Package, path string) {
	p.Originator = Input{Supplier: origin(path)}.supplier()
	p.Supplier = cmp.Or(p.Supplier, p.Originator)
}

// stateUnknown writes which elements of a package are unknown, and why, as the
// last line of its comment.
func stateUnknown(p *spdx.Package) {
	var said []string
	for _, e := range []struct {
		lacks        bool
		name, reason string
	}{
		{p.Version == "" || p.Version == spdx.NoAssertion, "version", "none was recorded"},
		{p.Supplier+p.Originator == "", "supplier", "nothing names one"},
		{p.Digests == digest.Set{} && p.PURL == "", "identifier", "it has no package URL"},
		{p.Digests == digest.Set{}, "hash", "its own bytes are not a part of what was described"},
		{p.Licence == "", "licence", "no declaration and no known text was found"},
	} {
		if e.lacks {
			said = append(said, e.name+" ("+e.reason+")")
		}
	}
	if len(said) > 0 {
		p.Comment = strings.TrimPrefix(p.Comment+"\n"+sbomcheck.Unknown+strings.Join(said, ", "), "\n")
	}
}
