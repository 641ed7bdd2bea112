package promoter

import (
	"errors"
	"io/fs"
	"path"

	"github.com/waybill-release/waybill/pkg/verdict"
)

// ManifestName is that of a thin manifest in its directory, and ImagesName that
// of the list beside it.
const (
	ManifestName = "promoter-manifest.yaml"
	ImagesName   = "images.yaml"
)

// ReadDir reads all thin manifests of a directory: for each directory NAME in
// manifests/ that has one, and its list in images/NAME. What lies elsewhere is
// not read; a list that lacks is refused.
func ReadDir(tree fs.FS) ([]Manifest, error) {
	entries, err := fs.ReadDir(tree, "manifests")
	if err != nil {
		return nil, verdict.Refuse(verdict.ConfigParse, "manifests", "there is no such directory: %v", err)
	}
	var all []Manifest
	for _, e := range entries {
		manifest := path.Join("manifests", e.Name(), ManifestName)
		if info, err := fs.Stat(tree, manifest); !e.IsDir() || err != nil || !info.Mode().IsRegular() {
			continue
		}
		m, err := readThin(tree, e.Name(), manifest)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, verdict.Refuse(verdict.ConfigParse, "manifests", "no directory there has a %s", ManifestName)
	}
	return all, nil
}

func readThin(tree fs.FS, name, manifest string) (Manifest, error) {
	where, err := fs.ReadFile(tree, manifest)
	if err != nil {
		return Manifest{}, verdict.Wrap(verdict.ConfigParse, manifest, err)
	}
	list := path.Join("images", name, ImagesName)
	what, err := fs.ReadFile(tree, list)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, verdict.Refuse(verdict.ConfigParse, list, "%s has no such list beside it", manifest)
	}
	if err != nil {
		return Manifest{}, verdict.Wrap(verdict.ConfigParse, list, err)
	}
	return ParseThin(name, where, what)
}
