package goprogram

import (
	"runtime/debug"
	"testing"
)

// TestLeftOut: a program of which one module was compared with no checksum
// database is not proven to be made of the modules that others get.
func TestLeftOut(t *testing.T) {
	for what, row := range map[string]struct {
		database, except, replaced string
		want                       bool
	}{
		"the database":           {"sum.example.test", "", "", false},
		"no database":            {"off", "", "", true},
		"all but other modules":  {"sum.example.test", "other.example.test", "", false},
		"all but the main one":   {"sum.example.test", "example.test/main", "", true},
		"all but what it needs":  {"sum.example.test", "*.example.test", "", true},
		"all but what it was":    {"sum.example.test", "*.example.test", "new.test/needed", false},
		"all but what it is now": {"sum.example.test", "new.test", "new.test/needed", true},
	} {
		needed := &debug.Module{Path: "needed.example.test/lib"}
		if row.replaced != "" {
			needed.Replace = &debug.Module{Path: row.replaced}
		}
		p := Program{BuildInfo: &debug.BuildInfo{Main: debug.Module{Path: "example.test/main/v2"}, Deps: []*debug.Module{needed}}}
		if got := p.leftOut(row.database, row.except); got != row.want {
			t.Errorf("%s: %v, want %v", what, got, row.want)
		}
	}
}
