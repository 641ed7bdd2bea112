package main

import (
	"context"
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

// identities are the options that give the identity tokens of signers.
type identities struct {
	names   []string // names that may be given
	files   []string // NAME=FILE
	sources []string // NAME=SOURCE
	// reports gives a source that cannot be used as one that fails: doctor lists it as a row.
	reports bool
}

// unusable is a source of tokens that cannot be used here.
type unusable struct{ error }

// Token returns the reason.
func (u unusable) Token(context.Context) (string, error) { return "", u.error }

// String implements [token.Source].
func (u unusable) String() string { return "no source" }

func (o *identities) addFlags(cmd *cobra.Command, names ...string) {
	o.names = names
	whose := strings.Join(names, ", ")
	cmd.Flags().StringArrayVar(&o.files, "identity-token", nil, "NAME=FILE: file with the OIDC identity token of "+whose+"; repeats")
	cmd.Flags().StringArrayVar(&o.sources, "identity", nil, "NAME=SOURCE: where to get the identity token of "+whose+": "+token.Words()+"; repeats")
	var offered []string
	for _, name := range names {
		for _, source := range []string{"ambient", "github", "gitlab", "google", "kubernetes", "device"} {
			offered = append(offered, name+"="+source)
		}
	}
	_ = cmd.RegisterFlagCompletionFunc("identity", cobra.FixedCompletions(offered, cobra.ShellCompDirectiveNoFileComp)) // the flag exists
}

// parse finds the source of each token. It requests no token yet.
func (o *identities) parse(rt http.RoundTripper, issuer string, stderr io.Writer) (map[string]token.Source, error) {
	world := token.World{Transport: rt, Env: os.Getenv, Clock: time.Now, Issuer: issuer}
	if ui.Width(stderr) > 0 { // a person reads it
		world.Login = func(address, code string) { fmt.Fprintf(stderr, "log in at %s with the code %s\n", address, code) }
	}
	return o.from(world)
}

// from is parse with the environment, clock and transport given.
func (o *identities) from(world token.World) (map[string]token.Source, error) {
	found := map[string]token.Source{}
	take := func(flag, text, want string, of func(string) (token.Source, error)) error {
		if token.IsBare(text) {
			return verdict.Refuse(verdict.Usage, flag, "the value is a token itself, which other users of this machine can read on the command line").
				Advise("write a new token to a file that only you can read, and give --identity-token NAME=FILE")
		}
		name, value, ok := strings.Cut(text, "=")
		if !ok || value == "" || !slices.Contains(o.names, name) {
			return verdict.Refuse(verdict.Usage, flag, "%q: want %s=%s", text, strings.Join(o.names, "="+want+" or "), want)
		}
		if found[name] != nil {
			return verdict.Refuse(verdict.Usage, flag, "%q: %s has an identity already", text, name)
		}
		source, err := of(value)
		if err != nil && o.reports {
			source, err = unusable{err}, nil
		}
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
