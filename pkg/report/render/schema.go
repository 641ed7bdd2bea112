package render

import _ "embed"

//go:embed schema/verdict.json
var verdictSchema []byte

// VerdictSchema is the JSON schema of the form [JSON].
func VerdictSchema() []byte { return verdictSchema }
