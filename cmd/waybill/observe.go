package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/store/cloud"
	"github.com/waybill-release/waybill/pkg/document/buildrecord"
	"github.com/waybill-release/waybill/pkg/pipeline"
	"github.com/waybill-release/waybill/pkg/produce/observe"
	"github.com/waybill-release/waybill/pkg/report/render"
)

type observing struct {
	officer
	record, below, to string
}

func observeCommand() *cobra.Command {
	o := &observing{officer: officer{signsAs: []string{pipeline.TokenObserver}}}
	cmd := newCommand("observe", cobra.ExactArgs(2), func(cmd *cobra.Command, args []string) error {
		return o.run(cmd, buildrecord.Build{Service: args[0], Name: args[1], Below: o.below})
	})
	o.addFlags(cmd)
	f := cmd.Flags()
	f.StringVar(&o.record, "record", "", "file with a saved record, to read in place of the service's API")
	f.StringVar(&o.below, "below", "", "address to remove from the beginning of the names of outputs, such as gs://BUCKET/DIR/")
	f.StringVar(&o.to, "to", "observed.intoto.sigstore.json", "file or bucket object of the bundle")
	return cmd
}

func (o *observing) run(cmd *cobra.Command, b buildrecord.Build) error {
	off, err := o.open(cmd)
	if err != nil {
		return err
	}
	origin, raw := buildrecord.Recorded, []byte(nil)
	if o.record != "" {
		raw, err = store.ReadNamed(o.record, buildrecord.MaxSize)
	} else {
		origin = buildrecord.Observed
		raw, err = observe.Services{Transport: off.Transport, OpenPlace: cloud.OpenPlace, Authorised: cloud.Authorised}.Read(cmd.Context(), b)
	}
	if err != nil {
		return err
	}
	record, err := buildrecord.Parse(b, raw)
	for _, f := range record.Unattributed {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s %s: %s\n", f.Code, render.Safe(f.Subject), f.Message)
	}
	if err != nil {
		return err
	}
	if record.Told {
		fmt.Fprintf(cmd.ErrOrStderr(), "the service resolved no commit, so the one that the user's configuration names shows Build level 1 at most: the builder is %s%s\n", buildrecord.Recorded, b.Service)
	}
	s, err := record.Statement(origin)
	if err != nil {
		return err
	}
	draft, err := off.DraftObserved(s)
	if err != nil {
		return err
	}
	return o.finish(cmd, off, draft, o.to)
}
