package main

import (
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/lineage"
	"github.com/waybill-release/waybill/pkg/plan"
	"github.com/waybill-release/waybill/pkg/policy"
	"github.com/waybill-release/waybill/pkg/render"
	"github.com/waybill-release/waybill/pkg/verdict"
)

// schemas are the JSON schemas of what people write and programs read, by kind.
func schemas() map[string]func() []byte {
	return map[string]func() []byte{"release": plan.ConfigSchema, "lock": plan.LockSchema, "policy": policy.Schema, "verdict": render.VerdictSchema, "lineage": lineage.JSONSchema}
}

func schemaCommand() *cobra.Command {
	kinds := strings.Join(slices.Sorted(maps.Keys(schemas())), " or ")
	return &cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON schema of a file that people write, or of a verdict",
		Long: `Print the JSON schema of release.yaml ("release"), of release.lock.yaml ("lock")
or of a policy ("policy"), for editors. What a schema accepts may still be refused: it knows no
names of lists and no templates. Those of "verdict" and of "lineage", which trace
prints, are for whoever reads --output json.

` + exit.Table,
		Example: `  waybill schema release > release.schema.json`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			schema, known := schemas()[args[0]]
			if !known {
				return verdict.Refuse(verdict.Usage, "KIND", "%q: want %s", args[0], kinds)
			}
			_, err := cmd.OutOrStdout().Write(schema())
			return err
		},
	}
}
