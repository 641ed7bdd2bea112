// Package licence recognises the text of a licence.
//
// A text must have the exact wording of a licence: there is no similarity
// measure and no guess. Permitted differences between copies of one licence are
// removed first (layout, punctuation, letter case, copyright lines, the name of
// the holder); the remaining words are compared by their digest.
//
// Other projects should not import this package: it changes without notice.
package licence

import (
	"crypto/sha256"
	"encoding/hex"
	"path"
	"regexp"
	"strings"
)

// MaxSize is the largest text that is examined.
const MaxSize = 256 << 10

// IsFile reports whether a file of this name is likely to hold a licence.
func IsFile(name string) bool {
	name = strings.ToLower(path.Base(name))
	for _, suffix := range []string{".txt", ".md", ".rst"} {
		name = strings.TrimSuffix(name, suffix)
	}
	switch name {
	case "license", "licence", "copying", "unlicense", "license-apache", "license-mit", "copying.lesser":
		return true
	}
	return false
}

// Recognise returns the SPDX identifier of the licence text, or "".
func Recognise(text []byte) string {
	if len(text) > MaxSize {
		return ""
	}
	sum := sha256.Sum256([]byte(normal(string(text))))
	return texts[hex.EncodeToString(sum[:12])]
}

var (
	notWords = regexp.MustCompile(`[^a-z0-9]+`)
	// BSD licences name the holder in the middle of the text.
	holders = regexp.MustCompile(`neither the names? of .{1,200}? nor the names of (its|any|their) contributors`)
	donors  = regexp.MustCompile(`this software is provided by .{1,200}? as is and any express`)
	liable  = regexp.MustCompile(`in no event shall .{1,200}? be liable for any direct`)
)

// beginnings are the first words of licences, which may follow a title, a name
// or a copyright of any length.
var beginnings = []string{
	"apache license version 2 0 january 2004",
	"permission is hereby granted free of charge",
	"redistribution and use in source and binary forms",
	"permission to use copy modify and or distribute this software for any",
	"permission to use copy modify and distribute this software for any",
	"mozilla public license version 2 0",
	"this is free and unencumbered software",
}

// ends are the last words of licences that are followed by a form to fill in.
var ends = []string{"end of terms and conditions"}

// normal returns the words of a text without permitted differences.
func normal(text string) string {
	var kept []string
	for line := range strings.Lines(text) {
		line = strings.Trim(notWords.ReplaceAllString(strings.ToLower(strings.ReplaceAll(line, "’", "'")), " "), " ")
		if strings.HasPrefix(line, "copyright c ") || strings.HasPrefix(line, "copyright 1") || strings.HasPrefix(line, "copyright 2") ||
			strings.HasPrefix(line, "all rights reserved") || line == "" {
			continue
		}
		kept = append(kept, line)
	}
	words := strings.Join(kept, " ")
	for _, b := range beginnings {
		if at := strings.Index(words, b); at >= 0 && at < 2000 {
			words = words[at:]
			break
		}
	}
	for _, e := range ends {
		if at := strings.Index(words, e); at >= 0 {
			words = words[:at+len(e)]
		}
	}
	words = holders.ReplaceAllString(words, "neither the name of the holder nor the names of its contributors")
	words = donors.ReplaceAllString(words, "this software is provided by the holders as is and any express")
	return liable.ReplaceAllString(words, "in no event shall the holders be liable for any direct")
}
