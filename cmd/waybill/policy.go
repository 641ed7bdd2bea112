package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/policy/cel"
	"github.com/waybill-release/waybill/pkg/report/inspect"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxPolicy bounds a policy, and its cases.
const maxPolicy = 1 << 20

// readPolicy reads a policy, and compiles its CEL rules.
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
	cmd := newCommand("policy_lint", cobra.MinimumNArgs(1), func(cmd *cobra.Command, args []string) error {
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
			return verdict.Refuse(verdict.PolicyWeak, "policy", "%s, and --strict allows none", plural.Of(notes, "note")).Advise("do what the notes say, or leave out --strict")
		}
		return nil
	})
	cmd.Flags().StringVarP(&format, "output", "o", string(render.Table), strings.Join(render.PolicyFormats(), " or "))
	cmd.Flags().BoolVar(&strict, "strict", false, "exit with status 2 if there is any note")
	return cmd
}

// lint reads a policy and returns its notes. A list of known defects has none: it
// is only checked to load.
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
	cmd := newCommand("policy_explain", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		p, err := readPolicy(args[0])
		if err != nil {
			return err
		}
		text := render.PolicyText{Name: p.Name(), Digest: p.Digest(), Sections: policy.Explain(p)}
		if overriders {
			text.Sections = []policy.Section{{Title: "Who can bypass it", Lines: policy.Overriders(p)}}
		}
		return render.Explain(cmd.OutOrStdout(), render.Format(format), text)
	})
	cmd.Flags().StringVarP(&format, "output", "o", string(render.Table), strings.Join(render.PolicyFormats(), " or "))
	cmd.Flags().BoolVar(&overriders, "overriders", false, "print only who can bypass what")
	return cmd
}

func policyTestCommand() *cobra.Command {
	var format, cases string
	cmd := newCommand("policy_read_test", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
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
			return verdict.Refuse(verdict.PolicyCases, p.Name(), "%d of %d cases were not answered as expected", n, len(report.Cases))
		}
		return nil
	})
	cmd.Flags().StringVar(&cases, "cases", "", "file with the cases (default: the name of the policy with .txtar)")
	cmd.Flags().StringVarP(&format, "output", "o", string(render.Table), strings.Join(render.CaseFormats(), ", "))
	return cmd
}

func policyCommand() *cobra.Command {
	cmd := group(*newCommand("policy", nil, nil))
	cmd.AddCommand(policyLintCommand(), policyExplainCommand(), policyTestCommand(), policySignCommand(), policyExceptCommand())
	return cmd
}

// rules compiles the CEL rules of policies. The CEL engine is created with the first
// rule.
func rules() policy.Compiler { return lazyRules{} }

type lazyRules struct{}

func (lazyRules) Compile(expression string) (policy.Expression, error) {
	engine, err := cel.New()
	if err != nil {
		return nil, err
	}
	return engine.Compile(expression)
}
