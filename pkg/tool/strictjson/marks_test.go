package strictjson_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/testing/bounds"
	"github.com/waybill-release/waybill/pkg/tool/strictjson"
)

// marksOf looks at one byte at a time.
func marksOf(raw []byte) string {
	var b strings.Builder
	level, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			fmt.Fprintf(&b, "%d%c", level, c)
			level++
		case c == '}', c == ']':
			level--
		case c == ',':
			fmt.Fprintf(&b, "%d,", level)
		}
	}
	return b.String()
}

func assertMarks(t *testing.T, raw []byte) {
	t.Helper()
	var b strings.Builder
	for level, mark := range strictjson.Marks(raw) {
		fmt.Fprintf(&b, "%d%c", level, mark)
	}
	if want := marksOf(raw); b.String() != want {
		t.Errorf("%q: %s, want %s", raw, b.String(), want)
	}
}

func TestMarks(t *testing.T) {
	for _, doc := range []string{
		``, `"`, `"\`, `"\"`, `"\",`, `"\\",[`, `[1,{"a,":[2,"]"],"b":3}]`, `]],[`, "\"a\nb,\",", `"12345678\",",,`, sample,
	} {
		assertMarks(t, []byte(doc))
		for mutant := range bounds.Mutants([]byte(doc+`,"a\\\"b":[{}],`), 1, 200) {
			assertMarks(t, mutant)
		}
	}
	// Whoever counts stops when there are too many.
	for range strictjson.Marks([]byte(`[[,,`)) {
		break
	}
	for _, mark := range strictjson.Marks([]byte(`[[,,`)) {
		if mark == ',' {
			break
		}
	}
}

func FuzzMarks(f *testing.F) {
	f.Add([]byte(sample))
	f.Add([]byte(`"\",[`))
	f.Fuzz(assertMarks)
}
