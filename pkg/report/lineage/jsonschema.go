package lineage

import _ "embed"

//go:embed schema/lineage.json
var lineageSchema []byte

// JSONSchema is the JSON schema of the form [JSON].
func JSONSchema() []byte { return lineageSchema }
