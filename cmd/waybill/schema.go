package main

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/cmd/internal/exit"
	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/lineage"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// schemas are the JSON schemas of files and outputs, by kind.
func schemas() map[string]func() []byte {
	return map[string]func() []byte{
		"release": plan.ConfigSchema, "lock": plan.LockSchema, "policy": policy.Schema, "features": config.Schema, "verdict": render.VerdictSchema, "lineage": lineage.JSONSchema,
	}
}

func schemaCommand() *cobra.Command {
	kinds := strings.Join(slices.Sorted(maps.Keys(schemas())), " or ")
	g := newGate()
	cmd := &cobra.Command{
		Use:   "schema KIND",
		Short: "Print the JSON schema of a configuration file or of an output",
		Long: `Print the JSON schema of release.yaml ("release"), release.lock.yaml ("lock"), a
policy ("policy") or FEATURES.yaml ("features"), for editors. A file that satisfies
its schema may still be refused: a schema does not check templates and references
between lists. "verdict" and "lineage" (printed by waybill trace) are for programs
that read --output json. Keys of features that --feature-gates switches off are left
out.

` + exit.Table("the schema was printed"),
		Example: `  waybill schema release > release.schema.json
  waybill schema features > features.schema.json`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			schema, known := schemas()[args[0]]
			if !known {
				return verdict.Refuse(verdict.Usage, "KIND", "%q: want %s", args[0], kinds)
			}
			text, err := withoutKeys(schema(), switchedOff(g))
			if err == nil {
				_, err = cmd.OutOrStdout().Write(text)
			}
			return err
		},
	}
	addGatesFlag(cmd, g)
	return cmd
}

// withoutKeys is a schema without the properties and enum values of these names; the
// unchanged text if it has none.
func withoutKeys(schema []byte, keys []string) ([]byte, error) {
	var all any
	if err := json.Unmarshal(schema, &all); err != nil {
		return nil, err
	}
	if !dropKeys(all, keys) {
		return schema, nil
	}
	text, err := json.MarshalIndent(all, "", "  ")
	return append(text, '\n'), err
}

// dropKeys drops names from properties, required and enum, and reports whether there
// were any.
func dropKeys(in any, keys []string) (dropped bool) {
	switch in := in.(type) {
	case []any:
		for _, part := range in {
			dropped = dropKeys(part, keys) || dropped
		}
	case map[string]any:
		for name, part := range in {
			switch list := part.(type) {
			case map[string]any:
				if name == "properties" {
					before := len(list)
					maps.DeleteFunc(list, func(name string, _ any) bool { return slices.Contains(keys, name) })
					dropped = dropped || len(list) < before
				}
			case []any:
				if name == "required" || name == "enum" {
					in[name] = slices.DeleteFunc(list, func(word any) bool { text, is := word.(string); return is && slices.Contains(keys, text) })
					dropped = dropped || len(in[name].([]any)) < len(list)
				}
			}
			dropped = dropKeys(in[name], keys) || dropped
		}
	}
	return dropped
}
