package main

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func expectCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "expect kubernetes CHECKOUT@TAG",
		Short:     "Write the list of what a release of Kubernetes should contain",
		GroupID:   "check",
		Long:      help("expect") + exit.Table("the list was printed"),
		Example:   `  waybill expect kubernetes ./kubernetes@v1.36.0 > expected-1.36.yaml`,
		Args:      cobra.ExactArgs(2),
		ValidArgs: []string{"kubernetes"},
		RunE: func(cmd *cobra.Command, args []string) error {
			name, tag := git.Split(args[1])
			of, err := version.Parse(tag)
			if err != nil || args[0] != "kubernetes" {
				return verdict.Refuse(verdict.Usage, cmd.CommandPath(), "%.20q %.200q: want kubernetes, and a checkout with a tag, such as ./kubernetes@v1.36.0", args[0], args[1])
			}
			repo, err := git.Open(cmd.Context(), name)
			if err != nil {
				return err
			}
			defer repo.Close()
			commit, err := repo.Resolve(cmd.Context(), "refs/tags/"+tag)
			if err != nil {
				return err
			}
			list, err := k8slayout.Derive(of, commit.Commit, func(path string) ([]byte, error) { return repo.ReadFile(cmd.Context(), commit, path) })
			if err == nil {
				_, err = cmd.OutOrStdout().Write(list)
			}
			return err
		},
	}
}
