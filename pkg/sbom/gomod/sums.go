package gomod

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Sums are checksums by "path version".
type Sums map[string]string

// ParseSums parses go.sum. Lines for go.mod files are skipped; two checksums
// for one module are refused.
func ParseSums(raw []byte) (Sums, error) {
	sums := Sums{}
	n := 0
	for line := range strings.Lines(string(raw)) {
		n++
		fields := strings.Fields(line)
		if len(fields) == 0 {
			continue
		}
		if len(fields) != 3 {
			return nil, &parseError{"go.sum", fmt.Errorf("line %d has %d fields, want 3", n, len(fields))}
		}
		if strings.HasSuffix(fields[1], "/go.mod") {
			continue
		}
		key := fields[0] + " " + fields[1]
		if was, there := sums[key]; there && was != fields[2] {
			return nil, &parseError{"go.sum", fmt.Errorf("line %d: two checksums of %s", n, key)}
		}
		sums[key] = fields[2]
	}
	return sums, nil
}

// sums reads a go.sum of the tree. One that does not parse is recorded as a
// fault and ignored.
func (r *treeReader) sums(name string) (Sums, error) {
	raw, err := r.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return Sums{}, nil
	}
	if err != nil {
		return nil, err
	}
	sums, err := ParseSums(raw)
	if bad, is := errors.AsType[*parseError](err); is {
		r.unparsed(name, bad.err)
		return Sums{}, nil
	}
	return sums, err
}

func withSums(list []Module, sums Sums) []Module {
	for i, m := range list {
		if m.Dir == "" && m.Local == "" {
			list[i].Sum = sums[m.Path+" "+m.Version]
		}
	}
	return list
}
