package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/waybill/deploy"
	"github.com/waybill-release/waybill/pkg/pipeline/start"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

type initOptions struct {
	start.Request
	from           string
	force, confirm bool
}

func initCommand() *cobra.Command {
	o := &initOptions{Request: start.Request{Workflows: deploy.Workflows}}
	cmd := newCommand("init", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd) })
	f := cmd.Flags()
	f.StringVar(&o.Dir, "dir", ".", "top of the Go module")
	f.StringVar(&o.Lab, "lab", "", "directory of a running lab (waybill-lab up --dir DIR), whose services sign")
	f.StringVar(&o.GitHub, "github", "", "OWNER/REPO: release with workflows of this repository on GitHub, and write them (default: from the git remote, without workflows)")
	f.StringVar(&o.Place, "place", "", "address where users will find the files, ending in {version}/ (default: from the git remote)")
	f.StringVar(&o.from, "from", "", "goreleaser: take over .goreleaser.yaml")
	f.BoolVar(&o.force, "force", false, "replace files with other content; shows the difference, and replaces them with --confirm")
	f.BoolVar(&o.confirm, "confirm", false, "write the files; without it, only print them")
	return cmd
}

func (o *initOptions) run(cmd *cobra.Command) error {
	if o.from != "" && o.from != "goreleaser" {
		return verdict.Refuse(verdict.Usage, "--from", "%q: want goreleaser", o.from)
	}
	o.Convert = o.from != ""
	set, err := start.Prepare(cmd.Context(), o.Request)
	if err != nil {
		return err
	}
	if !o.force {
		if err := set.Check(); err != nil {
			return err
		}
	}
	out, notes := cmd.OutOrStdout(), cmd.ErrOrStderr()
	switch {
	case o.force:
		diff, err := set.Diff(cmd.Context())
		if err != nil {
			return err
		}
		fmt.Fprint(out, diff)
	case !o.confirm:
		for _, f := range set.Files {
			if f.State() == "new" {
				fmt.Fprintf(out, "# --- %s\n%s", f.Name, f.Text)
			}
		}
	}
	fmt.Fprintln(notes)
	for _, f := range set.Files {
		fmt.Fprintf(notes, "%-15s  %s\n", f.State(), f.Name)
	}
	for _, n := range set.Notes {
		fmt.Fprintf(notes, "note: %s\n", render.Safe(n))
	}
	locked := lock.Update{Dir: o.Dir, Bases: set.Bases, Transport: cli.Transport(false)}
	if !o.confirm && set.Writes(o.force) {
		fmt.Fprintf(notes, "nothing was written; add --confirm to write these files and %s\n", plan.LockName)
		return nil
	}
	if o.confirm {
		if err := set.Write(o.force); err != nil {
			return err
		}
	}
	return o.lock(cmd, locked, set.Writes(o.force))
}

// lock pins what release.yaml names, and says what to do next.
func (o *initOptions) lock(cmd *cobra.Command, u lock.Update, wrote bool) error {
	notes := cmd.ErrOrStderr()
	change, err := u.Find(cmd.Context())
	if err != nil {
		return fmt.Errorf("the files are written, but %s is not: %w", plan.LockName, err)
	}
	switch {
	case change.IsEmpty() && !wrote:
		fmt.Fprintf(notes, "%-15s  %s\nnothing to do: every file is there, and none was changed\n", "unchanged", plan.LockName)
		return nil
	case !o.confirm:
		fmt.Fprintf(notes, "nothing was written; add --confirm to write %s\n", plan.LockName)
		return nil
	case !change.IsEmpty():
		if err := change.Write(); err != nil {
			return err
		}
		fmt.Fprintf(notes, "%-15s  %s: %s\n", "pinned", plan.LockName, strings.Join(change.Lines, "; "))
	}
	next := "waybill release v0.1.0 --confirm"
	if o.GitHub != "" {
		next = "git push origin v0.1.0"
	}
	fmt.Fprintf(notes, "next: git add --all && git commit -m release && git tag v0.1.0 && %s\n", next)
	return nil
}
