// Command vectors writes genuine and attacked bundles as test vectors for any
// verifier of Sigstore bundles, in the layout of the client conformance suite:
// one directory for each, and what must be refused is named *_fail.
//
//	go run ./attacks/vectors --out DIR
//
// A lab on loopback signs them; every file is made anew by every run. The
// tests ask the built commands each of them.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/test/lab"
)

func main() {
	var out string
	var genuineOnly bool
	root := &cobra.Command{
		Use: "vectors --out DIR", Args: cobra.NoArgs, SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			n, err := write(cmd.Context(), out, choose(genuineOnly))
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d vectors in %s\n", n, out)
			return err
		},
	}
	root.Flags().StringVar(&out, "out", "", "where to write them")
	root.Flags().BoolVar(&genuineOnly, "genuine", false, "write only those that must be accepted")
	_ = root.MarkFlagRequired("out") // the flag is defined above
	if err := root.ExecuteContext(context.Background()); err != nil {
		os.Exit(1)
	}
}

func choose(genuineOnly bool) []question {
	if genuineOnly {
		return usual(genuine())
	}
	return vectors()
}

// write makes vectors and returns how many there are.
func write(ctx context.Context, out string, all []question) (n int, err error) {
	l, err := lab.Start(ctx, lab.Options{})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, l.Close()) }()
	s, err := newMaker(ctx, l)
	if err != nil {
		return 0, err
	}
	for _, v := range all {
		if err := s.write(out, v); err != nil {
			return 0, fmt.Errorf("vector %s: %w", v.name, err)
		}
	}
	return len(all), writeReadme(out, all)
}
