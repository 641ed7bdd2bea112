package pipeline_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/pipeline"
)

// TestTargetAt: an address keeps its slashes, a path is a path.
func TestTargetAt(t *testing.T) {
	for name, want := range map[string]pipeline.Target{
		"channels.json":                  {Dir: ".", Name: "channels.json"},
		"a/b/channels.json":              {Dir: "a/b", Name: "channels.json"},
		"gs://bucket/lantern/index.json": {Dir: "gs://bucket/lantern/", Name: "index.json"},
		"gs+http://127.0.0.1:1/b/i.json": {Dir: "gs+http://127.0.0.1:1/b/", Name: "i.json"},
		"file:///srv/lantern/index.json": {Dir: "file:///srv/lantern/", Name: "index.json"},
	} {
		if got := pipeline.TargetAt(name); got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}
