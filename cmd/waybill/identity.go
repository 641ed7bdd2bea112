package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// identities are the options by which those who sign say who they are.
type identities struct {
	names   []string // whose there may be
	files   []string // NAME=FILE
	sources []string // NAME=SOURCE
}

func (o *identities) addFlags(cmd *cobra.Command, names ...string) {
	o.names = names
	whose := strings.Join(names, ", ")
	cmd.Flags().StringArrayVar(&o.files, "identity-token", nil, "NAME=FILE: OIDC identity token of "+whose+"; repeats")
	cmd.Flags().StringArrayVar(&o.sources, "identity", nil, "NAME=SOURCE: where the identity token of "+whose+" is to be had: "+token.Words()+"; repeats")
}

// parse finds the source of each token. Nobody is asked for one yet.
func (o *identities) parse(rt http.RoundTripper, issuer string, stderr io.Writer) (map[string]token.Source, error) {
	world := token.World{Transport: rt, Env: os.Getenv, Clock: time.Now, Issuer: issuer}
	if _, person := ui.OnTerminal(stderr); person {
		world.Login = func(address, code string) { fmt.Fprintf(stderr, "log in at %s with the code %s\n", address, code) }
	}
	return o.from(world)
}

// from finds the source of each token in a world.
func (o *identities) from(world token.World) (map[string]token.Source, error) {
	found := map[string]token.Source{}
	take := func(flag, text, want string, of func(string) (token.Source, error)) error {
		if token.IsBare(text) {
			return verdict.Refuse(verdict.Usage, flag, "it has a token itself, which others on this machine can read there").
				Advise("write a new token to a file that nobody else reads, and name that: --identity-token NAME=FILE")
		}
		name, value, ok := strings.Cut(text, "=")
		if !ok || value == "" || !slices.Contains(o.names, name) {
			return verdict.Refuse(verdict.Usage, flag, "%q: want %s=%s", text, strings.Join(o.names, "="+want+" or "), want)
		}
		if found[name] != nil {
			return verdict.Refuse(verdict.Usage, flag, "%q: %s has an identity already", text, name)
		}
		source, err := of(value)
		found[name] = source
		return err
	}
	for _, text := range o.files {
		if err := take("--identity-token", text, "FILE", func(path string) (token.Source, error) { return token.File(path), nil }); err != nil {
			return nil, err
		}
	}
	for _, text := range o.sources {
		if err := take("--identity", text, "SOURCE", func(word string) (token.Source, error) { return token.Parse(word, world) }); err != nil {
			return nil, err
		}
	}
	return found, nil
}
