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

// InputDir is the read-only directory with the inputs of a step, relative to
// its source tree; {in} in release.yaml. Outputs of earlier steps have their
// whole names below it, downloads their file names.
const InputDir = "../in"

// readDownloads reads what steps need from the network besides images and Go
// modules: names and addresses. The lock has size and digest of each.
func readDownloads(n node) (list []pair) {
	keys, values := n.pairs("a mapping from names to addresses")
	for i, key := range keys {
		if key.given() && !isFileName(key.s) {
			n.r.faults = append(n.r.faults, key.at.fault("download %s: want a file name of letters, digits and ._-", quote(key.s)))
		}
		list = append(list, pair{key, values[i].address()})
	}
	if len(list) == 0 && n.given() && n.tree.Kind == yaml.MappingNode {
		n.fail("empty; leave downloads out or name one")
	}
	return list
}

func (n node) address() text {
	t := n.text()
	if t.given() {
		if why := checkAddress(t.s); why != "" {
			n.fail("%s: %s", quote(t.s), why)
		}
	}
	return t
}

// checkAddress says why something is no address of a download, or "". It must
// be a name of the public network: a numeric address may belong to another host
// tomorrow, and a private one means another host for others. This machine is
// allowed, for tests.
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
	return host().MatchString(s) && len(s) <= 253 && (!has || number <= 65535)
}

func isLoopback(name string) bool {
	addr, err := netip.ParseAddr(name)
	return name == "localhost" || err == nil && addr.IsLoopback()
}

// isFileName checks the grammar of file names without a directory.
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

// input finds the inputs of a step: outputs of earlier steps, and downloads.
func (x *expander) input(list []text, s scope) (files, downloads []string) {
	seen := map[string]bool{}
	for _, t := range list {
		name, download := x.findInput(t, s)
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

// checkDownloads refuses a download with the name of an artifact, or of a
// directory of artifacts: a step that takes both could not have both.
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

// checkInputs refuses inputs that a step of this kind cannot have.
func (p *Plan) checkInputs(s Step) error {
	refuse := func(why string) error { return &nameError{s.Outputs[0], "step " + quote(s.Instance) + " " + why} }
	imports := s.Image != nil && s.Image.Import != ""
	switch {
	case len(s.Run) == 0 && (len(s.Take) > 0 || len(s.Downloads) > 0 && !imports):
		return refuse("has no command that could use its inputs")
	case imports && s.Image.Base != "" || s.Image != nil && !imports && s.Image.Base == "":
		return refuse("needs either a base image or an archive to import")
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
