package tuf

import (
	_ "embed" // for GitHub's roots
	"fmt"
	"regexp"
	"time"

	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

//go:embed github/root.json
var gitHubRoot []byte

//go:embed github/trusted_root.json
var gitHubTrusted []byte

var gitHubName = regexp.MustCompile(`\Agithub(?::([a-z0-9-]+))?\z`)

// GitHub is the repository of GitHub's own Sigstore instance, and the target that is
// the trust root of a domain: "github", or "github:TENANT" of Enterprise Cloud.
func GitHub(domain string) (from Source, target string, err error) {
	m := gitHubName.FindStringSubmatch(domain)
	if m == nil {
		return Source{}, "", verdict.Refuse(verdict.Usage, "--trust", "%q: want github or github:TENANT", domain)
	}
	if target = TrustedRootFile; m[1] != "" {
		target = m[1] + "." + target
	}
	return Source{URL: "https://tuf-repo.github.com", Root: gitHubRoot}, target, nil
}

// EmbeddedGitHub is the embedded root of that instance, and the day of its page.
func EmbeddedGitHub() (trust.Root, time.Time) {
	root, err := trust.Parse(gitHubTrusted)
	if err != nil {
		panic(fmt.Sprintf("tuf: the embedded root of GitHub: %v", err))
	}
	return root, time.Date(2026, time.June, 29, 0, 0, 0, 0, time.UTC)
}
