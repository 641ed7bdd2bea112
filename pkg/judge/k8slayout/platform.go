package k8slayout

import (
	"maps"
	"regexp"
	"slices"

	"github.com/waybill-release/waybill/pkg/value/digest"
)

// platformInName finds the platform in a file name: the directory below bin, or
// the end of the name of an archive.
var platformInName = regexp.MustCompile(`(?:^bin/(linux|darwin|windows)/([a-z0-9]+)/|-(linux|darwin|windows)-([a-z0-9]+)\.tar\.gz$)`)

// PlatformOf derives the platform of a file from its name; empty for a file
// that is for all platforms. An accompanying file has the platform of its
// artifact.
func PlatformOf(name string) string {
	if of := KindOf(name).Of; of != "" {
		name = of
	}
	m := platformInName.FindStringSubmatch(name)
	if m == nil {
		return ""
	}
	return m[1] + m[3] + "/" + m[2] + m[4]
}

// For returns the files of the set that are for a platform, or for all
// platforms.
func (s Set) For(platform string) Set {
	part := Set{witnesses: slices.Clone(s.witnesses)}
	for i, w := range part.witnesses {
		part.witnesses[i].claims = maps.Clone(w.claims)
		maps.DeleteFunc(part.witnesses[i].claims, func(name string, _ digest.Set) bool {
			of := PlatformOf(name)
			return of != "" && of != platform
		})
		part.witnesses[i].images = maps.Clone(w.images)
		maps.DeleteFunc(part.witnesses[i].images, func(i Image, _ Built) bool { return i.Platform != platform })
	}
	return part
}

// Claim is the digest set that the first witness gives for a file; zero if none
// does.
func (s Set) Claim(name string) digest.Set {
	for _, w := range s.witnesses {
		if set := w.claims[name]; !set.IsZero() {
			return set
		}
	}
	return digest.Set{}
}
