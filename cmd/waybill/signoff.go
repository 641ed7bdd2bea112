package main

import (
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/govern/signoff"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func signoffCommand() *cobra.Command {
	cmd := group(*newCommand("signoff", nil, nil))
	cmd.AddCommand(signoffCheckCommand(), signoffAttestCommand())
	return cmd
}

// documents are the options to find and check documents.
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
	f.StringVar(&o.template, "template", "", "template whose directives say which sections each stage requires (required)")
	f.StringVar(&o.milestone, "milestone", "", "check the documents that target this milestone, such as v1.37")
	f.StringVar(&o.stage, "stage", "", "check all documents for this stage: alpha, beta or stable (default: the stage in each kep.yaml)")
	f.StringVar(&o.record, "record", "", "file with the approvals, exceptions and freeze dates of the milestone")
	f.StringVar(&o.registry, "registry", "", "list of the feature gates and metrics of the release, to compare with; known: the features of Waybill itself")
	f.StringVar(&o.aliases, "aliases", "", "OWNERS_ALIASES file with prod-readiness-approvers (default: the one in the directory)")
	f.StringArrayVar(&o.hosts, "allow-host", nil, "additional host that links may point to; repeats")
	f.BoolVar(&o.closedHosts, "closed-hosts", false, "refuse links to any other host, not only to hosts with a look-alike name")
	f.StringVar(&o.now, "now", "", "check as of this time (RFC 3339) instead of now")
}

// maxRecord bounds a file that a person writes.
const maxRecord = 256 << 10

// question reads everything to check. It also returns the bytes of the template.
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

// ownFeatures is the value of --registry for the features of this program.
const ownFeatures = "known"

// files reads the optional files.
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
	case ownFeatures:
		at := featureVersion()
		if v, err := version.Parse(withV(o.milestone) + ".0"); err == nil {
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
	root, err := os.OpenRoot(absolute) // links out of the directory are not followed
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

// reviewsAbove looks for the reviews if only a part of the tree was named: they are
// beside the directories of SIGs, at most two directories above an enhancement.
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
	cmd := newCommand("signoff_check", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		q, _, err := o.question()
		if err != nil {
			return err
		}
		v, _ := signoff.Check(q)
		return answer(cmd, output, v, nil)
	})
	cmd.Long = strings.Replace(cmd.Long, "{rules}", signoff.Rules(), 1)
	o.addFlags(cmd)
	output.AddFlags(cmd)
	return cmd
}

// withV is a milestone with its leading v.
func withV(milestone string) string { return "v" + strings.TrimPrefix(milestone, "v") }
