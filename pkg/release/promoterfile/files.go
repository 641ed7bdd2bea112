package promoterfile

import (
	"cmp"
	"errors"
	"io"
	"net/url"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxFiles is how many files the lists of one project may have.
const maxFiles = 1_000_000

// FileManifest is the source of one project's files, and their destinations.
type FileManifest struct {
	// Name is the name of the file, or of the directory of a thin manifest.
	Name string
	// Source and Destinations end with a slash.
	Source       Place
	Destinations []Place
	// Files are sorted by name.
	Files []File
}

// File is one file, with its path below the source and each destination.
type File struct {
	Name   string
	Digest digest.Digest
}

// filestores is the part of a manifest of files with the places, and fileList the
// part with the files. Nodes are decoded one by one, so that every fault is
// reported, with its line.
type filestores struct {
	Filestores []yaml.Node `yaml:"filestores"`
}

type fileList struct {
	Files []yaml.Node `yaml:"files"`
}

// hexDigest is a SHA-256 digest in hexadecimal without prefix. Lists have it
// unquoted, and YAML readers take some for numbers (0b…), so the text is used
// as written.
type hexDigest digest.Digest

// UnmarshalYAML implements [yaml.Unmarshaler].
func (b *hexDigest) UnmarshalYAML(n *yaml.Node) error {
	d, err := digest.Parse("sha256:" + n.Value)
	if err != nil || n.Kind != yaml.ScalarNode {
		return verdict.Refuse(verdict.ConfigParse, "sha256", "line %d: %.80q is not a SHA-256 digest", n.Line, n.Value)
	}
	*b = hexDigest(d)
	return nil
}

// List is one list of files and its name.
type List struct {
	Name string
	Raw  []byte
}

// ParseFiles reads a manifest of files with places and files in one document.
func ParseFiles(name string, raw []byte) (FileManifest, error) {
	t := fileLists{newReading[FileManifest](name, name, name)}
	var w struct {
		filestores `yaml:",inline"`
		fileList   `yaml:",inline"`
	}
	if err := read(raw, &w); err != nil {
		t.where.add(0, err)
		return t.result()
	}
	t.readPlaces(w.filestores)
	t.readFiles(w.fileList)
	t.finish()
	return t.result()
}

// ParseThinFiles reads a manifest whose files are in separate lists.
func ParseThinFiles(name string, manifest []byte, lists ...List) (FileManifest, error) {
	t := parseThinFiles(name, "filestores/"+name+"/"+fileManifestName, manifest, lists)
	return t.result()
}

type fileLists struct{ reading[FileManifest] }

func parseThinFiles(name, file string, manifest []byte, lists []List) fileLists {
	t := fileLists{newReading[FileManifest](name, file, "")}
	var w filestores
	if err := read(manifest, &w); err != nil {
		t.where.add(0, err)
	} else {
		t.readPlaces(w)
	}
	for _, l := range lists {
		t.what.file = l.Name
		var list fileList
		switch err := read(l.Raw, &list); {
		case errors.Is(err, io.EOF): // a comment
		case err != nil:
			t.what.add(0, err)
		default:
			t.readFiles(list)
		}
	}
	t.finish()
	return t
}

type filestoreEntry struct {
	Base    string `yaml:"base"`
	Account string `yaml:"service-account"`
	Source  bool   `yaml:"src"`
}

type fileEntry struct {
	Name   string    `yaml:"name"`
	SHA256 hexDigest `yaml:"sha256"`
}

// readPlaces refuses, too, places inside one another: a write to one would change
// the other.
func (t *fileLists) readPlaces(w filestores) {
	var all []listedPlace
	for _, n := range w.Filestores {
		var s filestoreEntry
		err := strictyaml.Decode(&n, &s)
		var place Place
		if err == nil {
			place, err = filestore(s.Base)
		}
		place.Account = s.Account
		t.where.add(n.Line, err)
		for _, p := range all {
			if p.Name != place.Name && p.Name != "" && place.Name != "" && (strings.HasPrefix(p.Name, place.Name) || strings.HasPrefix(place.Name, p.Name)) {
				t.where.refuse(n.Line, "%s: the place overlaps with %s", place.Name, p.Name)
			}
		}
		all = append(all, listedPlace{place, s.Source, n.Line})
	}
	m := &t.manifest
	m.Name = t.name
	m.Source, m.Destinations = t.where.places(all)
	t.source = m.Source.Name
}

// readFiles adds the files of one list. A file may be listed several times, always
// with the same digest.
func (t *fileLists) readFiles(list fileList) {
	for _, n := range list.Files {
		var f fileEntry
		err := strictyaml.Decode(&n, &f)
		if err == nil {
			err = fileName(f.Name)
		}
		d := digest.Digest(f.SHA256)
		if err == nil && d.IsZero() {
			err = verdict.Refuse(verdict.ConfigParse, f.Name, "the file has no sha256")
		}
		name := nameIn(&n)
		other, twice := t.listed[name]
		if err == nil && twice && !other.digest.IsZero() && other.digest != d {
			err = &verdict.Error{Finding: verdict.Find(verdict.ConfigParse, name, "the file is listed with two digests, the first at %s", other.at).
				Differ(other.digest.String(), d.String())}
		}
		if err != nil {
			t.what.add(n.Line, err)
			d = digest.Digest{}
		}
		if name != "" && (!twice || other.digest.IsZero()) {
			t.listed[name] = listed{d, n.Line, t.what.at(n.Line)}
		}
	}
}

// finish lists the files in the order of their names.
func (t *fileLists) finish() {
	switch {
	case len(t.listed) > maxFiles:
		t.what.add(0, verdict.Refuse(verdict.Limit, "", "the lists of %s have more than %d files", t.name, maxFiles))
	case len(t.listed) == 0 && len(t.what.all) == 0:
		t.what.refuse(0, "files: want at least one file")
	}
	for name, f := range t.listed {
		t.manifest.Files = append(t.manifest.Files, File{Name: name, Digest: f.digest})
	}
	slices.SortFunc(t.manifest.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
}

// IsFiles reports whether a manifest is of files, not of images, by the one key
// that every manifest of files has. Nothing else is read.
func IsFiles(raw []byte) bool { return filesKey().Match(raw) }

var filesKey = pattern.Lazy(`(?m)^(?:filestores|"filestores"|'filestores')[ \t]*:`)

var (
	filePart     = pattern.Lazy(`^[A-Za-z0-9._+@~-]+$`)
	storeScheme  = pattern.Lazy(`^(?:gs|s3|file|gs\+http|s3\+http|s3\+https)$`)
	storeHostAnd = pattern.Lazy(`^[A-Za-z0-9.:_\[\]-]*$`)
)

// fileName refuses a name that leaves the place, or that some place spells
// differently.
func fileName(name string) error {
	if len(name) > 1024 {
		return verdict.Refuse(verdict.ConfigParse, "files", "the name has %d bytes, which is too long", len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if len(part) > 255 || !filePart().MatchString(part) || strings.HasSuffix(part, ".") {
			return verdict.Refuse(verdict.ConfigParse, name, "not a file name: want a clean relative path of letters, digits and ._+@~-")
		}
	}
	return nil
}

// filestore reads gs://BUCKET/PREFIX, s3://… and file:///DIR, and normalises
// the spelling.
func filestore(base string) (Place, error) {
	refuse := func(why string) (Place, error) {
		return Place{}, verdict.Refuse(verdict.ConfigParse, base, "not a place of files: %s", why)
	}
	u, err := url.Parse(base)
	switch {
	case err != nil || !storeScheme().MatchString(strings.ToLower(u.Scheme)):
		return refuse("want gs://BUCKET/PREFIX, s3://BUCKET/PREFIX or file:///DIRECTORY")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "" || u.Opaque != "":
		return refuse("want no user, query, fragment or escape")
	case (u.Host == "") != (u.Scheme == "file") || !storeHostAnd().MatchString(u.Host):
		return refuse("want a bucket")
	}
	path := strings.Trim(u.Path, "/")
	if path != "" {
		if err := fileName(path); err != nil {
			return refuse("want a clean path of letters, digits and ._+@~-")
		}
		path += "/"
	} else if u.Scheme == "file" || strings.Contains(u.Scheme, "+") {
		return refuse("want a path")
	}
	return Place{Name: strings.ToLower(u.Scheme) + "://" + u.Host + "/" + path}, nil
}
