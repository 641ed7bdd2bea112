package policy

import (
	"bytes"
	"crypto"
	"crypto/ecdsa"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// fileInput is what the policy requires of the images of a repository, or of a
// program or download, that builds use.
type fileInput struct {
	// Image is HOST/REPOSITORY, or HOST/PATH/ for all repositories below it.
	Image string `yaml:"image"`
	// Tool is the name of a program or download in release.yaml.
	Tool string `yaml:"tool"`
	// Bundles are the addresses of the evidence about a tool, with {url} for
	// that of the download and {sha256} for the digest.
	Bundles  []string       `yaml:"bundles"`
	Signers  []signer       `yaml:"signers"`
	Builders []fileBuilder  `yaml:"builders"`
	Source   fileSource     `yaml:"source"`
	Checks   map[Check]Mode `yaml:"checks"`
	Level    int            `yaml:"level"`
}

// loadInputs makes a policy of each row: its signers have the role release, and
// no role of the release itself.
func loadInputs(l *loader) error {
	if err := filled(l, l.Inputs, "inputs"); err != nil {
		return err
	}
	if l.Inputs != nil && len(l.Builders) == 0 {
		return l.fail(codeEmpty, at("builders"), "empty, so no provenance says what was used; add a builder or remove inputs")
	}
	for i, row := range l.Inputs {
		if err := checkInput(l, row, i); err != nil {
			return err
		}
		sub := &loader{file: file{Builders: row.Builders, Source: row.Source}, raw: l.raw, base: at("inputs", i), people: l.people}
		sub.policy = Policy{
			name: l.policy.name, digest: l.policy.digest, counts: thresholds{l.policy.counts.rules, 1},
			validity: validity{lab: l.policy.validity.lab, expires: l.policy.validity.expires},
		}
		sub.policy.counts.rules.Keys = nil // its own are added when its signers are read
		if err := loadInput(sub, row); err != nil {
			l.failed, l.act = sub.failed, sub.act
			return err
		}
		if err := checkForeign(l, sub); err != nil {
			return err
		}
		l.people = sub.people
		l.policy.inputs = append(l.policy.inputs, inputRow{row.Image, row.Tool, row.Bundles, sub.policy})
	}
	return nil
}

func checkInput(l *loader, row fileInput, i int) error {
	path := at("inputs", i)
	host, repository, _ := strings.Cut(strings.TrimSuffix(row.Image, "/"), "/")
	twice := slices.ContainsFunc(l.Inputs[:i], func(o fileInput) bool { return o.Image == row.Image && o.Tool == row.Tool })
	switch {
	case (row.Image == "") == (row.Tool == ""):
		return l.fail(codeEmpty, path, "want exactly one of image and tool")
	case twice:
		return l.fail(codeValue, path, "%q has a row already", row.Image+row.Tool)
	case row.Image != "" && (host == "" || repository == "" || strings.ContainsAny(row.Image, "@*? ") || strings.Contains(repository, ":") || strings.Contains(row.Image, "//")):
		return l.fail(codeValue, append(path, "image"), "%q: want HOST/REPOSITORY without tag and digest, or HOST/PATH/ for all repositories below it", row.Image)
	case row.Image != "" && row.Bundles != nil:
		return l.fail(codeValue, append(path, "bundles"), "the evidence about an image is in its registry; leave them out")
	case row.Bundles != nil && len(row.Bundles) == 0:
		return l.fail(codeEmpty, append(path, "bundles"), "empty; leave the key out, or name an address")
	}
	for n, address := range row.Bundles {
		left := strings.NewReplacer("{url}", "", "{sha256}", "").Replace(address)
		if left == address || strings.ContainsAny(left, "{}") {
			return l.fail(codeValue, append(path, "bundles", n), "%q: want an address with {url} or {sha256} in it, and no other placeholder", address)
		}
	}
	return nil
}

func loadInput(l *loader, row fileInput) (err error) {
	l.policy.actors.roles = map[Role][]allowedSigner{}
	if row.Signers != nil {
		signers, err := l.signers(row.Signers, at("signers"))
		if err != nil {
			return err
		}
		if n := slices.IndexFunc(signers, narrowed); n >= 0 {
			return l.fail(codeValue, at("signers", n), "stages and classes limit signers of the release; leave them out")
		}
		l.policy.actors.roles[Release] = signers
		l.policy.actors.entries = append(l.policy.actors.entries, policyEntry{role: Release, signers: signers})
	}
	for _, part := range []func() error{l.loadBuilders, l.checkSeparate, l.loadSource} {
		if err := part(); err != nil {
			return err
		}
	}
	if strings.Contains(row.Source.Ref, "{version}") {
		return l.fail(codeValue, at("source", "ref"), "%q: the version of the release is not that of its inputs", row.Source.Ref)
	}
	for _, check := range slices.Sorted(maps.Keys(row.Checks)) {
		if check != Signature && check != Provenance {
			return l.fail(codeValue, at("checks", string(check)), "unknown check of an input, want signature and provenance")
		}
	}
	for _, by := range []struct {
		check Check
		key   string
		any   bool
	}{{Signature, "signers", row.Signers != nil}, {Provenance, "builders", row.Builders != nil}} {
		if mode, said := row.Checks[by.check]; said && (mode != Off) != by.any {
			return l.fail(codeEmpty, at(by.key), "%s is %q: list %s if it is to be checked, and only then", by.check, mode, by.key)
		}
	}
	if row.Level < 0 || row.Level > 4 {
		return l.fail(codeValue, at("level"), "%d, want 1, 2, 3 or 4", row.Level)
	}
	class := plan.Image
	if row.Tool != "" {
		class = plan.Other
	}
	checks := maps.Clone(row.Checks)
	if checks == nil {
		checks = map[Check]Mode{}
	}
	checks[SBOM] = Off
	d, err := l.demand(fileRequire{Checks: checks, Level: row.Level}, class, nil)
	if err != nil {
		return err
	}
	l.policy.cells = map[cell]demand{{Published, class}: d}
	return nil
}

// checkForeign refuses a signer of an input that has a role in the release: its
// holder could act for both.
func checkForeign(l, sub *loader) error {
	for _, theirs := range sub.policy.actors.entries {
		for _, one := range theirs.signers {
			for _, ours := range l.policy.actors.entries {
				if slices.ContainsFunc(ours.signers, func(other allowedSigner) bool {
					return (place{allowedSigner: one}).overlaps(place{allowedSigner: other})
				}) {
					l.act = fixShared
					return l.fail(codeWeak, sub.base, "%s is listed for an input and in %s; each needs its own identity", one, ours)
				}
			}
		}
	}
	return nil
}

// explainInputs says what builds may use.
func explainInputs(p Policy) Section {
	s := Section{Title: "What it may be made of"}
	for _, row := range p.inputs {
		what := "the tool " + row.tool
		switch {
		case strings.HasSuffix(row.image, "/"):
			what = "images below " + row.image
		case row.image != "":
			what = "the image " + row.image
		}
		for _, d := range row.policy.cells {
			text := d.describe()
			if d.level > 0 {
				text += ", and the artifacts that use it have at most its level (LEVEL)"
			}
			s.add("%s needs %s", what, text)
		}
		for _, entry := range row.policy.actors.entries {
			for _, who := range entry.signers {
				act := "signs " + what
				if entry.role == Builder {
					act = fmt.Sprintf("signs its provenance for %s", entry)
				}
				s.add("%s", who.describe(act))
			}
		}
	}
	if len(p.inputs) > 0 {
		s.add("images, programs and downloads that no row names: %s", map[Mode]string{
			Require: "refused (EXTRA)", Warn: "only a warning (EXTRA)", Off: "listed as unverified", "": "listed as unverified",
		}[p.whole.closed[inputs]])
	}
	return s
}

// key reads a signer that is a long-lived key. The policy contains the whole
// key, so that verification needs no other file.
func (l *loader) key(s signer, path []any) (identity.Identity, identity.Matcher, error) {
	fail := func(code, format string, args ...any) (identity.Identity, identity.Matcher, error) {
		return identity.Identity{}, identity.Matcher{}, l.fail(code, append(path, "key"), format, args...)
	}
	if s.Subject != "" || s.Pattern != "" || s.Issuer != "" || s.Type != "" || s.Claims != nil {
		return fail(codeValue, "a key has no certificate, and therefore no issuer, subject, type or claims; leave them out")
	}
	block, rest := pem.Decode([]byte(s.Key))
	if block == nil || block.Type != "PUBLIC KEY" || len(block.Headers) > 0 || len(bytes.TrimSpace(rest)) > 0 {
		return fail(codeValue, "want one public key in PEM")
	}
	public, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return fail(codeValue, "%v", err)
	}
	if !signs(public) {
		return fail(codeWeak, "keys of type %T and this size are not supported: use ECDSA P-256, or RSA of 2048, 3072 or 4096 bits", public)
	}
	der, err := x509.MarshalPKIXPublicKey(public)
	if err != nil || !bytes.Equal(der, block.Bytes) {
		return fail(codeValue, "the key is not in canonical DER encoding")
	}
	l.policy.counts.rules.Keys = append(l.policy.counts.rules.Keys, public)
	name := digest.Of(digest.SHA256, der)
	matcher, err := identity.ExactKey(name)
	return identity.OfKey(name), matcher, err
}

// signs reports whether this program accepts signatures by keys of this kind.
func signs(public crypto.PublicKey) bool {
	switch key := public.(type) {
	case *ecdsa.PublicKey:
		return key.Curve.Params().BitSize == 256
	case *rsa.PublicKey:
		n := key.N.BitLen()
		return n == 2048 || n == 3072 || n == 4096
	}
	return false
}
