package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/produce/sign"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

type order struct {
	token, bundle, signingConfig, trustedRoot string
}

func signBundle() *cobra.Command {
	o := &order{}
	cmd := &cobra.Command{
		Use:  "sign-bundle ARTIFACT",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return o.run(cmd.Context(), args[0]) },
	}
	f := cmd.Flags()
	f.StringVar(&o.token, "identity-token", "", "the identity token of the signer")
	f.StringVar(&o.bundle, "bundle", "", "where to write the bundle")
	f.StringVar(&o.signingConfig, "signing-config", "", "where to sign")
	f.StringVar(&o.trustedRoot, "trusted-root", "", "the trust root")
	return cmd
}

func (o *order) run(ctx context.Context, artifact string) error {
	signer, err := o.signer()
	if err != nil {
		return err
	}
	f, err := os.Open(artifact)
	if err != nil {
		return err
	}
	defer f.Close()
	set, _, err := digest.Sum(f)
	if err != nil {
		return err
	}
	bundle, _, err := signer.Blob(ctx, set)
	if err != nil {
		return err
	}
	return os.WriteFile(o.bundle, bundle, 0o644)
}

func (o *order) signer() (*sign.Signer, error) {
	raw, err := os.ReadFile(o.signingConfig)
	if err != nil {
		return nil, err
	}
	services, err := sign.ParseServices(raw, time.Now())
	if err != nil {
		return nil, err
	}
	v, err := newVerifier(o.trustedRoot)
	if err != nil {
		return nil, err
	}
	who, err := bearer(o.token)
	if err != nil {
		return nil, err
	}
	p, err := only(who)
	if err != nil {
		return nil, err
	}
	return sign.New(sign.Config{
		Role: policy.Release, Policy: p, Verifier: v, Services: services, Transport: http.DefaultTransport, Clock: time.Now,
		Token: func(context.Context) (string, error) { return o.token, nil },
	})
}

// bearer is whom a certificate for this token will name.
func bearer(token string) (identity.Identity, error) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return identity.Identity{}, errors.New("the identity token is not a signed web token")
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return identity.Identity{}, fmt.Errorf("identity token: %w", err)
	}
	var claims struct {
		Issuer   string `json:"iss"`
		Subject  string `json:"sub"`
		Email    string `json:"email"`
		Workflow string `json:"job_workflow_ref"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return identity.Identity{}, fmt.Errorf("identity token: %w", err)
	}
	who := identity.Identity{Issuer: claims.Issuer, Subject: claims.Subject, Type: identity.URI}
	switch {
	case claims.Workflow != "":
		who.Subject = "https://github.com/" + claims.Workflow
	case claims.Email != "":
		who.Subject, who.Type = claims.Email, identity.Email
	}
	return who, who.Check()
}

// only is a policy by which this identity alone may sign.
func only(who identity.Identity) (policy.Policy, error) {
	return policy.Parse(fmt.Appendf(nil, `apiVersion: waybill/v1
kind: Policy
name: conformance
roles:
  release: [{issuer: %q, subject: %q, type: %s}]
builders:
- id: https://nobody.invalid/builder
  level: 1
  signers: [{issuer: https://nobody.invalid, subject: nobody@nobody.invalid, type: email}]
source: {repository: "git+https://nobody.invalid/source"}
require:
- stages: [staging, release]
  classes: [binary, archive, file, image]
  checks: {provenance: require, signature: require, sbom: require}
- {stages: [staging, release], classes: [image-child], checks: {provenance: require, signature: require}}
- {stages: [staging, release], classes: [sums], checks: {signature: require}}
plan: require
closed: {files: require, images: require}
`, who.Issuer, who.Subject, who.Type), nil)
}
