package draft

import (
	"cmp"
	_ "embed" // of the reasons
	"fmt"
	"maps"
	"slices"
	"strings"
)

// reasons says why a key is not carried over, one a line.
//
//go:embed reasons.txt
var reasons string

// section is a mapping of a configuration. It remembers which keys were read.
type section struct {
	c    *conversion
	key  string // where it is
	of   map[string]any
	used map[string]bool // nil if the section is left out as a whole
}

func (s *section) at(key string) string {
	if s.key == "" {
		return key
	}
	return s.key + "." + key
}

// section is a mapping inside of s; without the key it is empty.
func (s *section) section(key string) *section {
	s.used[key] = true
	of, _ := s.of[key].(map[string]any)
	return &section{c: s.c, key: s.at(key), of: of, used: map[string]bool{}}
}

// sections are the mappings of a list; without the key there is one, with
// defaults, for builds and archives.
func (s *section) sections(key string) (list []*section) {
	s.used[key] = true
	items, _ := s.of[key].([]any)
	for i, item := range items {
		of, _ := item.(map[string]any)
		list = append(list, &section{c: s.c, key: fmt.Sprintf("%s[%d]", s.at(key), i), of: of, used: map[string]bool{}})
	}
	if len(items) == 0 && (key == "builds" || key == "archives") {
		list = append(list, &section{c: s.c, key: key, used: map[string]bool{}})
	}
	return list
}

// text is a scalar as text; empty without the key.
func (s *section) text(key string) string {
	if list := s.list(key); len(list) == 1 {
		return list[0]
	}
	return ""
}

// list is a list of scalars, or one; nil without the key.
func (s *section) list(key string) (list []string) {
	s.used[key] = true
	switch v := s.of[key].(type) {
	case nil:
		return nil
	case []any:
		for _, item := range v {
			list = append(list, strings.TrimSpace(fmt.Sprint(item)))
		}
		return list
	default:
		return []string{strings.TrimSpace(fmt.Sprint(v))}
	}
}

func (s *section) flag(key string) bool { return s.text(key) == "true" }

// rest leaves out the keys that were not read.
func (s *section) rest() {
	if s.used == nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(s.of)) {
		if s.used[key] {
			continue
		}
		_, reason, _ := strings.Cut("\n"+reasons, "\n"+key+": ")
		reason, _, _ = strings.Cut(reason, "\n")
		s.c.leave(s.at(key), "%s", cmp.Or(reason, "release.yaml has nothing like it"))
	}
}
