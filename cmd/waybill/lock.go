package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func lockCommand() *cobra.Command {
	var dir, profileName string
	var bases, tools, platforms []string
	confirm, check := false, false
	cmd := newCommand("lock", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		u := lock.Update{Dir: dir, Platforms: platforms, Transport: cli.Transport(false)}
		if check && confirm {
			return verdict.Refuse(verdict.Usage, "--check", "it writes nothing; leave out --check or --confirm")
		} else if check {
			return checkLock(cmd, u)
		}
		var err error
		if u.Bases, err = assignments("--base", bases); err != nil {
			return err
		}
		if u.Tools, err = assignments("--tool", tools); err != nil {
			return err
		}
		if profileName != "" {
			if u.Verify, err = verifyPins(cmd, profileName); err != nil {
				return err
			}
		}
		change, err := u.Find(cmd.Context())
		if err != nil {
			return answer(cmd, cli.TableOutput(), nil, err)
		}
		return writeLock(cmd, change, confirm)
	})
	cmd.Long += "\n\nWith --check, 1 says that the lock differs."
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".", "directory of release.yaml")
	f.StringArrayVar(&bases, "base", nil, "NAME=REFERENCE: where to find a base image: HOST/REPOSITORY:TAG, HOST/REPOSITORY@sha256:… or oci:DIRECTORY; repeats")
	f.StringArrayVar(&tools, "tool", nil, "NAME=REFERENCE: where to find a tool: a program in PATH, or an image as for --base; repeats")
	f.StringVar(&profileName, "profile", "", "profile whose policy says by its inputs who must have signed what is pinned, and at which level; without it nothing is verified")
	f.StringArrayVar(&platforms, "platform", nil, "OS/ARCH: pin programs for machines of these platforms; default: those that the lock has; repeats")
	f.BoolVar(&check, "check", false, "only compare the lock with release.yaml, the module files and the programs of this machine; exit 1 if it differs")
	f.BoolVar(&confirm, "confirm", false, "write release.lock.yaml; without it, only print the differences")
	return cmd
}

func checkLock(cmd *cobra.Command, u lock.Update) error {
	v, err := u.Judge(time.Now())
	if err != nil {
		return err
	}
	if len(v.Findings) > 0 {
		return answer(cmd, cli.TableOutput(), v, nil)
	}
	fmt.Fprintln(cmd.OutOrStdout(), "release.lock.yaml is up to date")
	return nil
}

// verifyPins opens the gate of a profile, which verifies what the lock pins.
func verifyPins(cmd *cobra.Command, path string) (func(context.Context, plan.Lock) error, error) {
	ctx := cmd.Context()
	by, err := gate.Open(ctx, path, gate.Opening{
		Reader:    profile.Reader{Rules: rules(), Now: time.Now(), Trust: (&cli.Trust{}).Reader(ctx)},
		Transport: cli.Transport(false), OpenPlace: cloud.OpenPlace,
	})
	if err != nil {
		return nil, err
	}
	if _, judges := by.Profile().Policy.JudgesInputs(); !judges {
		return nil, verdict.Refuse(verdict.Usage, "--profile", "the policy %q has no inputs, so nothing would be verified; add them, or leave the flag out", by.Profile().Policy.Name())
	}
	return func(ctx context.Context, pins plan.Lock) error {
		lines, err := by.Inputs(ctx, pins, time.Now())
		for _, line := range lines {
			fmt.Fprintln(cmd.OutOrStdout(), render.Safe(line))
		}
		return err
	}, nil
}

func writeLock(cmd *cobra.Command, change lock.Change, confirm bool) error {
	w := cmd.OutOrStdout()
	for _, line := range change.Lines {
		fmt.Fprintln(w, render.Safe(line))
	}
	switch {
	case change.IsEmpty():
		fmt.Fprintln(w, "release.lock.yaml is up to date")
		return nil
	case !confirm:
		fmt.Fprintln(w, "\nnothing was written; add --confirm to write release.lock.yaml")
		return nil
	}
	if err := change.Write(); err != nil {
		return err
	}
	fmt.Fprintln(w, "\nwrote release.lock.yaml; review it and commit it with release.yaml")
	return nil
}
