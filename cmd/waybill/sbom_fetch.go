package main

import (
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/sbomfetch"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func sbomFetchCommand() *cobra.Command {
	o, platform := &single{}, ""
	fetch := newCommand("sbom_fetch", cobra.ExactArgs(1), nil)
	cmd := o.command(*fetch, func(cmd *cobra.Command, ask gate.Ask, at time.Time, args []string) (v *verdict.Verdict, err error) {
		found, err := findSBOMs(cmd, args[0], platform)
		if err != nil {
			return nil, err
		}
		var kept []sbomfetch.Found
		for _, f := range found {
			answer, unsigned := f.Verify(cmd.Context(), ask, at)
			if answer != nil && answer.Err() == nil {
				v, err, kept = answer, nil, append(kept, f)
			} else if len(kept) == 0 {
				v, err = answer, unsigned
			}
		}
		if len(kept) > 0 {
			if err := printSBOM(cmd, args[0], kept); err != nil {
				return nil, err
			}
		}
		cmd.SetOut(cmd.ErrOrStderr()) // standard output has the SBOM
		return v, err
	})
	cmd.Long = fetch.Long // nothing needs to be verified
	verified := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := cli.Unused(cmd, "the type and the subject are those of the SBOM that is found", "type", "subject", "report"); err != nil {
			return err
		}
		if f := cmd.Flags(); f.Changed("certificate-identity") || f.Changed("certificate-identity-regexp") || f.Changed("key") {
			return verified(cmd, args)
		}
		if err := cli.Unused(cmd, "nothing is verified unless --certificate-identity or --key names the signer", "certificate-oidc-issuer", "certificate-oidc-issuer-regexp", "trusted-root", "trust", "output"); err != nil {
			return err
		}
		found, err := findSBOMs(cmd, args[0], platform)
		if err != nil {
			return err
		}
		fmt.Fprintln(cmd.ErrOrStderr(), "NOT VERIFIED: anyone who can write there can attach an SBOM; name its signer with --certificate-identity or --key")
		return printSBOM(cmd, args[0], found)
	}
	cmd.Flags().StringVar(&platform, "platform", "", "SBOM of this platform, such as linux/amd64; otherwise that of the whole image")
	return cmd
}

func findSBOMs(cmd *cobra.Command, name, platform string) ([]sbomfetch.Found, error) {
	if _, err := os.Stat(name); err == nil {
		if err := cli.Unused(cmd, "a file has no platforms", "platform"); err != nil {
			return nil, err
		}
		return sbomfetch.File(name)
	}
	image, err := cli.Image(name, cli.Transport(false))
	if err != nil {
		return nil, err
	}
	return sbomfetch.Image(cmd.Context(), image, platform)
}

// printSBOM prints the SBOM. It lists and refuses several with different bytes.
func printSBOM(cmd *cobra.Command, name string, all []sbomfetch.Found) error {
	different := map[digest.Digest]bool{}
	for _, f := range all {
		sum := digest.Of(digest.SHA256, f.Document)
		different[sum] = true
		fmt.Fprintf(cmd.ErrOrStderr(), "%s: %q\n", sum, f.Where)
	}
	if len(different) > 1 {
		return verdict.Refuse(verdict.Conflict, name, "%d different SBOMs are attached", len(different)).Advise("name the signer of the right one with --certificate-identity or --key")
	}
	_, err := cmd.OutOrStdout().Write(all[0].Document)
	return err
}
