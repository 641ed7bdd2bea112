package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxTUFRoot bounds the file that trust init is given.
const maxTUFRoot = 512_000

func trustCommand() *cobra.Command {
	cmd := group(cobra.Command{
		Use:     "trust",
		Short:   "Show, fetch and carry the trust root",
		GroupID: "carry",
		Long: `A trust root names whose certificates, logs and timestamps are believed, and in
which time. It comes from a file, from a repository through TUF, or from the
copy of the public-good root that this program carries. A repository that does
not answer is never a reason to use an older root quietly.`,
	})
	cmd.AddCommand(trustShowCommand(), trustInitCommand(), trustUpdateCommand(), trustExportCommand())
	return cmd
}

func trustShowCommand() *cobra.Command {
	o := &cli.Trust{}
	var output string
	cmd := &cobra.Command{
		Use:   "show",
		Short: "Print whom a trust root believes, about what and when",
		Long: `Print the digest of the trust root, where it comes from, how old it is, and
every authority in it with the time in which it is believed. Nobody is asked:
without --trusted-root or --offline it is what the last trust update fetched,
verified again from the initial root.

` + exit.Table,
		Example: `  waybill trust show
  waybill trust show --offline
  waybill trust show --trusted-root trusted_root.json --output json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := o.Root(cmd.Context())
			if err != nil {
				return err
			}
			return r.Write(cmd.OutOrStdout(), render.Format(output))
		},
	}
	o.AddFlags(cmd)
	o.AddChoice(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", string(render.Table), "table or json")
	return cmd
}

func trustInitCommand() *cobra.Command {
	o := &cli.Trust{}
	from := &repository{}
	cmd := &cobra.Command{
		Use:   "init {--tuf URL --root FILE | --staging | --public-good}",
		Short: "Take trust from a repository of your own from now on",
		Long: `Fetch the trust root from the TUF repository at URL, believing it from the root
metadata in FILE, and remember both. FILE must have come to you by a way that
you trust: everything else is verified from it. What was remembered of another
repository is forgotten. If the repository does not prove itself, nothing
changes.

The public-good instance of Sigstore, which is believed where no other was
chosen, and its staging instance are known without an address: --public-good
and --staging. What staging certifies, anybody may have certified.

` + exit.Table,
		Example: `  waybill trust init --tuf https://tuf.example.test --root 1.root.json
  waybill trust init --tuf http://127.0.0.1:8080 --root lab/root.json --cache lab/trust
  waybill trust init --staging --cache staging/trust`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			source, err := from.source()
			if err != nil {
				return err
			}
			c, err := o.Config(cli.Transport(false))
			if err != nil {
				return err
			}
			c.URL, c.Root = source.URL, source.Root
			t, err := tuf.Init(cmd.Context(), c)
			return reportFetched(cmd, c, t, err)
		},
	}
	o.AddFlags(cmd)
	cmd.Flags().StringVar(&from.url, "tuf", "", "address of the repository: https, or http on loopback")
	cmd.Flags().StringVar(&from.root, "root", "", "initial root metadata of the repository at --tuf")
	cmd.Flags().BoolVar(&from.staging, "staging", false, "the staging instance of Sigstore, for trying things out")
	cmd.Flags().BoolVar(&from.publicGood, "public-good", false, "the public-good instance of Sigstore, as if no other had been chosen")
	return cmd
}

// repository is the choice of trust init.
type repository struct {
	url, root  string
	staging    bool
	publicGood bool
}

// source is the one repository that was chosen.
func (r *repository) source() (tuf.Source, error) {
	switch *r {
	case repository{staging: true}:
		return tuf.Staging(), nil
	case repository{publicGood: true}:
		return tuf.PublicGood(), nil
	}
	if r.url == "" || r.root == "" || r.staging || r.publicGood {
		return tuf.Source{}, verdict.Refuse(verdict.Usage, "trust init", "want --tuf and --root, or --staging alone, or --public-good alone")
	}
	raw, err := store.ReadNamed(r.root, maxTUFRoot)
	return tuf.Source{URL: r.url, Root: raw}, err
}

func trustUpdateCommand() *cobra.Command {
	o := &cli.Trust{}
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Fetch the newest trust root",
		Long: `Ask the repository that trust init named, or the public-good one, for its newest
trust root, and remember it. An older state than was seen before is refused;
expired or badly signed metadata is refused; a repository that does not answer
is unavailable. None of them changes what is believed.

` + exit.Table,
		Example: `  waybill trust update
  waybill trust update --cache lab/trust`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := o.Remembered(cli.Transport(false))
			if err != nil {
				return err
			}
			t, err := tuf.Refresh(cmd.Context(), c)
			return reportFetched(cmd, c, t, err)
		},
	}
	o.AddFlags(cmd)
	return cmd
}

// reportFetched prints what a refresh brought, and what it mended.
func reportFetched(cmd *cobra.Command, c tuf.Config, t tuf.Targets, err error) error {
	if err != nil {
		return err
	}
	for _, note := range t.Notes() {
		fmt.Fprintf(cmd.ErrOrStderr(), "rebuilt: %s\n", render.Safe(note))
	}
	r, err := cli.Fetched(c, t)
	if err != nil {
		return err
	}
	return r.Headline(cmd.OutOrStdout())
}

func trustExportCommand() *cobra.Command {
	o := &cli.Trust{}
	var output string
	cmd := &cobra.Command{
		Use:   "export [--output FILE]",
		Short: "Write the trust root to a file, to carry it elsewhere",
		Long: `Write the trust root that the last trust update fetched, byte for byte, and print
its digest. Where it arrives, give it with --trusted-root; compare the digest by
another way than the file takes.

` + exit.Table,
		Example: `  waybill trust export --output trusted_root.json
  waybill trust export --offline > trusted_root.json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			r, err := o.Root(cmd.Context())
			if err != nil {
				return err
			}
			raw := r.Root.Raw()
			if output == "" {
				_, err := cmd.OutOrStdout().Write(raw)
				return err
			}
			if err := writeWhole(cmd.Context(), output, raw); err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s %s\n", r.Root.Digest(), r.Date.UTC().Format(time.DateOnly))
			return nil
		},
	}
	o.AddFlags(cmd)
	o.AddChoice(cmd)
	cmd.Flags().StringVar(&output, "output", "", "file to write; default is standard output")
	return cmd
}

// writeWhole writes a file at once or not at all, into a directory that is there.
func writeWhole(ctx context.Context, path string, raw []byte) error {
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return verdict.Refuse(verdict.Usage, path, "there is no directory %q to write it into; make it first", filepath.Dir(path))
	}
	w, err := store.OpenWriter(filepath.Dir(path))
	if err != nil {
		return verdict.Wrap(verdict.Usage, path, err)
	}
	return w.Put(ctx, filepath.Base(path), int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}
