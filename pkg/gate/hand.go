package gate

import (
	"context"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/digest"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/release"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// atHand is a file on this machine, and the artifact that it is.
type atHand struct {
	path     string
	digests  digest.Set
	artifact string // empty for the manifest itself
}

// checkHand holds files of this machine against the manifest, by name and
// digest. What holds is what is asked about from here on.
func (d *decision) checkHand(ctx context.Context) {
	paths := slices.Compact(slices.Sorted(slices.Values(d.Options.Scope.Given)))
	d.v.Counts.Required += len(paths)
	d.asked = map[string]bool{}
	for _, name := range paths {
		g := atHand{path: name}
		var err error
		if g.digests, err = (File{Path: name}).hash(ctx); err == nil {
			err = d.recognise(&g)
		}
		if err != nil {
			d.v.AddError(name, err)
			continue
		}
		d.hand = append(d.hand, g)
		d.asked[g.artifact] = true
		d.v.Inputs = append(d.v.Inputs, verdict.Input{Name: name, Digest: g.digests.SHA256})
	}
	delete(d.asked, "")
}

// recognise finds which artifact a file is. Bytes alone do not make it one:
// under a name that the release gives to other bytes they are misplaced.
func (d *decision) recognise(g *atHand) error {
	if d.bundle.Equal(g.digests) {
		d.v.Note("%s: it is the manifest itself", g.path)
		return nil
	}
	base := filepath.Base(g.path)
	var same, named []release.Artifact
	for _, a := range d.manifest.Files() {
		bytes := a.Digests.SHA256.Equal(g.digests.SHA256) && (a.Digests.SHA512.IsZero() || a.Digests.SHA512.Equal(g.digests.SHA512))
		if bytes {
			same = append(same, a)
		}
		if path.Base(a.Name) == base {
			named = append(named, a)
		}
	}
	platform := d.Options.Scope.Platform
	mine := slices.DeleteFunc(slices.Clone(same), func(a release.Artifact) bool { return !d.of(a, platform) })
	switch {
	case len(same) == 0 && len(named) == 0:
		f := verdict.Find(verdict.Extra, g.path, "neither its name nor its bytes are in the manifest").Differ("nothing", g.digests.SHA256.String())
		f.Fix = fixStranger
		return &verdict.Error{Finding: f}
	case len(same) == 0:
		return &verdict.Error{Finding: verdict.Find(verdict.Tampered, g.path, "the bytes are not those of %s", listed(named)).
			Differ(named[0].Digests.SHA256.String(), g.digests.SHA256.String())}
	case len(mine) == 0:
		return &verdict.Error{Finding: verdict.Find(verdict.Platform, g.path, "it is %s", listed(same)).Differ(platform, same[0].Platform)}
	}
	called := slices.DeleteFunc(slices.Clone(mine), func(a release.Artifact) bool { return path.Base(a.Name) != base })
	if len(called) == 0 && len(named) > 0 {
		return &verdict.Error{Finding: verdict.Find(verdict.NameSwap, g.path, "holds the bytes of %s", listed(mine)).
			Differ(named[0].Digests.SHA256.String(), g.digests.SHA256.String())}
	}
	if len(called) == 0 {
		called = mine
	}
	g.artifact = nearestTo(g.path, called)
	d.v.Note("%s: it is %s", g.path, g.artifact)
	return nil
}

// listed names artifacts, the first few.
func listed(all []release.Artifact) string {
	return some(names(all))
}

// nearestTo is the name that has most of its end in common with a path.
func nearestTo(file string, all []release.Artifact) string {
	parts := strings.Split(filepath.ToSlash(filepath.Clean(file)), "/")
	slices.Reverse(parts)
	best, most := all[0].Name, -1
	for _, a := range all {
		own := strings.Split(a.Name, "/")
		slices.Reverse(own)
		n := 0
		for n < min(len(parts), len(own)) && parts[n] == own[n] {
			n++
		}
		if n > most {
			best, most = a.Name, n
		}
	}
	return best
}

// countHand turns given files whose artifact has no finding into what is
// verified.
func (d *decision) countHand() {
	for _, g := range d.hand {
		if g.artifact == "" || !d.bad[g.artifact] {
			d.v.Counts.Verified++
		}
	}
}

// openFile opens the bytes that are judged: those that were given, else those
// of the place.
func (d *decision) openFile(ctx context.Context, name string) (io.ReadCloser, error) {
	for _, g := range d.hand {
		if g.artifact == name {
			file, err := os.Open(g.path)
			if err != nil {
				return nil, verdict.Wrap(verdict.PlaceDown, g.path, err)
			}
			return file, nil
		}
	}
	body, _, err := d.Files.Open(ctx, name)
	return body, err
}

// Sum is a verified file by its digests.
type Sum struct {
	Name    string
	Digests digest.Set
}

// Decided is a decision with the files that it verified.
type Decided struct {
	Verdict *verdict.Verdict
	sums    []Sum
	kept    []string // nil: those of the sums
	bad     map[string]bool
	classOf func(name string) plan.Class
}

// Kept are the names of the files that a copy of what was accepted has.
func (d Decided) Kept() (names []string) {
	if d.Verdict.Err() != nil {
		return nil
	}
	if d.kept != nil {
		return d.kept
	}
	for _, sum := range d.sums {
		names = append(names, sum.Name)
	}
	return names
}

// IsProgram reports whether a file of the release is made to be run.
func (d Decided) IsProgram(name string) bool {
	return d.classOf != nil && d.classOf(name) == plan.Binary
}

// IsRefused reports whether something is wrong with a file of the release.
func (d Decided) IsRefused(name string) bool { return d.bad[name] }

// Sums are the files of the scope, under the names that they were given by or
// have in the release: of a verdict that does not accept, none.
func (d Decided) Sums() []Sum {
	if d.Verdict.Err() != nil {
		return nil
	}
	return d.sums
}

// classOf is the class of a file that the manifest lists.
func (d *decision) classOf(name string) plan.Class {
	for _, a := range d.manifest.Artifacts {
		if a.Name == name {
			return a.Class
		}
	}
	return ""
}

// sums lists what was verified. Of an artifact that was excepted nothing is
// known but its name.
func (d *decision) sums() (list []Sum) {
	for _, g := range d.hand {
		if !d.bad[g.artifact] {
			list = append(list, Sum{g.path, g.digests})
		}
	}
	if len(d.Options.Scope.Given) > 0 {
		return list
	}
	for _, a := range d.manifest.Files() {
		if d.covers(a) && !d.bad[a.Name] {
			list = append(list, Sum{a.Name, a.Digests})
		}
	}
	for _, p := range d.manifest.Pages {
		list = append(list, Sum{p.Name, p.Digests})
	}
	return append(list, Sum{releasemanifest.Name, d.bundle})
}

// String prints the sum as the tools that check such sums read it.
func (s Sum) String() string {
	name := strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(s.Name)
	mark := ""
	if name != s.Name {
		mark = "\\"
	}
	return fmt.Sprintf("%s%s  %s", mark, s.Digests.SHA256.Hex(), name)
}
