package github

import (
	"fmt"
	"net/url"
	"strings"

	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Address identifies one release: the tag of a repository of a host.
type Address struct {
	Host, Owner, Repo, Tag string
	// scheme is "https", or "http" for an emulator on this machine.
	scheme string
}

// publicHost is the service that addresses without a host mean.
const publicHost = "github.com"

// Is reports whether a URI has the scheme of a release on GitHub.
func Is(uri string) bool {
	scheme, _, is := strings.Cut(uri, "://")
	return is && (scheme == "github" || scheme == "github+https" || scheme == "github+http")
}

// namePattern is what owners and repositories are called; a tag has segments
// of the same form, separated by slashes.
var namePattern = pattern.Lazy(`\A[A-Za-z0-9._-]+\z`)

// Parse reads "github://OWNER/REPO/TAG", "github+https://HOST/OWNER/REPO/TAG"
// for GitHub Enterprise, and, for this machine only,
// "github+http://127.0.0.1:PORT/OWNER/REPO/TAG". A slash at the end is allowed.
func Parse(uri string) (Address, error) {
	refuse := func(reason string) (Address, error) {
		return Address{}, &verdict.UsageError{Err: fmt.Errorf("parsing place %q: %s", uri, reason)}
	}
	u, err := url.Parse(uri)
	if err != nil {
		return Address{}, &verdict.UsageError{Err: fmt.Errorf("parsing place: %w", err)}
	}
	if u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return Address{}, &verdict.UsageError{Err: fmt.Errorf("parsing place %q: a place has no credentials, no query and no fragment", u.Redacted())}
	}
	a := Address{Host: strings.ToLower(u.Host), scheme: "https"}
	path := strings.Trim(u.Path, "/")
	switch u.Scheme {
	case "github":
		a.Host, path = publicHost, u.Host+"/"+path
	case "github+https":
	case "github+http":
		if a.scheme = "http"; !transport.Loopback(u.Hostname()) {
			return refuse("plain HTTP is only for an emulator on this machine")
		}
	default:
		return refuse("not a release on GitHub")
	}
	parts := strings.Split(path, "/")
	if len(parts) < 3 || a.Host == "" {
		return refuse("want github://OWNER/REPO/TAG or github+https://HOST/OWNER/REPO/TAG")
	}
	for _, part := range parts {
		if !namePattern().MatchString(strings.ReplaceAll(part, "+", "-")) || part == "." || part == ".." {
			return refuse("owner, repository and tag have only letters, digits and ._-+")
		}
	}
	a.Owner, a.Repo, a.Tag = parts[0], parts[1], strings.Join(parts[2:], "/")
	return a, nil
}

// URI returns the form that [Parse] reads.
func (a Address) URI() string {
	release := a.Owner + "/" + a.Repo + "/" + a.Tag + "/"
	if a.Host == publicHost {
		return "github://" + release
	}
	return "github+" + a.scheme + "://" + a.Host + "/" + release
}

// cloud reports whether the host is a service of GitHub, not a server of an
// enterprise: these have their API on hosts of their own.
func (a Address) cloud() bool { return a.Host == publicHost || strings.HasSuffix(a.Host, ".ghe.com") }

// api is the base address of the repository in the API. It is computed and
// never taken from an answer, because each request to it carries the token.
func (a Address) api() string { return a.service("api", "v3") }

// uploads is the same for uploads.
func (a Address) uploads() string { return a.service("uploads", "uploads") }

func (a Address) service(name, path string) string {
	base := a.scheme + "://" + a.Host + "/api/" + path
	if a.cloud() {
		base = "https://" + name + "." + a.Host
	}
	return base + "/repos/" + a.Owner + "/" + a.Repo
}

// Certified is what certificates have for the repository, and for the identity
// provider of its workflows. An emulator is as github.com.
func (a Address) Certified() (repository, issuer string) {
	issuer = "https://" + a.Host + "/_services/token"
	if a.Host == publicHost || a.scheme == "http" {
		a.Host, issuer = publicHost, "https://token.actions.githubusercontent.com"
	}
	return "https://" + a.Host + "/" + a.Owner + "/" + a.Repo, issuer
}
