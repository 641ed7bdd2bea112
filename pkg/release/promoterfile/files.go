package promoterfile

import (
	"cmp"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

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

// filestores is the part of a manifest of files with the places.
type filestores struct {
	Filestores []struct {
		Base    string `yaml:"base"`
		Account string `yaml:"service-account"`
		Source  bool   `yaml:"src"`
	} `yaml:"filestores"`
}

// fileList is the part with the files.
type fileList struct {
	Files []struct {
		Name   string    `yaml:"name"`
		SHA256 hexDigest `yaml:"sha256"`
	} `yaml:"files"`
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
	var w struct {
		filestores `yaml:",inline"`
		fileList   `yaml:",inline"`
	}
	if err := read(raw, &w); err != nil {
		return FileManifest{}, inManifest(name, err)
	}
	return assembleFiles(name, w.filestores, []namedFiles{{name, w.fileList}})
}

// ParseThinFiles reads a manifest whose files are in separate lists.
func ParseThinFiles(name string, manifest []byte, lists ...List) (FileManifest, error) {
	var w filestores
	if err := read(manifest, &w); err != nil {
		return FileManifest{}, inManifest("filestores/"+name, err)
	}
	var all []namedFiles
	for _, l := range lists {
		named := namedFiles{name: l.Name}
		if err := read(l.Raw, &named.list); err != nil {
			return FileManifest{}, inManifest(l.Name, err)
		}
		all = append(all, named)
	}
	return assembleFiles(name, w, all)
}

// namedFiles is a parsed list and its name.
type namedFiles struct {
	name string
	list fileList
}

// IsFiles reports whether a manifest is of files, not of images, by the one key
// that every manifest of files has. Nothing else is read.
func IsFiles(raw []byte) bool { return filesKey.Match(raw) }

var filesKey = regexp.MustCompile(`(?m)^(?:filestores|"filestores"|'filestores')[ \t]*:`)

func assembleFiles(name string, w filestores, lists []namedFiles) (FileManifest, error) {
	m := FileManifest{Name: name}
	for _, s := range w.Filestores {
		place, err := filestore(s.Base)
		if err != nil {
			return FileManifest{}, inManifest(name, err)
		}
		place.Account = s.Account
		switch {
		case !s.Source:
			m.Destinations = append(m.Destinations, place)
		case m.Source.Name != "":
			return FileManifest{}, verdict.Refuse(verdict.ConfigParse, name, "there are two sources, %s and %s; want one", m.Source.Name, place.Name)
		default:
			m.Source = place
		}
	}
	if err := checkPlaces(m.Source, m.Destinations); err != nil {
		return FileManifest{}, inManifest(name, err)
	}
	if err := m.checkDisjoint(); err != nil {
		return FileManifest{}, inManifest(name, err)
	}
	for _, l := range lists {
		files, err := l.list.read()
		if err != nil {
			return FileManifest{}, inManifest(l.name, err)
		}
		m.Files = append(m.Files, files...)
	}
	if len(m.Files) > maxFiles {
		return FileManifest{}, verdict.Refuse(verdict.Limit, name, "the lists have more than %d files", maxFiles)
	}
	if err := m.sort(); err != nil {
		return FileManifest{}, inManifest(name, err)
	}
	return m, nil
}

// sort orders the files, and refuses a name that is listed twice: with two
// digests it is ambiguous, and with one digest its owner is.
func (m *FileManifest) sort() error {
	slices.SortFunc(m.Files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	for i := 1; i < len(m.Files); i++ {
		a, b := m.Files[i-1], m.Files[i]
		switch {
		case a.Name != b.Name:
		case a.Digest.Equal(b.Digest):
			return verdict.Refuse(verdict.ConfigParse, a.Name, "the file is listed twice")
		default:
			return &verdict.Error{Finding: verdict.Find(verdict.ConfigParse, a.Name, "the file is listed with two digests").
				Differ(a.Digest.String(), b.Digest.String())}
		}
	}
	return nil
}

// checkDisjoint refuses places inside one another: a write to one would change the
// other.
func (m *FileManifest) checkDisjoint() error {
	all := append([]Place{m.Source}, m.Destinations...)
	for i, a := range all {
		for _, b := range all[i+1:] {
			if strings.HasPrefix(a.Name, b.Name) || strings.HasPrefix(b.Name, a.Name) {
				return verdict.Refuse(verdict.ConfigParse, b.Name, "the place overlaps with %s", a.Name)
			}
		}
	}
	return nil
}

func (l fileList) read() ([]File, error) {
	if len(l.Files) == 0 {
		return nil, verdict.Refuse(verdict.ConfigParse, "files", "files: want at least one file")
	}
	files := make([]File, 0, len(l.Files))
	for _, f := range l.Files {
		if err := fileName(f.Name); err != nil {
			return nil, err
		}
		if digest.Digest(f.SHA256).IsZero() {
			return nil, verdict.Refuse(verdict.ConfigParse, f.Name, "the file has no sha256")
		}
		files = append(files, File{Name: f.Name, Digest: digest.Digest(f.SHA256)})
	}
	return files, nil
}

var (
	filePart     = regexp.MustCompile(`^[A-Za-z0-9._+@~-]{1,255}$`)
	storeScheme  = regexp.MustCompile(`^(?:gs|s3|file|gs\+http|s3\+http|s3\+https)$`)
	storeHostAnd = regexp.MustCompile(`^[A-Za-z0-9.:_\[\]-]*$`)
)

// fileName refuses a name that leaves the place, or that some place spells
// differently.
func fileName(name string) error {
	if len(name) > 1024 {
		return verdict.Refuse(verdict.ConfigParse, "files", "the name has %d bytes, which is too long", len(name))
	}
	for part := range strings.SplitSeq(name, "/") {
		if !filePart.MatchString(part) || strings.HasSuffix(part, ".") {
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
	case err != nil || !storeScheme.MatchString(strings.ToLower(u.Scheme)):
		return refuse("want gs://BUCKET/PREFIX, s3://BUCKET/PREFIX or file:///DIRECTORY")
	case u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" || u.RawPath != "" || u.Opaque != "":
		return refuse("want no user, query, fragment or escape")
	case (u.Host == "") != (u.Scheme == "file") || !storeHostAnd.MatchString(u.Host):
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
