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

func manifestFile(name string) string { return path.Join("manifests", name, manifestName) }

func listFile(name string) string { return path.Join("images", name, imagesName) }

// ReadUsable reads all thin manifests of a directory: the manifest in each
// directory manifests/NAME, and its list in images/NAME. Other files are
// ignored. Those with a bad or missing list are returned apart. A manifest whose
// places cannot be read is an error, which then has every fault of every file:
// without the places nobody knows whose images the other lists name.
func ReadUsable(tree fs.FS) ([]Manifest, []BadList, error) {
	entries, err := fs.ReadDir(tree, "manifests")
	if err != nil {
		return nil, nil, verdict.Refuse(verdict.ConfigParse, "manifests", "no such directory: %v", err)
	}
	var all []reading[Manifest]
	for _, e := range entries {
		if info, err := fs.Stat(tree, manifestFile(e.Name())); !e.IsDir() || err != nil || !info.Mode().IsRegular() {
			continue
		}
		all = append(all, readThin(tree, e.Name()).reading)
	}
	if len(all) == 0 {
		return nil, nil, verdict.Refuse(verdict.ConfigParse, "manifests", "no directory in it has a %s", manifestName)
	}
	refuseForeign(all)
	return divide(all)
}

func readThin(tree fs.FS, name string) images {
	where, failed := fs.ReadFile(tree, manifestFile(name))
	list, err := fs.ReadFile(tree, listFile(name))
	if errors.Is(err, fs.ErrNotExist) {
		err = verdict.Refuse(verdict.ConfigParse, "", "the manifest %s has no such list", manifestFile(name))
	}
	t := parseThin(name, where, list)
	if failed != nil {
		t.where = faults{file: t.where.file}
		t.where.add(0, failed)
	}
	t.what.add(0, err)
	return t
}

// fileManifestName is the name of a thin manifest of files in its directory.
const fileManifestName = "filepromoter-manifest.yaml"

// The places of the only manifest in a directory, and of its lists: one file, or
// all files in a directory.
const (
	filesName = "files.yaml"
	filesDir  = "files"
)

// HasFiles reports whether a directory contains manifests of files.
func HasFiles(tree fs.FS) bool {
	info, err := fs.Stat(tree, "filestores")
	return err == nil && info.IsDir() || exists(tree, fileManifestName)
}

// ReadUsableFiles reads all thin manifests of files of a directory: the manifest
// in each directory filestores/NAME, and all lists in manifests/NAME; or the
// only manifest, which lies beside files.yaml or a directory files. Those with a
// bad list, or without one, are returned apart; a list without a manifest is an
// error.
func ReadUsableFiles(tree fs.FS) ([]FileManifest, []BadList, error) {
	all, err := readStores(tree)
	if err != nil {
		return nil, nil, err
	}
	return divide(all)
}

func readStores(tree fs.FS) (all []reading[FileManifest], err error) {
	if exists(tree, fileManifestName) {
		if exists(tree, "filestores") || exists(tree, filesName) && exists(tree, filesDir) {
			return nil, verdict.Refuse(verdict.ConfigParse, fileManifestName, "want it beside %s or a directory %s, and neither both nor a directory filestores", filesName, filesDir)
		}
		return append(all, readThinFiles(tree, fileManifestName, fileManifestName, filesDir).reading), nil
	}
	stores, err := dirsWith(tree, "filestores", isStore)
	if err != nil {
		return nil, err
	}
	lists, err := dirsWith(tree, "manifests", isList)
	if err != nil {
		return nil, err
	}
	for _, name := range stores {
		all = append(all, readThinFiles(tree, name, path.Join("filestores", name, fileManifestName), path.Join("manifests", name)).reading)
	}
	for _, name := range lists {
		if !slices.Contains(stores, name) {
			t := newReading[FileManifest](name, "manifests/"+name, "")
			t.where.refuse(0, "the lists have no manifest filestores/%s/%s", name, fileManifestName)
			all = append(all, t)
		}
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

func readThinFiles(tree fs.FS, name, manifest, dir string) fileLists {
	where, failed := fs.ReadFile(tree, manifest)
	names, err := listsIn(tree, dir)
	if len(names) == 0 && err == nil {
		err = verdict.Refuse(verdict.ConfigParse, "", "the manifest %s has no list in it", manifest)
	}
	var lists []List
	for _, name := range names {
		l := List{Name: name}
		if l.Raw, err = fs.ReadFile(tree, l.Name); err != nil {
			break
		}
		lists = append(lists, l)
	}
	t := parseThinFiles(name, manifest, where, lists)
	if failed != nil {
		t.where = faults{file: manifest}
		t.where.add(0, failed)
	}
	if err != nil {
		t.what = faults{file: dir}
		t.what.add(0, err)
	}
	return t
}

// listsIn are the lists in a directory, or the list that stands for it.
func listsIn(tree fs.FS, dir string) (names []string, err error) {
	if dir == filesDir && exists(tree, filesName) {
		return []string{filesName}, nil
	}
	entries, err := fs.ReadDir(tree, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, e := range entries {
		if !e.IsDir() && isList(e) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names, err
}

func exists(tree fs.FS, name string) bool {
	_, err := fs.Stat(tree, name)
	return err == nil
}
