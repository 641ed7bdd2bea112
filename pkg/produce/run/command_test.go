package run

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/produce/sandbox"
	"github.com/waybill-release/waybill/pkg/release/plan"
)

// TestEnvironment: what the release's author set wins over us, we over what an
// image asks for, and no variable is there twice.
func TestEnvironment(t *testing.T) {
	r := &run{Request: Request{
		Source: Source{Commit: git.Commit{Time: time.Unix(1772366400, 0)}}, Machine: Machine{Mode: sandbox.Isolated},
	}}
	at := surroundings{
		path: "/go/bin", env: []string{"GOPROXY=https://proxy.example.test", "GOPATH=/go", "CGO_ENABLED=1"}, modules: "file:///build/modules",
	}
	env := r.environment(plan.Step{Env: []string{"CGO_ENABLED=0", "TZ=Europe/Berlin"}}, at)
	for _, want := range []string{
		"PATH=/go/bin", "HOME=/build/home", "GOPATH=/go", "CGO_ENABLED=0", "TZ=Europe/Berlin",
		"GOPROXY=file:///build/modules", "GOSUMDB=off", "SOURCE_DATE_EPOCH=1772366400",
	} {
		if !slices.Contains(env, want) {
			t.Errorf("%s is not in %q", want, env)
		}
	}
	seen := map[string]bool{}
	for _, v := range env {
		name, _, _ := strings.Cut(v, "=")
		if seen[name] {
			t.Errorf("%s is there twice: %q", name, env)
		}
		seen[name] = true
	}
	if bare := r.environment(plan.Step{}, surroundings{}); !slices.Contains(bare, "GOPROXY=off") {
		t.Errorf("without modules Go may fetch: %q", bare)
	}
}
