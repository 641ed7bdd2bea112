package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/openvex/go-vex/pkg/vex"
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/document/openvex"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/gate/profile"
	"github.com/waybill-release/waybill/pkg/report/inspect"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func vexCommand() *cobra.Command {
	cmd := group(*newCommand("vex", nil, nil))
	list, listed := &vexing{}, cli.TableOutput()
	show := newCommand("vex_show", cobra.ExactArgs(1), func(c *cobra.Command, args []string) error {
		if _, err := version.Parse(args[0]); err != nil {
			raw, err := store.ReadNamed(args[0], 4*openvex.MaxSize)
			if err != nil {
				return err
			}
			v, err := inspect.VEX(args[0], raw, time.Now())
			return answer(c, listed, v, err)
		}
		v, _, _, err := list.ask(c, args[0], nil)
		return answer(c, listed, v, err)
	})
	show.Aliases = []string{"list"}
	show.Flags().StringVar(&list.profile, "profile", "", "profile that names places, policy and trust root (default: profile.yaml here, or above up to the top of the repository)")
	listed.AddFlags(show)
	cmd.AddCommand(vexAddCommand(), show)
	return cmd
}

type vexing struct {
	officer
	from, name, status, justification, action string
	products, parts                           []string
}

func vexAddCommand() *cobra.Command {
	o := &vexing{officer: officer{signsAs: []string{openvex.Role}}}
	cmd := newCommand("vex_add", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error { return o.add(cmd, args[0]) })
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.name, "vulnerability", "", "the vulnerability, such as CVE-2026-1234")
	f.StringVar(&o.status, "status", "", "one of "+strings.Join(vex.Statuses(), ", "))
	f.StringVar(&o.justification, "justification", "", "why it is not_affected, one of "+strings.Join(vex.Justifications(), ", "))
	f.StringVar(&o.action, "action", "", "what users do if it is affected")
	f.StringArrayVar(&o.products, "product", nil, "a product: name of the artifact, or its package URL in the SBOM; repeats")
	f.StringArrayVar(&o.parts, "component", nil, "package URL of a component of the product, as the SBOM has it; repeats")
	f.StringVar(&o.from, "from", "", "OpenVEX document to sign, in place of the flags above")
	return cmd
}

// document is the OpenVEX document of the flags, or of a file.
func (o *vexing) document(author []string) ([]byte, error) {
	if o.from != "" {
		return store.ReadNamed(o.from, openvex.MaxSize)
	}
	if len(o.products) == 0 {
		o.products = []string{""} // all that have the components
	}
	now, s := time.Now().UTC(), vex.Statement{Status: vex.Status(o.status), Justification: vex.Justification(o.justification), ActionStatement: o.action}
	s.Vulnerability.Name = vex.VulnerabilityID(o.name)
	for _, id := range o.products {
		parts := slice.Map(o.parts, func(id string) vex.Subcomponent { return vex.Subcomponent{Component: vex.Component{ID: id}} })
		s.Products = append(s.Products, vex.Product{Component: vex.Component{ID: id}, Subcomponents: parts})
	}
	return json.Marshal(&vex.VEX{Metadata: vex.Metadata{Context: openvex.Context, Author: strings.Join(author, ", "), Timestamp: &now}, Statements: []vex.Statement{s}})
}

// ask asks the gate of the profile about the VEX documents of a version.
func (o *vexing) ask(cmd *cobra.Command, release string, draft func(author []string) ([]byte, error)) (v *verdict.Verdict, said intoto.Statement, name string, err error) {
	p := &project{profile: o.profile}
	p.settle(nil)
	by, err := p.gate(cmd.Context())
	if err != nil {
		return nil, said, "", err
	}
	of, err := version.Parse(release)
	if err != nil {
		return nil, said, "", err
	}
	at, _, err := by.Places(of, profile.Release, gate.Elsewhere{})
	if err != nil {
		return nil, said, "", err
	}
	var raw []byte
	if draft != nil {
		if raw, err = draft(by.Profile().Policy.Expected(openvex.Role)); err != nil {
			return nil, said, "", err
		}
	}
	v, said, name = by.VEX(cmd.Context(), by.Release(of, profile.Release, at, time.Now()), raw)
	return v, said, name, v.Err()
}

func (o *vexing) add(cmd *cobra.Command, release string) error {
	if (o.from == "") == (o.name == "") || o.from != "" && len(o.status+o.justification+o.action)+len(o.products)+len(o.parts) > 0 {
		return verdict.Refuse(verdict.Usage, "--vulnerability", "want either --vulnerability, with the flags of a statement, or --from alone")
	}
	for flag, missing := range map[string]bool{
		"--status": o.from == "" && !slices.Contains(vex.Statuses(), o.status), "--justification": o.status == string(vex.StatusNotAffected) && o.justification == "",
		"--action": o.status == string(vex.StatusAffected) && o.action == "",
	} {
		if missing {
			return verdict.Refuse(verdict.Usage, flag, "with --status %q: want %s", o.status, cmd.Flags().Lookup(flag[2:]).Usage)
		}
	}
	off, err := o.open(cmd)
	if err != nil {
		return err
	}
	v, said, name, err := o.ask(cmd, release, o.document)
	if err != nil {
		return answer(cmd, cli.TableOutput(), v, err)
	}
	if !o.confirm {
		return o.finish(cmd, off, off.DraftAs(openvex.Role, said), name)
	}
	proof, err := off.PublishVEX(cmd.Context(), release, said, name)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "%s: signed by %s at %s; read back and verified\n", name, render.Safe(proof.Identity), proof.SignedAt.Format(time.RFC3339))
	return err
}
