package signoff

import (
	"html"
	"net/netip"
	"net/url"
	"regexp"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Hosts says where the links of documents may lead.
type Hosts struct {
	// Allowed are hosts; each stands for those below it too.
	Allowed []string
	// Only refuses every host that is not allowed, not just those that look
	// like one, or stand in the checklist.
	Only bool
}

// Canonical are the hosts that enhancements of Kubernetes link to, and those
// that may be taken for others of them though they are not.
func Canonical() []string {
	return []string{
		"github.com", "github.io", "githubusercontent.com", "gitlab.com", "k8s.io", "k8s.dev", "kubernetes.io", "kubernetes.dev",
		"gcr.io", "pkg.dev", "slack.com", "google.com", "googleapis.com", "golang.org", "go.dev", "etcd.io",
	}
}

// NewHosts are the canonical hosts and others; only makes them all that links
// may lead to. A host is a name with a dot: "com" would be half of the world.
func NewHosts(others []string, only bool) (Hosts, error) {
	for _, h := range others {
		if !hostForm.MatchString(h) {
			return Hosts{}, verdict.Refuse(verdict.Usage, "--allow-host", "%s, want the name of a host, as docs.example.test", quoted(h))
		}
	}
	return Hosts{Allowed: append(Canonical(), others...), Only: only}, nil
}

var hostForm = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9-]*[a-z0-9])?(?:\.[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)+$`)

var address = regexp.MustCompile(`(?i)\b(?:https?|ftp)://(?:\[[0-9a-f:.%]+\])?[^\s<>"'` + "`" + `\])|]*`)

// bare matches addresses without a scheme that readers make links of all the
// same: names that begin with www, and links and attributes that begin with
// two strokes.
var bare = regexp.MustCompile(`(?i)(?:^|[\s(<*_~])(www\.[a-z0-9.-]+)|(?:\]\(\s*<?|\]:\s*<?|(?:href|src)\s*=\s*["']?)//([^\s<>"'` + "`" + `\])|/?#]+)`)

// escapes are what Markdown lets stand for a mark of an address.
var escapes = strings.NewReplacer(`\/`, "/", `\:`, ":", `\.`, ".", `\-`, "-")

// addresses are those of a line, with a scheme.
func addresses(text string) []string {
	text = escapes.Replace(html.UnescapeString(text))
	list := address.FindAllString(text, -1)
	for _, m := range bare.FindAllStringSubmatch(text, -1) {
		list = append(list, "https://"+m[1]+m[2])
	}
	return list
}

// links lists what is wrong with the links of a document: each host once.
func (d *Document) links(name string, h Hosts) []verdict.Finding {
	list, there := d.find(checklistTitle)
	said := map[string]bool{}
	var found []verdict.Finding
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

// fault says why a link may not be followed, "" where it may.
func (h Hosts) fault(link string, inList bool) (host, fault string) {
	u, err := url.Parse(strings.TrimRight(link, ".,;:!?*_"))
	switch {
	case err == nil && u.Host == "":
		return "", "" // the word for a scheme, in a text about schemes
	case err != nil || u.Hostname() == "":
		return link, "it is no address"
	}
	host = strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	ip, notIP := netip.ParseAddr(host)
	switch {
	case u.User != nil:
		return host, "what stands before the @ is no host, and may look like one"
	case notIP == nil && !inList && (ip.IsLoopback() || ip.IsPrivate() || ip.IsUnspecified()):
		return host, "" // an example, of a machine that is nobody else's
	case notIP == nil:
		return host, "it is a number, and nobody knows whose"
	case strings.ContainsFunc(host, func(r rune) bool { return r > 0x7f }) || strings.Contains("."+host, ".xn--"):
		return host, "its letters are not those that they look like"
	case h.allows(host):
		return host, ""
	}
	if of := h.resembles(host); of != "" {
		return host, "it looks like " + of + ", and is another host"
	}
	if h.Only || inList {
		return host, "it is none of the hosts that links may lead to"
	}
	return host, ""
}

func (h Hosts) allows(host string) bool {
	for _, a := range h.Allowed {
		if host == a || strings.HasSuffix(host, "."+a) {
			return true
		}
	}
	return false
}

// resembles names the allowed host that another is made to be taken for: one
// that has its name among its labels, or a name that is one letter off.
func (h Hosts) resembles(host string) string {
	for label := range strings.FieldsFuncSeq(host, func(r rune) bool { return r == '.' || r == '-' }) {
		for _, a := range h.Allowed {
			name, _, _ := strings.Cut(a, ".")
			if len(name) < 6 && a != "k8s.io" {
				continue // a word that means many things
			}
			if label == name || plainly(label) == name || len(name) >= 6 && oneOff(label, name) {
				return a
			}
		}
	}
	return ""
}

// plainly undoes what makes one letter look like another.
func plainly(label string) string {
	return strings.NewReplacer("0", "o", "1", "l", "rn", "m", "vv", "w").Replace(label)
}

// oneOff reports whether two words differ in one letter, left out, put in or
// changed.
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
