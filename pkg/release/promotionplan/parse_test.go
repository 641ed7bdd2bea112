package promotionplan_test

import (
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/release/promoterfile"
	"github.com/waybill-release/waybill/pkg/release/promotionplan"
	"github.com/waybill-release/waybill/pkg/value/verdict"
)

func TestParse(t *testing.T) {
	m, err := promoterfile.Parse("m.yaml", []byte(`registries:
- {name: staging.example.test/a, src: true}
- {name: eu.example.test/prod}
images:
- name: demo
  dmap:
    "sha256:`+strings.Repeat("a", 64)+`": [v1]
`))
	if err != nil {
		t.Fatal(err)
	}
	p, err := promotionplan.Make([]promoterfile.Manifest{m})
	if err != nil {
		t.Fatal(err)
	}
	raw := string(p.JSON())
	if again, err := promotionplan.Parse([]byte(raw)); err != nil || again.Digest() != p.Digest() {
		t.Errorf("%v, %v", again, err)
	}
	_, list, _ := strings.Cut(strings.TrimSuffix(raw, "]}\n"), `"edges":[`)
	for name, bad := range map[string]string{
		"nothing to move":  strings.Replace(raw, list, "", 1),
		"an edge twice":    strings.Replace(raw, list, list+","+list, 1),
		"empty":            "",
		"cut":              raw[:len(raw)/2],
		"another schema":   strings.Replace(raw, "plan/v1", "plan/v2", 1),
		"an unknown route": strings.Replace(raw, `"route":0`, `"route":1`, 1),
		"a negative route": strings.Replace(raw, `"route":0`, `"route":-1`, 1),
		"spaces":           strings.Replace(raw, `"edges":`, `"edges": `, 1),
		"an unknown key":   strings.Replace(raw, `"edges":`, `"more":1,"edges":`, 1),
		"no digest":        strings.Replace(raw, "sha256:"+strings.Repeat("a", 64), "", 1),
	} {
		if _, err := promotionplan.Parse([]byte(bad)); verdict.FindingOf("", err).Code != verdict.ConfigParse {
			t.Errorf("%s: %v", name, err)
		}
	}
}
