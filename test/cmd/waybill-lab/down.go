package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"
	"github.com/waybill-release/waybill/test/lab"
)

func newDown() *cobra.Command {
	var dir string
	cmd := &cobra.Command{
		Use:     "down --dir DIR",
		Short:   "Stop the lab that runs in a directory, and wait for it",
		Long:    "Stop the lab that runs in DIR and wait until nothing of it is left running.\n" + exitHelp,
		Example: `  waybill-lab down --dir lab`,
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			return lab.Down(ctx, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "directory of the running lab")
	return cmd
}
