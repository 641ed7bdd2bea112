// Package address decides whether two spellings name the same registry,
// repository or place of files.
//
//	address.Canonical("REGISTRY.example.test:443/prod//lantern") // registry.example.test/prod/lantern
//	address.Covers("docker.io/prod", "index.docker.io/prod/lantern") // true
//
// It compares spellings only and resolves no names: two names of one machine are
// two addresses. Code that requires less of an address it knows must compare with
// this package, so that another spelling does not escape a requirement. Code that
// grants something compares the text as it was written, which grants less.
//
// Other projects should not import this package: it changes without notice.
package address

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
)

// maxLength bounds an address.
const maxLength = 2048

// hub is the canonical spelling of Docker Hub, which has several names, and
// library is where Docker Hub keeps repositories whose name has one part.
const (
	hub     = "index.docker.io"
	library = hub + "/library/"
)

var (
	schemes = pattern.Lazy(`\A[a-z][a-z0-9+.-]*\z`)

	label = pattern.Lazy(`\A[a-z0-9]([a-z0-9_-]*[a-z0-9])?\z`)
	part  = pattern.Lazy(`\A[a-z0-9]+((\.|_|__|-+)[a-z0-9]+)*\z`)
)

// Canonical is the one spelling of HOST[:PORT][/PATH], a registry or a
// repository, or of SCHEME://HOST[:PORT][/PATH], a place of files, whose scheme
// it leaves out. Text that programs read in different ways is an error.
func Canonical(name string) (string, error) {
	scheme, rest, files := strings.Cut(name, "://")
	if !files {
		scheme, rest = "", name
	}
	scheme = strings.ToLower(scheme)
	host, path, _ := strings.Cut(rest, "/")
	local := host == "" && (scheme == "file" || scheme == "tar")
	at, err := "", error(nil)
	switch {
	case files && !schemes().MatchString(scheme):
		err = errors.New("no scheme")
	case !local:
		at, err = authority(host, scheme)
	}
	if err == nil {
		path, err = clean(path, scheme, local)
	}
	if err == nil && len(name) > maxLength {
		err = fmt.Errorf("more than %d characters", maxLength)
	}
	if err != nil {
		return "", fmt.Errorf("address %.200q: %w", name, err)
	}
	return strings.TrimSuffix(at+"/"+path, "/"), nil
}

// Covers reports whether the first address is the second or a parent of it, in
// whatever spelling. An address without a canonical spelling is covered by every
// other one and covers none, so that no spelling escapes a scope.
func Covers(outer, inner string) bool {
	if inner == outer || strings.HasPrefix(inner, outer+"/") {
		return true
	}
	outer, err := Canonical(outer)
	if err != nil {
		return false
	}
	if inner, err = Canonical(inner); err != nil {
		return true
	}
	return slices.ContainsFunc(spellings(outer), func(o string) bool {
		return slices.ContainsFunc(spellings(inner), func(i string) bool { return i == o || strings.HasPrefix(i, o+"/") })
	})
}

// spellings are a canonical address and, if it can be a repository as well as a
// group of repositories on Docker Hub, also the one below library.
func spellings(name string) []string {
	if group, is := strings.CutPrefix(name, hub+"/"); is && !strings.Contains(group, "/") {
		return []string{name, library + group}
	}
	return []string{name}
}

// authority is the canonical spelling of HOST[:PORT]; without a scheme, of a registry.
func authority(text, scheme string) (string, error) {
	host, port, err := split(text)
	if err == nil {
		host, err = canonicalHost(strings.ToLower(host))
	}
	if err != nil {
		return "", err
	}
	if port != "" {
		n, err := strconv.ParseUint(port, 10, 16)
		if err != nil || n == 0 || strconv.FormatUint(n, 10) != port {
			return "", fmt.Errorf("port %q: want a number from 1 to 65535, without zeros before it", port)
		}
	}
	if port == defaultPort(host, scheme) {
		port = ""
	}
	if scheme == "" && slices.Contains([]string{"docker.io", "registry-1.docker.io", "registry.hub.docker.com"}, host) && port == "" {
		host = hub
	}
	if port != "" {
		port = ":" + port
	}
	return host + port, nil
}

// split cuts the port off. An empty one is the default.
func split(text string) (host, port string, err error) {
	if text == "" {
		return "", "", errors.New("no host")
	}
	if end := strings.LastIndexByte(text, ']'); end >= 0 {
		host, port = text[:end+1], text[end+1:]
		if port != "" && port[0] != ':' {
			return "", "", errors.New("text after the address in brackets")
		}
		return host, strings.TrimPrefix(port, ":"), nil
	}
	host, port, _ = strings.Cut(text, ":")
	return host, port, nil
}

// canonicalHost is the canonical spelling of a host, in lower case.
func canonicalHost(host string) (string, error) {
	if inside, is := strings.CutPrefix(host, "["); is {
		ip, err := netip.ParseAddr(strings.TrimSuffix(inside, "]"))
		if err != nil || !ip.Is6() || ip.Zone() != "" {
			return "", errors.New("want an IPv6 address in the brackets")
		}
		if ip = ip.Unmap(); ip.Is4() {
			return ip.String(), nil
		}
		return "[" + ip.String() + "]", nil
	}
	host = strings.TrimSuffix(host, ".")
	labels := strings.Split(host, ".")
	for _, l := range labels {
		if len(l) > 63 || !label().MatchString(l) {
			return "", fmt.Errorf("host %q: want labels of letters, digits, - and _", host)
		}
	}
	if last := labels[len(labels)-1]; last[0] >= '0' && last[0] <= '9' {
		// Resolvers read 127.1 and 0x7f.1 as addresses, each in its own way.
		if _, err := strconv.ParseUint(last, 0, 64); err == nil || strings.HasPrefix(last, "0x") || len(strings.Trim(last, "0123456789")) == 0 {
			ip, err := netip.ParseAddr(host)
			if err != nil {
				return "", fmt.Errorf("host %q: want an IPv4 address as four numbers, without zeros before them", host)
			}
			return ip.String(), nil
		}
	}
	return host, nil
}

// defaultPort is the port that can be left out. Registries on this machine are
// reached without TLS, all others with TLS.
func defaultPort(host, scheme string) string {
	ip, err := netip.ParseAddr(strings.Trim(host, "[]"))
	switch loopback := host == "localhost" || err == nil && ip.IsLoopback(); {
	case strings.HasSuffix(scheme, "http"), scheme == "" && loopback:
		return "80"
	case strings.HasSuffix(scheme, "https"), scheme == "":
		return "443"
	}
	return ""
}

// clean removes empty parts and "." from a path. Paths of registries are lower
// case, paths of files have any case; a local directory can have any name.
func clean(path, scheme string, local bool) (string, error) {
	var parts []string
	for p := range strings.SplitSeq(path, "/") {
		switch hidden := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`\%?#`, r) }; {
		case p == "" || p == ".":
		case p == "..":
			return "", errors.New("its path leads upwards")
		case scheme == "" && !part().MatchString(p):
			return "", fmt.Errorf("%.100q in its path: want lower-case letters and digits, with ., _ or - between them", p)
		case scheme != "" && !local && strings.ContainsFunc(p, hidden):
			return "", fmt.Errorf("%.100q in its path: want characters that need no escaping", p)
		default:
			parts = append(parts, p)
		}
	}
	return strings.Join(parts, "/"), nil
}
