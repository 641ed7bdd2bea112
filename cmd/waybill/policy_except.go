package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	exception "github.com/waybill-release/waybill/attestations/exception/v1"
	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/tool/slice"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// exempt are the options of policy except.
type exempt struct {
	officer
	excepted
	policy, output string
}

// excepted is the content of an exception.
type excepted struct {
	code, subject, name string
	reason, destination string
	life                time.Duration
}

func policyExceptCommand() *cobra.Command {
	o := &exempt{}
	var codes strings.Builder
	for _, c := range waiver.Codes() {
		why, _ := waiver.Exceptable(c)
		fmt.Fprintf(&codes, "  %-14s %s\n", c, why)
	}
	cmd := newCommand("policy_except", cobra.NoArgs, func(cmd *cobra.Command, _ []string) error { return o.run(cmd) })
	cmd.Long = strings.Replace(cmd.Long, "{codes}", codes.String(), 1)
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.code, "code", "", "code of the finding, one of those above (required)")
	codesOffered := slice.Map(waiver.Codes(), func(c verdict.Code) string { return string(c) })
	_ = cmd.RegisterFlagCompletionFunc("code", cobra.FixedCompletions(codesOffered, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
	f.StringVar(&o.subject, "subject", "", "sha256:… digest of the artifact (required)")
	f.StringVar(&o.name, "name", "", "name of the artifact in the release manifest; for an image without a manifest, REPOSITORY@sha256:… (required)")
	f.StringVar(&o.reason, "reason", "", "reason, for people: one line (required)")
	f.StringVar(&o.destination, "destination", "", "canonical address of its destination in the release manifest; for an image without a manifest, the destination repository HOST/PATH (required)")
	f.DurationVar(&o.life, "expires", 0, fmt.Sprintf("how long it is valid, such as 72h; at most %s (required)", exception.MaxLife))
	f.StringVar(&o.policy, "policy", "", "policy under which it is valid (default: the profile's)")
	f.StringVarP(&o.output, "output", "o", "", "file to write (default: CODE-DIGEST"+exception.Suffix+")")
	return cmd
}

func (o *exempt) run(cmd *cobra.Command) error {
	off, err := o.open(cmd)
	if err != nil {
		return err
	}
	if o.policy != "" {
		if off.Profile.Policy, err = readPolicy(o.policy); err != nil {
			return err
		}
	}
	d, err := o.draft(off)
	if err != nil {
		return err
	}
	return o.finish(cmd, off, d, o.output)
}

// draft makes the statement, and names the output file by default.
func (o *exempt) draft(off pipeline.Officer) (pipeline.Draft, error) {
	for _, required := range []struct{ flag, value string }{
		{"--code", o.code}, {"--subject", o.subject}, {"--name", o.name}, {"--reason", o.reason}, {"--destination", o.destination},
	} {
		if required.value == "" {
			return pipeline.Draft{}, verdict.Refuse(verdict.Usage, required.flag, "required")
		}
	}
	if o.life < time.Minute || o.life > exception.MaxLife {
		return pipeline.Draft{}, verdict.Refuse(verdict.Usage, "--expires", "%s: want from 1m to %s", o.life, exception.MaxLife)
	}
	d, err := digest.Parse(o.subject)
	if err == nil && d.Algorithm() != digest.SHA256 {
		err = fmt.Errorf("want a sha256 digest")
	}
	if err != nil {
		return pipeline.Draft{}, verdict.Wrap(verdict.Usage, "--subject", err)
	}
	if o.output == "" {
		o.output = fmt.Sprintf("%s-%.12s%s", o.code, d.Hex(), exception.Suffix)
	}
	at := off.Clock().UTC().Truncate(time.Second)
	return off.DraftException(intoto.Subject{Name: o.name, Digests: digest.Set{SHA256: d}}, exception.Predicate{
		Code: verdict.Code(o.code), Reason: o.reason, Destination: o.destination, Policy: off.Profile.Policy.Digest(),
		Issued: at, Expires: at.Add(o.life),
	})
}
