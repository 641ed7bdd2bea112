package main

import (
	"context"
	"crypto"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/waybill-release/waybill/cmd/internal/ui"
	"github.com/waybill-release/waybill/pkg/govern/feature/known"
	"github.com/waybill-release/waybill/pkg/produce/sign/keyfile"
	"github.com/waybill-release/waybill/pkg/produce/sign/token"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// keys are the options by which those sign who have a long-lived key.
type keys struct {
	names    []string // whose there may be
	given    []string // NAME=FILE or NAME=SERVICE://KEY
	password string
	// services is asked, when a key of a service is to be opened, whether such
	// keys may sign; nil: they may.
	services func() bool
}

func (o *keys) addFlags(cmd *cobra.Command, names ...string) {
	o.names = names
	cmd.Flags().StringArrayVar(&o.given, "key", nil, "NAME=FILE or NAME=SERVICE://KEY: the key that signs in place of an identity, of "+strings.Join(names, ", ")+"; the policy must name it; repeats")
	cmd.Flags().StringVar(&o.password, "key-password", "", "where the password of key files is: "+keyfile.Words()+"; without it "+keyfile.Variable+", or the person at the terminal")
}

// open opens the keys, and asks for their passwords before anything is done.
func (o *keys) open(ctx context.Context, stderr io.Writer) (map[string]crypto.Signer, error) {
	if len(o.given) == 0 {
		if o.password != "" {
			return nil, verdict.Refuse(verdict.Usage, "--key-password", "of what? it is of --key")
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
			return nil, verdict.Refuse(verdict.Usage, "--key", "%q: the feature %s is off, so no key of a service signs", text, known.KMSSigning).
				Advise(fmt.Sprintf("sign by an identity or by the key of a file, or leave %s out of --%s", known.KMSSigning, gatesFlag))
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

// onlyOne refuses who has both an identity and a key: one of them would not be
// used, and it is not said which.
func onlyOne(tokens map[string]token.Source, opened map[string]crypto.Signer) error {
	for name := range opened {
		if tokens[name] != nil {
			return verdict.Refuse(verdict.Usage, "--key", "%s has an identity, too; give one of the two", name)
		}
	}
	return nil
}

// prompt asks the person at the terminal, and is nil where there is none.
func prompt(stderr io.Writer) func(string) ([]byte, error) {
	stdin := int(os.Stdin.Fd())
	if _, person := ui.OnTerminal(stderr); !person || !term.IsTerminal(stdin) {
		return nil
	}
	return func(question string) ([]byte, error) {
		fmt.Fprint(stderr, question)
		defer fmt.Fprintln(stderr)
		return term.ReadPassword(stdin)
	}
}
