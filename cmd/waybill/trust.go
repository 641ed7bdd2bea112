package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/tuf"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// maxTUFRoot bounds the file of trust init --root.
const maxTUFRoot = 512_000

func trustCommand() *cobra.Command {
	cmd := group(*newCommand("trust", nil, nil))
	cmd.AddCommand(trustShowCommand(), trustInitCommand(), trustUpdateCommand(), trustExportCommand(), trustBuildersCommand())
	return cmd
}

func trustShowCommand() *cobra.Command {
	o := &cli.Trust{}
	var output string
	cmd := newCommand("trust_show", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		r, err := o.Root(cmd.Context())
		if err != nil {
			return err
		}
		return r.Write(cmd.OutOrStdout(), render.Format(output))
	})
	o.AddFlags(cmd)
	o.AddChoice(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", string(render.Table), "table or json")
	return cmd
}

func trustInitCommand() *cobra.Command {
	o := &cli.Trust{}
	from := &repository{}
	cmd := newCommand("trust_init", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
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
	})
	o.AddFlags(cmd)
	cmd.Flags().StringVar(&from.url, "tuf", "", "address of the repository: https, or http on loopback")
	cmd.Flags().StringVar(&from.root, "root", "", "initial root metadata of the repository at --tuf")
	cmd.Flags().BoolVar(&from.staging, "staging", false, "use the staging instance of Sigstore, for tests")
	cmd.Flags().BoolVar(&from.publicGood, "public-good", false, "use the public-good instance of Sigstore, which is the default")
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
		return tuf.Source{}, verdict.Refuse(verdict.Usage, "trust init", "want --tuf and --root, or only --staging, or only --public-good")
	}
	raw, err := store.ReadNamed(r.root, maxTUFRoot)
	return tuf.Source{URL: r.url, Root: raw}, err
}

func trustUpdateCommand() *cobra.Command {
	o := &cli.Trust{}
	cmd := newCommand("trust_update", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		c, err := o.Remembered(cli.Transport(false))
		if err != nil {
			return err
		}
		t, err := tuf.Refresh(cmd.Context(), c)
		return reportFetched(cmd, c, t, err)
	})
	o.AddFlags(cmd)
	return cmd
}

// reportFetched prints the fetched trust root, and what was rebuilt in the cache.
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
	cmd := newCommand("trust_export", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
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
		fmt.Fprint(cmd.OutOrStdout(), r.Root.Digest())
		if !r.Date.IsZero() { // a file does not contain its age
			fmt.Fprint(cmd.OutOrStdout(), " ", r.Date.UTC().Format(time.DateOnly))
		}
		fmt.Fprintln(cmd.OutOrStdout())
		return nil
	})
	o.AddFlags(cmd)
	o.AddChoice(cmd)
	cmd.Flags().StringVar(&output, "output", "", "file to write (default: standard output)")
	return cmd
}

func trustBuildersCommand() *cobra.Command {
	var file string
	cmd := newCommand("trust_builders", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error {
		list, err := cli.KnownBuilders(file)
		if err != nil {
			return err
		}
		out := json.NewEncoder(cmd.OutOrStdout())
		out.SetIndent("", "  ")
		return out.Encode(list)
	})
	cmd.Flags().StringVar(&file, "builders", "", "file of kind Builders: builders to add")
	return cmd
}

// writeWhole writes a file to an existing directory, whole or not at all.
func writeWhole(ctx context.Context, path string, raw []byte) error {
	if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() {
		return verdict.Refuse(verdict.Usage, path, "there is no directory %q to write it to; create it first", filepath.Dir(path))
	}
	w, err := store.OpenWriter(filepath.Dir(path))
	if err != nil {
		return verdict.Wrap(verdict.Usage, path, err)
	}
	return w.Put(ctx, filepath.Base(path), int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}
