package cli

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/judge/builders"
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// Levels are the flags that say up to which SLSA level each builder is trusted,
// and which levels are required.
type Levels struct {
	Builders, Require []string
	// List is a file of known builders, beside those in this program.
	List   string
	source source
}

// source are the flags of the summaries of the source, and who may sign them.
type source struct {
	files                     []string
	verifier, subject, issuer string
}

// AddFlags adds the flags.
func (l *Levels) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&l.Builders, "builder", nil, "ID=LEVEL: trust provenance of this builder, signed by the signer, up to this level of the SLSA Build track, 0 to 3; repeats. Without the flag, the list of known builders counts (waybill trust builders)")
	f.StringVar(&l.List, "builders", "", "file of kind Builders: builders to know beside those of waybill trust builders")
	f.StringArrayVar(&l.source.files, "source-vsa", nil, "file with a verification summary (VSA) of the source revision; it counts for provenance that names its commit and repository; repeats")
	f.StringVar(&l.source.verifier, "source-verifier", "", "ID=LEVEL: trust this verifier of --source-vsa up to this level of the SLSA Source track, 1 to 4")
	f.StringVar(&l.source.subject, "source-identity", "", "exactly who must have signed --source-vsa: an e-mail address or a URI")
	f.StringVar(&l.source.issuer, "source-oidc-issuer", "", "exactly which identity provider vouched for the signer of --source-vsa")
	f.StringArrayVar(&l.Require, "require-level", nil, "refuse a lower SLSA level: "+levelsOffered+"; repeats")
}

// levelsOffered are the levels that can be required.
const levelsOffered = "build=1 to build=4, source=1 to source=4, or v0.1=1 to v0.1=4, the levels of KEP-3027, which kep-3027=N also names"

// Sources are the flags that name what others say about the source and the
// builder.
type Sources struct{ Summaries, Declarations []string }

// AddFlags adds the flags.
func (s *Sources) AddFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringArrayVar(&s.Summaries, "source-vsa", nil, "file with a verification summary (VSA) of the source revision, by a verifier that the policy lists under sources; it counts for provenance that names its commit and repository. auto: look for those of a release in the git notes ("+git.NotesRef+") of the checkout that verification compares it with, else of the current directory's repository; repeats")
	f.StringArrayVar(&s.Declarations, "declaration", nil, "file with a declaration (waybill policy sign), signed in a role that the policy lists under declares; it counts for provenance that names the repository or builder that it is about; repeats")
}

// Demands parses required levels.
func Demands(list []string) (out []slsa.Demand, err error) {
	for _, text := range list {
		d, err := slsa.ParseDemand(text)
		if err != nil {
			return nil, verdict.Wrap(verdict.Usage, "--require-level", err)
		}
		out = append(out, d)
	}
	return out, nil
}

// levels makes the levels that the gate requires. The signer may sign for every
// builder that is named.
func (l *Levels) levels(signer slsa.Pair, v *verify.Verifier) (out gate.Levels, err error) {
	var pairs []slsa.Pair
	var seen []string
	for _, text := range l.Builders {
		id, level, err := idLevel("--builder", text, 0, 3)
		if err != nil {
			return gate.Levels{}, err
		}
		if slices.Contains(seen, id) {
			return gate.Levels{}, verdict.Refuse(verdict.Usage, "--builder", "%q has two levels", id)
		}
		seen = append(seen, id)
		if level > 0 { // level 0: the builder is not trusted
			signer.BuilderID, signer.Level = id, level
			pairs = append(pairs, signer)
		}
	}
	list, err := KnownBuilders(l.List)
	switch {
	case err != nil:
		return gate.Levels{}, err
	case len(l.Builders) == 0:
		out.Known = func(e verify.Evidence) (slsa.Pair, string) { return list.Find(e) }
	case l.List != "":
		return gate.Levels{}, verdict.Refuse(verdict.Usage, "--builders", "with --builder, only the builders that it names count; leave one of the flags out")
	}
	verifiers, err := l.source.verifiers()
	if err != nil {
		return gate.Levels{}, err
	}
	if out.Sources, err = l.source.read(v); err != nil {
		return gate.Levels{}, err
	}
	if out.Builders, err = slsa.NewTrust(pairs, verifiers); err != nil {
		return gate.Levels{}, verdict.Wrap(verdict.Usage, "--builder", err)
	}
	out.Require, err = Demands(l.Require)
	return out, err
}

// KnownBuilders are those of this program, and of a file if one is named.
func KnownBuilders(path string) (builders.List, error) {
	if path == "" {
		return builders.Read(nil)
	}
	raw, err := store.ReadNamed(path, maxRevocations)
	if err != nil {
		return nil, err
	}
	return builders.Read(raw)
}

// idLevel parses the value of a flag that trusts somebody up to a level of one
// digit.
func idLevel(flag, text string, least, most int) (id string, level int, err error) {
	at := strings.LastIndexByte(text, '=')
	id, level = text[:max(at, 0)], strings.Index("01234"[:most+1], text[at+1:])
	if id == "" || len(text)-at != 2 || level < least {
		return "", 0, verdict.Refuse(verdict.Usage, flag, "%q: want ID=LEVEL, LEVEL %d to %d", text, least, most)
	}
	return id, level, nil
}

// verifiers is the one verifier of sources that is trusted, if the flags name a
// summary. A part of the flags has no effect, and is refused.
func (s source) verifiers() ([]slsa.Verifier, error) {
	if len(s.files) == 0 && s.verifier+s.subject+s.issuer == "" {
		return nil, nil
	}
	if len(s.files) == 0 || s.verifier == "" || s.subject == "" || s.issuer == "" {
		return nil, verdict.Refuse(verdict.Usage, "--source-vsa", "want all of --source-vsa, --source-verifier, --source-identity and --source-oidc-issuer, or none")
	}
	id, level, err := idLevel("--source-verifier", s.verifier, 1, 4)
	if err != nil {
		return nil, err
	}
	named := who{exact: s.subject, issuer: s.issuer}
	m, err := identity.Exact(identity.Identity{Issuer: s.issuer, Subject: s.subject, Type: named.sanType()})
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "--source-identity", err)
	}
	return []slsa.Verifier{{Signer: m, VerifierID: id, Level: level}}, nil
}

func (s source) read(v *verify.Verifier) (list []verify.Evidence, err error) {
	for _, path := range s.files {
		raw, err := store.ReadNamed(path, verify.MaxBundle)
		if err != nil {
			return nil, err
		}
		e, err := v.Attestation(raw)
		if err != nil {
			return nil, verdict.InFile(path, err)
		}
		list = append(list, e)
	}
	return list, nil
}
