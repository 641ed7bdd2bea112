package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/report/inspect"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPolicy bounds a policy and the cases beside it.
const maxPolicy = 1 << 20

// readPolicy reads a policy with the rules that it may have.
func readPolicy(path string) (policy.Policy, error) {
	raw, err := store.ReadNamed(path, maxPolicy)
	if err != nil {
		return policy.Policy{}, err
	}
	p, err := policy.Parse(raw, rules())
	return p, verdict.InFile(path, err)
}

func policyLintCommand() *cobra.Command {
	strict, format := false, ""
	cmd := &cobra.Command{
		Use:   "lint FILE…",
		Short: "Say whether policies load, and what in them may not be meant",
		Long: `Load policies and print what loads and may still not be what was meant: no
expiry, patterns of identities, parameters that nobody checks, what is not asked
for. A policy that does not load names line and column, and ends with status 2.
A list of known defects is read too.

` + exit.Table,
		Example: `  waybill policy lint policy.yaml
  waybill policy lint --strict policies/*.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			notes := 0
			var all []render.Linted
			for _, path := range args {
				found, err := lint(path)
				if err != nil {
					return err // it names the path
				}
				all, notes = append(all, render.Linted{File: path, Notes: found}), notes+len(found)
			}
			if err := render.Lint(cmd.OutOrStdout(), render.Format(format), all); err != nil {
				return err
			}
			if strict && notes > 0 {
				return verdict.Refuse(verdict.PolicyWeak, "policy", "%s, and --strict was given", plural.Of(notes, "note"))
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", string(render.Table), strings.Join(render.PolicyFormats(), " or "))
	cmd.Flags().BoolVar(&strict, "strict", false, "end with status 2 if there is anything to say")
	return cmd
}

// lint reads a policy, or a list of known defects, of which there is nothing
// to say but that it loads.
func lint(path string) ([]string, error) {
	raw, err := store.ReadNamed(path, maxPolicy)
	if err != nil {
		return nil, err
	}
	if d, err := inspect.Describe(raw); err == nil && d.Kind == inspect.KnownDefects {
		return nil, nil
	}
	p, err := policy.Parse(raw, rules())
	if err != nil {
		return nil, verdict.InFile(path, err)
	}
	return policy.Lint(p), nil
}

func policyExplainCommand() *cobra.Command {
	var format string
	overriders := false
	cmd := &cobra.Command{
		Use:   "explain FILE",
		Short: "Say in plain words what a policy demands, and who can get past it",
		Long: `Print what a policy demands, with the code of each refusal, what it does not ask
for, and who could make it accept what.

` + exit.Table,
		Example: `  waybill policy explain policy.yaml
  waybill policy explain --overriders policy.yaml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPolicy(args[0])
			if err != nil {
				return err
			}
			text := render.PolicyText{Name: p.Name(), Digest: p.Digest(), Sections: policy.Explain(p)}
			if overriders {
				text.Sections = []policy.Section{{Title: "Who can get past it", Lines: policy.Overriders(p)}}
			}
			return render.Explain(cmd.OutOrStdout(), render.Format(format), text)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", string(render.Table), strings.Join(render.PolicyFormats(), " or "))
	cmd.Flags().BoolVar(&overriders, "overriders", false, "print only who can get past what")
	return cmd
}

func policyTestCommand() *cobra.Command {
	var format, cases string
	cmd := &cobra.Command{
		Use:   "test FILE",
		Short: "Rehearse a policy with the cases beside it",
		Long: `Ask a policy about made-up evidence and compare its answers with those that the
cases expect. The cases of policy.yaml are in policy.txtar: one after the other,
refusals first, and at least one that is accepted. A case says what it wants,
what is asked, and what was said by whom; or which case it is like, and what is
set otherwise or left out. A rehearsal proves nothing about any artifact.

` + exit.Table,
		Example: `  waybill policy test policy.yaml
  waybill policy test policy.yaml --cases mine.txtar --output junit`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPolicy(args[0])
			if err != nil {
				return err
			}
			if cases == "" {
				cases = strings.TrimSuffix(args[0], ".yaml") + ".txtar"
			}
			raw, err := store.ReadNamed(cases, maxPolicy)
			if err != nil {
				return err
			}
			report, err := policy.Rehearse(p, raw)
			if err != nil {
				return err
			}
			if err := render.Cases(cmd.OutOrStdout(), render.Format(format), report); err != nil {
				return err
			}
			if n := report.Failed(); n > 0 {
				return verdict.Refuse(verdict.PolicyCases, p.Name(), "%d of %d cases were answered otherwise than expected", n, len(report.Cases))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&cases, "cases", "", "the cases (default: the policy's name with .txtar)")
	cmd.Flags().StringVarP(&format, "output", "o", string(render.Table), strings.Join(render.CaseFormats(), ", "))
	return cmd
}
