package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/release/plan"
	first "github.com/waybill-release/waybill/pkg/release/plan/draft"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func initCommand() *cobra.Command {
	dir, confirm := ".", false
	cmd := &cobra.Command{
		Use:     "init",
		Short:   "Write the first release.yaml of a Go project",
		GroupID: "release",
		Long: `Find go.mod and the programs of the module, and write a release.yaml that compiles
each of them for the usual platforms and packs them into archives. The steps see Go
and nothing else of the machine (root: scratch), so they do not support cgo: for
that, add a step with a C compiler as a tool. Modules that are in go.sum and not in
vendor are fetched before the build. Edit the result as needed. An existing
release.yaml is never overwritten.

` + exit.Table("release.yaml was written; without --confirm: it was printed"),
		Example: `  waybill init
  waybill init --dir ./lantern --confirm`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			path := filepath.Join(dir, plan.ConfigName)
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				return verdict.Refuse(verdict.Usage, path, "already exists and is never overwritten; edit it, or move it away")
			}
			p, err := first.Discover(os.DirFS(dir))
			if err != nil {
				return err
			}
			raw := p.Write()
			if _, err := plan.ParseConfig(raw); err != nil {
				return fmt.Errorf("the release.yaml that would be written is not valid: %w", err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s", raw)
			if !confirm {
				fmt.Fprintf(cmd.ErrOrStderr(), "\nnothing was written; add --confirm to write %s\n", path)
				return nil
			}
			if err := writeNew(path, raw); err != nil {
				return err
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "\nwrote %s; next: waybill lock --dir %s --confirm, then waybill plan v0.1.0 --dir %s\n", path, dir, dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "top of the Go module")
	cmd.Flags().BoolVar(&confirm, "confirm", false, "write release.yaml; without it, only print it")
	return cmd
}

// writeNew writes a file that must not exist yet.
func writeNew(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(raw)
	return errors.Join(err, f.Sync(), f.Close())
}
