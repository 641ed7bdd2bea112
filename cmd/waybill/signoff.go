package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func signoffCommand() *cobra.Command {
	cmd := group(cobra.Command{
		Use:     "signoff",
		Short:   "Check the documents of a release, and sign it off",
		GroupID: "check",
		Long: `An enhancement has a document that follows a template, a kep.yaml, and where
production readiness was reviewed a file that says by whom. These commands hold
them against what their stage requires, and sign that they did, bound to the
release.yaml that the build reads. A policy can require such a sign-off.

` + exit.Table,
	})
	cmd.AddCommand(signoffCheckCommand(), signoffAttestCommand())
	return cmd
}

// documents are the options by which documents are found and judged.
type documents struct {
	keps, template   string
	milestone, stage string
	record, registry string
	aliases, now     string
	hosts            []string
	closedHosts      bool
}

func (o *documents) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.keps, "keps", "", "directory with the enhancements, or one enhancement (required)")
	f.StringVar(&o.template, "template", "", "template whose directives say what is required from which stage on (required)")
	f.StringVar(&o.milestone, "milestone", "", "judge the documents that target this milestone, as v1.37")
	f.StringVar(&o.stage, "stage", "", "judge all at this stage: alpha, beta or stable (default: what each kep.yaml claims)")
	f.StringVar(&o.record, "record", "", "file of approvals, dated exceptions and freezes of the milestone")
	f.StringVar(&o.registry, "registry", "", "list of the feature gates and metrics that the release has, to compare with; known: the features of Waybill itself")
	f.StringVar(&o.aliases, "aliases", "", "file that lists prod-readiness-approvers (default: OWNERS_ALIASES in the directory)")
	f.StringArrayVar(&o.hosts, "allow-host", nil, "host that links may lead to besides the canonical ones; repeats")
	f.BoolVar(&o.closedHosts, "closed-hosts", false, "refuse links to all other hosts, not just to those that look like one")
	f.StringVar(&o.now, "now", "", "judge as of this time (RFC 3339) instead of the clock's")
}

// maxRecord bounds a file of a person's.
const maxRecord = 256 << 10

// question reads everything that is judged. The template is handed back as it
// is.
func (o *documents) question() (q signoff.Question, template []byte, err error) {
	for _, required := range []struct{ flag, value string }{{"--keps", o.keps}, {"--template", o.template}} {
		if required.value == "" {
			return q, nil, verdict.Refuse(verdict.Usage, required.flag, "required")
		}
	}
	q.Milestone, q.Now = o.milestone, time.Now()
	if q.Milestone != "" && !signoff.IsMilestone(q.Milestone) {
		return q, nil, verdict.Refuse(verdict.Usage, "--milestone", "%q, want one such as v1.37", q.Milestone)
	}
	if o.now != "" {
		if q.Now, err = time.Parse(time.RFC3339, o.now); err != nil {
			return q, nil, verdict.Refuse(verdict.Usage, "--now", "%q, want a time such as 2026-01-31T12:00:00Z", o.now)
		}
	}
	if o.stage != "" {
		if q.Stage, err = signoff.ParseStage(o.stage); err != nil {
			return q, nil, err
		}
	}
	if q.Hosts, err = signoff.NewHosts(o.hosts, o.closedHosts); err != nil {
		return q, nil, err
	}
	if template, err = store.ReadNamed(o.template, signoff.MaxDocument); err != nil {
		return q, nil, err
	}
	if q.Template, err = signoff.ParseTemplate(template); err != nil {
		return q, nil, verdict.InFile(o.template, err)
	}
	if err := o.files(&q); err != nil {
		return q, nil, err
	}
	q.Set, err = o.set()
	return q, template, err
}

// ourselves names the registry of this program's own features.
const ourselves = "known"

// files reads the files that may be given besides.
func (o *documents) files(q *signoff.Question) error {
	if o.record != "" {
		raw, err := store.ReadNamed(o.record, maxRecord)
		if err != nil {
			return err
		}
		if q.Record, err = signoff.ParseRecord(raw); err != nil {
			return verdict.InFile(o.record, err)
		}
	}
	switch o.registry {
	case "":
		return nil
	case ourselves:
		at := featureVersion()
		if v, err := version.Parse(normal(o.milestone) + ".0"); err == nil {
			at = v
		}
		q.Registry = signoff.Features(known.Registry(), at)
		return nil
	}
	raw, err := store.ReadNamed(o.registry, maxRecord)
	if err != nil {
		return err
	}
	q.Registry, err = signoff.ParseRegistry(raw)
	return verdict.InFile(o.registry, err)
}

func (o *documents) set() (*signoff.Set, error) {
	absolute, err := filepath.Abs(o.keps)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, "--keps", err)
	}
	root, err := os.OpenRoot(absolute) // links that leave the directory are not followed
	if err != nil {
		return nil, verdict.Refuse(verdict.Usage, "--keps", "%q: there is no such directory", o.keps)
	}
	defer root.Close()
	set, err := signoff.Read(root.FS(), filepath.Base(absolute))
	if err != nil {
		return nil, err
	}
	if err := reviewsAbove(set, absolute); err != nil || o.aliases == "" {
		return set, err
	}
	raw, err := store.ReadNamed(o.aliases, maxRecord)
	if err != nil {
		return nil, err
	}
	set.Reviewers, err = signoff.ParseAliases(raw)
	return set, verdict.InFile(o.aliases, err)
}

// reviewsAbove looks for the reviews of a part of a tree: they lie beside the
// directories of SIGs, so at most two directories above one enhancement.
func reviewsAbove(set *signoff.Set, directory string) error {
	top := ".."
	for above := filepath.Dir(directory); set.LacksReviews(); above = filepath.Dir(above) {
		root, err := os.OpenRoot(above)
		if err != nil {
			return verdict.Wrap(verdict.PlaceDown, above, err)
		}
		found, err := set.ReadReviews(root.FS(), top)
		_ = root.Close() // it was read only
		if err != nil || found || top != ".." {
			return err
		}
		top = "../.."
	}
	return nil
}

func signoffCheckCommand() *cobra.Command {
	o, output := &documents{}, &cli.Output{}
	cmd := &cobra.Command{
		Use:   "check --keps DIR --template FILE --milestone v1.37",
		Short: "Hold the documents of a release against what their stage requires",
		Long: `Read every enhancement below a directory, and say what stands against it at the
stage that it claims:

` + signoff.Rules() + `
Stages are cumulative. An exception in the record sets one kind of finding about
one section or file aside until a day; the document's approvers give it, never
its authors, at most 3 days after the freeze that closes the matter. The verdict
names it. Ticks of the checklist are shown as claims, and refuse only where they
are not so. An approval is of README.md and kep.yaml as they are; the line that
the record needs is printed as a note, and where one is lacking as its fix.

Production readiness is looked up in prod-readiness/SIG/NUMBER.yaml of the
directory; for one enhancement, or those of one SIG, beside the directories of
SIGs above it. The page of pkg/govern/signoff shows the form of the record and of the
registry; --registry known is the table of features that this program has.

` + exit.Table,
		Example: `  waybill signoff check --keps enhancements --template template.md --milestone v1.37
  waybill signoff check --keps keps/sig-release/7001-lantern --template template.md --stage beta --aliases OWNERS_ALIASES --output json
  waybill signoff check --keps pkg/govern/signoff/enhancements --template pkg/govern/signoff/enhancements/template.md --milestone v0.1 --registry known`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := output.Check(); err != nil {
				return err
			}
			q, _, err := o.question()
			if err != nil {
				return err
			}
			v, _ := signoff.Check(q)
			return answer(cmd, output, v, nil)
		},
	}
	o.addFlags(cmd)
	output.AddFlags(cmd)
	return cmd
}

// normal is a milestone as it is written.
func normal(milestone string) string { return "v" + strings.TrimPrefix(milestone, "v") }
