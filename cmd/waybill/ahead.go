package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/tool/plural"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// ahead are the options of a command that says what it would sign, until it is
// confirmed.
type ahead struct {
	confirm bool
	output  string
}

func (a *ahead) addFlags(cmd *cobra.Command, confirm string) {
	cmd.Flags().BoolVar(&a.confirm, "confirm", false, confirm)
	cmd.Flags().StringVarP(&a.output, "output", "o", "table", "table or json: of what would be signed, or with --confirm of what was")
}

func (a *ahead) check() error {
	if a.output != "table" && a.output != "json" {
		return verdict.Refuse(verdict.Usage, "--output", "%q: want table or json", a.output)
	}
	return nil
}

// foretell prints a forecast, and refuses if something stands against it.
func (a *ahead) foretell(c *cobra.Command, f pipeline.Forecast, err error) error {
	if err != nil {
		return answer(c, cli.TableOutput(), nil, err)
	}
	if a.output == "json" {
		err = printJSON(c.OutOrStdout(), f)
	} else {
		err = f.Write(c.OutOrStdout())
	}
	if err != nil {
		return err
	}
	if err := f.Err(); err != nil {
		return err
	}
	fmt.Fprintln(c.ErrOrStderr(), "nothing was done; --confirm "+doing(f.Due()))
	return nil
}

func doing(due int) string {
	switch due {
	case 0:
		return "would sign nothing: everything is signed already"
	case 1:
		return "makes this signature"
	}
	return fmt.Sprintf("makes %s", plural.Of(due, "signature"))
}

// done says how a command that signs ended: everything that failed, or as JSON
// that and what was done.
func (a *ahead) done(c *cobra.Command, p *pipeline.Pipeline, err error) error {
	if a.output != "json" {
		return answer(c, cli.TableOutput(), nil, err)
	}
	return errors.Join(err, printJSON(c.OutOrStdout(), p.Done(err)))
}
