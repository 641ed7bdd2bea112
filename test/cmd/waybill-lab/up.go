package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/value/version"
	"github.com/waybill-release/waybill/test/lab"
	"github.com/waybill-release/waybill/test/lab/kubernetes"
)

const upLong = `Start a lab and run it until Ctrl-C, SIGTERM or "waybill-lab down".

Into the directory it writes lab.json (all URLs and identities; written last),
trusted_root.json, signing_config.json, root.json (TUF), pid, and an identity token
of each role in tokens/, renewed every four minutes. A lab started
again on the same directory is the same world: the same ports, keys, log,
images and objects. Without --dir it uses a temporary directory and removes it
at the end.

Real server code, imported as libraries:
  fulcio               token checks, certificates, embedded SCTs
  rekor-tiles          Rekor v2 requests, entries, checkpoints
  rekor                Rekor v1 entries, search keys, checkpoints
  timestamp-authority  RFC 3161 timestamps
  go-tuf               signing of the TUF repository
  go-containerregistry blobs, uploads and manifests of the registry
  golang.org/x/mod     form and hash of the module
Ours:
  the OIDC issuer; the CT log (true SCTs, no tree); the Merkle tree under Rekor;
  the registry's referrers, checks, tags and disk; the bucket (GCS JSON, S3 XML, HTTP);
  the module proxy (one module, example.test/wick)

Every authority has "INSECURE LAB" in its subject. Only loopback addresses are
listened on; any other --address is refused.
` + exitHelp

func newUp() *cobra.Command {
	var dir, address, release string
	var form form
	cmd := &cobra.Command{
		Use:   "up [--dir DIR]",
		Short: "Start a lab and run it until stopped",
		Long:  upLong,
		Example: `  waybill-lab up --dir lab
  waybill-lab up --dir lab & until [ -e lab/lab.json ]; do sleep 0.1; done
  waybill-lab up --dir lab --kubernetes v1.31.2   # k8s-verify-release v1.31.2 --profile lab/profile.yaml
  waybill-lab up --dir lab --kubernetes v1.31.2 --autumn   # the same with signed provenance and summaries
  waybill-lab up --dir lab --kubernetes v1.31.2 --sealed   # the same with a manifest: complete`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			to, err := publisher(release, form)
			if err != nil {
				return err
			}
			return up(ctx, cmd.OutOrStdout(), lab.Options{Dir: dir, Address: address}, to)
		},
	}
	cmd.Flags().StringVar(&dir, "dir", "", "directory to keep the lab in (default: a temporary one, removed at the end)")
	cmd.Flags().StringVar(&address, "address", "127.0.0.1", "loopback address to listen on")
	cmd.Flags().StringVar(&release, "kubernetes", "", "publish a synthetic release of Kubernetes under this version, as they are published today, with a profile to verify it by")
	cmd.Flags().BoolVar(&form.autumn, "autumn", false, "with --kubernetes: publish it as since autumn 2026, with signed provenance, verification summaries, what else refers to images, and a file as an OCI artifact")
	cmd.Flags().BoolVar(&form.sealed, "sealed", false, "with --kubernetes: publish it as it should be published, built and sealed here, with a manifest")
	return cmd
}

// publish publishes something in a lab that is up, writes into its directory
// how to verify it, and returns the command that does; empty for nothing.
type publish func(ctx context.Context, l *lab.Lab, dir string) (verify string, err error)

func up(ctx context.Context, out io.Writer, o lab.Options, publish publish) (err error) {
	began := time.Now()
	dir := o.Dir
	temporary := dir == ""
	if temporary {
		if dir, err = os.MkdirTemp("", "waybill-lab-"); err != nil {
			return fmt.Errorf("making a directory: %w", err)
		}
	}
	free, err := lab.Hold(dir)
	if err != nil {
		return err
	}
	defer func() {
		if temporary {
			err = errors.Join(err, os.RemoveAll(dir))
		}
		err = errors.Join(err, free()) // last: whoever waits for the lab waits for this
	}()
	if err := lab.Unpublish(dir); err != nil {
		return err
	}
	o.Dir = dir
	l, err := lab.Start(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lab.Unpublish(dir), l.Close()) }()
	verify, err := publish(ctx, l, dir)
	if err != nil {
		return err
	}
	if err := writeTokens(ctx, l.Issuer, dir); err != nil {
		return err
	}
	go renewTokens(ctx, l.Issuer, dir)
	page, err := l.Publish(dir)
	if err != nil {
		return err
	}
	if err := page.WriteText(out); err != nil {
		return fmt.Errorf("printing the page: %w", err)
	}
	if verify != "" {
		fmt.Fprintf(out, "\nVerify its release:\n  %s\n", verify)
	}
	fmt.Fprintf(out, "\nUp in %d ms.\n", time.Since(began).Milliseconds())
	<-ctx.Done()
	return nil
}

// form says how a release of Kubernetes is published; zero as until summer 2026.
type form struct {
	sealed bool // with a manifest
	autumn bool // with what is signed since autumn 2026
}

// publisher publishes a synthetic release of Kubernetes, if one is named.
func publisher(release string, form form) (publish, error) {
	switch {
	case release == "" && form.sealed:
		return nil, usageError{errors.New("--sealed: name the release with --kubernetes")}
	case form.autumn && (release == "" || form.sealed):
		return nil, usageError{errors.New("--autumn: name the release with --kubernetes, without --sealed")}
	}
	if release == "" {
		return func(context.Context, *lab.Lab, string) (string, error) { return "", nil }, nil
	}
	v, err := version.Parse(release)
	if err != nil {
		return nil, usageError{fmt.Errorf("--kubernetes: %w", err)}
	}
	return func(ctx context.Context, l *lab.Lab, dir string) (string, error) {
		verify := fmt.Sprintf("k8s-verify-release %s --profile %s", v, filepath.Join(dir, "profile.yaml"))
		if form.sealed {
			return verify, kubernetes.Sealed{Lab: l, Version: v, Dir: dir}.Publish(ctx)
		}
		r, s := kubernetes.Make(v), kubernetes.Signer{Lab: l}
		if err := r.Sign(ctx, s); err != nil {
			return "", err
		}
		if form.autumn {
			if err := r.Autumn(ctx, s); err != nil {
				return "", err
			}
		}
		if err := r.Publish(ctx, l); err != nil {
			return "", err
		}
		return verify, kubernetes.WriteProfile(l, dir)
	}, nil
}
