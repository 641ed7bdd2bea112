package plan

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

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
