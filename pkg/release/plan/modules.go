package plan

import (
	"bufio"
	"bytes"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// ModuleFiles are the files of one Go module that select its dependencies, by
// directory. GoSum is nil if there is no such file.
type ModuleFiles struct{ GoMod, GoSum []byte }

// LockModule pins a module by the files of its directory.
func LockModule(dir string, files ModuleFiles) (ModuleLock, error) {
	m := ModuleLock{GoMod: digest.Of(digest.SHA256, files.GoMod)}
	if files.GoSum == nil {
		return m, nil
	}
	m.GoSum = digest.Of(digest.SHA256, files.GoSum)
	lines := bufio.NewScanner(bytes.NewReader(files.GoSum))
	lines.Buffer(nil, 4096)
	for number := 1; lines.Scan(); number++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" {
			continue
		}
		require, ok := parseRequire(line)
		if !ok {
			return ModuleLock{}, fmt.Errorf("%s:%d: want path, version and h1: hash", path.Join(dir, "go.sum"), number)
		}
		if !strings.HasSuffix(require[1], "/go.mod") { // the hash of a go.mod alone selects no code
			m.Require = append(m.Require, line)
		}
	}
	if err := lines.Err(); err != nil {
		return ModuleLock{}, fmt.Errorf("%s: %w", path.Join(dir, "go.sum"), err)
	}
	m.Require = slice.Unique(m.Require)
	return m, nil
}

// parseRequire splits a line of go.sum.
func parseRequire(line string) (parts []string, ok bool) {
	parts = strings.Split(line, " ")
	return parts, len(parts) == 3 && parts[0] != "" && parts[1] != "" && strings.HasPrefix(parts[2], "h1:") &&
		!strings.ContainsFunc(line, func(r rune) bool { return r < ' ' || r > '~' })
}

// CheckModules refuses a lock whose modules are not those of the source at the
// commit to build.
func (l Lock) CheckModules(read func(dir string) (ModuleFiles, error)) error {
	var faults []string
	for _, dir := range sortedKeys(l.Modules) {
		files, err := read(dir)
		if err != nil {
			return err
		}
		now, err := LockModule(dir, files)
		if err != nil {
			return stale([]string{err.Error()})
		}
		held := l.Modules[dir]
		if now.GoMod != held.GoMod || now.GoSum != held.GoSum || !slices.Equal(now.Require, held.Require) {
			faults = append(faults, fmt.Sprintf("module %s: go.mod or go.sum changed since the lock was written", quote(dir)))
		}
	}
	return stale(faults)
}

// Difference lists the differences between two locks, one on each line, sorted:
// "+ base static host/image:tag sha256:…" for a new pin.
func (l Lock) Difference(to Lock) (lines []string) {
	was, is := l.lines(), to.lines()
	for _, line := range was {
		if !slices.Contains(is, line) {
			lines = append(lines, "- "+line)
		}
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			lines = append(lines, "+ "+line)
		}
	}
	// By subject, the old before the new.
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(subjectOf(a), subjectOf(b)) })
	return lines
}

// subjectOf is the subject of a line of a difference: its first three words
// after the sign.
func subjectOf(line string) string {
	words := strings.SplitN(line[2:], " ", 4)
	return strings.Join(words[:min(3, len(words))], " ")
}

func (l Lock) lines() (lines []string) {
	for _, name := range sortedKeys(l.Bases) {
		b := l.Bases[name]
		lines = append(lines, fmt.Sprintf("base %s %s %s", name, tagged(b.Image, b.Tag), b.Digest))
	}
	for _, name := range sortedKeys(l.Tools) {
		t := l.Tools[name]
		for _, platform := range sortedKeys(t.Platforms) {
			lines = append(lines, strings.Join(strings.Fields("tool "+name+" "+t.Program+" "+t.Toolchain+" "+platform+" "+t.Platforms[platform]), " "))
		}
		if t.Platforms != nil {
			continue
		}
		lines = append(lines, fmt.Sprintf("tool %s %s %s", name, tagged(t.Image+t.Program, t.Tag), t.Digest))
	}
	for _, dir := range sortedKeys(l.Modules) {
		m := l.Modules[dir]
		lines = append(lines, fmt.Sprintf("module %s go.mod %s", dir, m.GoMod))
		if !m.GoSum.IsZero() {
			lines = append(lines, fmt.Sprintf("module %s go.sum %s", dir, m.GoSum))
		}
		for _, r := range m.Require {
			lines = append(lines, fmt.Sprintf("module %s %s", dir, r))
		}
	}
	for _, name := range sortedKeys(l.Downloads) {
		d := l.Downloads[name]
		lines = append(lines, fmt.Sprintf("download %s %s %d bytes %s", name, d.URL, d.Size, d.Digest))
	}
	return lines
}

func tagged(image, tag string) string {
	if tag == "" {
		return image
	}
	return image + ":" + tag
}
