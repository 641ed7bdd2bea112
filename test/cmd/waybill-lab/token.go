package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/waybill-release/waybill/test/lab"
)

func newToken() *cobra.Command {
	var dir, as, claims, out string
	cmd := &cobra.Command{
		Use:   "token --dir DIR --as ROLE",
		Short: "Mint an identity token through a running lab",
		Long: `Mint an identity token (RS256, ten minutes) through the lab that runs in DIR.

--as takes a role (` + strings.Join(lab.Roles(), ", ") + `)
or any e-mail address. The file that --out names holds the token and nothing
else, not even a newline, because that is how cosign wants it.
` + exitHelp,
		Example: `  waybill-lab token --dir lab --as release --out token
  waybill-lab token --dir lab --as someone@example.invalid
  waybill-lab token --dir lab --as release --issuer-claims '{"aud":"elsewhere"}'`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			req, err := tokenRequest(as, claims)
			if err != nil {
				return usageError{err}
			}
			page, err := lab.ReadPage(dir)
			if err != nil {
				return err
			}
			token, err := lab.RequestToken(cmd.Context(), page.Issuer, req)
			if err != nil {
				return err
			}
			if out == "" {
				_, err = fmt.Fprintln(cmd.OutOrStdout(), token)
				return err
			}
			if err := os.WriteFile(out, []byte(token), 0o600); err != nil {
				return fmt.Errorf("writing the token: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "dir", ".", "directory of the running lab")
	cmd.Flags().StringVar(&as, "as", lab.RoleRelease, "role or e-mail address")
	cmd.Flags().StringVar(&claims, "issuer-claims", "", "JSON object of claims to add or replace")
	cmd.Flags().StringVar(&out, "out", "", "file to write the token to (default: standard output)")
	return cmd
}

func tokenRequest(as, claims string) (lab.TokenRequest, error) {
	r := lab.TokenRequest{As: as}
	if _, err := lab.Subject(as); err != nil {
		return r, err
	}
	if claims == "" {
		return r, nil
	}
	decoder := json.NewDecoder(strings.NewReader(claims))
	decoder.UseNumber() // a time must stay an integer
	if err := decoder.Decode(&r.Claims); err != nil {
		return r, fmt.Errorf("reading --issuer-claims: %w", err)
	}
	return r, nil
}
