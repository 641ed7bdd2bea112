package arch_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// ground is the fixed top level: the root documents, and folders. No Go file is
// there.
var ground = []string{
	".ci", ".gitignore", "CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "SECURITY.md",
	"attestations", "cmd", "go.mod", "go.sum", "pkg", "test",
}

// later may stand at the top level but need not.
var later = []string{"docs", "policies", "release.lock.yaml", "release.yaml", ".github"}

// topLevel refuses anything else at the root, and a root that lacks something.
func topLevel(tr *tree) (refusals []string) {
	seen := map[string]bool{}
	for _, name := range tr.names {
		first, _, _ := strings.Cut(name, "/")
		seen[first] = true
	}
	for _, name := range sorted(seen) {
		if !slices.Contains(ground, name) && !slices.Contains(later, name) {
			refusals = append(refusals, name+" stands at the top level, which is fixed: find it a room (designs live beside the code they explain)")
		}
	}
	for _, name := range ground {
		if !seen[name] {
			refusals = append(refusals, name+" is missing at the top level")
		}
	}
	return refusals
}

// versionsAgree refuses two versions of what both modules require directly:
// the tests would otherwise prove something about other code than we ship.
func versionsAgree(tr *tree) (refusals []string) {
	product, err := fs.ReadFile(tr.fsys, "go.mod")
	if err != nil {
		return []string{"go.mod cannot be read: " + err.Error()}
	}
	tests, err := fs.ReadFile(tr.fsys, "test/go.mod")
	if err != nil {
		return []string{"test/go.mod cannot be read: " + err.Error()}
	}
	ours, theirs := requirements(product, false), requirements(tests, false)
	for _, module := range sorted(ours) {
		if v, both := theirs[module]; both && v != ours[module] {
			refusals = append(refusals, fmt.Sprintf("%s is %s in go.mod and %s in test/go.mod: both modules require it, so both require one version",
				module, ours[module], v))
		}
	}
	return refusals
}

// reason is one row of the table in CONTRIBUTING.md: | `module` | why |.
var reason = regexp.MustCompile("(?m)^\\| `([^`]+)` \\| *([^|]*?) *\\|$")

// dependencyReasons refuses direct dependencies of the product for which
// CONTRIBUTING.md gives no reason, and reasons for what is gone.
func dependencyReasons(tr *tree) (refusals []string) {
	mod, err := fs.ReadFile(tr.fsys, "go.mod")
	if err != nil {
		return []string{"go.mod cannot be read: " + err.Error()}
	}
	text, err := fs.ReadFile(tr.fsys, "CONTRIBUTING.md")
	if err != nil {
		return []string{"CONTRIBUTING.md cannot be read: " + err.Error()}
	}
	given := map[string]string{}
	for _, row := range reason.FindAllStringSubmatch(string(text), -1) {
		given[row[1]] = row[2]
	}
	required := requirements(mod, false)
	for _, module := range sorted(required) {
		if given[module] == "" {
			refusals = append(refusals, module+" is required without a reason: add its row to the table in CONTRIBUTING.md")
		}
	}
	for _, module := range sorted(given) {
		if required[module] == "" {
			refusals = append(refusals, module+" has a reason in CONTRIBUTING.md but go.mod does not require it: take the row out")
		}
	}
	return refusals
}

// private matches what belongs to one machine or one workplace: absolute paths
// of checkouts and homes, and the hosts that packages happened to come from.
// Each has one letter in brackets, so that this file does not match itself.
var private = regexp.MustCompile(`(?:^|[^\w./-])(/[w]ork/|/[r]oot/)|` +
	`((?:proxy|sum)\.g[o]lang\.org|deb\.d[e]bian\.org|registry\.n[p]mjs\.org)`)

// namesProxy reports whether a file may name such a host: it is the default of
// modules.proxy, in the code, in the schema of the profile and on its page, or
// of the checksum database; npm's statements name its registry.
func namesProxy(name string) bool {
	return slices.Contains([]string{
		"pkg/gate/profile/modules.go", "pkg/produce/lock/sumdb.go", "cmd/waybill/schema/profile.json", "docs/reference/profile.md", "docs/reference/profile.schema.json",
		"pkg/gate/package.go", "test/attacks/published_test.go",
	}, name)
}

// machinePaths refuses them in every text file that git would track.
func machinePaths(tr *tree) (refusals []string) {
	for _, name := range tr.names {
		text, err := fs.ReadFile(tr.fsys, name)
		if err != nil {
			refusals = append(refusals, name+" cannot be read: "+err.Error())
			continue
		}
		if namesProxy(name) || strings.HasSuffix(name, "go.sum") || bytes.IndexByte(text[:min(len(text), 8000)], 0) >= 0 {
			continue
		}
		for i, line := range bytes.Split(text, []byte("\n")) {
			if found := private.FindSubmatch(line); found != nil {
				refusals = append(refusals, fmt.Sprintf("%s:%d names %s: the repository knows no machine (use a relative path, or a name anyone has)",
					name, i+1, append(found[1], found[2]...)))
			}
		}
	}
	return refusals
}

// heavy lists what the downstream verifier never carries.
var heavy = []string{
	"cel.dev", "github.com/google/cel-go", "github.com/sigstore/cosign/v2/cmd", "gocloud.dev", "k8s.io/client-go",
	"cloud.google.com/go/storage", "github.com/aws/aws-sdk-go", "github.com/aws/aws-sdk-go-v2",
	"github.com/Azure/azure-sdk-for-go",
	"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters", modulePath + "/pkg/backend/tracing/span",
}

const verifier = "cmd/k8s-verify-release"

func TestArchVerifierIsSmall(t *testing.T) {
	for _, goos := range []string{"linux", "darwin", "windows"} {
		for _, refusal := range carries(dependencies(t, goos), modulePath+"/"+verifier) {
			t.Errorf("on %s %s", goos, refusal)
		}
	}
}

// dependencies lists the packages that the verifier is made of, with the
// imports of each.
func dependencies(t *testing.T, goos string) map[string][]string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./"+verifier)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "GOOS="+goos, "GOARCH=amd64", "CGO_ENABLED=0", "GOWORK=off")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing what %s is made of on %s: %v\n%s", verifier, goos, err, &complaint)
	}
	graph := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		graph[words[0]] = words[1:]
	}
	return graph
}

// carries refuses the heavy packages that a command reaches, naming the import
// of ours through which each comes in.
func carries(graph map[string][]string, from string) (refusals []string) {
	if len(graph[from]) == 0 {
		return []string{from + " imports nothing: it was not read"}
	}
	via := map[string]string{from: ""}
	for queue := []string{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range graph[queue[0]] {
			if _, seen := via[next]; !seen {
				via[next] = queue[0]
				queue = append(queue, next)
			}
		}
	}
	for _, p := range sorted(via) {
		if !slices.ContainsFunc(heavy, func(h string) bool { return under(p, h) }) {
			continue
		}
		if slices.ContainsFunc(heavy, func(h string) bool { return under(via[p], h) }) {
			continue // the door is named once
		}
		chain := p
		for at := via[p]; at != ""; at = via[at] {
			chain = strings.TrimPrefix(at, modulePath+"/") + " → " + chain
		}
		refusals = append(refusals, fmt.Sprintf("%s carries %s (%s): it stays small (pass the value in from cmd/waybill)",
			strings.TrimPrefix(from, modulePath+"/"), p, chain))
	}
	return refusals
}
