package promoterfile

import (
	"errors"
	"io/fs"
	"path"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// manifestName is the name of a thin manifest in its directory, and imagesName
// that of the list beside it.
const (
	manifestName = "promoter-manifest.yaml"
	imagesName   = "images.yaml"
)

// ReadDir reads all thin manifests of a directory: the manifest in each
// directory manifests/NAME, and its list in images/NAME. Other files are
// ignored; a missing list is an error.
func ReadDir(tree fs.FS) ([]Manifest, error) {
	entries, err := fs.ReadDir(tree, "manifests")
	if err != nil {
		return nil, verdict.Refuse(verdict.ConfigParse, "manifests", "no such directory: %v", err)
	}
	var all []Manifest
	for _, e := range entries {
		manifest := path.Join("manifests", e.Name(), manifestName)
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
		return nil, verdict.Refuse(verdict.ConfigParse, "manifests", "no directory in it has a %s", manifestName)
	}
	return all, nil
}

func readThin(tree fs.FS, name, manifest string) (Manifest, error) {
	where, err := fs.ReadFile(tree, manifest)
	if err != nil {
		return Manifest{}, verdict.Wrap(verdict.ConfigParse, manifest, err)
	}
	list := path.Join("images", name, imagesName)
	what, err := fs.ReadFile(tree, list)
	if errors.Is(err, fs.ErrNotExist) {
		return Manifest{}, verdict.Refuse(verdict.ConfigParse, list, "the manifest %s has no such list", manifest)
	}
	if err != nil {
		return Manifest{}, verdict.Wrap(verdict.ConfigParse, list, err)
	}
	return ParseThin(name, where, what)
}

// fileManifestName is the name of a thin manifest of files in its directory.
const fileManifestName = "filepromoter-manifest.yaml"

// HasFiles reports whether a directory contains manifests of files.
func HasFiles(tree fs.FS) bool {
	info, err := fs.Stat(tree, "filestores")
	return err == nil && info.IsDir()
}

// ReadFilesDir reads all thin manifests of files of a directory: the manifest
// in each directory filestores/NAME, and all lists in manifests/NAME. A
// manifest without a list is an error, and so is a list without a manifest.
func ReadFilesDir(tree fs.FS) ([]FileManifest, error) {
	stores, err := dirsWith(tree, "filestores", isStore)
	if err != nil {
		return nil, err
	}
	lists, err := dirsWith(tree, "manifests", isList)
	if err != nil {
		return nil, err
	}
	for _, name := range lists {
		if !slices.Contains(stores, name) {
			return nil, verdict.Refuse(verdict.ConfigParse, "manifests/"+name, "the lists have no manifest filestores/%s/%s", name, fileManifestName)
		}
	}
	var all []FileManifest
	for _, name := range stores {
		m, err := readThinFiles(tree, name)
		if err != nil {
			return nil, err
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return nil, verdict.Refuse(verdict.ConfigParse, "filestores", "no directory in it has a %s", fileManifestName)
	}
	return all, nil
}

func isStore(e fs.DirEntry) bool { return e.Name() == fileManifestName }

// isList tells lists of files from other files in a directory, such as OWNERS
// and READMEs.
func isList(e fs.DirEntry) bool {
	ext := path.Ext(e.Name())
	return ext == ".yaml" || ext == ".yml"
}

// dirsWith returns the names of the directories in dir that contain a regular file
// of a name.
func dirsWith(tree fs.FS, dir string, is func(fs.DirEntry) bool) (names []string, err error) {
	entries, err := fs.ReadDir(tree, dir)
	if err != nil {
		return nil, verdict.Refuse(verdict.ConfigParse, dir, "no such directory: %v", err)
	}
	for _, e := range entries {
		if !e.IsDir() {
			continue
		}
		inside, err := fs.ReadDir(tree, path.Join(dir, e.Name()))
		if err != nil {
			return nil, verdict.Wrap(verdict.ConfigParse, path.Join(dir, e.Name()), err)
		}
		if slices.ContainsFunc(inside, func(e fs.DirEntry) bool { return e.Type().IsRegular() && is(e) }) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func readThinFiles(tree fs.FS, name string) (FileManifest, error) {
	manifest := path.Join("filestores", name, fileManifestName)
	where, err := fs.ReadFile(tree, manifest)
	if err != nil {
		return FileManifest{}, verdict.Wrap(verdict.ConfigParse, manifest, err)
	}
	dir := path.Join("manifests", name)
	entries, err := fs.ReadDir(tree, dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return FileManifest{}, verdict.Wrap(verdict.ConfigParse, dir, err)
	}
	var lists []List
	for _, e := range entries {
		if e.IsDir() || !isList(e) {
			continue
		}
		l := List{Name: path.Join(dir, e.Name())}
		if l.Raw, err = fs.ReadFile(tree, l.Name); err != nil {
			return FileManifest{}, verdict.Wrap(verdict.ConfigParse, l.Name, err)
		}
		lists = append(lists, l)
	}
	if len(lists) == 0 {
		return FileManifest{}, verdict.Refuse(verdict.ConfigParse, dir, "the manifest %s has no list in it", manifest)
	}
	return ParseThinFiles(name, where, lists...)
}
