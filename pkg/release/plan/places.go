package plan

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// places are where the release is published, and which part of each place it
// owns.
type places struct {
	files    text
	images   text
	sidecars []string
	// statement is the name of the in-toto release statement.
	statement text
	alsoFor   []string // readers of other formats
	sums      []string
}

// Names of the files that list all checksums.
const (
	SHA256Sums = "SHA256SUMS"
	SHA512Sums = "SHA512SUMS"
)

// hostAndPath is the address of a repository that can be the name of a project in a
// packslip.
var hostAndPath = pattern.Lazy(`^https://[a-z0-9-]+(\.[a-z0-9-]+)+(/[A-Za-z0-9_-][A-Za-z0-9._-]*)*$`)

func (c *Config) readPlaces(top object) {
	o := top.need("places", "name the places of the release").object("files", "images")
	c.places.readFiles(o.need("files", "name the address of the files; the manifest is published there"))
	c.places.readImages(o.get("images"))
	if slices.Contains(c.places.alsoFor, "packslip") && !hostAndPath().MatchString(c.repository.s) {
		o.get("files").fail("alsoFor packslip: it names projects by host and path, so source.repository must be https://HOST/PATH")
	}
	if slices.Contains(c.places.alsoFor, "scorecard") && len(c.given) > 0 {
		o.get("files").fail("alsoFor scorecard: no step makes provenance here; list the file NAME.intoto.jsonl of the other tool as an output")
	}
	hasImages := slices.ContainsFunc(c.steps, func(s step) bool { return s.image != nil }) ||
		slices.ContainsFunc(c.given, func(g given) bool { return g.class == Image })
	if hasImages && !c.places.images.given() && o.given() {
		o.get("images").placed(o.node).fail("missing, but the release has an image")
	}
}

// readFiles reads an address, or a mapping with more fields.
func (p *places) readFiles(n node) {
	p.sums = []string{SHA256Sums, SHA512Sums}
	if !n.given() {
		return
	}
	uri := n
	if !n.isText() {
		o := n.object("uri", "owns", "sidecars", "sums", "statement", "alsoFor")
		uri = o.need("uri", "name the address of the files")
		o.get("owns").choice("prefix")
		p.sidecars = o.get("sidecars").choices("sha256", "sha512")
		if p.statement = o.get("statement").text(); p.statement.s == packslipName {
			o.get("statement").fail("this is the name of a packslip; write alsoFor: [packslip]")
		}
		p.alsoFor = o.get("alsoFor").choices("packslip", "scorecard")
		if m := o.get("sums"); m.given() {
			p.sums = m.choices(SHA256Sums, SHA512Sums)
		}
	}
	p.files = uri.text()
	if p.files.given() && (!strings.HasSuffix(p.files.s, "/") || !strings.Contains(p.files.s, "{version}")) {
		uri.fail("%s: want an address with {version} that ends in a slash", quote(p.files.s))
	}
}

func (p *places) readImages(n node) {
	if n.isText() {
		p.images = n.text()
		return
	}
	o := n.object("uri", "owns")
	p.images = o.need("uri", "name the registry of the images").text()
	if m := o.get("owns"); m.given() {
		tags := m.object("tags").need("tags", "name the tags that the release owns")
		for _, t := range tags.words("tags") {
			if t.s != "{version}" {
				tags.fail(`%s: want "{version}"; other tags move`, quote(t.s))
			}
		}
	}
}

// choices reads a list of words from a fixed set.
func (n node) choices(known ...string) (list []string) {
	for _, t := range n.words(strings.Join(known, ", ")) {
		if !slices.Contains(known, t.s) {
			n.r.faults = append(n.r.faults, t.at.fault("%s; want %s", quote(t.s), strings.Join(known, " or ")))
			continue
		}
		list = append(list, t.s)
	}
	return list
}

// mediaLegacy is the media type of legacy signatures, which are text.
const mediaLegacy = "text/plain"

// The names of legacy signature files: base64 of the signature, and base64 of
// the certificate's PEM.
const (
	suffixSig  = ".sig"
	suffixCert = ".cert"
)

// SigName is the name of the legacy signature file.
func SigName(artifact string) string { return artifact + suffixSig }

// CertName is the name of the certificate file.
func CertName(artifact string) string { return artifact + suffixCert }

// IsLegacy reports whether an artifact is part of a legacy signature.
func (a Artifact) IsLegacy() bool { return a.Class == Signature && a.MediaType == mediaLegacy }

// SignedBySig is the file that a legacy signature file signs.
func (a Artifact) SignedBySig() (of string, is bool) {
	of, is = strings.CutSuffix(a.Name, suffixSig)
	return of, is && a.IsLegacy()
}

// Legacy reports whether legacy signatures are also planned.
func (p Plan) Legacy() bool { return p.legacy }

// WithLegacy adds signatures in the forms from before bundles to the plan: a
// .sig and a .cert beside each signed file, and tags sha256-<digest>.sig and
// .att beside each image. They are not in release.yaml: the signer decides, for
// all files or for none. A name that the plan already has is refused.
func (p Plan) WithLegacy() (Plan, error) {
	all := slices.Clone(p.Artifacts)
	for _, a := range p.Artifacts {
		if a.Class != Signature || a.MediaType != MediaBundle || a.Of == "" {
			continue
		}
		for _, name := range []string{SigName(a.Of), CertName(a.Of)} {
			if _, planned := p.Find(name); planned {
				return Plan{}, verdict.Refuse(verdict.ConfigParse, name, "release.yaml plans this name, and the legacy signature of %s needs it", a.Of)
			}
			all = append(all, about(name, Signature, mediaLegacy, a.Of))
		}
	}
	if len(all) > maxArtifacts {
		return Plan{}, verdict.Refuse(verdict.Limit, "plan", "%d artifacts with the legacy signatures, more than %d", len(all), maxArtifacts)
	}
	p.Artifacts, p.legacy = all, true
	p.sort()
	return p, nil
}
