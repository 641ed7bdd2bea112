package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/produce/lock"
	"github.com/waybill-release/waybill/pkg/report/render"
)

func lockCommand() *cobra.Command {
	var dir string
	var bases, tools []string
	confirm := false
	cmd := &cobra.Command{
		Use:     "lock",
		Short:   "Pin everything that release.yaml names, by digest",
		GroupID: "release",
		Long: `Find the digest of every base image, tool, Go module and download that
release.yaml names, show the differences from release.lock.yaml, and with --confirm
write it. --base and --tool say where to look a name up; the lock records that for
the next run. By default a tool is the program of that name in PATH. Downloads are
fetched and hashed each time, and not kept.

` + exit.Table("release.lock.yaml is up to date or was written;\nwithout --confirm: the differences were printed"),
		Example: `  waybill lock --base static=registry.example.test/base/static:v1
  waybill lock --tool cross=registry.example.test/build/cross:v1.31 --confirm`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			u := lock.Update{Dir: dir, Transport: cli.Transport(false)}
			var err error
			if u.Bases, err = assignments("--base", bases); err != nil {
				return err
			}
			if u.Tools, err = assignments("--tool", tools); err != nil {
				return err
			}
			change, err := u.Find(cmd.Context())
			if err != nil {
				return err
			}
			return writeLock(cmd, change, confirm)
		},
	}
	f := cmd.Flags()
	f.StringVar(&dir, "dir", ".", "directory of release.yaml")
	f.StringArrayVar(&bases, "base", nil, "NAME=REFERENCE: where to find a base image: HOST/REPOSITORY:TAG, HOST/REPOSITORY@sha256:… or oci:DIRECTORY; repeats")
	f.StringArrayVar(&tools, "tool", nil, "NAME=REFERENCE: where to find a tool: a program in PATH, or an image as for --base; repeats")
	f.BoolVar(&confirm, "confirm", false, "write release.lock.yaml; without it, only print the differences")
	return cmd
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
