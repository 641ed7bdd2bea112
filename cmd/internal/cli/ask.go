package cli

import (
	"cmp"
	"crypto"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	sbomlist "github.com/waybill-release/waybill/attestations/sbom-list/v1"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxKey bounds a public key file.
const maxKey = 64 << 10

// maxRevocations is the largest file of revocations, and of builders, in bytes.
const maxRevocations = 1 << 20

// Ask are the flags that say who must have signed, what the evidence must be
// about, and how much it must prove.
type Ask struct {
	Rules   verify.Rules
	Type    string
	Subject string
	Package string
	// VersionedTag is a version that must cover the tag of the source.
	VersionedTag string
	Key          string
	Levels       Levels
	claims       []string
	revoked      string
	who          who
	// counted reports whether a number of logs or timestamps was asked for.
	counted func() bool
}

// who names one identity, or a pattern of identities.
type who struct{ exact, pattern, issuer, kind string }

// AddFlags adds the flags.
func (a *Ask) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&a.who.exact, "certificate-identity", "", "exactly who must have signed: an e-mail address or a URI")
	f.StringVar(&a.who.pattern, "certificate-identity-regexp", "", "who may have signed, as a regular expression of the whole identity")
	f.StringVar(&a.who.issuer, "certificate-oidc-issuer", "", "exactly which identity provider vouched for the signer; none for a certificate of --trust github that names no issuer")
	f.StringVar(&a.who.kind, "certificate-identity-type", "", "email or uri, where the identity does not show it")
	f.StringArrayVar(&a.claims, "certificate-claim", nil, "NAME=VALUE that the certificate must claim about the run, such as buildTrigger=push; repeats")
	f.StringVar(&a.revoked, "revoked", "", "file of kind Revocations: identities, certificates and keys that no longer count")
	f.StringVar(&a.Key, "key", "", "public key (PEM) that must have signed, instead of an identity; it alone proves a DSSE envelope, unless --min-logs or --min-timestamps is given")
	f.StringVar(&a.Type, "type", "", "ask for an attestation of this predicate type: a URI, or "+strings.Join(shortNames(), ", "))
	f.StringVar(&a.Subject, "subject", "", "exact name that the attestation must give the artifact")
	f.StringVar(&a.Package, "package", "", "NAME@VERSION of the npm package, or of the distribution on PyPI, that the attestation must name, instead of --subject")
	f.StringVar(&a.VersionedTag, "source-versioned-tag", "", "require that the source was a tag of this version: v14 covers v14.2 and v14.2.3-rc.1, and v14.2.3 only itself")
	f.IntVar(&a.Rules.Logs, "min-logs", 1, "how many transparency logs must include the signature")
	f.IntVar(&a.Rules.Times, "min-timestamps", 1, "how many timestamp authorities or logs must confirm when it was signed")
	f.IntVar(&a.Rules.SCTs, "min-scts", 1, "how many certificate transparency logs must have logged the certificate")
	a.Levels.AddFlags(cmd)
	a.counted = func() bool { return f.Changed("min-logs") || f.Changed("min-timestamps") }
}

// Check refuses a wrong choice of signer or threshold before anything is fetched.
func (a *Ask) Check(t *Trust) error {
	if r := a.Rules; min(r.Times, r.Logs, r.SCTs) < 1 {
		return verdict.Refuse(verdict.Usage, "--min-logs, --min-timestamps and --min-scts", "each must be at least 1, got %d, %d and %d; where the trust domain has no logs, the first and the last follow from it", r.Logs, r.Times, r.SCTs)
	}
	_, err := a.matcher()
	return cmp.Or(err, t.checkDomain())
}

// Ask makes the question to the gate, under a trust root. Whether a key or an
// identity must have signed is the choice of the caller, never of the evidence.
func (a *Ask) Ask(root trust.Root) (gate.Ask, error) {
	kind, err := predicateType(a.Type)
	if err != nil {
		return gate.Ask{}, err
	}
	who, err := a.matcher()
	if err != nil {
		return gate.Ask{}, err
	}
	v, err := verify.NewWith(root, a.Rules)
	if err != nil {
		return gate.Ask{}, err
	}
	ask := gate.Ask{Type: kind, Subject: a.Subject, Package: a.Package, VersionedTag: a.VersionedTag}
	var signer slsa.Pair
	if a.Key == "" {
		ask.Signer, signer.Signer = gate.SignedBy(v, who), who
	} else {
		public, err := PublicKey(a.Key)
		if err != nil {
			return gate.Ask{}, err
		}
		key, err := v.Key(public)
		if err != nil {
			return gate.Ask{}, err
		}
		ask.Signer, signer.Key = gate.SignedWith(key), key.Digest()
		if !a.counted() {
			ask.Signer = ask.Signer.InsecureEnvelopes()
		}
	}
	if err := a.narrow(&ask.Signer); err != nil {
		return gate.Ask{}, err
	}
	ask.Levels, err = a.Levels.levels(signer, v)
	return ask, err
}

// narrow asks more of the signer than a name: the claims of the certificate, and
// that the signer is not revoked.
func (a *Ask) narrow(s *gate.Signer) error {
	if len(a.claims) > 0 {
		if a.Key != "" {
			return verdict.Refuse(verdict.Usage, "--certificate-claim", "a key has no certificate, so it makes no claims; leave the flag out or name an identity")
		}
		d, err := identity.ParseDemand(a.claims)
		if err != nil {
			return verdict.Wrap(verdict.Usage, "--certificate-claim", err)
		}
		*s = s.Claiming(d)
	}
	if a.revoked == "" {
		return nil
	}
	raw, err := store.ReadNamed(a.revoked, maxRevocations)
	if err != nil {
		return err
	}
	r, err := gate.ParseRevocations(raw)
	if err != nil {
		return verdict.InFile(a.revoked, err)
	}
	*s = s.Without(r)
	return nil
}

// matcher makes the matcher of the identity that was named. Where a key was named
// it is the zero Matcher, which matches no identity.
func (a *Ask) matcher() (identity.Matcher, error) {
	w, named := a.who, 0
	for _, s := range []string{w.exact, w.pattern, a.Key} {
		if s != "" {
			named++
		}
	}
	switch {
	case named != 1:
		return identity.Matcher{}, verdict.Refuse(verdict.Usage, "--certificate-identity",
			"want exactly one of --certificate-identity, --certificate-identity-regexp and --key")
	case a.Key != "" && w != who{}:
		return identity.Matcher{}, verdict.Refuse(verdict.Usage, "--key", "a key has no issuer and no kind of identity")
	case a.Key != "":
		return identity.Matcher{}, nil
	case w.issuer == "":
		return identity.Matcher{}, verdict.Refuse(verdict.PolicyWeak, "--certificate-oidc-issuer", "required: two identity providers may issue the same name; none stands for certificates of GitHub's own instance that name no issuer")
	}
	if faults := identity.LintPattern(w.pattern, w.sanType()); w.pattern != "" && len(faults) > 0 {
		return identity.Matcher{}, verdict.Refuse(verdict.PolicyWeak, "--certificate-identity-regexp", "pattern %q: %s", w.pattern, strings.Join(faults, "; "))
	}
	var m identity.Matcher
	var err error
	if w.exact != "" {
		m, err = identity.Exact(identity.Identity{Issuer: w.issuer, Subject: w.exact, Type: w.sanType()})
	} else {
		m, err = identity.Pattern(w.issuer, w.pattern, w.sanType())
	}
	if err != nil {
		return identity.Matcher{}, verdict.Wrap(verdict.Usage, "--certificate-identity", err)
	}
	return m, nil
}

// sanType is the kind that was given, or else the kind that the name looks like.
func (w who) sanType() identity.SANType {
	name := w.exact + w.pattern
	switch {
	case w.kind != "":
		return identity.SANType(w.kind)
	case strings.Contains(name, "@") && !strings.Contains(name, "://"):
		return identity.Email
	}
	return identity.URI
}

// PublicKey reads the file of a public key.
func PublicKey(path string) (crypto.PublicKey, error) {
	raw, err := store.ReadNamed(path, maxKey)
	if err != nil {
		return nil, err
	}
	public, err := verify.ParseKey(raw)
	if err != nil {
		return nil, fmt.Errorf("reading %q: %w", path, err)
	}
	return public, nil
}

// predicateType resolves a short name; a URI stands for itself.
func predicateType(name string) (string, error) {
	if full, ok := predicateNames()[name]; ok {
		return full, nil
	}
	if name != "" && !strings.Contains(name, ":") {
		return "", verdict.Refuse(verdict.Usage, "--type", "%q: want a URI, or one of %s", name, strings.Join(shortNames(), ", "))
	}
	return name, nil
}

func shortNames() []string { return slices.Sorted(maps.Keys(predicateNames())) }

// predicateNames maps the names that people use on the command line, as in
// cosign, to predicate types.
func predicateNames() map[string]string {
	return map[string]string{
		"slsaprovenance":   "https://slsa.dev/provenance/v0.2",
		"slsaprovenance02": "https://slsa.dev/provenance/v0.2",
		"slsaprovenance1":  "https://slsa.dev/provenance/v1",
		"vsa":              "https://slsa.dev/verification_summary/v1",
		"spdx":             intoto.SPDXDocument,
		"spdxjson":         intoto.SPDXDocument,
		"spdx23":           intoto.SPDXDocument + "/v2.3",
		"cyclonedx":        "https://cyclonedx.org/bom",
		"vuln":             "https://cosign.sigstore.dev/attestation/vuln/v1",
		"openvex":          "https://openvex.dev/ns",
		"link":             "https://in-toto.io/Link/v1",
		"release":          intoto.Release,
		"release01":        "https://in-toto.io/attestation/release/v0.1",
		"manifest":         "https://github.com/waybill-release/waybill/attestations/release-manifest/v1",
		"sbom-list":        sbomlist.PredicateType,
		"signature":        intoto.CosignSignature,
		"custom":           "https://cosign.sigstore.dev/attestation/v1",
	}
}
