package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/cli"
	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/backend/store"
	"github.com/waybill-release/waybill/pkg/backend/transport"
	"github.com/waybill-release/waybill/pkg/gate"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/serve/api"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// asking are the options of a question to a gate service.
type asking struct {
	server, to, channel, audience string
	summary                       string
	exceptions                    []string // of an override
	as                            identities
	shown                         clientCertificate
	timeout                       time.Duration
}

// callerToken is the name of the token that identifies the caller to a gate.
const callerToken = "caller"

// serverFlags returns the flags that only apply to a gate service: the given ones and
// those that all such commands share.
func serverFlags(own ...string) []string {
	return append(own, "audience", "identity", "identity-token", "timeout", "client-certificate", "client-key")
}

func (o *asking) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.server, "server", "", "address of a gate service, which decides about the images by its own policy")
	f.StringVar(&o.to, "to", "", "repository to promote the images to; the gate decides whether they may (only with --server)")
	f.StringVar(&o.channel, "channel", "", "channel of the promotion (only with --server; default none)")
	f.StringVar(&o.audience, "audience", "", "audience of the token, if it is fetched (only with --server; default: the address of the server)")
	f.StringVar(&o.summary, "summary", "", "file (for several images, directory) for the verification summary that the gate signs, to attach to the image at its destination (only with --server and --to)")
	f.DurationVar(&o.timeout, "timeout", time.Minute, "how long to wait for the gate (only with --server)")
	o.as.addFlags(cmd, callerToken)
	o.shown.addFlags(cmd)
}

// decide asks the gate about images. A tag is resolved here, once, and the gate
// judges that digest.
func (o *asking) decide(cmd *cobra.Command, asked references, version string) (*verdict.Verdict, error) {
	if len(asked.files)+len(asked.plans) > 0 || asked.version {
		return nil, verdict.Refuse(verdict.Usage, "--server", "a gate service decides only about images; name them as HOST/PATH:TAG or HOST/PATH@sha256:…")
	}
	into, err := o.summaries(asked.images)
	if err != nil {
		return nil, err
	}
	client, err := o.client()
	if err != nil {
		return nil, err
	}
	brought, err := o.readExceptions()
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
		d.Verdict.Tell("Decided by the gate at %s, request %s.", o.server, answer.RequestID)
		answers = append(answers, d.Verdict)
	}
	return gate.Several(fmt.Sprintf("%d images", len(answers)), answers...), nil
}

// client makes the client of the gate, with the credentials of the caller.
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
		return api.Question{}, verdict.Refuse(verdict.Usage, reference, "not in a registry, so the gate cannot read it")
	}
	q := api.Question{Verb: api.Verify, Image: remote.Prefix() + "/" + image.Repository + "@" + image.Digest.String(), To: o.to, Channel: o.channel}
	if o.to != "" {
		q.Verb = api.Promote
	}
	return q, nil
}

// readExceptions reads the exceptions of an override. The gate verifies them.
func (o *asking) readExceptions() (all [][]byte, err error) {
	if len(o.exceptions) > 0 && o.to == "" {
		return nil, verdict.Refuse(verdict.Usage, "--exception", "an exception is for one destination; name it with --to")
	}
	if len(o.exceptions) > 0 && !o.shown.isZero() && len(o.as.files)+len(o.as.sources) == 0 {
		return nil, verdict.Refuse(verdict.Usage, "--exception", "an override needs a token that can be used once, and a certificate can be used again").
			Advise("give a token that has an ID (jti), with --identity or --identity-token")
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

// token returns the source of the token for the gate; nil for none.
func (o *asking) token(rt http.RoundTripper) (func(context.Context) (string, error), error) {
	world := token.World{Transport: rt, Env: os.Getenv, Clock: time.Now, Audience: o.audience}
	if world.Audience == "" {
		world.Audience = o.server
	}
	found, err := o.as.from(world)
	if err != nil || found[callerToken] == nil {
		return nil, err
	}
	return found[callerToken].Token, nil
}

// summaryAt is where to write the summaries of a gate: a file, or a directory for
// one file per image. The zero value writes none.
type summaryAt struct {
	path      string
	directory bool
}

// summaries finds out where to write summaries, before the gate is asked.
func (o *asking) summaries(images []string) (summaryAt, error) {
	if o.summary == "" {
		return summaryAt{}, nil
	}
	info, err := os.Stat(o.summary)
	at := summaryAt{o.summary, err == nil && info.IsDir()}
	switch {
	case o.to == "":
		return summaryAt{}, verdict.Refuse(verdict.Usage, "--summary", "requires --to, because a summary is for one destination")
	case len(images) > 1 && !at.directory:
		return summaryAt{}, verdict.Refuse(verdict.Usage, "--summary", "%q: want an existing directory for the summaries of several images", o.summary)
	}
	return at, nil
}

// write writes the summaries of an answer that accepts, and nothing otherwise.
func (at summaryAt) write(answer api.Answer) error {
	if at.path == "" || !answer.Accepted() {
		return nil
	}
	for _, d := range answer.Decisions {
		if len(d.Summary) == 0 {
			return verdict.Refuse(verdict.Usage, "--summary", "the gate accepts %s, but signs no summaries", d.Image).
				Advise("leave the flag out, or let the operator of the gate set summaries: true")
		}
	}
	for _, d := range answer.Decisions {
		path := at.path
		if at.directory {
			_, sum, _ := strings.Cut(d.Image, "@")
			path = filepath.Join(path, strings.Replace(sum, ":", "-", 1)+".vsa.sigstore.json")
		}
		if err := cli.WriteFile(path, d.Summary); err != nil {
			return err
		}
	}
	return nil
}

// maxCertificate bounds the file of a client certificate with its intermediates,
// and that of its key.
const maxCertificate = 256 << 10

// clientCertificate identifies a caller to a gate instead of a token, or, besides
// one, to a proxy in front of the gate.
type clientCertificate struct{ certificate, key string }

func (o *clientCertificate) addFlags(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&o.certificate, "client-certificate", "", "PEM file with the client certificate for the gate, and its intermediates (only with --server and --client-key)")
	f.StringVar(&o.key, "client-key", "", "PEM file with the private key of that certificate (only with --server and --client-certificate)")
}

func (o *clientCertificate) isZero() bool { return o.certificate == "" && o.key == "" }

// transport makes the transport to the gate. Use it for no other server, because it
// would present the certificate there, too.
func (o *clientCertificate) transport(server string) (http.RoundTripper, error) {
	if o.isZero() {
		return cli.Transport(false), nil
	}
	const both = "a certificate is used with its key; give both --client-certificate and --client-key"
	switch u, err := url.Parse(server); {
	case o.key == "":
		return nil, verdict.Refuse(verdict.Usage, "--client-key", "required with --client-certificate").Advise(both)
	case o.certificate == "":
		return nil, verdict.Refuse(verdict.Usage, "--client-certificate", "required with --client-key").Advise(both)
	case err == nil && u.Scheme == "http":
		return nil, verdict.Refuse(verdict.Usage, "--client-certificate", "%q is an http address, and a client certificate needs TLS", server).
			Advise("use the gate's https address, or leave the certificate out")
	}
	certificate, err := store.ReadNamed(o.certificate, maxCertificate)
	if err != nil {
		return nil, err
	}
	key, err := store.ReadNamed(o.key, maxCertificate)
	if err != nil {
		return nil, err
	}
	pair, err := api.Certificate(certificate, key)
	clear(key)
	if err != nil {
		return nil, err
	}
	return transport.New(transport.Config{UserAgent: "waybill/" + cli.BuildVersion(), Certificate: &pair}), nil
}
