package licence_test

import (
	"os"
	"strings"
	"testing"

	"github.com/waybill-release/waybill/pkg/sbom/licence"
)

func TestRecognise(t *testing.T) {
	raw, err := os.ReadFile("../../../LICENSE")
	if err != nil {
		t.Fatal(err)
	}
	text := string(raw)
	for name, row := range map[string]struct{ text, want string }{
		"our own":                    {text, "Apache-2.0"},
		"in other lines":             {strings.Join(strings.Fields(text), "\n"), "Apache-2.0"},
		"with a copyright above":     {"Copyright 2024 The Lantern Authors\n\n" + text, "Apache-2.0"},
		"without letters":            {strings.NewReplacer("(a) ", "", "(b) ", "", "(c) ", "", "(d) ", "").Replace(text), "Apache-2.0"},
		"with one word changed":      {strings.Replace(text, "perpetual", "revocable", 1), ""},
		"with one word taken out":    {strings.Replace(text, "NOT", "", 1), ""},
		"cut short":                  {text[:len(text)/2], ""},
		"with a condition before it": {strings.Replace(text, "TERMS AND CONDITIONS", "Not for evil. TERMS AND CONDITIONS", 1), ""},
		"nothing":                    {"", ""},
		"too long":                   {text + strings.Repeat(" ", licence.MaxSize), ""},
	} {
		if got := licence.Recognise([]byte(row.text)); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func TestIsFile(t *testing.T) {
	for name, want := range map[string]bool{
		"LICENSE": true, "vendor/example.org/m/LICENCE.md": true, "COPYING": true, "license.go": false, "LICENSES/README": false,
	} {
		if licence.IsFile(name) != want {
			t.Errorf("%s: %v", name, !want)
		}
	}
}

func FuzzRecognise(f *testing.F) {
	f.Add([]byte("Permission is hereby granted, free of charge"))
	f.Fuzz(func(_ *testing.T, text []byte) { licence.Recognise(text) })
}
