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
	"strings"

	"github.com/waybill-release/waybill/pkg/tool/pattern"
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
	notWords = pattern.Lazy(`[^a-z0-9]+`)
	// BSD licences name the holder in the middle of the text.
	holders = pattern.Lazy(`neither the names? of .{1,200}? nor the names of (its|any|their) contributors`)
	donors  = pattern.Lazy(`this software is provided by .{1,200}? as is and any express`)
	liable  = pattern.Lazy(`in no event shall .{1,200}? be liable for any direct`)
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
		line = strings.Trim(notWords().ReplaceAllString(strings.ToLower(strings.ReplaceAll(line, "’", "'")), " "), " ")
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
	words = holders().ReplaceAllString(words, "neither the name of the holder nor the names of its contributors")
	words = donors().ReplaceAllString(words, "this software is provided by the holders as is and any express")
	return liable().ReplaceAllString(words, "in no event shall the holders be liable for any direct")
}

// texts are the first twelve bytes of the SHA-256 of normal texts. Texts shared
// by several licences, such as the GPL's, which do not say whether later
// versions may be chosen, are not included.
var texts = map[string]string{
	"f45538b138cf9aea39fa205d": "Apache-2.0",
	"ed44d69699f98d45c0c3e52e": "Apache-2.0", // with an https address
	"37599287c15c2f2ec060c3c3": "Apache-2.0", // without its last line
	"296a35b4f3b6a7e90a68c083": "Apache-2.0", // without list letters
	"0cf21bdfd1964a97a8615e12": "MIT",
	"d23cea581201080e413d189a": "BSD-3-Clause",
	"4bf124d47ac4421d0741c597": "BSD-3-Clause", // of the University of California
	"954097ce06fe7b595c04adae": "BSD-2-Clause",
	"85dcf58b8e8b6c4bfebbd7d2": "BSD-2-Clause", // with its conditions as a list
	"25a274d52b3014d9bd64e0f3": "ISC",
	"217da0747cec63a2e734185d": "ISC", // with an author as holder
	"f82071285728ca3ec7685ee9": "MPL-2.0",
	"96bdc7f63190fb4bd1ae584b": "CC0-1.0",
	"88766fb8b65d89bb75865e48": "CC0-1.0", // without its title
	"08f1dc258c8f9e175155356a": "Artistic-1.0-Perl",
}
