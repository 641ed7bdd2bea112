package start

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// File is a file of the project: what there is, and what would be written.
type File struct {
	Name      string
	Was, Text []byte
	exists    bool
	adds      bool // only adds lines to what there is
}

// State says in a word what Write would do with the file.
func (f File) State() string {
	switch {
	case !f.exists:
		return "new"
	case bytes.Equal(f.Was, f.Text):
		return "unchanged"
	case f.adds:
		return "gets new lines"
	}
	return "has other content"
}

// Set is the files of a project, and what a person has to know of them.
type Set struct {
	Dir   string
	Files []File
	Notes []string
	// Bases is where the lock finds the base images of release.yaml.
	Bases map[string]string
}

// add compares a file with what is in the directory.
func (s *Set) add(f File) error {
	at := filepath.Join(s.Dir, filepath.FromSlash(f.Name))
	root, err := os.OpenRoot(s.Dir) // a link to a directory elsewhere is not followed
	if err != nil {
		return verdict.Wrap(verdict.Usage, at, err)
	}
	defer root.Close()
	info, err := root.Lstat(f.Name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return verdict.Wrap(verdict.Usage, at, err)
	case !info.Mode().IsRegular():
		return verdict.Refuse(verdict.FileType, at, "not a regular file").Advise("move it away: waybill init writes a file of this name")
	default:
		if f.Was, err = root.ReadFile(f.Name); err != nil {
			return verdict.Wrap(verdict.Usage, at, err)
		}
		f.exists = true
	}
	s.Files = append(s.Files, f)
	return nil
}

func (s *Set) ignore(lines []string) error {
	if err := s.add(File{Name: ".gitignore", adds: true}); err != nil {
		return err
	}
	f := &s.Files[len(s.Files)-1]
	text := string(f.Was)
	if text != "" && !strings.HasSuffix(text, "\n") {
		text += "\n"
	}
	for _, line := range lines {
		if has := "\n" + text; !strings.Contains(has, "\n"+line+"\n") && !strings.Contains(has, "\n"+strings.Trim(line, "/")+"/\n") && !strings.Contains(has, "\n"+strings.TrimSuffix(line, "/")+"\n") {
			text += line + "\n"
		}
	}
	f.Text = []byte(text)
	return nil
}

// Writes reports whether Write would write anything.
func (s Set) Writes(replace bool) bool { return len(s.due(replace)) > 0 }

func (s Set) due(replace bool) (list []File) {
	for _, f := range s.Files {
		if state := f.State(); state != "unchanged" && (replace || state != "has other content") {
			list = append(list, f)
		}
	}
	return list
}

// Check refuses to write beside files with other content: those fit together,
// and with others they may not.
func (s Set) Check() error {
	var other []string
	for _, f := range s.Files {
		if f.State() == "has other content" {
			other = append(other, f.Name)
		}
	}
	if len(other) == 0 || !s.Writes(false) {
		return nil
	}
	return verdict.Refuse(verdict.Usage, filepath.Join(s.Dir, other[0]), "it exists with other content and is never overwritten without --force, and the files that are missing may not fit to %s", strings.Join(other, ", ")).
		Advise("see the difference with --force, and replace it with --force --confirm, or move it away")
}

// Write writes the files. Without replace, those with other content stay as
// they are. If one cannot be written, new ones are removed again.
func (s Set) Write(replace bool) (err error) {
	root, err := os.OpenRoot(s.Dir)
	if err != nil {
		return unwritable(s.Dir, err)
	}
	defer root.Close()
	var made []string
	defer func() {
		for _, name := range made {
			if err != nil {
				err = errors.Join(err, root.Remove(name))
			}
		}
	}()
	for _, f := range s.due(replace) {
		at := filepath.Join(s.Dir, filepath.FromSlash(f.Name))
		if err := root.MkdirAll(path.Dir(f.Name), 0o755); err != nil {
			return unwritable(at, err)
		}
		if !f.exists {
			made = append(made, f.Name)
		}
		if err := write(root, f.Name, f.Text, f.exists); err != nil {
			if !f.exists {
				made = made[:len(made)-1]
			}
			return unwritable(at, err)
		}
	}
	return nil
}

func unwritable(at string, err error) error {
	return verdict.Wrap(verdict.Usage, at, fmt.Errorf("it cannot be written: %w", err)).Advise("make " + filepath.Dir(at) + " writable for you, and run init again")
}

// write writes one file, which must not exist unless it is replaced.
func write(root *os.Root, name string, text []byte, replaces bool) error {
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if replaces {
		flags = os.O_WRONLY | os.O_TRUNC
	}
	f, err := root.OpenFile(name, flags, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// Diff is the difference between what there is and what would be written, in
// the unified form.
func (s Set) Diff(ctx context.Context) (string, error) {
	var b strings.Builder
	for _, f := range s.Files {
		if f.State() == "unchanged" {
			continue
		}
		hunks, err := git.Difference(ctx, f.Was, f.Text)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&b, "--- a/%s\n+++ b/%s\n%s", f.Name, f.Name, hunks)
	}
	return b.String(), nil
}
