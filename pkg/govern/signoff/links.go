package signoff

import (
	"html"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Hosts says which hosts links may point to.
type Hosts struct {
	// Allowed are hosts, each including its subdomains.
	Allowed []string
	// Only refuses every host that is not allowed, and not only look-alike hosts
	// and those in the checklist.
	Only bool
}

// Canonical are the hosts that enhancements of Kubernetes link to, including some that
// would otherwise look like another of them.
func Canonical() []string {
	return []string{
		"github.com", "github.io", "githubusercontent.com", "gitlab.com", "k8s.io", "k8s.dev", "kubernetes.io", "kubernetes.dev",
		"gcr.io", "pkg.dev", "slack.com", "google.com", "googleapis.com", "golang.org", "go.dev", "etcd.io",
	}
}

// NewHosts are the canonical hosts and others; with only, links to any other host are
// refused. A host needs a dot: "com" would allow too much.
func NewHosts(others []string, only bool) (Hosts, error) {
	for _, h := range others {
		if !hostForm().MatchString(h) {
			return Hosts{}, verdict.Refuse(verdict.Usage, "--allow-host", "%s, want a host name, such as docs.example.test", quoted(h))
		}
	}
	return Hosts{Allowed: append(Canonical(), others...), Only: only}, nil
}

var hostForm = pattern.Lazy(`^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$`)

var address = pattern.Lazy(`(?i)\b(?:https?|ftp)://(?:\[[0-9a-f:.%]+\])?[^\s<>"'` + "`" + `\])|]*`)

// bare matches addresses without a scheme that viewers turn into links: names that begin
// with www, and link targets that begin with //.
var bare = pattern.Lazy(`(?i)(?:^|[\s(<*_~])(www\.[a-z0-9.-]+)|(?:\]\(\s*<?|\]:\s*<?|(?:href|src)\s*=\s*["']?)//([^\s<>"'` + "`" + `\])|/?#]+)`)

// escapes undoes Markdown escapes in an address.
var escapes = strings.NewReplacer(`\/`, "/", `\:`, ":", `\.`, ".", `\-`, "-")

// addresses are the addresses in a line, with a scheme.
func addresses(text string) []string {
	text = escapes.Replace(html.UnescapeString(text))
	list := address().FindAllString(text, -1)
	for _, m := range bare().FindAllStringSubmatch(text, -1) {
		list = append(list, "https://"+m[1]+m[2])
	}
	return list
}

// links lists the faults of the links in a document, each host once.
func (d *Document) links(name string, h Hosts) (found []verdict.Finding) {
	list, there := d.find(checklistTitle)
	said := map[string]bool{}
	for i, l := range d.page.lines {
		inList := there && i >= list.from && i < list.end
		for _, link := range append(addresses(l.text), addresses(l.hidden)...) {
			host, fault := h.fault(link, inList)
			if fault == "" || said[host] {
				continue
			}
			said[host] = true
			found = append(found, verdict.Find(verdict.SignoffLink, name, "line %d links to %s: %s", l.number, quoted(host), fault))
		}
	}
	return found
}

// fault is why a link is refused, "" if it is allowed.
func (h Hosts) fault(link string, inList bool) (host, fault string) {
	u, err := url.Parse(strings.TrimRight(link, ".,;:!?*_"))
	switch {
	case err == nil && u.Host == "":
		return "", "" // only a scheme, as in a text about schemes
	case err != nil || u.Hostname() == "":
		return link, "not a valid address"
	}
	host = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	ip, notIP := netip.ParseAddr(host)
	switch {
	case u.User != nil:
		return host, "the part before the @ is not the host, and may look like one"
	case notIP == nil && !inList && (ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()):
		return host, "" // an example with a private address
	case notIP == nil:
		return host, "an IP address, whose owner cannot be told"
	case strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) || strings.Contains("."+host, ".xn--"):
		return host, "the name has non-ASCII letters, which may look like others"
	case h.allows(host):
		return host, ""
	}
	if of := h.resembles(host); of != "" {
		return host, "looks like " + of + ", but is another host"
	}
	if h.Only || inList {
		return host, "not one of the allowed hosts"
	}
	return host, ""
}

func (h Hosts) allows(host string) bool {
	return slices.ContainsFunc(h.Allowed, func(a string) bool { return host == a || strings.HasSuffix(host, "."+a) })
}

// resembles is the allowed host that another imitates: by a label with its name, or with a
// name that differs in one letter.
func (h Hosts) resembles(host string) string {
	for label := range strings.FieldsFuncSeq(host, func(r rune) bool { return r == '.' || r == '-' }) {
		for _, a := range h.Allowed {
			name, _, _ := strings.Cut(a, ".")
			if len(name) < 6 && a != "k8s.io" {
				continue // too short to be distinctive
			}
			if label == name || plainly(label) == name || len(name) >= 6 && oneOff(label, name) {
				return a
			}
		}
	}
	return ""
}

// plainly replaces look-alike letters.
func plainly(label string) string {
	return strings.NewReplacer("0", "o", "1", "l", "rn", "m", "vv", "w").Replace(label)
}

// oneOff reports whether two words differ in one letter: missing, added or changed.
func oneOff(a, b string) bool {
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(b)-len(a) > 1 {
		return false
	}
	i := 0
	for i < len(a) && a[i] == b[i] {
		i++
	}
	if len(a) == len(b) {
		return i < len(a) && a[i+1:] == b[i+1:]
	}
	return a[i:] == b[i+1:]
}
