package promoterfile

import (
	"errors"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/value/verdict"
)

// TestSpellingsOfAPlace: a place is kept in its one canonical spelling, whichever
// one the manifest has, and two spellings of one place are one place twice.
func TestSpellingsOfAPlace(t *testing.T) {
	for written, want := range map[string]string{
		"us.example.test/prod":      "us.example.test/prod",
		"us.example.test:443/prod":  "us.example.test/prod",
		"US.example.test/prod/":     "us.example.test/prod",
		"us.example.test./prod":     "",
		"us.example.test:5000/prod": "us.example.test:5000/prod",
		"us.example.test:80/prod":   "us.example.test:80/prod",
		"docker.io/prod":            "index.docker.io/prod",
		"index.docker.io/prod":      "index.docker.io/prod",
		"localhost:80/prod":         "localhost/prod",
		"127.1/prod":                "",
		"us.example.test:0443/prod": "",
		"us..example.test/prod":     "",
	} {
		where := strings.Replace(registries, "us.example.test/prod", written, 1)
		m, err := ParseThin("team", []byte(where), []byte(list(`"`+one+`": ["v1"]`)))
		var coded *verdict.Error
		switch {
		case want == "" && (!errors.As(err, &coded) || coded.Finding.Code != verdict.ConfigParse):
			t.Errorf("%s: %v, want %s", written, err, verdict.ConfigParse)
		case want != "" && (err != nil || m.Destinations[1].Name != want):
			t.Errorf("%s: %v, %v, want %q", written, m.Destinations, err, want)
		}
	}
	for _, pair := range [][2]string{{"docker.io/prod", "index.docker.io/prod"}, {"us.example.test/prod", "us.example.test:443/prod"}} {
		where := strings.NewReplacer("eu.example.test/prod", pair[0], "us.example.test/prod", pair[1]).Replace(registries)
		if _, err := ParseThin("team", []byte(where), []byte(list(`"`+one+`": ["v1"]`))); err == nil || !strings.Contains(err.Error(), "listed twice") {
			t.Errorf("%v are two places: %v", pair, err)
		}
	}
}
