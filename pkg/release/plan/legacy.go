package plan

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// mediaLegacy is that of the legacy forms, which are text.
const mediaLegacy = "text/plain"

// The files that carry the signature of an artifact in the form from before
// bundles: base64 of the signature, and base64 of its certificate's PEM.
const (
	suffixSig  = ".sig"
	suffixCert = ".cert"
)

// SigName is the file that carries the signature in the legacy form.
func SigName(artifact string) string { return artifact + suffixSig }

// CertName is the file that carries its certificate.
func CertName(artifact string) string { return artifact + suffixCert }

// IsLegacy reports whether an artifact is a part of a signature in the legacy
// form.
func (a Artifact) IsLegacy() bool { return a.Class == Signature && a.MediaType == mediaLegacy }

// SignedBySig is the file whose signature in the legacy form an artifact is, if
// it is one.
func (a Artifact) SignedBySig() (of string, is bool) {
	of, is = strings.CutSuffix(a.Name, suffixSig)
	return of, is && a.IsLegacy()
}

// Legacy reports whether signatures in the legacy forms are planned, too.
func (p Plan) Legacy() bool { return p.legacy }

// WithLegacy is the plan of a release that is also signed in the forms from
// before bundles: a .sig and a .cert beside each file that is signed, and tags
// sha256-<digest>.sig and .att beside each image. release.yaml does not say so;
// whoever signs decides it, for all or for none. Names that the plan has are
// refused: they are of something else.
func (p Plan) WithLegacy() (Plan, error) {
	all := slices.Clone(p.Artifacts)
	for _, a := range p.Artifacts {
		if a.Class != Signature || a.MediaType != MediaBundle || a.IsStatement() {
			continue
		}
		for _, name := range []string{SigName(a.Of), CertName(a.Of)} {
			if _, planned := p.Find(name); planned {
				return Plan{}, verdict.Refuse(verdict.ConfigParse, name, "release.yaml plans it, and the legacy signature of %s would have its name", a.Of)
			}
			all = append(all, about(name, Signature, mediaLegacy, a.Of))
		}
	}
	if len(all) > MaxArtifacts {
		return Plan{}, verdict.Refuse(verdict.Limit, "plan", "%d artifacts with the legacy signatures, more than %d", len(all), MaxArtifacts)
	}
	p.Artifacts, p.legacy = all, true
	p.sort()
	return p, nil
}
