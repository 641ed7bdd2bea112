package plan

import (
	"net/netip"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// InputDir is where a step finds what it takes, read only, seen from the
// source tree that it runs in; {in} in release.yaml. Outputs of earlier steps
// have their whole names below it, downloads theirs.
const InputDir = "../in"

// readDownloads reads what steps need of the network besides images and Go
// modules: a name and an address, of which the lock holds size and digest.
func readDownloads(n node) (list []pair) {
	if !n.given() {
		return nil
	}
	keys, values := n.pairs("a mapping from names to addresses")
	for i, key := range keys {
		if key.given() && !isFileName(key.s) {
			n.r.faults = append(n.r.faults, key.at.fault("download %s: want letters, digits and ._-, with no directory", quote(key.s)))
		}
		list = append(list, pair{key, values[i].address()})
	}
	if len(list) == 0 && n.tree.Kind == yaml.MappingNode {
		n.fail("empty; leave downloads out or name one")
	}
	return list
}

// address reads where a download is found.
func (n node) address() text {
	t := n.text()
	if t.given() {
		if why := checkAddress(t.s); why != "" {
			n.fail("%s: %s", quote(t.s), why)
		}
	}
	return t
}

// checkAddress says why something is no address of a download, or "". Only
// names of the public network are: an address in digits means something else
// tomorrow, and a private one something else to everybody. This machine is
// for tests and for trying out.
func checkAddress(s string) string {
	u, err := url.Parse(s)
	if err != nil || len(s) > 2048 || strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("\"\\{}", r) }) {
		return "want an address, as in https://dl.example.test/tool.tar.gz"
	}
	local := isLoopback(u.Hostname())
	switch {
	case u.Scheme != "https" && (u.Scheme != "http" || !local):
		return "want https"
	case u.User != nil || u.Fragment != "" || u.Path == "" || u.Path == "/" || u.String() != s:
		return "want scheme, host and path, and no credentials, in plain spelling"
	case !local && !isHost(u.Host):
		return "want a host name of the public network"
	}
	return ""
}

// isHost reports whether a host, with or without port, is a name of the public
// network.
func isHost(s string) bool {
	_, port, has := strings.Cut(s, ":")
	number, _ := strconv.Atoi(port)
	return host.MatchString(s) && len(s) <= 253 && (!has || number <= 65535)
}

func isLoopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// isFileName is the grammar of names that stand in one directory.
func isFileName(s string) bool {
	const word = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	return s != "" && len(s) <= 128 && strings.Trim(s, word+"._-") == "" && strings.Contains(word, s[:1])
}

// addresses are the downloads of the configuration; nil for none.
func (c Config) addresses() map[string]string {
	if len(c.downloads) == 0 {
		return nil
	}
	m := make(map[string]string, len(c.downloads))
	for _, d := range c.downloads {
		m[d.key.s] = d.value.s
	}
	return m
}

// input finds everything that a step takes: outputs of earlier steps, and
// downloads.
func (x *expander) input(list []text, s scope) (files, downloads []string) {
	seen := map[string]bool{}
	for _, t := range list {
		name, download := x.find(t, s)
		if x.fault != nil {
			return nil, nil
		}
		if seen[name] {
			x.fail(t.at, "takes %s twice", quote(name))
		}
		seen[name] = true
		if download {
			downloads = append(downloads, name)
		} else {
			files = append(files, name)
		}
	}
	return files, downloads
}

// checkDownloads refuses a download that has the name of an artifact, or of a
// directory of artifacts: a step that takes both would find one of them.
func (p *Plan) checkDownloads() error {
	for _, name := range sortedKeys(p.Downloads) {
		if !isFileName(name) || checkAddress(p.Downloads[name]) != "" {
			return &nameError{name, "download " + quote(name) + ": want a file name and an address"}
		}
		at, found := slices.BinarySearchFunc(p.Artifacts, name+"/", func(a Artifact, n string) int { return strings.Compare(a.Name, n) })
		below := found || at < len(p.Artifacts) && strings.HasPrefix(p.Artifacts[at].Name, name+"/")
		if below || p.index(name) >= 0 {
			return &nameError{name, "download " + quote(name) + " has the name of an artifact, or of a directory of them; give it another"}
		}
	}
	return nil
}

// checkInputs refuses a step whose inputs are not what a step of its kind can
// have.
func (p *Plan) checkInputs(s Step) error {
	refuse := func(why string) error { return &nameError{s.Outputs[0], "step " + quote(s.Instance) + " " + why} }
	imports := s.Image != nil && s.Image.Import != ""
	switch {
	case len(s.Run) == 0 && (len(s.Take) > 0 || len(s.Downloads) > 0 && !imports):
		return refuse("runs nothing that could see what it takes")
	case imports && s.Image.Base != "" || s.Image != nil && !imports && s.Image.Base == "":
		return refuse("makes an image of a base, or of an archive; want exactly one of them")
	}
	for _, name := range s.Downloads {
		if p.Downloads[name] == "" {
			return refuse("takes the download " + quote(name) + ", which is not declared")
		}
	}
	seen := map[string]bool{}
	for _, name := range slices.Concat(s.Take, s.Downloads) {
		if seen[name] || path.Clean(name) != name {
			return refuse("takes " + quote(name) + " twice")
		}
		seen[name] = true
	}
	return nil
}
