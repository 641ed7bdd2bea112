package workspace_test

import (
	"testing"

	"github.com/waybill-release/waybill/pkg/produce/workspace"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/trace"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// TestOriginIsWrittenOnce: whoever opens a workspace later, in whatever run,
// finds the run that began the release; one from before has none, and gets none.
func TestOriginIsWrittenOnce(t *testing.T) {
	begun := trace.IDs{Trace: trace.ID{1}, Span: trace.SpanID{2}, Initial: trace.ID{1}}
	for name, first := range map[string]trace.IDs{"of a run": begun, "from before": {}} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			v, err := version.Parse("v0.1.0")
			if err != nil {
				t.Fatal(err)
			}
			id := workspace.Identity{Name: "lantern", Version: v, Plan: digest.Of(digest.SHA256, nil), Invocation: "a", Trace: first}
			if _, err := workspace.Create(dir, id); err != nil {
				t.Fatal(err)
			}
			id.Trace, id.Invocation = trace.IDs{Trace: trace.ID{9}, Span: trace.SpanID{9}, Initial: trace.ID{9}}, "b"
			again, err := workspace.Create(dir, id)
			if err != nil {
				t.Fatal(err)
			}
			opened, err := workspace.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, w := range []*workspace.Workspace{again, opened} {
				if w.Identity().Trace != first || w.Identity().Invocation != "a" {
					t.Errorf("it holds %+v", w.Identity())
				}
			}
		})
	}
}
