package render

import (
	"slices"
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// checks writes the commands that check the claims of a verdict again. They run
// in a directory that has the files of a release under their names.
type checks struct {
	release []string // the command about the release; none for a single object
	root    []string // the flags that name the trust root
	names   map[digest.Digest]string
	listed  []verdict.Proof // of the signed manifest
}

// The files that the commands read, besides those of the release, and the
// statement of image signatures of older clients.
const rootFile, profileFile, keyFile, simpleSigning = "trusted_root.json", "profile.yaml", "key.pub", "simple-signing"

func (p Printer) checks(v verdict.Verdict) checks {
	c := checks{root: []string{"--trusted-root", rootFile}, names: map[digest.Digest]string{}}
	profile, here := profileFile, []string(nil)
	for _, in := range v.Inputs {
		c.names[in.Digest] = in.Name
		if dir, local := strings.CutPrefix(in.Place, "file://"); local && in.Name == "files" {
			here = []string{"--files", dir}
		}
		if strings.HasPrefix(in.Place, "https://dl.k8s.io/") { // its profile and trust root are built in
			profile, c.root = "kubernetes", nil
		}
	}
	for _, o := range v.Objects {
		c.names[o.Digest] = o.Name
	}
	for _, proof := range v.Proofs {
		if strings.Contains(proof.Statement, "/release-manifest/") {
			c.listed = []verdict.Proof{proof}
		}
	}
	name := v.Subject[strings.LastIndex(v.Subject, " ")+1:]
	if _, err := version.Parse(name); err == nil {
		c.release = append([]string{"waybill", "verify", "release", name, "--profile", profile}, here...)
	}
	if c.release != nil && strings.HasPrefix(p.Program, "k8s-verify-release") {
		c.release = slices.Replace(c.release, 0, 3, "k8s-verify-release")
	}
	return c
}

// whole is the command about the release; empty for a single object.
func (c checks) whole(more ...string) string {
	if c.release == nil {
		return ""
	}
	return command(slices.Concat(c.release, more)...)
}

func (c checks) object(o verdict.Object, proofs []verdict.Proof) (all []string) {
	target, kind, isImage := o.Name, "file", strings.HasPrefix(o.Class, "image") || strings.Contains(o.Name, "@sha256:")
	switch {
	case o.Digest.IsZero():
		return nil
	case isImage:
		repository, _, given := strings.Cut(o.Name, "@")
		if !given {
			repository = "REPOSITORY"
		}
		target, kind = repository+"@"+o.Digest.String(), "image"
	default:
		if strings.HasPrefix(target, "-") { // no flag
			target = "./" + target
		}
		algorithm, _, _ := strings.Cut(o.Digest.String(), ":")
		all = []string{sumOf(o.Digest, target), command("openssl", "dgst", "-"+algorithm, target)}
		if c.release != nil {
			all = append(all, c.whole(target))
		}
	}
	if len(proofs) == 0 && !isImage {
		proofs = c.listed
	}
	for _, p := range proofs {
		if flags, verb := c.flags(p, o, isImage); verb != "" {
			all = append(all, command(slices.Concat([]string{"cosign", verb}, flags, []string{target})...))
			if c.release == nil && slices.Contains(flags, rootFile) {
				ours := slices.DeleteFunc(flags, func(flag string) bool { return flag == "--use-signed-timestamps" })
				all = append(all, command(slices.Concat([]string{"waybill", "verify", kind}, ours, []string{target})...))
			}
		}
	}
	return all
}

// flags are those of cosign for one proof, and its verb. None is for a signed
// document itself: nothing is signed about it.
func (c checks) flags(p verdict.Proof, o verdict.Object, isImage bool) (flags []string, verb string) {
	bundle := c.names[p.Bundle]
	if bundle == "" && c.listed != nil { // only a part of the release was judged
		bundle = o.Name + ".sigstore.json"
	}
	signature, root := p.Statement == "blob" || p.Statement == simpleSigning || strings.Contains(p.Statement, "cosign/sign"), c.root
	switch {
	case isImage:
		verb = "verify"
	case bundle == o.Name || !signature && c.names[p.Bundle] == "":
		return nil, ""
	case bundle != "" && !strings.HasSuffix(bundle, ".sig"):
		verb, flags = "verify-blob", []string{"--bundle", bundle}
	default: // from before bundles: cosign does not take a trust root for it
		verb, flags, root = "verify-blob", []string{"--signature", o.Name + ".sig", "--certificate", o.Name + ".cert"}, nil
	}
	if !signature {
		verb, flags = verb+"-attestation", append(flags, "--type", strings.Replace(p.Statement, "https://slsa.dev/provenance/v1", "slsaprovenance1", 1))
	}
	if p.Statement != simpleSigning && root != nil {
		flags = append(flags, root[0], root[1], "--use-signed-timestamps")
	}
	if !p.Key.IsZero() {
		return append(flags, "--key", keyFile), verb
	}
	return append(flags, "--certificate-identity", p.Identity, "--certificate-oidc-issuer", p.Issuer), verb
}

func sumOf(d digest.Digest, file string) string {
	algorithm, hex, _ := strings.Cut(d.String(), ":")
	return command("printf", `%s\n`, hex+"  "+file) + " | " + algorithm + "sum -c"
}

// plain is a word that a shell reads as it is.
var plain = pattern.Lazy(`\A[A-Za-z0-9@%+=:,./_-]+\z`)

// command writes a line for a shell, of foreign text.
func command(words ...string) string { return printable(Shell(words...)) }

// Shell writes words as a line for a shell, quoted where they must be.
func Shell(words ...string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		if quoted[i] = word; !plain().MatchString(word) {
			quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
		}
	}
	return strings.Join(quoted, " ")
}
