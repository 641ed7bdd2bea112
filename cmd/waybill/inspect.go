package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/provenance"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/report/inspect"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func inspectCommand() *cobra.Command {
	format, lint, trusted := "", false, cli.Trust{}
	cmd := newCommand("inspect", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		d, err := describe(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if trusted.File != "" {
			root, err := trusted.Root(cmd.Context())
			if err != nil {
				return err
			}
			v, err := verify.New(root.Root)
			if err == nil {
				err = d.Check(v)
			}
			if err != nil {
				return verdict.InFile(args[0], err)
			}
		}
		var notes []provenance.Note
		if lint {
			notes = d.Lint()
			switch {
			case !d.HasProvenance():
				fmt.Fprintln(cmd.ErrOrStderr(), "lint: not a provenance, so nothing was checked")
			case len(notes) == 0:
				fmt.Fprintln(cmd.ErrOrStderr(), "lint: no contradictions found, which proves nothing")
			}
		}
		return inspect.Write(cmd.OutOrStdout(), inspect.Format(format), d, notes...)
	})
	cmd.Flags().StringVarP(&format, "output", "o", string(inspect.Text), "text or json")
	cmd.Flags().BoolVar(&lint, "lint", false, "list every claim of a provenance that its own content contradicts")
	cmd.Flags().StringVar(&trusted.File, "trusted-root", "", "Sigstore trusted_root.json with the key of a log: verify, offline, the proof that the log contradicted itself")
	return cmd
}

// describe reads the file of this name, or else the image.
func describe(ctx context.Context, name string) (inspect.Document, error) {
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) && strings.Contains(name, "/") && strings.ContainsAny(name, ":@") {
		image, err := cli.Image(name, cli.Transport(false))
		if err != nil {
			return inspect.Document{}, err
		}
		return inspect.OfImage(ctx, image.Source, image.Repository, image.Reference())
	}
	raw, err := store.ReadNamed(name, inspect.MaxSize)
	if err != nil {
		return inspect.Document{}, err
	}
	d, err := inspect.Describe(raw)
	return d, verdict.InFile(name, err)
}
