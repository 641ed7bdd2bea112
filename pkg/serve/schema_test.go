package serve

import (
	"os"
	"reflect"
	"strconv"
	"testing"
	"time"

	"github.com/waybill-release/waybill/pkg/testing/checkschema"
)

// TestSchemaService: the schema has exactly the keys that are read, and the
// defaults of the code.
func TestSchemaService(t *testing.T) {
	raw, err := os.ReadFile("../../cmd/waybill/schema/service.json")
	if err != nil {
		t.Fatal(err)
	}
	s := checkschema.Load(t, raw)
	s.Matches(reflect.TypeFor[Config]())
	l := Limits{}.withDefaults()
	s.Defaults(map[string]any{
		"summaries":              Config{}.Summaries,
		"limits.deadlineSeconds": int(l.Deadline / time.Second), "limits.atOnce": l.AtOnce, "limits.queue": l.Queue,
		"limits.perCallerPerSecond": l.PerCaller, "limits.rememberSeconds": int(l.Remember / time.Second),
	})
	for text, fits := range map[string]bool{
		"{registry: 127.0.0.1:5000, guarded: [127.0.0.1:5000/prod/]}": true, "{registry: 127.0.0.1:5000, guarded: [127.0.0.1:5000/]}": true,
		"{registry: 127.0.0.1:5000, guarded: []}": false, "{registry: 127.0.0.1:5000}": false, "{registry: 127.0.0.1:5000, guarded: [127.0.0.1:5000/Prod/]}": false,
		"{registry: 127.0.0.1:5000, guarded: [127.0.0.1:5000]}": false, "{registry: registry, guarded: [registry/prod]}": false,
	} {
		text = "apiVersion: waybill/v1\nkind: GateService\nprofile: p\ncallers: c\nlisten: 127.0.0.1:1\nadmin: 127.0.0.1:2\nproxy: " + text + "\n"
		if _, err := ParseConfig([]byte(text), "."); (err == nil) != fits || fits && s.Accepts(text) != nil {
			t.Errorf("%s: the reader says %v, the schema %v", text, err, s.Accepts(text))
		}
	}
	text := "apiVersion: waybill/v1\nkind: GateService\nprofile: p\ncallers: c\nlisten: 127.0.0.1:1\nadmin: 127.0.0.1:2\nproxy: {registry: 127.0.0.1:5000, guarded: [127.0.0.1:5001/prod/]}\n"
	if _, err := ParseConfig([]byte(text), "."); err == nil {
		t.Error("a repository of another registry is guarded")
	}
	for key, most := range map[string]int{"deadlineSeconds: ": maxDeadline, "rememberSeconds: ": maxRemember} {
		for n, fits := range map[int]bool{most: true, most + 1: false} {
			text := "apiVersion: waybill/v1\nkind: GateService\nprofile: p\ncallers: c\nlisten: 127.0.0.1:1\nadmin: 127.0.0.1:2\nlimits: {" + key + strconv.Itoa(n) + "}\n"
			if _, err := ParseConfig([]byte(text), "."); (err == nil) != fits || (s.Accepts(text) == nil) != fits {
				t.Errorf("%s%d: the reader says %v, the schema %v", key, n, err, s.Accepts(text))
			}
		}
	}
}
