package config

import _ "embed" // the schema

//go:embed schema.json
var schema []byte

// Schema is the JSON schema of FEATURES.yaml, for editors. What it accepts may
// still be refused by [ParseConfig]: it knows no feature by name.
func Schema() []byte { return schema }
