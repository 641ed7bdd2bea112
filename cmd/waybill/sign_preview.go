package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/report/render"
)

// ahead are the options of a command that prints what it would sign, and signs only
// with --confirm.
type ahead struct {
	confirm bool
	output  string
}

func (a *ahead) addFlags(cmd *cobra.Command, confirm string) {
	cmd.Flags().BoolVar(&a.confirm, "confirm", false, confirm)
	cli.AddFormat(cmd, &a.output, "table or json: what would be signed; with --confirm, what was signed", "table", "json")
}

// printForecast prints a forecast, and returns an error if the command would fail.
func (a *ahead) printForecast(c *cobra.Command, f pipeline.Forecast, err error) error {
	if err != nil {
		return answer(c, cli.TableOutput(), nil, err)
	}
	if a.output == "json" {
		err = render.WriteJSON(c.OutOrStdout(), f)
	} else {
		err = f.Write(c.OutOrStdout())
	}
	if err != nil {
		return err
	}
	if err := f.Err(); err != nil {
		return err
	}
	fmt.Fprintln(c.ErrOrStderr(), "nothing was done; "+doing(f.Due()))
	return nil
}

func doing(due int) string {
	switch due {
	case 0:
		return "--confirm would sign nothing: everything is signed already"
	case 1:
		return "add --confirm to make this signature"
	}
	return fmt.Sprintf("add --confirm to make these %d signatures", due)
}

// done prints the outcome of a command that signs: everything that failed; as JSON
// also what was done.
func (a *ahead) done(c *cobra.Command, p *pipeline.Pipeline, err error) error {
	if a.output != "json" {
		return answer(c, cli.TableOutput(), nil, err)
	}
	return errors.Join(err, render.WriteJSON(c.OutOrStdout(), p.Done(err)))
}
