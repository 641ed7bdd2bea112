package main

import (
	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/backend/git"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

func expectCommand() *cobra.Command {
	cmd := newCommand("expect", cobra.ExactArgs(2), func(cmd *cobra.Command, args []string) error {
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
	})
	cmd.ValidArgs = []string{"kubernetes"}
	return cmd
}
