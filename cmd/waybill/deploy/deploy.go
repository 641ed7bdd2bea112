// Package deploy contains files that run Waybill on other systems, and returns
// those that a project copies, for its repository.
//
//	for path, text := range deploy.Workflows("example/lantern") { … }
//
// Other projects should not import this package: it changes without notice.
package deploy

import (
	"embed"
	"regexp"
	"strings"
)

//go:embed github-build.yaml github-release.yaml github-tag.yaml
var workflows embed.FS

// example is the repository that the files name.
const example = "example/lantern"

// Workflows are the workflows that release a repository, OWNER/NAME, on GitHub,
// by their paths in it: tag.yml calls build.yml, which is the builder, and
// release.yml, which is the release identity.
func Workflows(repository string) map[string]string {
	files := map[string]string{}
	for _, name := range []string{"build", "release", "tag"} {
		raw, err := workflows.ReadFile("github-" + name + ".yaml")
		if err != nil {
			panic("deploy: " + err.Error()) // an embedded file
		}
		text := strings.ReplaceAll(string(raw), `github\.com/`+example, `github\.com/`+regexp.QuoteMeta(repository)) // in patterns
		files[".github/workflows/"+name+".yml"] = strings.ReplaceAll(text, example, repository)
	}
	return files
}
