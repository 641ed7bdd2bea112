package main

import (
	"context"
	"crypto"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/produce/sign/keyfile"
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

// keys are the options that give long-lived signing keys.
type keys struct {
	names    []string // names that may be given
	given    []string // NAME=FILE or NAME=SERVICE://KEY
	password string
	// services reports whether KMS keys may sign; nil means yes.
	services func() bool
}

func (o *keys) addFlags(cmd *cobra.Command, names ...string) {
	o.names = names
	cmd.Flags().StringArrayVar(&o.given, "key", nil, "NAME=FILE or NAME=SERVICE://KEY: key that signs instead of an identity, of "+strings.Join(names, ", ")+"; the policy must name it; repeats")
	cmd.Flags().StringVar(&o.password, "key-password", "", "where to get the password of key files: "+keyfile.Words()+" (default: "+keyfile.Variable+", or a prompt on the terminal)")
}

// open opens the keys, and asks for their passwords before any work is done.
func (o *keys) open(ctx context.Context, stderr io.Writer) (map[string]crypto.Signer, error) {
	if len(o.given) == 0 {
		if o.password != "" {
			return nil, verdict.Refuse(verdict.Usage, "--key-password", "needs --key, whose password it is for")
		}
		return nil, nil
	}
	password, err := o.source(keyfile.World{Env: os.LookupEnv, Prompt: prompt(stderr)})
	if err != nil {
		return nil, err
	}
	found := map[string]crypto.Signer{}
	for _, text := range o.given {
		name, from, ok := strings.Cut(text, "=")
		switch {
		case !ok || from == "" || !slices.Contains(o.names, name):
			return nil, verdict.Refuse(verdict.Usage, "--key", "%q: want %s=FILE or SERVICE://KEY", text, strings.Join(o.names, "=… or "))
		case found[name] != nil:
			return nil, verdict.Refuse(verdict.Usage, "--key", "%q: %s has a key already", text, name)
		case strings.Contains(from, "://") && o.services != nil && !o.services():
			return nil, verdict.Refuse(verdict.Usage, "--key", "%q: the feature %s is off, so KMS keys do not sign", text, known.KMSSigning).
				Advise(fmt.Sprintf("sign with an identity or a key file, or leave %s out of --%s", known.KMSSigning, gatesFlag))
		case strings.Contains(from, "://"):
			found[name], err = keyfile.OpenKMS(ctx, from)
		default:
			found[name], err = keyfile.Open(from, password)
		}
		if err != nil {
			return nil, err
		}
	}
	return found, nil
}

func (o *keys) source(w keyfile.World) (keyfile.Password, error) {
	if o.password == "" {
		return keyfile.Usual(w), nil
	}
	return keyfile.ParsePassword(o.password, w)
}

// onlyOne refuses a signer with both an identity and a key: one of them would
// silently not be used.
func onlyOne(tokens map[string]token.Source, opened map[string]crypto.Signer) error {
	for name := range opened {
		if tokens[name] != nil {
			return verdict.Refuse(verdict.Usage, "--key", "%s has an identity, too; give one of the two", name)
		}
	}
	return nil
}

// prompt asks for a password on the terminal; it is nil if there is none.
func prompt(stderr io.Writer) func(string) ([]byte, error) {
	stdin := int(os.Stdin.Fd())
	if ui.Width(stderr) == 0 || !term.IsTerminal(stdin) {
		return nil
	}
	return func(question string) ([]byte, error) {
		fmt.Fprint(stderr, question)
		defer fmt.Fprintln(stderr)
		return term.ReadPassword(stdin)
	}
}
