package profile

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// The trust root that was used, if the profile names none, when it was current, and
// what leads to it in a TUF repository, if it came from one.
const carriedRoot, carriedDate, carriedChain = "root.json", "root.date", "tuf.json"

// Carried are the files by which another machine judges as this one does, and the
// digest of all of them. A built-in profile, which every program has, has no digest.
func (p Profile) Carried() (_ map[string][]byte, pin digest.Digest, err error) {
	f, files := p.said, map[string][]byte{}
	if chain := p.TrustRoot.Chain(); chain != nil {
		files[carriedChain] = chain
	}
	if f.TrustedRoot == "" && (f.Kind != "" || len(files) > 0) {
		files[carriedRoot], files[carriedDate] = p.TrustRoot.Raw(), []byte(p.TrustRoot.Date().Format(time.DateOnly))
	}
	if f.Kind == "" {
		return files, pin, nil
	}
	files["profile.yaml"], err = readFile(p.Path)
	names := []string{f.Policy, f.TrustedRoot, f.KnownDefects, f.SigningConfig}
	if f.PolicySigner != nil {
		names = append(names, f.Policy+signedpolicy.Suffix)
	}
	for _, name := range names {
		switch {
		case err != nil || name == "":
		case !filepath.IsLocal(name):
			err = verdict.Refuse(verdict.Usage, p.Path, "names %q, which is not below it and cannot be carried", name).Advise("copy the file beside the profile, and name it there")
		default:
			files[filepath.ToSlash(filepath.Clean(name))], err = readFile(relativeTo(filepath.Dir(p.Path), name))
		}
	}
	return files, together(files), err
}

// together is the digest of a list of files, as sha256sum prints it.
func together(files map[string][]byte) digest.Digest {
	var sums []byte
	for _, name := range slices.Sorted(maps.Keys(files)) {
		sums = fmt.Appendf(sums, "%s  %s\n", digest.Of(digest.SHA256, files[name]).Hex(), name)
	}
	return digest.Of(digest.SHA256, sums)
}

// inKit splits the name of a file among those that a kit carries.
func inKit(path string) (dir, name string, is bool) {
	kit, name, is := strings.Cut(filepath.ToSlash(path), ".kit/trust/")
	info, err := os.Stat(kit + ".kit")
	return kit + ".kit/trust/", name, is && err == nil && info.Mode().IsRegular()
}

// checkPin refuses a profile that came in a kit, unless the pin is the digest of
// all that came with it: the maker of a kit also chose the policy in it.
func (r *Reader) checkPin(path string) error {
	dir, _, is := inKit(path)
	if !is {
		return nil
	}
	place, err := store.Open(dir, nil)
	if err != nil {
		return err
	}
	all, err := place.List(context.Background()) // a file on this machine
	files := map[string][]byte{}
	for _, o := range all {
		if err == nil {
			files[o.Name], err = store.Read(context.Background(), place, o.Name, maxFile)
		}
	}
	r.carried = files
	if got := together(files).String(); err == nil && r.Pin != got {
		err = &verdict.Error{Finding: verdict.Find("KIT_SELF_TRUST", strings.TrimSuffix(dir, "/trust/"), "no digest from outside of the kit confirms the policy and trust root in it").Differ(cmp.Or(r.Pin, "a digest from outside"), got)}
	}
	r.Trust = func() (trust.Root, error) {
		root, err := trust.Parse(files[carriedRoot])
		if date, unknown := time.Parse(time.DateOnly, string(files[carriedDate])); err == nil && unknown == nil {
			root = root.CurrentOn(date)
		}
		return root, err
	}
	return err
}
