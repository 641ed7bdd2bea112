package gate

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	releasemanifest "github.com/waybill-release/waybill/attestations/release-manifest/v1"
	"github.com/waybill-release/waybill/pkg/release/manifest"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/tool/pathend"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// givenFile is a file on this machine, and the artifact that it is.
type givenFile struct {
	path     string
	digests  digest.Set
	artifact string // empty for the manifest itself
}

// checkGivenFiles compares the given files with the manifest, by name and digest. It
// returns those that match, and the names of their artifacts, which are the
// scope from here on.
func (s *sealed) checkGivenFiles(ctx context.Context, f *facts) (given []givenFile, asked map[string]bool) {
	asked = map[string]bool{}
	for _, name := range slice.Unique(s.Options.Scope.Given) {
		g := givenFile{path: name}
		var err error
		if g.digests, err = (File{Path: name}).hash(ctx); err == nil {
			err = s.manifest.recognise(&g, s.Options.Scope.Platform, f)
		}
		if err != nil {
			f.counted = append(f.counted, counted{name: name})
			f.fail(name, err)
			continue
		}
		given = append(given, g)
		asked[g.artifact] = true
		f.addInputs(verdict.Input{Name: name, Digest: g.digests.SHA256})
	}
	delete(asked, "")
	return given, asked
}

// recognise finds which artifact a given file is. Equal bytes are not enough: a
// file whose name is that of other bytes in the release is refused.
func (m signedManifest) recognise(g *givenFile, platform string, f *facts) error {
	if m.bundle.Equal(g.digests) {
		f.tell("%s is the manifest itself.", g.path)
		return nil
	}
	base := filepath.Base(g.path)
	var same, named []manifest.Artifact
	for _, a := range m.Files() {
		bytes := a.Digests.SHA256.Equal(g.digests.SHA256) && (a.Digests.SHA512.IsZero() || a.Digests.SHA512.Equal(g.digests.SHA512))
		if bytes {
			same = append(same, a)
		}
		if path.Base(a.Name) == base {
			named = append(named, a)
		}
	}
	mine := slices.DeleteFunc(slices.Clone(same), func(a manifest.Artifact) bool { return !m.isForPlatform(a, platform) })
	switch {
	case len(same) == 0 && len(named) == 0:
		return verdict.Refuse(verdict.Extra, g.path, "neither its name nor its bytes are in the manifest").Differ("nothing", g.digests.SHA256.String()).
			Advise(fixStranger)
	case len(same) == 0:
		near := allNearestTo(g.path, named)
		want := "the digest of one of these files"
		if len(near) == 1 {
			want = near[0].Digests.SHA256.String()
		}
		return &verdict.Error{Finding: verdict.Find(verdict.Tampered, g.path, "the bytes are not those of %s", firstNames(near)).
			Differ(want, g.digests.SHA256.String())}
	case len(mine) == 0:
		return &verdict.Error{Finding: verdict.Find(verdict.Platform, g.path, "the bytes are those of %s", firstNames(same)).Differ(platform, same[0].Platform)}
	}
	called := slices.DeleteFunc(slices.Clone(mine), func(a manifest.Artifact) bool { return path.Base(a.Name) != base })
	if len(called) == 0 && len(named) > 0 || isNearerToAnother(g.path, same, named) {
		return &verdict.Error{Finding: verdict.Find(verdict.NameSwap, g.path, "holds the bytes of %s", firstNames(mine)).
			Differ(nearestTo(g.path, named).Digests.SHA256.String(), g.digests.SHA256.String())}
	}
	if len(called) == 0 {
		called = mine
	}
	g.artifact = nearestTo(g.path, called).Name
	f.tell("%s is %s.", g.path, g.artifact)
	return nil
}

// firstNames prints the first few names of artifacts.
func firstNames(all []manifest.Artifact) string {
	return firstFew(names(all))
}

// nearestTo is the first of the artifacts whose name has the most elements in
// common with the end of a path.
func nearestTo(file string, all []manifest.Artifact) manifest.Artifact {
	return slices.MaxFunc(all, func(a, b manifest.Artifact) int {
		return cmp.Compare(pathend.Common(file, a.Name), pathend.Common(file, b.Name))
	})
}

// allNearestTo are the artifacts whose names have the most elements in common
// with the end of a path.
func allNearestTo(file string, all []manifest.Artifact) []manifest.Artifact {
	most := pathend.Common(file, nearestTo(file, all).Name)
	return slices.DeleteFunc(slices.Clone(all), func(a manifest.Artifact) bool { return pathend.Common(file, a.Name) < most })
}

// isNearerToAnother reports whether a path ends like the name of an artifact
// with other bytes, and less like those with the same bytes. Without it the
// file of one platform would be accepted in the directory of another.
func isNearerToAnother(file string, same, named []manifest.Artifact) bool {
	return len(named) > 0 && pathend.Common(file, nearestTo(file, named).Name) > pathend.Common(file, nearestTo(file, same).Name)
}

// subjectGiven names given files of a release in the subject of a verdict.
func subjectGiven(files []string, release string) string {
	if len(files) == 1 {
		return files[0] + " of " + release
	}
	return plural.Of(len(files), "file") + " of " + release
}

// countedGiven returns what counts for the given files: the artifact, or the
// path if none was recognised.
func (s *sealed) countedGiven() iter.Seq[counted] {
	return func(yield func(counted) bool) {
		for _, g := range s.given {
			if !yield(counted{name: cmp.Or(g.artifact, g.path)}) {
				return
			}
		}
	}
}

// openFile opens the bytes to judge: the given file, else the file in the
// place.
func (s *sealed) openFile(ctx context.Context, name string) (io.ReadCloser, error) {
	for _, g := range s.given {
		if g.artifact == name {
			file, err := os.Open(g.path)
			if err != nil {
				return nil, verdict.Wrap(verdict.PlaceDown, g.path, err)
			}
			return file, nil
		}
	}
	body, _, err := s.Files.Open(ctx, name)
	return body, err
}

// Sum is the name of a verified file with its digests.
type Sum struct {
	Name    string
	Digests digest.Set
}

// Decided is a decision with the files that it verified.
type Decided struct {
	Verdict *verdict.Verdict
	// Evidence is what a later release is compared with, if this one is accepted.
	Evidence []string
	sums     []Sum
	kept     []string // nil means those of the sums
	bad      map[string]bool
	classOf  func(name string) plan.Class
	// verified is the manifest with the artifacts that were verified.
	verified manifest.Manifest
}

// Verified is the manifest of an accepted release, with those of its artifacts
// that were asked about and verified; zero if there is none.
func (d Decided) Verified() manifest.Manifest {
	if d.Verdict.Err() != nil {
		return manifest.Manifest{}
	}
	return d.verified
}

// Kept are the names of the files that a download of the accepted release
// contains.
func (d Decided) Kept() (names []string) {
	if d.Verdict.Err() != nil {
		return nil
	}
	if d.kept != nil {
		return d.kept
	}
	return slice.Map(d.sums, func(sum Sum) string { return sum.Name })
}

// IsProgram reports whether a file of the release is a program, and needs to be
// executable.
func (d Decided) IsProgram(name string) bool {
	return d.classOf != nil && d.classOf(name) == plan.Binary
}

// IsRefused reports whether a file of the release has a finding.
func (d Decided) IsRefused(name string) bool { return d.bad[name] }

// Sums are the verified files of the scope, named by their given paths or by
// their names in the release. A verdict that does not accept has none.
func (d Decided) Sums() []Sum {
	if d.Verdict.Err() != nil {
		return nil
	}
	return d.sums
}

// verifiedOf is the manifest without the artifacts that are out of scope, or have
// a finding that was set aside.
func verifiedOf(s *sealed, holds func(string) bool) manifest.Manifest {
	m := s.manifest.Manifest
	m.Artifacts = nil
	for _, a := range s.manifest.Artifacts {
		if s.covers(a) && holds(a.Name) {
			m.Artifacts = append(m.Artifacts, a)
		}
	}
	return m
}

func (m signedManifest) classOf(name string) plan.Class {
	return slice.First(m.Artifacts, func(a manifest.Artifact) bool { return a.Name == name }).Class
}

// sums lists the verified files. The bytes of an excepted artifact are
// unverified, so it is left out.
func (s *sealed) sums(holds func(string) bool) (list []Sum) {
	for _, g := range s.given {
		if holds(g.artifact) {
			list = append(list, Sum{g.path, g.digests})
		}
	}
	if len(s.Options.Scope.Given) > 0 {
		return list
	}
	for _, a := range s.manifest.Files() {
		if s.covers(a) && holds(a.Name) {
			list = append(list, Sum{a.Name, a.Digests})
		}
	}
	for _, p := range s.manifest.Pages {
		list = append(list, Sum{p.Name, p.Digests})
	}
	return append(list, Sum{releasemanifest.Name, s.manifest.bundle})
}

// String prints the sum in the format of sha256sum -c.
func (s Sum) String() string {
	name := strings.NewReplacer("\\", `\\`, "\n", `\n`, "\r", `\r`).Replace(s.Name)
	mark := ""
	if name != s.Name {
		mark = "\\"
	}
	return fmt.Sprintf("%s%s  %s", mark, s.Digests.SHA256.Hex(), name)
}
