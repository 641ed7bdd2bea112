package main

import (
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/waybill-release/waybill/pkg/govern/feature/config"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/report/lineage"
	"github.com/waybill-release/waybill/pkg/report/render"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// otherSchemas are those of files whose readers export no schema.
//
//go:embed schema/*.json
var otherSchemas embed.FS

// documented is a kind of document with a JSON schema. Each kind that people write has a
// page in docs/reference.
type documented struct {
	name, what string
	schema     func() []byte
}

func documentKinds() []documented {
	return []documented{
		{"release", "release.yaml: what a release consists of", plan.ConfigSchema},
		{"lock", "release.lock.yaml: what its names stand for", plan.LockSchema},
		{"profile", "where releases are, and which policy applies (--profile)", nil},
		{"policy", "what a release must meet", policy.Schema},
		{"service", "the gate service (waybill gate serve)", nil},
		{"callers", "who may ask the gate service, and for what", nil},
		{"features", "FEATURES.yaml: the desired states of features", config.Schema},
		{"revocations", "signers that no longer count (--revoked)", nil},
		{"defects", "known defects, and withdrawn releases", nil},
		{"declaration", "a requirement that a person declares to be met", nil},
		{"promoter", "a manifest of Kubernetes' promoter", nil},
		{"signoff", "approvals and exceptions (waybill signoff check --record)", nil},
		{"registry", "feature gates and metrics (waybill signoff check --registry)", nil},
		{"expected", "which files the source of a project says a release has", nil},
		{"verdict", "output: a verdict, as --output json prints it", render.VerdictSchema},
		{"lineage", "output: what waybill trace --output json prints", lineage.JSONSchema},
	}
}

// text is the schema of the kind.
func (d documented) text() ([]byte, error) {
	if d.schema != nil {
		return d.schema(), nil
	}
	return otherSchemas.ReadFile("schema/" + d.name + ".json")
}

func schemaCommand() *cobra.Command {
	var names, list []string
	for _, d := range documentKinds() {
		names, list = append(names, d.name), append(list, fmt.Sprintf("  %-12s %s\n", d.name, d.what))
	}
	g := newGate()
	cmd := newCommand("schema", cobra.ExactArgs(1), func(cmd *cobra.Command, args []string) error {
		i := slices.Index(names, args[0])
		if i < 0 {
			return verdict.Refuse(verdict.Usage, "KIND", "%.40q: want %s", args[0], strings.Join(names, ", "))
		}
		text, err := documentKinds()[i].text()
		if err == nil {
			text, err = withoutKeys(text, switchedOff(g))
		}
		if err == nil {
			_, err = cmd.OutOrStdout().Write(text)
		}
		return err
	})
	cmd.Long, cmd.ValidArgs = strings.Replace(cmd.Long, "{kinds}", strings.Join(list, ""), 1), names
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
