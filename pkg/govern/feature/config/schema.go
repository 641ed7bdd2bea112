package config

import _ "embed" // the schema

//go:embed schema.json
var schema []byte

// Schema is the JSON schema of FEATURES.yaml, for editors. [ParseConfig] may still
// refuse a file that satisfies it: the schema does not know the features.
func Schema() []byte { return schema }
