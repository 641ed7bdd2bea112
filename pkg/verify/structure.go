package verify

import "github.com/waybill-release/waybill/pkg/verdict"

// maxStructure bounds how many members and elements a bundle has, all of them
// together. A bundle that is full to every other limit has about 4000; an empty
// element costs two bytes in a file and a hundred times that in memory.
const maxStructure = 16 << 10

// checkStructure counts the brackets and commas outside of strings, in one
// pass and without making anything of them. Whether raw is JSON is not its
// question.
func checkStructure(raw []byte) error {
	count, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch c := raw[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ',' || c == '{' || c == '['):
			count++
		}
		if count > maxStructure {
			return verdict.Refuse(verdict.Limit, "bundle", "more than %d members and elements", maxStructure)
		}
	}
	return nil
}
