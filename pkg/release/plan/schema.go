package plan

import "embed"

//go:embed schema/release.json schema/lock.json
var schemas embed.FS

// ConfigSchema is the JSON schema of release.yaml. A file that fits it may
// still be refused: the schema knows no names of lists and no templates.
func ConfigSchema() []byte { return schemaOf("release") }

// LockSchema is the JSON schema of release.lock.yaml.
func LockSchema() []byte { return schemaOf("lock") }

func schemaOf(name string) []byte {
	raw, err := schemas.ReadFile("schema/" + name + ".json")
	if err != nil {
		panic("plan: an embedded file is there: " + err.Error())
	}
	return raw
}
