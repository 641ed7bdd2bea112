package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// asking are the options of asking a gate that is a service.
type asking struct {
	server, to, channel, audience string
	summary                       string
	exceptions                    []string // of an override
	as                            identities
	shown                         clientCertificate
	timeout                       time.Duration
}

// asCaller is the name of the token with which a gate is asked.
const asCaller = "caller"

// ofServer returns the flags that only a question to a service has: how it is
// asked and who asks, and those of the command itself.
func ofServer(own ...string) []string {
	return append(own, "audience", "identity", "identity-token", "timeout", "client-certificate", "client-key")
}

func (o *asking) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.server, "server", "", "address of a gate that is a service: it decides, by its own policy, about the images that are named")
	f.StringVar(&o.to, "to", "", "repository that the images are to go to; the gate is asked whether they may (only with --server)")
	f.StringVar(&o.channel, "channel", "", "channel that they are for (only with --server; default none)")
	f.StringVar(&o.audience, "audience", "", "audience of a token that is fetched for it (only with --server; default the address of the server)")
	f.StringVar(&o.summary, "summary", "", "file, or for several images directory, for the summary that the gate signs of what it accepts, to attach at the destination (only with --server and --to)")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long the gate is waited for (only with --server)")
	o.as.addFlags(cmd, asCaller)
	o.shown.addFlags(cmd)
}

// decide asks the gate about images. A tag is resolved here, once: the gate is
// asked about what it names now.
func (o *asking) decide(cmd *cobra.Command, asked references, version string) (*verdict.Verdict, error) {
	if len(asked.files)+len(asked.plans) > 0 || asked.version {
		return nil, verdict.Refuse(verdict.Usage, "--server", "a gate decides about images, as HOST/PATH:TAG or HOST/PATH@sha256:…")
	}
	into, err := o.summaries(asked.images)
	if err != nil {
		return nil, err
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	brought, err := o.bring()
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithTimeout(cmd.Context(), o.timeout)
	defer stop()
	rt := cli.Transport(false)
	questions := make([]api.Question, 0, len(asked.images))
	for _, reference := range asked.images {
		q, err := o.question(ctx, reference, rt)
		if err != nil {
			return nil, err
		}
		if len(brought) > 0 {
			q.Verb, q.Exceptions = api.Override, brought
		}
		q.Version = version
		questions = append(questions, q)
	}
	answer, err := client.Decide(ctx, questions)
	if err != nil {
		return nil, err
	}
	if err := into.write(answer); err != nil {
		return nil, err
	}
	answers := make([]*verdict.Verdict, 0, len(answer.Decisions))
	for _, d := range answer.Decisions {
		d.Verdict.Note("decided by the gate at %s, request %s", o.server, answer.RequestID)
		answers = append(answers, d.Verdict)
	}
	return gate.Several(fmt.Sprintf("%d images", len(answers)), answers...), nil
}

// client is the gate's, with what the caller shows it.
func (o *asking) client() (*api.Client, error) {
	to, err := o.shown.transport(o.server)
	if err != nil {
		return nil, err
	}
	show, err := o.token(cli.Transport(false))
	if err != nil {
		return nil, err
	}
	return api.New(o.server, to, show)
}

func (o *asking) question(ctx context.Context, reference string, rt http.RoundTripper) (api.Question, error) {
	image, err := cli.Image(reference, rt)
	if err != nil {
		return api.Question{}, err
	}
	if image.Digest.IsZero() {
		d, err := image.Source.Resolve(ctx, image.Repository, image.Tag)
		if err != nil {
			return api.Question{}, err
		}
		image.Digest = d.Digest
	}
	remote, is := image.Source.(*registry.Remote)
	if !is {
		return api.Question{}, verdict.Refuse(verdict.Usage, reference, "it is in no registry, so no gate can look at it")
	}
	q := api.Question{Verb: api.Verify, Image: remote.Prefix() + "/" + image.Repository + "@" + image.Digest.String(), To: o.to, Channel: o.channel}
	if o.to != "" {
		q.Verb = api.Promote
	}
	return q, nil
}

// bring reads the exceptions to override with. The gate verifies them.
func (o *asking) bring() (all [][]byte, err error) {
	if len(o.exceptions) > 0 && o.to == "" {
		return nil, verdict.Refuse(verdict.Usage, "--exception", "an exception is for a place; name with --to where the images are to go")
	}
	if len(o.exceptions) > 0 && !o.shown.isZero() && len(o.as.files)+len(o.as.sources) == 0 {
		return nil, verdict.Refuse(verdict.Usage, "--exception", "an override uses a token up, and a certificate is not used up").
			Advise("show a token that has an ID (jti): --identity or --identity-token")
	}
	for _, path := range o.exceptions {
		raw, err := store.ReadNamed(path, api.MaxException)
		if err != nil {
			return nil, err
		}
		all = append(all, raw)
	}
	return all, nil
}

// token is where the token comes from that the gate is shown; nil shows none.
func (o *asking) token(rt http.RoundTripper) (func(context.Context) (string, error), error) {
	world := token.World{Transport: rt, Env: os.Getenv, Clock: time.Now, Audience: o.audience}
	if world.Audience == "" {
		world.Audience = o.server
	}
	found, err := o.as.from(world)
	if err != nil || found[asCaller] == nil {
		return nil, err
	}
	return found[asCaller].Token, nil
}
