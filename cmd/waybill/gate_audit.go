package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/serve"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// auditing are the options of gate audit, of logs or of a service.
type auditing struct {
	output cli.Output
	heads  []string
	gate   asking
	about  string
	limit  int
}

func gateAuditCommand() *cobra.Command {
	o := &auditing{}
	cmd := newCommand("gate_audit", cobra.ArbitraryArgs, o.run)
	f := cmd.Flags()
	f.StringArrayVar(&o.heads, "head", nil, "N:DIGEST of a line of the record, kept elsewhere; repeats")
	f.StringVar(&o.gate.server, "server", "", "address of a gate service, to list its last decisions")
	f.StringVar(&o.about, "digest", "", "only decisions about the image of this digest (only with --server)")
	f.IntVar(&o.limit, "limit", 100, fmt.Sprintf("how many decisions, at most %d (only with --server)", api.MaxAudit))
	f.StringVar(&o.gate.audience, "audience", "", "audience of a token that is fetched for it (only with --server; default the address of the server)")
	f.DurationVar(&o.gate.timeout, "timeout", time.Minute, "how long the gate is waited for (only with --server)")
	o.gate.as.addFlags(cmd, callerToken)
	o.gate.shown.addFlags(cmd)
	o.output.AddFlags(cmd)
	return cmd
}

func (o *auditing) run(cmd *cobra.Command, args []string) error {
	if o.gate.server != "" {
		return o.read(cmd, args)
	}
	if err := cli.Unused(cmd, "it is for a gate that is a service, which --server names", serverFlags("digest", "limit")...); err != nil {
		return err
	}
	if len(args) == 0 {
		return verdict.Refuse(verdict.Usage, "LOG", "required: a log file, - for standard input, or --server URL")
	}
	check := serve.RecordCheck{}
	for _, text := range o.heads {
		h, err := parseHead(text)
		if err != nil {
			return err
		}
		check.Heads = append(check.Heads, h)
	}
	for _, path := range args {
		if err := readLog(cmd, &check, path); err != nil {
			return err
		}
	}
	return answer(cmd, &o.output, check.Verdict(time.Now()), nil)
}

func readLog(cmd *cobra.Command, check *serve.RecordCheck, path string) error {
	if path == "-" {
		return check.Read("stdin", cmd.InOrStdin())
	}
	f, err := store.OpenNamed(path)
	if err != nil {
		return err
	}
	defer f.Close()
	return check.Read(path, f)
}

// parseHead reads N:DIGEST.
func parseHead(text string) (api.Head, error) {
	number, sum, _ := strings.Cut(text, ":")
	n, err := strconv.ParseInt(number, 10, 64)
	d, bad := digest.Parse(sum)
	if err != nil || bad != nil || n < 1 || d.Algorithm() != digest.SHA256 {
		return api.Head{}, verdict.Refuse(verdict.Usage, "--head", "%.200q: want N:sha256:…", text)
	}
	return api.Head{Number: n, Digest: d}, nil
}

// read lists the decisions of a service.
func (o *auditing) read(cmd *cobra.Command, args []string) error {
	if len(args) > 0 || len(o.heads) > 0 {
		return verdict.Refuse(verdict.Usage, "--server", "the flag lists the decisions of a service; check LOGs and --head in another run")
	}
	if err := cli.Unused(cmd, "a list of decisions is no verdict; leave the flag out", cli.Quiet, "color"); err != nil {
		return err
	}
	if len(o.output.Formats) != 1 || o.output.Formats[0] != "table" && o.output.Formats[0] != "json" {
		return verdict.Refuse(verdict.Usage, "--output", "want table or json: a list of decisions is no verdict")
	}
	var about digest.Digest
	if o.about != "" {
		var err error
		if about, err = digest.Parse(o.about); err != nil {
			return verdict.Wrap(verdict.Usage, "--digest", err)
		}
	}
	client, err := o.gate.client()
	if err != nil {
		return err
	}
	ctx, stop := context.WithTimeout(cmd.Context(), o.gate.timeout)
	defer stop()
	told, err := client.Audit(ctx, about, o.limit)
	if err != nil {
		return err
	}
	if o.output.Formats[0] == "json" {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(told)
	}
	return printAudit(cmd.OutOrStdout(), told)
}

// printAudit prints decisions for people, with foreign text quoted.
func printAudit(w io.Writer, told api.Audit) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIME\tCALLER\tVERB\tOUTCOME\tREASONS\tIMAGE\tTO")
	for _, d := range told.Decisions {
		reasons := slice.Map(d.Reasons, func(c verdict.Code) string { return string(c) })
		for _, w := range d.Waived {
			code, _, _ := strings.Cut(w, " ")
			reasons = append(reasons, "excepted "+code)
		}
		fmt.Fprintf(t, "%s", d.Time.UTC().Format(time.RFC3339))
		for _, text := range []string{d.Principal, string(d.Verb), d.Outcome, strings.Join(reasons, ", "), d.Image, d.To} {
			fmt.Fprintf(t, "\t%s", quoted(text))
		}
		fmt.Fprintln(t)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nrecord %s ends with line %d\n--head %d:%s\n", quoted(told.Head.Instance), told.Head.Number, told.Head.Number, told.Head.Digest)
	return err
}

// quoted is text that is safe to print: quoted if it contains anything that a
// terminal interprets.
func quoted(text string) string {
	if q := strconv.QuoteToASCII(text); len(q) != len(text)+2 {
		return q
	}
	return text
}
