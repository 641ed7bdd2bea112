package signoff

import _ "embed"

//go:embed rules.txt
var rules string

// Rules lists the codes of documents with their meaning, for the help of commands.
func Rules() string { return rules }
