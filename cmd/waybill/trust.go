package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/render"
	"github.com/waybill-release/waybill/pkg/store"
	"github.com/waybill-release/waybill/pkg/trust"
	"github.com/waybill-release/waybill/pkg/tuf"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// maxTUFRoot bounds the file that trust init is given.
const maxTUFRoot = 512_000

// trustSource are the options of every command about trust roots.
type trustSource struct {
	cache   string
	file    string
	offline bool
	moment  cli.Moment
}

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

func (o *trustSource) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.cache, "cache", "", "directory in which trust is remembered (default waybill/trust in the user's cache directory)")
	o.moment.AddFlags(cmd)
}

func (o *trustSource) addChoice(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.file, "trusted-root", "", "Sigstore trusted_root.json to believe, instead of what was fetched")
	cmd.Flags().BoolVar(&o.offline, "offline", false, "believe the public-good copy that this program carries, instead of what was fetched")
}

// config is how TUF is asked: the source that the cache remembers, as of now.
func (o *trustSource) config(t http.RoundTripper) (tuf.Config, error) {
	now, err := o.moment.Time()
	if err != nil {
		return tuf.Config{}, err
	}
	if o.cache == "" {
		dir, err := os.UserCacheDir()
		if err != nil {
			return tuf.Config{}, verdict.Wrap(verdict.Usage, "--cache", err)
		}
		o.cache = filepath.Join(dir, "waybill", "trust")
	}
	return tuf.Config{Cache: o.cache, Now: now, Transport: t}, nil
}

// remembered is config with the source that the cache was initialised with.
func (o *trustSource) remembered(t http.RoundTripper) (tuf.Config, error) {
	c, err := o.config(t)
	if err != nil {
		return tuf.Config{}, err
	}
	source, err := tuf.Remembered(c.Cache)
	if err != nil {
		return tuf.Config{}, err
	}
	c.URL, c.Root = source.URL, source.Root
	return c, nil
}

// root is the chosen trust root; what was fetched before, if none was chosen.
func (o *trustSource) root(ctx context.Context) (render.TrustRoot, error) {
	now, err := o.moment.Time()
	if err != nil {
		return render.TrustRoot{}, err
	}
	switch {
	case o.offline && o.file != "":
		return render.TrustRoot{}, verdict.Refuse(verdict.Usage, "--offline", "a file was named by --trusted-root: choose one")
	case o.offline:
		root := trust.Embedded()
		return render.TrustRoot{Root: root, Source: "the copy that this program carries", Date: root.Date(), Now: now}, nil
	case o.file != "":
		raw, err := cli.ReadFile(o.file, trust.MaxSize)
		if err != nil {
			return render.TrustRoot{}, err
		}
		root, err := trust.Parse(raw)
		return render.TrustRoot{Root: root, Source: o.file, Now: now}, err
	}
	c, err := o.remembered(nil)
	if err != nil {
		return render.TrustRoot{}, err
	}
	t, err := tuf.Load(ctx, c)
	if err != nil {
		return render.TrustRoot{}, err
	}
	return fetched(c, t)
}

// toJudge is the chosen trust root for judging with. A clock that stands before
// the day on which the carried copy was current is wrong.
func (o *trustSource) toJudge(ctx context.Context) (render.TrustRoot, error) {
	r, err := o.root(ctx)
	if err == nil && o.offline && r.Now.Before(r.Date) {
		return render.TrustRoot{}, verdict.Refuse(verdict.Clock, "clock", "it says %s, but the trust root that this program carries is of %s",
			r.Now.UTC().Format(time.RFC3339), r.Date.Format(time.DateOnly))
	}
	return r, err
}

// fetched describes what a repository vouches for.
func fetched(c tuf.Config, t tuf.Targets) (render.TrustRoot, error) {
	root, err := trust.Parse(t.TrustedRoot())
	if err != nil {
		return render.TrustRoot{}, err
	}
	v := t.Versions()
	return render.TrustRoot{
		Root: root, Source: c.URL, Date: t.Refreshed(), Now: c.Now, Expires: t.Expires(),
		Metadata: fmt.Sprintf("root %d, timestamp %d, snapshot %d, targets %d", v.Root, v.Timestamp, v.Snapshot, v.Targets),
	}, nil
}

func trustShowCommand() *cobra.Command {
	o := &trustSource{}
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
			r, err := o.root(cmd.Context())
			if err != nil {
				return err
			}
			return r.Write(cmd.OutOrStdout(), render.Format(output))
		},
	}
	o.addFlags(cmd)
	o.addChoice(cmd)
	cmd.Flags().StringVarP(&output, "output", "o", string(render.Table), "table or json")
	return cmd
}

func trustInitCommand() *cobra.Command {
	o := &trustSource{}
	var url, root string
	cmd := &cobra.Command{
		Use:   "init --tuf URL --root FILE",
		Short: "Take trust from a repository of your own from now on",
		Long: `Fetch the trust root from the TUF repository at URL, believing it from the root
metadata in FILE, and remember both. FILE must have come to you by a way that
you trust: everything else is verified from it. What was remembered of another
repository is forgotten. If the repository does not prove itself, nothing
changes.

` + exit.Table,
		Example: `  waybill trust init --tuf https://tuf.example.test --root 1.root.json
  waybill trust init --tuf http://127.0.0.1:8080 --root lab/root.json --cache lab/trust`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if url == "" || root == "" {
				return verdict.Refuse(verdict.Usage, "trust init", "--tuf and --root are both required")
			}
			c, err := o.config(cli.Transport(false))
			if err != nil {
				return err
			}
			c.URL = url
			if c.Root, err = cli.ReadFile(root, maxTUFRoot); err != nil {
				return err
			}
			t, err := tuf.Init(cmd.Context(), c)
			return reportFetched(cmd, c, t, err)
		},
	}
	o.addFlags(cmd)
	cmd.Flags().StringVar(&url, "tuf", "", "address of the repository: https, or http on loopback (required)")
	cmd.Flags().StringVar(&root, "root", "", "initial root metadata of the repository (required)")
	return cmd
}

func trustUpdateCommand() *cobra.Command {
	o := &trustSource{}
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
			c, err := o.remembered(cli.Transport(false))
			if err != nil {
				return err
			}
			t, err := tuf.Refresh(cmd.Context(), c)
			return reportFetched(cmd, c, t, err)
		},
	}
	o.addFlags(cmd)
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
	r, err := fetched(c, t)
	if err != nil {
		return err
	}
	return r.Headline(cmd.OutOrStdout())
}

func trustExportCommand() *cobra.Command {
	o := &trustSource{}
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
			r, err := o.root(cmd.Context())
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
	o.addFlags(cmd)
	o.addChoice(cmd)
	cmd.Flags().StringVar(&output, "output", "", "file to write; default is standard output")
	return cmd
}

// writeWhole writes a file at once or not at all.
func writeWhole(ctx context.Context, path string, raw []byte) error {
	w, err := store.OpenWriter(filepath.Dir(path))
	if err != nil {
		return verdict.Wrap(verdict.Usage, path, err)
	}
	return w.Put(ctx, filepath.Base(path), int64(len(raw)), bytes.NewReader(raw), store.PutOptions{})
}
