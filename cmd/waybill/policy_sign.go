package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	knowndefects "github.com/waybill-release/waybill/attestations/known-defects/v1"
	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/judge/declaration"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// officer are the options of every command that signs as the policy officer, or as
// the identity that signs releases off.
type officer struct {
	signsAs []string // names of tokens and keys, of which one signs; empty for the policy officer
	profile string
	as      identities
	keys    keys
	feature featureFlags
	confirm bool
}

// names are the names of the token and the key on the command line.
func (o *officer) names() []string {
	if len(o.signsAs) == 0 {
		return []string{pipeline.TokenPolicy}
	}
	return o.signsAs
}

func (o *officer) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.profile, "profile", "", "profile that names policy, trust root and signing services (required)")
	o.addSigner(cmd)
}

// addSigner adds the flags that say who signs.
func (o *officer) addSigner(cmd *cobra.Command) {
	o.as.addFlags(cmd, o.names()...)
	o.keys.addFlags(cmd, o.names()...)
	o.feature.addFlags(cmd)
	o.keys.services = o.feature.asks(known.KMSSigning)
	cmd.Flags().BoolVar(&o.confirm, "confirm", false, "sign; without it, only print what would be signed")
}

// open reads the profile and finds the identity or key to sign with.
func (o *officer) open(cmd *cobra.Command) (pipeline.Officer, error) {
	if o.profile == "" {
		return pipeline.Officer{}, verdict.Refuse(verdict.Usage, "--profile", "required: it names the policy, the trust root and the signing services")
	}
	loaded, err := profile.Load(o.profile, profile.Reader{Rules: rules(), Now: time.Now(), ToSign: true})
	if err != nil {
		return pipeline.Officer{}, err
	}
	rt := cli.Transport(false)
	tokens, err := o.as.parse(rt, loginOf(loaded), cmd.ErrOrStderr())
	if err != nil {
		return pipeline.Officer{}, err
	}
	opened, err := o.keys.open(cmd.Context(), cmd.ErrOrStderr())
	if err == nil {
		err = onlyOne(tokens, opened)
	}
	if err != nil {
		return pipeline.Officer{}, err
	}
	given := slices.DeleteFunc(slices.Clone(o.names()), func(name string) bool { return tokens[name] == nil && opened[name] == nil })
	switch names := strings.Join(o.names(), "=FILE or "); {
	case o.confirm && len(given) == 0:
		return pipeline.Officer{}, verdict.Refuse(verdict.Usage, "--identity-token", "required to sign; use --identity-token %[1]s=FILE, or --key %[1]s=FILE", names)
	case len(given) > 1:
		return pipeline.Officer{}, verdict.Refuse(verdict.Usage, "--identity-token", "%s are given; one of them signs, so leave the other out", strings.Join(given, " and "))
	}
	by := strings.Join(given, "")
	return pipeline.Officer{Profile: loaded, Token: tokens[by], Key: opened[by], World: pipeline.World{
		Transport: rt, Clock: time.Now,
		OpenPlace:  func(uri string) (store.Place, error) { return cloud.OpenPlace(uri, rt) },
		OpenWriter: func(uri string) (store.Writer, error) { return openWriter(uri, rt) },
	}}, nil
}

// finish signs a draft and prints the signer; without --confirm it prints the draft.
func (o *officer) finish(cmd *cobra.Command, off pipeline.Officer, d pipeline.Draft, path string) error {
	if !o.confirm {
		var page bytes.Buffer
		if err := json.Indent(&page, d.Statement.Raw(), "", "  "); err != nil {
			return err
		}
		fmt.Fprintln(cmd.OutOrStdout(), page.String())
		fmt.Fprintf(cmd.ErrOrStderr(), "nothing was done; add --confirm to sign this and write %s\n", render.Safe(path))
		return nil
	}
	proof, err := off.Sign(cmd.Context(), d, pipeline.TargetAt(path))
	if err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "%s: signed by %s at %s; read back and verified\nbundle %s\n",
		render.Safe(path), render.Safe(proof.Identity), proof.SignedAt.Format(time.RFC3339), proof.Bundle)
	return nil
}

var kindLine = pattern.Lazy(`(?m)^kind: *"?([A-Za-z]+)"? *(#.*)?\r?$`)

func policySignCommand() *cobra.Command {
	o := &officer{signsAs: []string{pipeline.TokenPolicy, pipeline.TokenSignoff}}
	cmd := newCommand("policy_sign", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		off, err := o.open(cmd)
		if err != nil {
			return err
		}
		d, err := draftOf(off, args[0])
		if err != nil {
			return err
		}
		return o.finish(cmd, off, d, args[0]+signedpolicy.Suffix)
	})
	o.addFlags(cmd)
	return cmd
}

// draftOf makes the statement about a file, by the kind that the file names.
func draftOf(off pipeline.Officer, path string) (pipeline.Draft, error) {
	raw, err := store.ReadNamed(path, maxPolicy)
	if err != nil {
		return pipeline.Draft{}, err
	}
	file, kind := filepath.Base(path), kindLine().FindSubmatch(raw)
	switch {
	case kind == nil:
	case string(kind[1]) == knowndefects.Kind:
		return off.DraftDefects(file, raw)
	case string(kind[1]) == k8slayout.ListKind:
		l, err := k8slayout.ParseList(raw)
		if err != nil {
			return pipeline.Draft{}, verdict.InFile(path, err)
		}
		s, err := l.Statement(file, raw)
		return off.DraftAs(policy.Officer, s), err
	case string(kind[1]) == declaration.Kind:
		return off.DraftDeclaration(file, raw)
	case string(kind[1]) == "Policy":
		p, err := policy.Parse(raw, rules())
		if err != nil {
			return pipeline.Draft{}, verdict.InFile(path, err)
		}
		return off.DraftPolicy(file, raw, p)
	}
	return pipeline.Draft{}, verdict.Refuse(verdict.Usage, path, "want a file of kind Policy, %s, %s or %s", knowndefects.Kind, k8slayout.ListKind, declaration.Kind)
}
