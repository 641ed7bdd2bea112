package arch_test

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// architecturePage shows the layers to people, and lists the public packages.
const architecturePage = "docs/architecture.md"

const (
	maxPageLines  = 170
	maxBlockLines = 30
)

// A pageRow is a row of the table of layers in the architecture page.
type pageRow struct {
	folder string
	public []string // packages, relative to the folder; "." is the folder's own
	mayNot string
}

// pageRows reads the table of layers: folder, what it holds, what may be
// imported, what it may not do.
func pageRows(tr *tree) (rows []pageRow, err error) {
	text, err := fs.ReadFile(tr.fsys, architecturePage)
	if err != nil {
		return nil, err
	}
	_, table, found := strings.Cut(string(text), "\n| folder |")
	if !found {
		return nil, fmt.Errorf("%s has no table that begins with | folder |", architecturePage)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	for i, line := range strings.Split(strings.TrimSpace(table), "\n") {
		if i < 2 { // the rest of the head, and the rule below it
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) != 6 || len(quoted(cells[1])) != 1 {
			return nil, fmt.Errorf("%s: want a folder and 3 more cells in each row of the layers, got %s", architecturePage, line)
		}
		rows = append(rows, pageRow{folder: quoted(cells[1])[0], public: quoted(cells[3]), mayNot: strings.TrimSpace(cells[4])})
	}
	return rows, nil
}

// quoted lists what is between backquotes.
func quoted(text string) (all []string) {
	parts := strings.Split(text, "`")
	for i := 1; i < len(parts); i += 2 {
		all = append(all, parts[i])
	}
	return all
}

// pageShowsLayout refuses a page whose table differs from the layout, or that is
// longer than one page.
func pageShowsLayout(tr *tree) (refusals []string) {
	rows, err := pageRows(tr)
	if err != nil {
		return []string{err.Error()}
	}
	for i := range max(len(rows), len(layout)) {
		var row pageRow
		var f folder
		if i < len(rows) {
			row = rows[i]
		}
		if i < len(layout) {
			f = layout[i]
		}
		pure := strings.HasPrefix(row.mayNot, "see files") || strings.HasPrefix(row.mayNot, "the same")
		if row.folder != f.path || pure != f.pure {
			refusals = append(refusals, fmt.Sprintf("%s: row %d of the layers is %q, which may see files: %t; the layout has %q: %t",
				architecturePage, i+1, row.folder, !pure, f.path, !f.pure))
		}
	}
	if n := strings.Count(readText(tr, architecturePage), "\n"); n > maxPageLines {
		refusals = append(refusals, fmt.Sprintf("%s has %d lines; the limit is %d", architecturePage, n, maxPageLines))
	}
	return refusals
}

// readText reads a file of the tree; one that cannot be read is empty.
func readText(tr *tree, name string) string {
	text, err := fs.ReadFile(tr.fsys, name)
	if err != nil {
		return ""
	}
	return string(text)
}

// pagePath is a top-level folder, or a path below one.
var pagePath = regexp.MustCompile(`\A(pkg|cmd|test|attestations|policies|docs)(/[\w.-]+)*\z`)

// pageNamesFiles refuses a path in the page that is no file and no directory.
func pageNamesFiles(tr *tree) (refusals []string) {
	text := readText(tr, architecturePage)
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			continue
		}
		for _, name := range quoted(line) {
			if pagePath.MatchString(name) && !slices.ContainsFunc(tr.names, func(n string) bool { return under(n, name) }) {
				refusals = append(refusals, fmt.Sprintf("%s names %s, which does not exist", architecturePage, name))
			}
		}
	}
	return refusals
}

// goBlock is a block of Go in the page, with the file that it is part of.
var goBlock = regexp.MustCompile("(?s)\n```go ?([^\n]*)\n(.*?)\n```\n")

// pageShowsExamples refuses code in the page that is not compiled and run: each
// block is part of a test file.
func pageShowsExamples(tr *tree) (refusals []string) {
	blocks := goBlock.FindAllStringSubmatch(readText(tr, architecturePage), -1)
	if len(blocks) < 4 {
		refusals = append(refusals, fmt.Sprintf("%s shows %d blocks of Go; want a check, a place, a format and a command", architecturePage, len(blocks)))
	}
	for _, b := range blocks {
		name, code := b[1], b[2]
		text := readText(tr, name)
		switch {
		case !strings.HasSuffix(name, "_test.go") || !strings.Contains(text, "\nfunc Example") && !strings.Contains(text, "\nfunc Test"):
			refusals = append(refusals, fmt.Sprintf("%s: the block that begins %.40q names %q after ```go; want a test file that runs it", architecturePage, code, name))
		case !strings.Contains(text, code):
			refusals = append(refusals, fmt.Sprintf("%s: the block that begins %.40q differs from %s (copy the code from there)", architecturePage, code, name))
		case strings.Count(code, "\n") >= maxBlockLines:
			refusals = append(refusals, fmt.Sprintf("%s: the block of %s has more than %d lines", architecturePage, name, maxBlockLines))
		}
	}
	return refusals
}

const maxReadmeLines = 12

// folderReadmes compares the README of each folder below pkg with its packages.
// A line "- `name`, `name/part`: …" names packages, relative to the folder; the
// folder's own package is named as the folder is.
func folderReadmes(tr *tree) (refusals []string) {
	packages := map[string][]string{} // by folder
	for _, room := range sorted(rooms(tr.code())) {
		if folder, inside := folderOf(room); inside {
			packages[folder] = append(packages[folder], room)
		}
	}
	for _, folder := range sorted(packages) {
		name := folder + "/README.md"
		text := readText(tr, name)
		if text == "" {
			refusals = append(refusals, name+" is missing: say what each package of the folder is for, and what the folder may not do")
			continue
		}
		if n := strings.Count(text, "\n"); n > maxReadmeLines {
			refusals = append(refusals, fmt.Sprintf("%s has %d lines; the limit is %d", name, n, maxReadmeLines))
		}
		named := packagesNamed(folder, text)
		for _, room := range packages[folder] {
			if !slices.Contains(named, room) {
				refusals = append(refusals, fmt.Sprintf("%s does not name the package %s", name, room))
			}
		}
		for _, room := range named {
			if !slices.Contains(packages[folder], room) {
				refusals = append(refusals, fmt.Sprintf("%s names %s, which is no package", name, room))
			}
		}
	}
	return refusals
}

// folderOf is the folder directly below pkg that a package is in.
func folderOf(room string) (folder string, inside bool) {
	rest, inside := strings.CutPrefix(room, "pkg/")
	first, _, _ := strings.Cut(rest, "/")
	return "pkg/" + first, inside
}

// packagesNamed lists the packages that the items of a README begin with.
func packagesNamed(folder, text string) (all []string) {
	for line := range strings.Lines(text) {
		item, is := strings.CutPrefix(line, "- ")
		names, _, _ := strings.Cut(item, ":")
		for _, name := range quoted(names) {
			switch {
			case !is:
			case name == path.Base(folder):
				all = append(all, folder)
			default:
				all = append(all, path.Join(folder, name))
			}
		}
	}
	return all
}
