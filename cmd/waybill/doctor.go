package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/pipeline/doctor"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

type doctorOptions struct {
	project
	purpose string
	output  string
	confirm bool
	attack  string
}

func doctorCommand() *cobra.Command {
	o := &doctorOptions{}
	cmd := newCommand("doctor", cobra.MaximumNArgs(1), func(cmd *cobra.Command, args []string) error { return o.run(cmd, args) })
	o.addFlags(cmd)
	o.addSourceFlags(cmd)
	o.addTokenFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.purpose, "for", string(doctor.Stage), "check what this needs: "+strings.Join(purposes(), ", "))
	cli.AddFormat(cmd, &o.output, "table or json", "table", "json")
	f.BoolVar(&o.confirm, "confirm", false, "also make the checks that need a write, and undo the write")
	f.StringVar(&o.attack, "attack-builder", "", "attack the isolation of steps on this host; no other can be named")
	f.Lookup("attack-builder").NoOptDefVal = thisHost
	return cmd
}

// thisHost is the only builder that may be attacked.
const thisHost = "this-host"

// attackBuilder attacks the steps of this host.
func (o *doctorOptions) attackBuilder(cmd *cobra.Command, args []string) (doctor.Report, error) {
	versions, err := cli.Versions(args)
	for _, named := range append(args, o.attack, o.source) {
		if strings.Contains(named, "://") || strings.Contains(named, "@") || named == o.attack && named != thisHost || err != nil {
			return doctor.Report{}, verdict.Refuse(verdict.Usage, named, "only this host may be attacked; a remote service never is").
				Advise("run waybill doctor --attack-builder on the host that builds, as the account that builds")
		}
	}
	o.settle(versions)
	chosen, err := o.chosen.parse()
	if err != nil {
		return doctor.Report{}, err
	}
	fmt.Fprintln(cmd.ErrOrStderr(), "attacking this host, each attack as a process and as a step: this takes some minutes")
	return pipeline.Attack(cmd.Context(), pipeline.ParseSource(o.source), versions, chosen, time.Now())
}

func purposes() []string {
	return slice.Map(doctor.Purposes(), func(p doctor.Purpose) string { return string(p) })
}

func (o *doctorOptions) run(cmd *cobra.Command, args []string) error {
	if !slices.Contains(purposes(), o.purpose) {
		return verdict.Refuse(verdict.Usage, "--for", "%q: want one of %s", o.purpose, strings.Join(purposes(), ", "))
	}
	if o.attack != "" {
		report, err := o.attackBuilder(cmd, args)
		if err != nil {
			return err
		}
		return printReport(cmd.OutOrStdout(), o.output, report)
	}
	versions, err := cli.Versions(args)
	if err != nil {
		return err
	}
	o.settle(versions)
	o.as.reports = true
	by, unloaded := o.gate(cmd.Context())
	c, ctx, err := o.config(cmd, by)
	if err != nil {
		return err
	}
	c.Version = append(versions, version.Version{})[0]
	var report doctor.Report
	if unloaded != nil {
		report = pipeline.ExamineMachine(ctx, doctor.Purpose(o.purpose), c, unloaded)
	} else if p, err := pipeline.New(c); err != nil {
		return err
	} else {
		report = p.Examine(ctx, doctor.Purpose(o.purpose), o.confirm)
	}
	return printReport(cmd.OutOrStdout(), o.output, report)
}

// printReport prints the report, and returns what it amounts to.
func printReport(w io.Writer, output string, r doctor.Report) error {
	if output == "json" {
		return errors.Join(render.WriteJSON(w, r), r.Err())
	}
	return errors.Join(r.Write(w), r.Err())
}
